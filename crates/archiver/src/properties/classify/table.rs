//! Media types by extension, one per row.
//!
//! Some decisions:
//! - `.ts` is registered as `video/mp2t`. Browsers do not run TypeScript, so a `.ts` that is loaded by a page should be a
//!   video segment. This can be overridden with `--media-type ts=text/plain`.
//! - Scripts are `text/javascript` (RFC 9239), fonts `font/…` (RFC 8081).
//! - We do not add a `charset` parameter to JSON, because it isn't defined there (RFC 8259 §11), or to XML, because
//!   XML declares its own encoding. Everything under `text/` gets one.
//! - Compressed files (`.gz`, `.br`, `.zst`) are served as they are, i.e. not as precompressed forms of
//!   another file.

use super::MediaType;

/// Extensions in lower case with their types, sorted by extension.
pub(super) static TABLE: [(&str, MediaType<'static>); 204] = [
    ("3gp", packed("video/3gpp")),
    ("7z", packed("application/x-7z-compressed")),
    ("aac", packed("audio/aac")),
    ("adoc", text("text/asciidoc")),
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
    ("bib", text("text/x-bibtex")),
    ("bmp", data("image/bmp")),
    ("br", packed("application/x-brotli")),
    ("bz2", packed("application/x-bzip2")),
    ("c", text("text/x-c")),
    ("cbor", data("application/cbor")),
    ("cc", text("text/x-c")),
    ("cer", data("application/pkix-cert")),
    ("cjs", text("text/javascript")),
    ("conf", text("text/x-ini")),
    ("cpp", text("text/x-c")),
    ("crl", data("application/pkix-crl")),
    ("crt", data("application/x-x509-ca-cert")),
    ("crx", packed("application/x-chrome-extension")),
    ("css", text("text/css")),
    ("csv", text("text/csv")),
    ("cur", data("image/vnd.microsoft.icon")),
    ("deb", packed("application/vnd.debian.binary-package")),
    ("diff", text("text/x-diff")),
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
    ("go", text("text/x-go")),
    ("gpx", data("application/gpx+xml")),
    ("gz", packed("application/gzip")),
    ("h", text("text/x-c")),
    ("har", data("application/json")),
    ("heic", packed("image/heic")),
    ("heif", packed("image/heif")),
    ("hpp", text("text/x-c")),
    ("htm", text("text/html")),
    ("html", text("text/html")),
    ("ico", data("image/vnd.microsoft.icon")),
    ("ics", text("text/calendar")),
    ("ini", text("text/x-ini")),
    ("ipynb", data("application/x-ipynb+json")),
    ("iso", data("application/x-iso9660-image")),
    ("jar", packed("application/java-archive")),
    ("java", text("text/x-java")),
    ("jfif", packed("image/jpeg")),
    ("jp2", packed("image/jp2")),
    ("jpeg", packed("image/jpeg")),
    ("jpg", packed("image/jpeg")),
    ("js", text("text/javascript")),
    ("json", data("application/json")),
    ("json5", data("application/json5")),
    ("jsonl", data("application/jsonl")),
    ("jsonld", data("application/ld+json")),
    ("jsx", text("text/x-jsx")),
    ("jxl", packed("image/jxl")),
    ("kml", data("application/vnd.google-earth.kml+xml")),
    ("kmz", packed("application/vnd.google-earth.kmz")),
    ("ktx2", packed("image/ktx2")),
    ("less", text("text/x-less")),
    ("lz4", packed("application/x-lz4")),
    ("m3u", data("audio/x-mpegurl")),
    ("m3u8", data("application/vnd.apple.mpegurl")),
    ("m4a", packed("audio/mp4")),
    ("m4s", packed("video/iso.segment")),
    ("m4v", packed("video/mp4")),
    ("map", data("application/json")),
    ("markdown", text("text/markdown")),
    ("mathml", data("application/mathml+xml")),
    ("mbtiles", data("application/vnd.mapbox-mbtiles")),
    ("md", text("text/markdown")),
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
    ("patch", text("text/x-diff")),
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
    ("py", text("text/x-python")),
    ("rar", packed("application/vnd.rar")),
    ("rb", text("text/x-ruby")),
    ("rdf", data("application/rdf+xml")),
    ("rpm", packed("application/x-rpm")),
    ("rs", text("text/x-rust")),
    ("rss", data("application/rss+xml")),
    ("rst", text("text/x-rst")),
    ("rtf", data("application/rtf")),
    ("sass", text("text/x-sass")),
    ("scss", text("text/x-scss")),
    ("sh", text("text/x-shellscript")),
    ("shtml", text("text/html")),
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
    ("tex", text("text/x-tex")),
    ("text", text("text/plain")),
    ("tgz", packed("application/gzip")),
    ("tif", data("image/tiff")),
    ("tiff", data("image/tiff")),
    ("toml", data("application/toml")),
    ("topojson", data("application/json")),
    ("torrent", packed("application/x-bittorrent")),
    ("ts", packed("video/mp2t")),
    ("tsv", text("text/tab-separated-values")),
    ("tsx", text("text/x-typescript")),
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

/// Text.
const fn text(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: true, compress: true }
}

/// Compressible data. It declares its own encoding or has none.
const fn data(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: false, compress: true }
}

/// Compressed data.
const fn packed(text: &'static str) -> MediaType<'static> {
    MediaType { text, charset: false, compress: false }
}

/// XML pages declare their own encoding.
const XHTML: MediaType<'static> = MediaType { text: "application/xhtml+xml", charset: false, compress: true };

const OFFICE_PRESENTATION: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const OFFICE_SHEET: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const OFFICE_TEXT: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

#[cfg(test)]
mod tests {
    use super::super::is_media_type;
    use super::*;

    #[test]
    fn table_is_sorted_and_lower_case_without_duplicates() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} stands before {}", pair[0].0, pair[1].0);
        }
        for (extension, media_type) in TABLE {
            assert_eq!(extension, extension.to_ascii_lowercase());
            assert!(is_media_type(media_type.text) && !media_type.text.contains(';'), "{extension}");
        }
    }

    /// The server does not know media types, so it compares suffixes.
    #[test]
    fn suffixes_of_all_types_but_pages_belong_to_assets() {
        for (extension, media_type) in TABLE {
            let is_page = matches!(media_type.text, "text/html" | "application/xhtml+xml");
            assert_eq!(cannery_site::is_asset(extension.as_bytes()), !is_page, "{extension}");
        }
    }

    #[test]
    fn only_text_types_have_a_charset() {
        for (extension, media_type) in TABLE {
            assert_eq!(media_type.charset, media_type.text.starts_with("text/"), "{extension}");
        }
    }

    #[test]
    fn rows_of_one_type_have_equal_properties() {
        // Overrides find rows by type, so rows with the same type must agree.
        for (extension, media_type) in TABLE {
            let first = TABLE.iter().find(|row| row.1.text == media_type.text).unwrap();
            assert_eq!(first.1, media_type, "{extension} and {}", first.0);
        }
    }
}
