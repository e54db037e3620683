//! Priorities of responses (RFC 9218), as clients send them.
//!
//! Parsing never fails: an invalid value is ignored (RFC 9218 §4).

/// Priority of a response (RFC 9218 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// From 0 (most urgent) to 7.
    pub urgency: u8,
    /// Whether the client can use a part of the response, so that it may be interleaved with others of its
    /// urgency.
    pub incremental: bool,
}

impl Priority {
    /// The default (RFC 9218 §4.1, §4.2).
    pub(crate) const DEFAULT: Priority = Priority { urgency: 3, incremental: false };

    /// Parses a field value: a dictionary (RFC 8941 §3.2) with two known members. Returns the default if it
    /// is invalid.
    pub(crate) fn parse(value: &[u8]) -> Priority {
        let mut rest = trim(value);
        let mut priority = Priority::DEFAULT;
        while !rest.is_empty() {
            let Some(member) = Member::read(&mut rest) else { return Priority::DEFAULT };
            match (member.key, member.value) {
                // RFC 9218 §4: a member of another type, or out of range, is ignored.
                (b"u", &[digit @ b'0'..=b'7']) => priority.urgency = digit - b'0',
                (b"i", b"" | b"?1") => priority.incremental = true,
                (b"i", b"?0") => priority.incremental = false,
                _ => {}
            }
            rest = trim(rest);
            match rest.split_first() {
                None => break,
                Some((b',', after)) if !trim(after).is_empty() => rest = trim(after),
                Some(_) => return Priority::DEFAULT,
            }
        }
        priority
    }
}

/// A member of a dictionary.
struct Member<'a> {
    key: &'a [u8],
    /// The text after `=`; empty if there is none.
    value: &'a [u8],
}

impl<'a> Member<'a> {
    /// Parses a member with its parameters, and removes it from the front of `rest`.
    fn read(rest: &mut &'a [u8]) -> Option<Member<'a>> {
        let key = take_while(rest, is_key_byte);
        if !matches!(key.first(), Some(b'a'..=b'z' | b'*')) {
            return None;
        }

        let value = match rest.split_first() {
            Some((b'=', after)) => {
                *rest = after;
                let value = take_value(rest)?;
                if value.is_empty() {
                    return None;
                }
                value
            }
            _ => b"",
        };

        while let Some((b';', after)) = rest.split_first() {
            *rest = trim(after);
            // A parameter has the grammar of a member without parameters.
            take_while(rest, is_key_byte);
            if let Some((b'=', after)) = rest.split_first() {
                *rest = after;
                take_value(rest)?;
            }
        }
        Some(Member { key, value })
    }
}

/// Removes an item from the front of `rest`: a string with its quotes, or everything up to a delimiter.
/// Returns `None` if a string doesn't end.
fn take_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let value = *rest;
    if value.first() != Some(&b'"') {
        return Some(take_while(rest, |byte| !matches!(byte, b',' | b';' | b' ' | b'\t' | b'"')));
    }
    let mut escaped = false;
    let end = value.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    })?;
    let (value, after) = value.split_at(end + 2);
    *rest = after;
    Some(value)
}

fn take_while<'a>(rest: &mut &'a [u8], takes: impl Fn(u8) -> bool) -> &'a [u8] {
    let end = rest.iter().position(|byte| !takes(*byte)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(end);
    *rest = after;
    taken
}

/// Returns `true` for the bytes of a key (RFC 8941 §3.1.2).
fn is_key_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests;
