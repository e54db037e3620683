//! What is to be sent first (RFC 9218): what a client says of an answer's priority.
//!
//! Never fails: what breaks the grammar says nothing (RFC 9218 §4).

/// The priority of an answer (RFC 9218 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priority {
    /// From 0, which goes first, to 7.
    pub(super) urgency: u8,
    /// Whether the client can use a part of it, so that it may share the line with others of its urgency.
    pub(super) incremental: bool,
}

impl Priority {
    /// Of what nothing is said (RFC 9218 §4.1, §4.2).
    pub(super) const DEFAULT: Priority = Priority { urgency: 3, incremental: false };

    /// What a field value says: a dictionary of structured fields (RFC 8941 §3.2), of which two members count.
    pub(super) fn parse(value: &[u8]) -> Priority {
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
    /// What stands behind `=`; empty if nothing does.
    value: &'a [u8],
}

impl<'a> Member<'a> {
    /// Reads a member, and what parameters it has, off the front of `rest`.
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

/// Takes an item off the front of `rest`: a string in its quotes, or whatever it is up to what ends a member. Nothing if
/// a string does not end.
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

/// RFC 8941 §3.1.2.
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
