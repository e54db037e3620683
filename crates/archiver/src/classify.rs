//! Name -> media type, and how long a copy may be used before asking again: one table.
//!
//! A type is decided by the name alone. This file never looks at a file's bytes, at the clock or
//! at the environment; whether the bytes are valid UTF-8 is the caller's to check where
//! [`MediaType::charset`] asks for it.
//!
//! Decisions that a reader may wonder about:
//! - `.ts` is `video/mp2t`, its registered meaning. No browser runs TypeScript, so a `.ts` that a
//!   page asks for is a segment of a video; `--media-type ts=text/plain` says otherwise.
//! - Scripts are `text/javascript` (RFC 9239), fonts `font/…` (RFC 8081).
//! - JSON has no `charset` parameter (RFC 8259 §11), and XML states its own encoding, so neither
//!   gets one. Everything under `text/` does.
//! - A file that is compressed by its name (`.gz`, `.br`, `.zst`) is served as what it is. It is
//!   not taken for a precompressed form of another file.

use std::collections::BTreeMap;

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

/// How the copies of a resource are to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// A way in: it names the other resources, or is data that changes under a constant name.
    /// A stale copy of it keeps the whole site stale, so a copy is checked before each use.
    Entry,
    /// What an entry leads to: a copy may be an hour old.
    Part,
}

/// The `Cache-Control` value for a resource whose site says nothing about it.
///
/// `fingerprinted` means that the name was checked to carry a digest of the content (see
/// [`crate::fingerprint`]): such a name never stands for anything else.
pub fn cache_control(kind: CacheKind, fingerprinted: bool) -> &'static str {
    match (kind, fingerprinted) {
        (_, true) => "public, max-age=31536000, immutable",
        (CacheKind::Entry, false) => "public, no-cache",
        (CacheKind::Part, false) => "public, max-age=3600",
    }
}

/// How the copies of the file at `path`, of the type `media_type`, are to be treated.
pub fn cache_kind(path: &[u8], media_type: MediaType<'_>) -> CacheKind {
    let essence = essence(media_type.text);
    let is_entry = ENTRY_TYPES.contains(&essence)
        || essence.ends_with("+json")
        || SERVICE_WORKERS.iter().any(|name| file_name(path) == name.as_bytes());
    if is_entry { CacheKind::Entry } else { CacheKind::Part }
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

/// Types of which a stale copy keeps a site stale. All `+json` types are meant as well.
const ENTRY_TYPES: [&str; 7] = [
    "application/atom+xml",
    "application/json",
    "application/rss+xml",
    "application/xhtml+xml",
    "application/xml",
    "text/cache-manifest",
    "text/html",
];

/// Names under which service workers are registered by the tools that make them.
const SERVICE_WORKERS: [&str; 8] = [
    "firebase-messaging-sw.js",
    "ngsw-worker.js",
    "service-worker.js",
    "service-worker.mjs",
    "service_worker.js",
    "serviceworker.js",
    "sw.js",
    "sw.mjs",
];

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

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// What stands behind the last full stop, unless that is the name's first byte.
fn lower_case_extension(name: &[u8]) -> Option<String> {
    let stop = name.iter().rposition(|&byte| byte == b'.').filter(|&stop| stop > 0)?;
    let extension = name.get(stop + 1..).filter(|extension| !extension.is_empty())?;
    Some(std::str::from_utf8(extension).ok()?.to_ascii_lowercase())
}

/// The type without its parameters.
fn essence(text: &str) -> &str {
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

/// Text that is read as text and has an address of its own in some single-page application.
const fn prose(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: true, compress: true, asset: false }
}

/// Text that a page loads.
const fn text(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: true, compress: true, asset: true }
}

/// Data that states its own encoding or has none, and that compresses.
const fn data(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: false, compress: true, asset: true }
}

/// Data that is compressed already.
const fn packed(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: false, compress: false, asset: true }
}

/// An XML page: it states its own encoding.
const XHTML: MediaType<'static> =
    MediaType { text: "application/xhtml+xml", charset: false, compress: true, asset: false };

