//! Shows archive keys like in URLs, or like in the source folder.

use cannery_archive::{percent_encode, split_host};

/// Formats an archive key like in a URL, for example `/a%20b` or `//host/a%20b`.
pub(super) fn display(key: &[u8]) -> String {
    let (host, path) = split_host(key);
    let mut text = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    for piece in percent_encode(path) {
        text.push_str(&String::from_utf8_lossy(piece.bytes()));
    }
    text
}

/// Returns the path, in the source folder, of a file with this path on a site.
pub(super) fn source_path(site: Option<&[u8]>, path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    match site {
        // If a site is for all hosts below a name, it begins with a dot in archives, but with `*.` in the source
        // folder.
        Some([b'.', host @ ..]) => [b"_hosts/*.", host, b"/", path].concat(),
        Some(host) => [b"_hosts/", host, b"/", path].concat(),
        None => path.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_percent_encoded() {
        assert_eq!(display(b"/a b/\xc3\xa4"), "/a%20b/%C3%A4");
        assert_eq!(display(b"//example.com/a"), "//example.com/a");
    }

    #[test]
    fn files_of_hosts_are_in_their_folders() {
        assert_eq!(source_path(None, b"/a/b.html"), b"a/b.html");
        assert_eq!(source_path(Some(b"example.com"), b"/a"), b"_hosts/example.com/a");
        assert_eq!(source_path(Some(b".example.com"), b"/a"), b"_hosts/*.example.com/a");
    }
}
