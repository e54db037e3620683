//! Recognizes assets by path. An asset is a file used by pages, or one that people download.
//!
//! If an asset is missing, fallback pages do not apply: a missing script should be a 404 rather than the application's HTML with
//! status 200. A suffix belongs to assets unless its media type is one of pages.
//!
//! Suffixes of source code are ambiguous: pages can have addresses like `/blog/node.js` as well. In this case, we use the purpose
//! of the request if we know it; see [`Intent`](crate::Intent).
//!
//! Note that the archiver's tests compare this list to its media types and to `docs/rules.md`.

/// Suffixes of data, media, fonts, documents and archives. Lower case, sorted, and at most [`SUFFIX_BYTES_MAX`] long.
pub const FILE_SUFFIXES: [&str; 300] = [
    "3gp",
    "3mf",
    "7z",
    "aab",
    "aac",
    "aif",
    "aifc",
    "aiff",
    "amr",
    "apk",
    "apng",
    "appcache",
    "appimage",
    "arrow",
    "asc",
    "ass",
    "asx",
    "atom",
    "avi",
    "avif",
    "avifs",
    "avro",
    "azw3",
    "b3dm",
    "basis",
    "bcmap",
    "bin",
    "blat",
    "bmp",
    "br",
    "bz",
    "bz2",
    "cab",
    "cbor",
    "cbz",
    "cer",
    "cr2",
    "crl",
    "crt",
    "crx",
    "crx3",
    "csv",
    "cue",
    "cur",
    "dae",
    "dat",
    "data",
    "db",
    "dbf",
    "dcm",
    "dds",
    "deb",
    "der",
    "djvu",
    "dll",
    "dmg",
    "dng",
    "doc",
    "docm",
    "docx",
    "dotx",
    "drc",
    "dtd",
    "dwg",
    "dxf",
    "dylib",
    "emf",
    "eml",
    "eot",
    "eps",
    "epub",
    "exe",
    "exr",
    "f4v",
    "fb2",
    "fbx",
    "feather",
    "fgb",
    "flac",
    "flatpak",
    "flv",
    "fnt",
    "gcode",
    "geojson",
    "geojsonl",
    "gguf",
    "gif",
    "glb",
    "glsl",
    "gltf",
    "gml",
    "gpg",
    "gpkg",
    "gpx",
    "gz",
    "h5",
    "har",
    "hdf5",
    "hdr",
    "heic",
    "heics",
    "heif",
    "i3dm",
    "icns",
    "ico",
    "ics",
    "img",
    "ipa",
    "iso",
    "jar",
    "jfif",
    "jp2",
    "jpe",
    "jpeg",
    "jpg",
    "jsonld",
    "jxl",
    "jxr",
    "kml",
    "kmz",
    "ktx",
    "ktx2",
    "laz",
    "lottie",
    "lrc",
    "lz",
    "lz4",
    "lzma",
    "m2ts",
    "m3u",
    "m3u8",
    "m4a",
    "m4b",
    "m4s",
    "m4v",
    "mathml",
    "mbtiles",
    "md5",
    "mdb",
    "mem",
    "mid",
    "midi",
    "minisig",
    "mka",
    "mks",
    "mkv",
    "mobi",
    "mobileconfig",
    "mov",
    "mp2",
    "mp3",
    "mp4",
    "mpd",
    "mpeg",
    "mpg",
    "mpga",
    "msgpack",
    "msi",
    "msix",
    "mts",
    "mvt",
    "n3",
    "ndjson",
    "nii",
    "npy",
    "npz",
    "nq",
    "nt",
    "nupkg",
    "obj",
    "odg",
    "odp",
    "ods",
    "odt",
    "oga",
    "ogg",
    "ogv",
    "ogx",
    "onnx",
    "opml",
    "opus",
    "orc",
    "otf",
    "ova",
    "owl",
    "p12",
    "p7s",
    "pagefind",
    "parquet",
    "pb",
    "pbf",
    "pck",
    "pdb",
    "pdf",
    "pem",
    "pf_fragment",
    "pf_index",
    "pf_meta",
    "pfb",
    "pfx",
    "pkg",
    "pkl",
    "pkpass",
    "plist",
    "pls",
    "ply",
    "pmtiles",
    "png",
    "pnts",
    "pps",
    "ppsx",
    "ppt",
    "pptm",
    "pptx",
    "prj",
    "ps",
    "psd",
    "pvr",
    "qcow2",
    "rar",
    "rdf",
    "rds",
    "riv",
    "rpm",
    "rss",
    "rtf",
    "safetensors",
    "sbv",
    "sha1",
    "sha256",
    "sha512",
    "shp",
    "shx",
    "sig",
    "skel",
    "spx",
    "sqlite",
    "sqlite3",
    "srt",
    "ssa",
    "step",
    "stl",
    "stp",
    "svg",
    "svgz",
    "swf",
    "symbols",
    "tar",
    "tbz2",
    "terrain",
    "tflite",
    "tga",
    "tgz",
    "tif",
    "tiff",
    "topojson",
    "torrent",
    "traineddata",
    "tsv",
    "ttc",
    "ttf",
    "ttl",
    "ttml",
    "txz",
    "tzst",
    "unityweb",
    "usd",
    "usdc",
    "usdz",
    "vcard",
    "vcf",
    "vhd",
    "vtt",
    "wasm",
    "wav",
    "weba",
    "webarchive",
    "webm",
    "webmanifest",
    "webp",
    "wgsl",
    "whl",
    "wma",
    "wmf",
    "wmv",
    "woff",
    "woff2",
    "wsdl",
    "xls",
    "xlsm",
    "xlsx",
    "xltx",
    "xml",
    "xpi",
    "xsd",
    "xspf",
    "xz",
    "zip",
    "zst",
    "zstd",
];

