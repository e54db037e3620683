//! HPACK's static table (RFC 7541 appendix A).

use super::field::Field;
use super::name::Name;

/// Number of static entries. The indices of the dynamic table start after them.
pub(super) const STATIC_FIELDS: usize = 61;

/// The entries. Indices start at 1.
pub(super) static STATIC_TABLE: [Field<'static>; STATIC_FIELDS] = fields(&TEXTS);

/// Indices of names in response heads.
pub(crate) mod index {
    use std::ops::RangeInclusive;

    pub(crate) const STATUS: RangeInclusive<u8> = 8..=14;
    pub(crate) const ACCEPT_RANGES: u8 = 18;
    pub(crate) const ALLOW: u8 = 22;
    pub(crate) const CACHE_CONTROL: u8 = 24;
    pub(crate) const CONTENT_LENGTH: u8 = 28;
    pub(crate) const CONTENT_RANGE: u8 = 30;
    pub(crate) const CONTENT_TYPE: u8 = 31;
    pub(crate) const LAST_MODIFIED: u8 = 44;
    pub(crate) const LOCATION: u8 = 46;
    pub(crate) const VARY: u8 = 59;
}

/// Returns the index of this field and the index of the first entry with this name, either of which can be
/// missing.
pub(super) fn find(name: &str, value: &[u8]) -> (Option<u8>, Option<u8>) {
    find_in(&TEXTS, 1, name, value)
}

/// Creates the entries of a static table.
pub(crate) const fn fields<const N: usize>(texts: &[(&'static str, &'static str); N]) -> [Field<'static>; N] {
    let none = Field { name: Name::Other, name_text: b"", value: b"", is_well_formed: false };
    let mut table = [none; N];
    let mut at = 0;
    while at < N {
        let (name_text, value) = (texts[at].0.as_bytes(), texts[at].1.as_bytes());
        let name = Name::from_bytes(name_text);
        // `:status` isn't well-formed because requests do not have it.
        let is_well_formed = name.is_pseudo() || name_text[0] != b':';
        table[at] = Field { name, name_text, value, is_well_formed };
        at += 1;
    }
    table
}

/// Finds a field in a static table whose indices start at `base`. Same result as [`find`].
pub(crate) fn find_in(
    texts: &[(&str, &str)],
    base: u8,
    name: &str,
    value: &[u8],
) -> (Option<u8>, Option<u8>) {
    let mut named = (base..).zip(texts).filter(|(_, (known, _))| *known == name);
    let first = named.clone().next().map(|(index, _)| index);
    // If an entry does not have a value, it is only about the name.
    let same = named.find(|(_, (_, known))| !known.is_empty() && known.as_bytes() == value);
    (same.map(|(index, _)| index), first)
}

const TEXTS: [(&str, &str); STATIC_FIELDS] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_and_by_value() {
        assert_eq!(find(":status", b"200"), (Some(8), Some(8)));
        assert_eq!(find(":status", b"404"), (Some(13), Some(8)));
        assert_eq!(find(":status", b"410"), (None, Some(8)));
        assert_eq!(find("accept-encoding", b"gzip, deflate"), (Some(16), Some(16)));
        assert_eq!(find("date", b""), (None, Some(33)));
        assert_eq!(find("x-frame-options", b"deny"), (None, None));

        for (index, name) in [
            (*index::STATUS.start(), ":status"),
            (*index::STATUS.end() + 1, "accept-charset"),
            (index::CACHE_CONTROL, "cache-control"),
            (index::CONTENT_LENGTH, "content-length"),
            (index::CONTENT_RANGE, "content-range"),
            (index::CONTENT_TYPE, "content-type"),
            (index::LAST_MODIFIED, "last-modified"),
            (index::ACCEPT_RANGES, "accept-ranges"),
            (index::ALLOW, "allow"),
            (index::VARY, "vary"),
            (index::LOCATION, "location"),
        ] {
            assert_eq!(find(name, b"").1, Some(index), "{name}");
        }

        assert_eq!(STATIC_TABLE[60].name_text, b"www-authenticate");
    }
}
