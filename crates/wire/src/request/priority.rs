//! Parses priorities. This cannot fail because invalid values must be ignored (RFC 9218 §4).

/// The priority of a response (RFC 9218 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether the client can use an incomplete response, so that it may be interleaved with others that are just as urgent.
    pub incremental: bool,
}

impl Priority {
    /// The default (RFC 9218 §4.1, §4.2).
    pub(crate) const DEFAULT: Priority = Priority { urgency: 3, incremental: false };

    /// Parses a field value, which is a dictionary (RFC 8941 §3.2) with two members we know. If it is invalid, returns the default.
    pub(crate) fn parse(value: &[u8]) -> Priority {
        let mut rest = trim(value);
        let mut priority = Priority::DEFAULT;
        while !rest.is_empty() {
            let Some(member) = Member::read(&mut rest) else { return Priority::DEFAULT };
            match (member.key, member.value) {
                // RFC 9218 §4: members that have a different type or are out of range should be ignored.
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

/// A member of the dictionary.
struct Member<'a> {
    key: &'a [u8],
    /// The text after `=`. Empty if there is not any.
    value: &'a [u8],
}

impl<'a> Member<'a> {
    /// Reads a member along with its parameters and removes it from `rest`.
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
            // Parameters have the same grammar as members without parameters.
            take_while(rest, is_key_byte);
            if let Some((b'=', after)) = rest.split_first() {
                *rest = after;
                take_value(rest)?;
            }
        }
        Some(Member { key, value })
    }
}

/// Reads a value and removes it from `rest`. Strings must end with a quote, other values end at a delimiter. Returns `None` if a
/// string does not end.
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

/// Returns `true` if keys can have this byte (RFC 8941 §3.1.2).
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
