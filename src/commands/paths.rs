//! Keys of an archive as people read and write them.
//!
//! Never decides what answers a path.

use cannery_archive::spell;

/// A stored key taken apart: the host whose site it is of, if any, and the path.
pub(super) fn split_host(key: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(rest) = key.strip_prefix(b"//") else { return (None, key) };
    // No host is empty: `//` alone is the name of the default site's root scope.
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    if end == 0 { (None, key) } else { (Some(&rest[..end]), &rest[end..]) }
}

/// A stored key as a URL spells it: `/a%20b`, or `//host/a%20b`.
pub(super) fn shown(key: &[u8]) -> String {
    let (host, path) = split_host(key);
    let mut text = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    for piece in spell(path) {
        text.push_str(&String::from_utf8_lossy(piece.bytes()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_apart() {
        assert_eq!(split_host(b"/a/b"), (None, b"/a/b".as_slice()));
        assert_eq!(split_host(b"//h/a"), (Some(b"h".as_slice()), b"/a".as_slice()));
        assert_eq!(split_host(b"/"), (None, b"/".as_slice()));
    }

    #[test]
    fn keys_read_as_in_a_url() {
        assert_eq!(shown(b"/a b/\xc3\xa4"), "/a%20b/%C3%A4");
        assert_eq!(shown(b"//example.com/a"), "//example.com/a");
    }
}
