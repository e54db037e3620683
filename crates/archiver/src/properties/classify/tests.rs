//! Unit tests of media types.

use super::*;

fn of(path: &str) -> MediaType<'static> {
    static DEFAULT: MediaTypes = MediaTypes { overrides: BTreeMap::new() };
    DEFAULT.of(path.as_bytes())
}

#[test]
fn common_names_have_the_types_that_browsers_require() {
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
fn well_known_names_without_extension_have_types() {
    assert_eq!(of("LICENSE").text, "text/plain");
    assert_eq!(of("docs/README").text, "text/plain");
    assert_eq!(of(".well-known/matrix/server").text, "application/json");
    assert_eq!(of("matrix/server"), UNKNOWN);
}

#[test]
fn override_replaces_the_table() {
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
fn invalid_override_is_rejected() {
    for bad in
        ["ts", "=text/plain", "ts=", "ts=plain", "ts=text/", "a.b=text/plain", "ts=text/plain;\r\nX: y"]
    {
        assert!(MediaTypes::default().set(bad).is_err(), "{bad}");
    }
}
