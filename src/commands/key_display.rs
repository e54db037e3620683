//! Keys of an archive as they appear in URLs.

use cannery_archive::{percent_encode, split_host};

/// Formats a key of an archive as in a URL: `/a%20b`, or `//host/a%20b`.
pub(super) fn display(key: &[u8]) -> String {
    let (host, path) = split_host(key);
    let mut text = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    for piece in percent_encode(path) {
        text.push_str(&String::from_utf8_lossy(piece.bytes()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_percent_encoded() {
        assert_eq!(display(b"/a b/\xc3\xa4"), "/a%20b/%C3%A4");
        assert_eq!(display(b"//example.com/a"), "//example.com/a");
    }
}
