//! A small site with one page of each kind, and requests for each kind of answer.

use std::fs;
use std::path::PathBuf;

use cannery_archiver::{LastModified, Options};
use tempfile::TempDir;

/// A site in a temporary directory.
pub(crate) struct Fixture {
    #[allow(dead_code)] // Some tests only keep it.
    pub(crate) directory: TempDir,
    pub(crate) archive: PathBuf,
}

/// Compiles the site.
pub(crate) fn site() -> Fixture {
    let directory = TempDir::new().unwrap();
    let folder = directory.path().join("site");
    let page: String = (0..1000).map(|number| format!("<p>{}</p>\n", number * 7919 % 10_007)).collect();
    let files = [
        ("index.html", "<title>Home</title>"),
        ("page.html", page.as_str()),
        ("docs/index.html", "<title>Docs</title>"),
        ("app/index.html", "<title>App</title>"),
        ("app/200.html", "<title>Any page of the app</title>"),
        ("404.html", "<title>Missing</title>"),
        ("a b.txt", "spaced"),
        (
            "_redirects",
            "/old/* /docs/:splat 301\n/spa/* /app/ 200\n/elsewhere https://example.com/ 302\n/gone /page.html 410!\n",
        ),
        ("_headers", "/docs/*\n  X-Docs: yes\n"),
    ];

    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    let archive = directory.path().join("site.cdb");
    let mut options = Options::new(&folder, &archive);
    options.last_modified = LastModified::At(784_111_777);
    cannery_archiver::compile(&options, &()).unwrap();
    Fixture { directory, archive }
}

/// Method, target and field lines.
#[allow(dead_code)] // As for the next one.
type Request = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The requests.
#[allow(dead_code)] // Some tests send their own.
pub(crate) const REQUESTS: [Request; 31] = [
    ("GET", "/", &[]),
    ("HEAD", "/", &[]),
    ("GET", "/", &[("accept-encoding", "gzip, br")]),
    ("GET", "/page", &[("accept-encoding", "gzip, br")]),
    ("HEAD", "/page", &[("accept-encoding", "gzip")]),
    ("GET", "/page", &[("accept-encoding", "identity;q=0")]),
    ("GET", "/page", &[("accept-encoding", "identity;q=0, compress")]),
    ("GET", "/page.html?query", &[]),
    ("GET", "/docs", &[]),
    ("GET", "/docs?a=b", &[]),
    ("GET", "/docs/", &[]),
    ("GET", "/docs/missing", &[("accept-encoding", "br")]),
    ("GET", "/app/any/route", &[("accept", "text/html")]),
    ("GET", "/app/missing.js", &[]),
    ("GET", "/a%20b.txt", &[]),
    ("GET", "/%2e%2e/secret", &[]),
    ("GET", "/%00", &[]),
    ("GET", "/old/guide", &[]),
    ("GET", "/elsewhere", &[]),
    ("GET", "/gone", &[]),
    ("GET", "/page", &[("range", "bytes=0-9")]),
    ("GET", "/page", &[("range", "bytes=0-9,20-29,-5")]),
    ("GET", "/page", &[("range", "bytes=999999-")]),
    ("GET", "/page", &[("if-none-match", "*")]),
    ("GET", "/page", &[("if-match", "\"other\"")]),
    ("GET", "/page", &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
    ("GET", "/page", &[("if-unmodified-since", "Sat, 05 Nov 1994 08:49:37 GMT")]),
    ("OPTIONS", "/page", &[]),
    ("POST", "/page", &[("content-length", "0")]),
    ("BREW", "/page", &[]),
    ("GET", "/page", &[("host", "other.example"), ("accept-encoding", "gzip"), ("accept-encoding", "br")]),
];
