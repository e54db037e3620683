//! Keys of an archive as people read and write them.
//!
//! Never decides what answers a path.

use cannery_archive::{percent_encode, split_host};

/// A stored key as a URL spells it: `/a%20b`, or `//host/a%20b`.
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
    fn keys_read_as_in_a_url() {
        assert_eq!(display(b"/a b/\xc3\xa4"), "/a%20b/%C3%A4");
        assert_eq!(display(b"//example.com/a"), "//example.com/a");
    }
}