/// Suffixes of scripts, styles, source code and other text. Note that pages can have them too. Lower case and sorted.
pub const TEXT_SUFFIXES: [&str; 54] = [
    "adoc",
    "bib",
    "c",
    "cc",
    "cjs",
    "conf",
    "cpp",
    "css",
    "diff",
    "ftl",
    "go",
    "h",
    "hpp",
    "ini",
    "ipynb",
    "java",
    "js",
    "json",
    "json5",
    "jsonl",
    "jsx",
    "kt",
    "less",
    "lua",
    "map",
    "markdown",
    "md",
    "mdx",
    "mjs",
    "patch",
    "properties",
    "proto",
    "py",
    "rb",
    "rs",
    "rst",
    "sass",
    "scss",
    "sh",
    "sql",
    "svelte",
    "swift",
    "tex",
    "text",
    "toml",
    "ts",
    "tsx",
    "txt",
    "vue",
    "xsl",
    "xslt",
    "yaml",
    "yml",
    "zig",
];

const SUFFIX_BYTES_MAX: usize = 12;

/// Paths that programs request by convention. Pages do not have such paths.
const WELL_KNOWN_FOLDER: &[u8] = b"/.well-known/";
const WELL_KNOWN_PATHS: [&[u8]; 4] =
    [b"/.well-known", b"/apple-app-site-association", b"/robots.txt", b"/sitemap.xml"];

/// Kinds of files that a path can look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// A page.
    Page,
    /// A script, a style sheet or other text. If the client navigates there, it is a page.
    Text,
    /// A file, no matter which purpose the request has.
    File,
}

impl PathKind {
    /// Returns the kind of a path that [`file_path`] has returned. `by_suffix` is the kind of its suffix.
    pub(crate) fn of(path: &[u8], by_suffix: PathKind) -> PathKind {
        if path.starts_with(WELL_KNOWN_FOLDER) || WELL_KNOWN_PATHS.contains(&path) {
            return PathKind::File;
        }
        by_suffix
    }

    /// Returns the kind of paths with this suffix, which is passed without the dot, in any letter case.
    pub(crate) fn of_suffix(suffix: &[u8]) -> PathKind {
        if suffix.is_empty() || suffix.len() > SUFFIX_BYTES_MAX {
            return PathKind::Page;
        }

        let mut lower = [0; SUFFIX_BYTES_MAX];
        lower[..suffix.len()].copy_from_slice(suffix);
        lower.make_ascii_lowercase();
        let number = number_of(&lower[..suffix.len()]);
        if FILE_NUMBERS.binary_search(&number).is_ok() {
            PathKind::File
        } else if TEXT_NUMBERS.binary_search(&number).is_ok() {
            PathKind::Text
        } else {
            PathKind::Page
        }
    }
}

/// The same tables as numbers, which are much cheaper to compare than strings.
static FILE_NUMBERS: [u128; FILE_SUFFIXES.len()] = numbers_of(&FILE_SUFFIXES);
static TEXT_NUMBERS: [u128; TEXT_SUFFIXES.len()] = numbers_of(&TEXT_SUFFIXES);

const fn numbers_of<const N: usize>(suffixes: &[&str; N]) -> [u128; N] {
    let mut numbers = [0; N];
    let mut index = 0;
    while index < N {
        numbers[index] = number_of(suffixes[index].as_bytes());
        index += 1;
    }
    numbers
}

/// Returns the letters of a suffix and then its length, as one number. Numbers have the same order as their suffixes.
const fn number_of(suffix: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let mut index = 0;
    while index < suffix.len() {
        bytes[index] = suffix[index];
        index += 1;
    }
    #[allow(clippy::cast_possible_truncation, reason = "a suffix has at most 12 bytes")]
    let length = suffix.len() as u8;
    bytes[15] = length;
    u128::from_be_bytes(bytes)
}