const OFFICE_PRESENTATION: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const OFFICE_SHEET: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const OFFICE_TEXT: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// Extension in lower case -> type, sorted by extension.
static TABLE: [(&str, MediaType<'static>); 204] = [
    ("3gp", packed("video/3gpp")),
    ("7z", packed("application/x-7z-compressed")),
    ("aac", packed("audio/aac")),
    ("adoc", prose("text/asciidoc")),
    ("aif", data("audio/aiff")),
    ("aiff", data("audio/aiff")),
    ("apk", packed("application/vnd.android.package-archive")),
    ("apng", packed("image/apng")),
    ("appcache", text("text/cache-manifest")),
    ("arrow", data("application/vnd.apache.arrow.file")),
    ("asc", data("application/pgp-keys")),
    ("atom", data("application/atom+xml")),
    ("avi", packed("video/x-msvideo")),
    ("avif", packed("image/avif")),
    ("bib", prose("text/x-bibtex")),
    ("bmp", data("image/bmp")),
    ("br", packed("application/x-brotli")),
    ("bz2", packed("application/x-bzip2")),
    ("c", prose("text/x-c")),
    ("cbor", data("application/cbor")),
    ("cc", prose("text/x-c")),
    ("cer", data("application/pkix-cert")),
    ("cjs", text("text/javascript")),
    ("conf", prose("text/x-ini")),
    ("cpp", prose("text/x-c")),
    ("crl", data("application/pkix-crl")),
    ("crt", data("application/x-x509-ca-cert")),
    ("crx", packed("application/x-chrome-extension")),
    ("css", text("text/css")),
    ("csv", text("text/csv")),
    ("cur", data("image/vnd.microsoft.icon")),
    ("deb", packed("application/vnd.debian.binary-package")),
    ("diff", prose("text/x-diff")),
    ("dmg", packed("application/x-apple-diskimage")),
    ("doc", data("application/msword")),
    ("docx", packed(OFFICE_TEXT)),
    ("dtd", data("application/xml-dtd")),
    ("eot", data("application/vnd.ms-fontobject")),
    ("eps", data("application/postscript")),
    ("epub", packed("application/epub+zip")),
    ("exe", data("application/vnd.microsoft.portable-executable")),
    ("fgb", data("application/flatgeobuf")),
    ("flac", packed("audio/flac")),
    ("geojson", data("application/geo+json")),
    ("geojsonl", data("application/geo+json-seq")),
    ("gif", packed("image/gif")),
    ("glb", data("model/gltf-binary")),
    ("gltf", data("model/gltf+json")),
    ("gml", data("application/gml+xml")),
    ("go", prose("text/x-go")),
    ("gpx", data("application/gpx+xml")),
    ("gz", packed("application/gzip")),
    ("h", prose("text/x-c")),
    ("har", data("application/json")),
    ("heic", packed("image/heic")),
    ("heif", packed("image/heif")),
    ("hpp", prose("text/x-c")),
    ("htm", prose("text/html")),
    ("html", prose("text/html")),
    ("ico", data("image/vnd.microsoft.icon")),
    ("ics", text("text/calendar")),
    ("ini", prose("text/x-ini")),
    ("ipynb", data("application/x-ipynb+json")),
    ("iso", data("application/x-iso9660-image")),
    ("jar", packed("application/java-archive")),
    ("java", prose("text/x-java")),
    ("jfif", packed("image/jpeg")),
    ("jp2", packed("image/jp2")),
    ("jpeg", packed("image/jpeg")),
    ("jpg", packed("image/jpeg")),
    ("js", text("text/javascript")),
    ("json", data("application/json")),
    ("json5", data("application/json5")),
    ("jsonl", data("application/jsonl")),
    ("jsonld", data("application/ld+json")),
    ("jsx", prose("text/x-jsx")),
    ("jxl", packed("image/jxl")),
    ("kml", data("application/vnd.google-earth.kml+xml")),
    ("kmz", packed("application/vnd.google-earth.kmz")),
    ("ktx2", packed("image/ktx2")),
    ("less", prose("text/x-less")),
    ("lz4", packed("application/x-lz4")),
    ("m3u", data("audio/x-mpegurl")),
    ("m3u8", data("application/vnd.apple.mpegurl")),
    ("m4a", packed("audio/mp4")),
    ("m4s", packed("video/iso.segment")),
    ("m4v", packed("video/mp4")),
    ("map", data("application/json")),
    ("markdown", prose("text/markdown")),
    ("mathml", data("application/mathml+xml")),
    ("mbtiles", data("application/vnd.mapbox-mbtiles")),
    ("md", prose("text/markdown")),
    ("mid", data("audio/midi")),
    ("midi", data("audio/midi")),
    ("mjs", text("text/javascript")),
    ("mkv", packed("video/matroska")),
    ("mobi", packed("application/x-mobipocket-ebook")),
    ("mobileconfig", data("application/x-apple-aspen-config")),
    ("mov", packed("video/quicktime")),
    ("mp3", packed("audio/mpeg")),
    ("mp4", packed("video/mp4")),
    ("mpd", data("application/dash+xml")),
    ("mpeg", packed("video/mpeg")),
    ("mpg", packed("video/mpeg")),
    ("msi", data("application/x-msi")),
    ("mvt", data("application/vnd.mapbox-vector-tile")),
    ("n3", text("text/n3")),
    ("ndjson", data("application/x-ndjson")),
    ("npy", data("application/x-npy")),
    ("nq", data("application/n-quads")),
    ("nt", data("application/n-triples")),
    ("obj", data("model/obj")),
    ("odg", packed("application/vnd.oasis.opendocument.graphics")),
    ("odp", packed("application/vnd.oasis.opendocument.presentation")),
    ("ods", packed("application/vnd.oasis.opendocument.spreadsheet")),
    ("odt", packed("application/vnd.oasis.opendocument.text")),
    ("oga", packed("audio/ogg")),
    ("ogg", packed("audio/ogg")),
    ("ogv", packed("video/ogg")),
    ("onnx", data("application/x-onnx")),
    ("opml", text("text/x-opml")),
    ("opus", packed("audio/ogg")),
    ("otf", data("font/otf")),
    ("owl", data("application/rdf+xml")),
    ("p7s", data("application/pkcs7-signature")),
    ("parquet", packed("application/vnd.apache.parquet")),
    ("patch", prose("text/x-diff")),
    ("pbf", data("application/x-protobuf")),
    ("pdf", packed("application/pdf")),
    ("pem", data("application/x-pem-file")),
    ("pkpass", packed("application/vnd.apple.pkpass")),
    ("pmtiles", packed("application/vnd.pmtiles")),
    ("png", packed("image/png")),
    ("ppt", data("application/vnd.ms-powerpoint")),
    ("pptx", packed(OFFICE_PRESENTATION)),
    ("ps", data("application/postscript")),
    ("psd", data("image/vnd.adobe.photoshop")),
    ("py", prose("text/x-python")),
    ("rar", packed("application/vnd.rar")),
    ("rb", prose("text/x-ruby")),
    ("rdf", data("application/rdf+xml")),
    ("rpm", packed("application/x-rpm")),
    ("rs", prose("text/x-rust")),
    ("rss", data("application/rss+xml")),
    ("rst", prose("text/x-rst")),
    ("rtf", data("application/rtf")),
    ("sass", prose("text/x-sass")),
    ("scss", prose("text/x-scss")),
    ("sh", prose("text/x-shellscript")),
    ("shtml", prose("text/html")),
    ("sig", data("application/pgp-signature")),
    ("sql", data("application/sql")),
    ("sqlite", data("application/vnd.sqlite3")),
    ("sqlite3", data("application/vnd.sqlite3")),
    ("srt", data("application/x-subrip")),
    ("stl", data("model/stl")),
    ("svg", data("image/svg+xml")),
    ("swf", packed("application/x-shockwave-flash")),
    ("tar", data("application/x-tar")),
    ("terrain", data("application/vnd.quantized-mesh")),
    ("tex", prose("text/x-tex")),
    ("text", text("text/plain")),
    ("tgz", packed("application/gzip")),
    ("tif", data("image/tiff")),
    ("tiff", data("image/tiff")),
    ("toml", data("application/toml")),
    ("topojson", data("application/json")),
    ("torrent", packed("application/x-bittorrent")),
    ("ts", packed("video/mp2t")),
    ("tsv", text("text/tab-separated-values")),
    ("tsx", prose("text/x-typescript")),
    ("ttc", data("font/collection")),
    ("ttf", data("font/ttf")),
    ("ttl", text("text/turtle")),
    ("txt", text("text/plain")),
    ("usdz", packed("model/vnd.usdz+zip")),
    ("vcard", text("text/vcard")),
    ("vcf", text("text/vcard")),
    ("vtt", text("text/vtt")),
    ("wasm", data("application/wasm")),
    ("wav", data("audio/wav")),
    ("weba", packed("audio/webm")),
    ("webm", packed("video/webm")),
    ("webmanifest", data("application/manifest+json")),
    ("webp", packed("image/webp")),
    ("whl", packed("application/zip")),
    ("woff", packed("font/woff")),
    ("woff2", packed("font/woff2")),
    ("wsdl", data("application/wsdl+xml")),
    ("xht", XHTML),
    ("xhtml", XHTML),
    ("xls", data("application/vnd.ms-excel")),
    ("xlsx", packed(OFFICE_SHEET)),
    ("xml", data("application/xml")),
    ("xpi", packed("application/x-xpinstall")),
    ("xsd", data("application/xml")),
    ("xsl", data("application/xslt+xml")),
    ("xslt", data("application/xslt+xml")),
    ("xspf", data("application/xspf+xml")),
    ("xz", packed("application/x-xz")),
    ("yaml", data("application/yaml")),
    ("yml", data("application/yaml")),
    ("zip", packed("application/zip")),
    ("zst", packed("application/zstd")),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> MediaType<'static> {
        static DEFAULT: MediaTypes = MediaTypes { overrides: BTreeMap::new() };
        DEFAULT.of(path.as_bytes())
    }

    #[test]
    fn the_table_is_sorted_lower_case_and_free_of_duplicates() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} stands before {}", pair[0].0, pair[1].0);
        }
        for (extension, media_type) in TABLE {
            assert_eq!(extension, extension.to_ascii_lowercase());
            assert!(is_media_type(media_type.text) && !media_type.text.contains(';'), "{extension}");
        }
    }

    #[test]
    fn only_text_types_are_given_a_charset() {
        for (extension, media_type) in TABLE {
            assert_eq!(media_type.charset, media_type.text.starts_with("text/"), "{extension}");
        }
    }

    #[test]
    fn one_type_has_one_set_of_properties() {
        // An override looks a row up by its type, so rows of one type must agree.
        for (extension, media_type) in TABLE {
            let first = TABLE.iter().find(|row| row.1.text == media_type.text).unwrap();
            assert_eq!(first.1, media_type, "{extension} and {}", first.0);
        }
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

    #[test]
    fn entries_are_checked_before_each_use_and_parts_are_not() {
        let entries = "index.html a.xhtml data.json map.geojson feed.xml feed.atom feed.rss site.webmanifest sw.js a/sw.js";
        for path in entries.split(' ') {
            assert_eq!(cache_kind(path.as_bytes(), of(path)), CacheKind::Entry, "{path}");
        }
        for path in ["app.js", "app.css", "logo.svg", "a.png", "notes.txt", "answer.js"] {
            assert_eq!(cache_kind(path.as_bytes(), of(path)), CacheKind::Part, "{path}");
        }
    }

    #[test]
    fn only_a_checked_fingerprint_makes_a_copy_immutable() {
        assert_eq!(cache_control(CacheKind::Entry, false), "public, no-cache");
        assert_eq!(cache_control(CacheKind::Part, false), "public, max-age=3600");
        for kind in [CacheKind::Entry, CacheKind::Part] {
            assert_eq!(cache_control(kind, true), "public, max-age=31536000, immutable");
        }
    }
}
