//! Query parameters in the encoding that forms use (`application/x-www-form-urlencoded` in the URL standard).

use std::borrow::Cow;

/// The parameters of a query or form.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    bytes: &'a [u8],
}

impl<'a> Query<'a> {
    /// Parses parameters, for example `a=1&b=%20`. This cannot fail because any bytes are valid.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Query<'a> {
        Query { bytes }
    }

    /// Returns the first value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        self.iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Returns names and values in order. Any bytes that are not valid UTF-8 are replaced by U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (decode(&pair[..equals]), decode(pair.get(equals + 1..).unwrap_or_default()))
        })
    }
}

/// Decodes percent-encoding, and converts plus signs to spaces.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return String::from_utf8_lossy(bytes);
    }

    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        decoded.push(match (first, after) {
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    high << 4 | low
                }
                _ => b'%',
            },
            (b'+', _) => b' ',
            (byte, _) => *byte,
        });
    }

    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::new(b"a=1&b=x+y%2B%C3%A9&&c&a=2&d=%zz%4&=e&f=%ff");
        let pairs: Vec<_> = query.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        assert_eq!(pairs, ["a:1", "b:x y+é", "c:", "a:2", "d:%zz%4", ":e", "f:\u{fffd}"]);
        assert_eq!(query.get("a").as_deref(), Some("1"));
        assert_eq!(query.get("g"), None);
        assert_eq!(Query::new(b"").iter().count(), 0);
    }
}
