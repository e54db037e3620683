//! Name -> media type: the rows of a table, and what the person who runs the build has changed in it.
//!
//! A type is decided by the name alone. This file never looks at a file's bytes, at the clock or
//! at the environment; whether the bytes are valid UTF-8 is the caller's to check where
//! [`MediaType::charset`] asks for it.

mod table;

use std::collections::BTreeMap;

use table::TABLE;

/// What a name says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// The type without parameters, such as `text/html`; an override may carry parameters.
    pub text: &'a str,
    /// Add `; charset=utf-8` if the bytes are valid UTF-8.
    pub charset: bool,
    /// Worth trying to compress. Formats that are already compressed are not.
    pub compress: bool,
    /// A page loads it, or a person downloads it, by this very name: where it is missing, a
    /// single-page fallback must not answer in its place.
    ///
    /// JSON, feeds and documents count, for a page of HTML in their place helps nobody. HTML does
    /// not, and neither does source code: a code browser has `/src/main.rs` as an address of its
    /// own. A name with an unknown ending (`/users/john.doe`) is an address too.
    pub asset: bool,
}

/// The table, and what the person who runs the build has changed in it.
#[derive(Clone, Debug, Default)]
pub struct MediaTypes {
    overrides: BTreeMap<String, Override>,
}

#[derive(Clone, Debug)]
struct Override {
    text: String,
    charset: bool,
    compress: bool,
    asset: bool,
}

impl MediaTypes {
    /// Takes one `EXT=TYPE`, such as `ts=text/plain` or `.geo=application/geo+json`. A later one
    /// for the same extension replaces an earlier one.
    ///
    /// The other properties come from the table's row for that type if there is one, else from
    /// the type's family. A type that is given with parameters is kept as it is given.
    ///
    /// # Errors
    /// The text is not of this form, or TYPE is no media type (RFC 9110 §8.3.1).
    pub fn set(&mut self, assignment: &str) -> Result<(), MediaTypeError> {
        let error = || MediaTypeError { assignment: assignment.to_owned() };
        let (extension, text) = assignment.split_once('=').ok_or_else(error)?;
        let extension = extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase();
        if extension.is_empty() || extension.contains(['.', '/']) || !is_media_type(text) {
            return Err(error());
        }
        let essence = essence(text).to_ascii_lowercase();
        let known = TABLE.iter().find(|row| row.1.text == essence).map(|row| row.1);
        let row = known.unwrap_or_else(|| by_family(&essence));
        let charset = row.charset && !text.contains(';');
        let text = text.to_owned();
        self.overrides
            .insert(extension, Override { text, charset, compress: row.compress, asset: row.asset });
        Ok(())
    }

    /// The type of the file at `path`, its bytes relative to the source root.
    pub fn of(&self, path: &[u8]) -> MediaType<'_> {
        let Some(extension) = lower_case_extension(file_name(path)) else {
            return of_bare_name(path);
        };
        if let Some(row) = self.overrides.get(&extension) {
            return MediaType {
                text: &row.text,
                charset: row.charset,
                compress: row.compress,
                asset: row.asset,
            };
        }
        match TABLE.binary_search_by(|row| row.0.cmp(&extension)) {
            Ok(found) => TABLE[found].1,
            Err(_) => UNKNOWN,
        }
    }
}

/// An override that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`--media-type {assignment}` is not of the form EXT=TYPE, such as `ts=text/plain`")]
pub struct MediaTypeError {
    /// The text as it was given.
    pub assignment: String,
}

/// Nothing is known of such a file. Compressing it is worth a try; that the result must be
/// smaller to be kept bounds the loss.
const UNKNOWN: MediaType<'static> =
    MediaType { text: "application/octet-stream", charset: false, compress: true, asset: false };

const PLAIN: MediaType<'static> =
    MediaType { text: "text/plain", charset: true, compress: true, asset: false };

const JSON: MediaType<'static> =
    MediaType { text: "application/json", charset: false, compress: true, asset: true };

/// Names without an extension that are text by long habit. Hosting, source code and licences
/// have brought them about; in upper case only, for `/readme` may well be an address.
const PLAIN_NAMES: [&str; 18] = [
    "AUTHORS",
    "CHANGELOG",
    "CHANGES",
    "CITATION",
    "CNAME",
    "CONTRIBUTING",
    "CONTRIBUTORS",
    "COPYING",
    "COPYRIGHT",
    "HISTORY",
    "INSTALL",
    "LICENCE",
    "LICENSE",
    "NEWS",
    "NOTICE",
    "README",
    "TODO",
    "VERSION",
];

/// Names without an extension that a specification defines as JSON.
const JSON_PATHS: [&str; 11] = [
    ".well-known/apple-app-site-association",
    ".well-known/host-meta.json",
    ".well-known/matrix/client",
    ".well-known/matrix/server",
    ".well-known/matrix/support",
    ".well-known/nodeinfo",
    ".well-known/oauth-authorization-server",
    ".well-known/openid-configuration",
    ".well-known/webauthn",
    ".well-known/webfinger",
    "apple-app-site-association",
];

