//! Recognizes special names such as `index.html` and `404.html`. The role of a file is derived from its name
//! alone.
//!
//! If the name is a number, it may be a status or part of a series, which is decided in
//! [`routes`](crate::routes).

/// Suffixes of index pages, in order of preference.
const INDEX_SUFFIXES: [&str; 7] = ["html", "htm", "xhtml", "xht", "txt", "json", "xml"];

/// Suffixes that may be omitted in URLs, in order of preference.
const STRIPPED_SUFFIXES: [&str; 5] = ["html", "htm", "xhtml", "xht", "txt"];

/// Suffixes with which a plain number is a fallback or error page.
const PAGE_SUFFIXES: [&str; 4] = ["html", "htm", "xhtml", "xht"];

/// Statuses that may have an error page, because they can be used either by the server or by a rule.
const ERRORS: [u16; 18] =
    [400, 403, 404, 405, 406, 408, 410, 412, 413, 414, 416, 417, 421, 431, 500, 501, 503, 505];

/// Role of a file in its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role<'n> {
    /// Only answers its own name.
    Plain,
    /// Index page. The lowest rank takes precedence. If `hidden` is set, the file is not served under
    /// its own name.
    Index { rank: usize, hidden: bool },
    /// Fallback page for paths below the folder.
    Fallback { suffix: &'n [u8], hidden: bool },
    /// Error page for paths below the folder.
    ErrorPage { status: u16, hidden: bool },
    /// A file of redirects.
    Redirects,
    /// A file of header rules.
    Headers,
    /// Patterns for names to leave out.
    IgnoreFile,
}

pub(crate) fn role(name: &[u8]) -> Role<'_> {
    match name {
        b"_redirects" | b"_redirects.txt" => return Role::Redirects,
        b"_headers" => return Role::Headers,
        b".canneryignore" => return Role::IgnoreFile,
        _ => {}
    }

    let Some((stem, suffix)) = split(name) else { return Role::Plain };

    let is_page = place(&PAGE_SUFFIXES, suffix).is_some();
    match stem {
        b"_index" | b"index" => match place(&INDEX_SUFFIXES, suffix) {
            Some(rank) if stem == b"_index" => Role::Index { rank, hidden: true },
            Some(rank) => Role::Index { rank: INDEX_SUFFIXES.len() + rank, hidden: false },
            None => Role::Plain,
        },
        b"_wildcard" | b"_200" => Role::Fallback { suffix, hidden: true },
        b"200" if is_page => Role::Fallback { suffix, hidden: false },
        _ => match error_of(stem) {
            Some((status, true)) => Role::ErrorPage { status, hidden: true },
            Some((status, false)) if is_page => Role::ErrorPage { status, hidden: false },
            _ => Role::Plain,
        },
    }
}

/// Recognizes a status in a name without suffix (e.g. `_404` or `404`). Also returns whether the name
/// begins with an underscore.
fn error_of(stem: &[u8]) -> Option<(u16, bool)> {
    let number = stem.strip_prefix(b"_").unwrap_or(stem);
    let status = number_of(number).filter(|status| ERRORS.contains(status))?;
    Some((status, number.len() < stem.len()))
}

/// Parses a number of three digits.
fn number_of(digits: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_status = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_status)
}

/// Returns `true` if a file of this name is not served under it.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    match role(name) {
        Role::Plain => false,
        Role::Index { hidden, .. } | Role::Fallback { hidden, .. } | Role::ErrorPage { hidden, .. } => hidden,
        Role::Redirects | Role::Headers | Role::IgnoreFile => true,
    }
}

/// When a URL may omit the suffix, returns the name without it, along with the suffix' rank.
pub(crate) fn stripped(name: &[u8]) -> Option<(&[u8], usize)> {
    let (stem, suffix) = split(name)?;
    Some((stem, place(&STRIPPED_SUFFIXES, suffix)?))
}

/// Returns `true` for the suffix of a page.
pub(crate) fn is_page_suffix(suffix: &[u8]) -> bool {
    place(&PAGE_SUFFIXES, suffix).is_some()
}

/// Returns `true` for numbers that are not a status, for example those of tiles or chapters.
pub(crate) fn is_ordinary_number(name: &[u8], suffix: &[u8]) -> bool {
    let Some((stem, own)) = split(name) else { return false };
    own == suffix && stem.iter().all(u8::is_ascii_digit) && !number_of(stem).is_some_and(is_known_status)
}

/// Returns `true` for 200, for registered errors (RFC 9110 §16.2.2), and for additional errors used
/// by large hosts.
fn is_known_status(number: u16) -> bool {
    matches!(number, 200 | 400..=418 | 421..=426 | 428..=429 | 431 | 451 | 500..=508 | 510..=511 | 520..=530)
}

fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    (dot > 0 && dot + 1 < name.len()).then(|| (&name[..dot], &name[dot + 1..]))
}

fn place(suffixes: &[&str], suffix: &[u8]) -> Option<usize> {
    suffixes.iter().position(|known| known.as_bytes() == suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_roles() {
        assert_eq!(role(b"_index.html"), Role::Index { rank: 0, hidden: true });
        assert_eq!(role(b"index.htm"), Role::Index { rank: 8, hidden: false });
        assert_eq!(role(b"index.php"), Role::Plain);
        assert_eq!(role(b"_wildcard.png"), Role::Fallback { suffix: b"png", hidden: true });
        assert_eq!(role(b"200.html"), Role::Fallback { suffix: b"html", hidden: false });
        assert_eq!(role(b"200.png"), Role::Plain);
        assert_eq!(role(b"404.html"), Role::ErrorPage { status: 404, hidden: false });
        assert_eq!(role(b"_404.json"), Role::ErrorPage { status: 404, hidden: true });
        assert_eq!(role(b"_500.html"), Role::ErrorPage { status: 500, hidden: true });
        for plain in ["404.png", "418.html", "_418.html", "_0404.html", "__404.html", "4o4.html"] {
            assert_eq!(role(plain.as_bytes()), Role::Plain, "{plain}");
        }
        assert_eq!(role(b"_redirects.txt"), Role::Redirects);
        assert_eq!(role(b"_redirects.html"), Role::Plain);
        assert_eq!(role(b"index."), Role::Plain);
    }

    #[test]
    fn pages_lose_their_suffix() {
        assert_eq!(stripped(b"a.html"), Some((b"a".as_slice(), 0)));
        assert_eq!(stripped(b"a.b.txt"), Some((b"a.b".as_slice(), 4)));
        assert_eq!(stripped(b"a.json"), None);
        assert_eq!(stripped(b".html"), None);
    }

    #[test]
    fn numbers_are_distinguished_from_statuses() {
        assert!(is_ordinary_number(b"199.html", b"html"));
        assert!(is_ordinary_number(b"7.html", b"html"));
        assert!(is_ordinary_number(b"419.html", b"html"));
        assert!(is_ordinary_number(b"4040.html", b"html"));
        for name in ["200.html", "402.html", "404.html", "502.html", "199.htm", "a.html", "199"] {
            assert!(!is_ordinary_number(name.as_bytes(), b"html"), "{name}");
        }
    }
}
