//! The grammar that versions of HTTP share (RFC 9110 §5): tokens, values, lists, hosts, lengths.
//!
//! Never says what becomes of what breaks it.

/// The elements of a list (RFC 9110 §5.6.1.2), without the empty ones.
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// RFC 9110 §8.6: digits alone. A sign, a list or a number beyond 64 bits is refused.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether a value names a host: RFC 3986 §3.2.2 with a port, as RFC 9110 §7.2 has it; empty where the target has no
/// authority.
pub(crate) fn is_host(value: &[u8]) -> bool {
    let rest = match value.strip_prefix(b"[") {
        Some(literal) => {
            let end = literal.iter().position(|byte| !is_host_byte(*byte) && *byte != b':');
            match end.map(|end| literal.split_at(end)) {
                Some(([_, ..], [b']', rest @ ..])) => rest,
                _ => return false,
            }
        }
        None => &value[value.iter().take_while(|byte| is_host_byte(**byte)).count()..],
    };
    match rest {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Without the white space around (RFC 9110 §5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

const TOKEN: u8 = 1;
const VALUE: u8 = 4;
const HOST: u8 = 8;

/// What each byte may be part of.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut b = 0u8;
    loop {
        let is_mark = matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        if b.is_ascii_alphanumeric() || is_mark {
            classes[b as usize] |= TOKEN;
        }
        if (b >= b' ' && b != 0x7f) || b == b'\t' {
            classes[b as usize] |= VALUE;
        }
        // RFC 3986 §3.2.2: unreserved, percent-encoded and sub-delims.
        if b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&'..=b',' | b';' | b'=')
        {
            classes[b as usize] |= HOST;
        }
        if b == u8::MAX {
            return classes;
        }
        b += 1;
    }
}

/// Whether a byte may stand in a token (RFC 9110 §5.6.2).
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

#[inline]
fn is_host_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & HOST != 0
}

/// Whether a byte may stand in a field's value (RFC 9110 §5.5).
#[inline]
pub(crate) fn is_value_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & VALUE != 0
}