fn of_bare_name(path: &[u8]) -> MediaType<'static> {
    if JSON_PATHS.iter().any(|known| path == known.as_bytes()) {
        JSON
    } else if PLAIN_NAMES.iter().any(|name| file_name(path) == name.as_bytes()) {
        PLAIN
    } else {
        UNKNOWN
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// What stands behind the last full stop, unless that is the name's first byte.
fn lower_case_extension(name: &[u8]) -> Option<String> {
    let stop = name.iter().rposition(|&byte| byte == b'.').filter(|&stop| stop > 0)?;
    let extension = name.get(stop + 1..).filter(|extension| !extension.is_empty())?;
    Some(std::str::from_utf8(extension).ok()?.to_ascii_lowercase())
}

/// The type without its parameters.
pub(crate) fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or(text).trim_end()
}

fn by_family(essence: &str) -> MediaType<'static> {
    let is_text = essence.starts_with("text/");
    let is_structured = ["+json", "+xml", "/json", "/xml"].iter().any(|suffix| essence.ends_with(suffix));
    let is_media = ["image/", "audio/", "video/", "font/"].iter().any(|family| essence.starts_with(family));
    MediaType {
        text: "",
        charset: is_text,
        compress: is_text || is_structured || !is_media,
        asset: is_structured || is_media,
    }
}

/// `type "/" subtype` of tokens, and nothing that could break out of a header field behind them.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && essence(text).split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> MediaType<'static> {
        static DEFAULT: MediaTypes = MediaTypes { overrides: BTreeMap::new() };
        DEFAULT.of(path.as_bytes())
    }

    #[test]
    fn everyday_names_get_the_types_that_browsers_insist_on() {
        let cases = [
            ("index.html", "text/html"),
            ("a/b/APP.JS", "text/javascript"),
            ("module.mjs", "text/javascript"),
            ("app.css", "text/css"),
            ("app.wasm", "application/wasm"),
            ("site.webmanifest", "application/manifest+json"),
            ("inter.woff2", "font/woff2"),
            ("photo.avif", "image/avif"),
            ("logo.svg", "image/svg+xml"),
            ("segment.ts", "video/mp2t"),
            ("tiles/3/1/2.mvt", "application/vnd.mapbox-vector-tile"),
            ("archive.tar.gz", "application/gzip"),
        ];
        for (path, expected) in cases {
            assert_eq!(of(path).text, expected, "{path}");
        }
    }

    #[test]
    fn a_name_without_a_known_ending_is_opaque_bytes() {
        for path in ["a", "a.", ".html", "a.unknown", "a.b/c", "users/john.doe", "readme"] {
            assert_eq!(of(path), UNKNOWN, "{path}");
        }
        assert_eq!(MediaTypes::default().of(b"a.\xff"), UNKNOWN);
        assert_eq!(MediaTypes::default().of(b""), UNKNOWN);
    }

    #[test]
    fn well_known_bare_names_have_types() {
        assert_eq!(of("LICENSE").text, "text/plain");
        assert_eq!(of("docs/README").text, "text/plain");
        assert_eq!(of(".well-known/matrix/server").text, "application/json");
        assert_eq!(of("matrix/server"), UNKNOWN);
    }

    #[test]
    fn a_missing_asset_is_told_from_a_missing_page() {
        let assets = "js mjs css map png jpg svg ico avif woff2 wasm mp3 mp4 json webmanifest txt pdf xml";
        for extension in assets.split(' ') {
            assert!(of(&format!("a.{extension}")).asset, "{extension}");
        }
        for extension in ["html", "htm", "xhtml", "md", "rs", "py", "doe"] {
            assert!(!of(&format!("a.{extension}")).asset, "{extension}");
        }
    }

    #[test]
    fn an_override_replaces_the_table() {
        let mut types = MediaTypes::default();
        types.set("ts=text/plain").unwrap();
        types.set(".GEO=application/geo+json").unwrap();
        types.set("raw=image/x-raw").unwrap();
        types.set("old=text/html; charset=iso-8859-1").unwrap();
        assert_eq!(types.of(b"a.ts"), MediaType { text: "text/plain", ..of("a.txt") });
        assert_eq!(types.of(b"a.geo"), of("a.geojson"));
        assert!(!types.of(b"a.raw").compress);
        let old = types.of(b"a.old");
        assert_eq!((old.text, old.charset), ("text/html; charset=iso-8859-1", false));
    }

    #[test]
    fn a_bad_override_is_refused() {
        for bad in
            ["ts", "=text/plain", "ts=", "ts=plain", "ts=text/", "a.b=text/plain", "ts=text/plain;\r\nX: y"]
        {
            assert!(MediaTypes::default().set(bad).is_err(), "{bad}");
        }
    }
}