/// Returns the path that the client probably meant, without slashes and white space at the end, and also without parameters of the
/// last segment, e.g. in `/app.js;v=1.2/`. If there is a `?` or `#`, it was percent-encoded by mistake.
pub(crate) fn file_path(path: &[u8]) -> &[u8] {
    let trim = |path: &[u8]| {
        let is_kept = |byte: &u8| *byte != b'/' && !byte.is_ascii_whitespace();
        path.iter().rposition(is_kept).map_or(0, |last| last + 1)
    };
    let path = &path[..trim(path)];

    let mut end = path.len();
    for (index, byte) in path.iter().enumerate().rev() {
        match byte {
            b'/' => break,
            b';' | b'?' | b'#' | b'&' => end = index,
            _ => {}
        }
    }
    &path[..end]
}

/// Returns `true` if a suffix belongs to assets. The suffix should be passed without the dot, in any letter case.
#[must_use]
pub fn is_asset(suffix: &[u8]) -> bool {
    PathKind::of_suffix(suffix) != PathKind::Page
}

/// Returns the suffix of a path or name without the dot, which may be empty.
#[must_use]
pub fn suffix(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| matches!(byte, b'.' | b'/')) {
        Some(dot) if path[dot] == b'.' => &path[dot + 1..],
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_short() {
        for suffixes in [&FILE_SUFFIXES[..], &TEXT_SUFFIXES] {
            assert!(suffixes.is_sorted_by(|one, next| one < next));
            assert!(suffixes.iter().all(|suffix| suffix.len() <= SUFFIX_BYTES_MAX));
        }
        assert!(FILE_NUMBERS.is_sorted() && TEXT_NUMBERS.is_sorted());
        assert!(TEXT_SUFFIXES.iter().all(|suffix| !FILE_SUFFIXES.contains(suffix)));
    }

    #[test]
    fn assets_are_distinguished_from_pages() {
        let kind = |path: &str| PathKind::of(path.as_bytes(), PathKind::of_suffix(suffix(path.as_bytes())));
        for file in [
            "/a.png",
            "/A.PDF",
            "/x.webmanifest",
            "/.well-known/any",
            "/robots.txt",
            "/sitemap.xml",
            "/apple-app-site-association",
        ] {
            assert_eq!(kind(file), PathKind::File, "{file}");
        }

        for text in ["/blog/node.js", "/a.CSS", "/a.json", "/docs/robots.txt"] {
            assert_eq!(kind(text), PathKind::Text, "{text}");
        }

        for page in [
            "/a",
            "/a.html",
            "/v1.2",
            "/user/john.doe",
            "/a.woff3",
            "/a.javascript-and-more",
            "/a.twelve-bytes",
            "/a.",
            "/a.js\0",
            "/a.\0",
        ] {
            assert_eq!(kind(page), PathKind::Page, "{page}");
        }
    }

    #[test]
    fn slash_and_parameters_at_the_end_do_not_hide_a_file() {
        for (path, file) in [
            ("/a.js", "/a.js"),
            ("/a.js/", "/a.js"),
            ("/a.js ", "/a.js"),
            ("/b/a.js;v=1.2/", "/b/a.js"),
            ("/a.js;x", "/a.js"),
            ("/a.js?v=1.2", "/a.js"),
            ("/a;b/c.js", "/a;b/c.js"),
            ("/user;file=a.js", "/user"),
            ("/node.js-tips", "/node.js-tips"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(file_path(path.as_bytes()), file.as_bytes(), "{path}");
        }
    }

    #[test]
    fn suffix_is_that_of_the_last_segment() {
        for (path, expected) in
            [("/a.b/c.js", "js"), ("/a.b/c", ""), ("a.", ""), (".b", "b"), ("a", ""), ("/", ""), ("", "")]
        {
            assert_eq!(suffix(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    /// Note that there are more lists of suffixes in the documentation, and in the readers for other languages.
    #[test]
    fn all_lists_of_suffixes_agree() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let part = |text: &str, start: &str, end: &str| {
            let after = text.split_once(start).unwrap_or_else(|| panic!("no `{start}`")).1;
            let words = after.split(end).next().unwrap_or_default();
            let words = words.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };

        let document = read("docs/rules.md");
        assert_eq!(part(&document, "in any letter case:\n\n>", "."), FILE_SUFFIXES);
        assert_eq!(part(&document, "end the address of a page too:\n\n>", "."), TEXT_SUFFIXES);

        let go = read("contrib/go/cannery/resolve.go");
        assert_eq!(part(&go, "fileSuffixes = strings.Fields(`", "`"), FILE_SUFFIXES);
        assert_eq!(part(&go, "textSuffixes = strings.Fields(`", "`"), TEXT_SUFFIXES);

        let python = read("contrib/python/cannery/site.py");
        assert_eq!(part(&python, "FILES = frozenset(\n    b\"\"\"", "\"\"\""), FILE_SUFFIXES);
        assert_eq!(part(&python, "TEXTS = frozenset(\n    b\"\"\"", "\"\"\""), TEXT_SUFFIXES);
    }
}
