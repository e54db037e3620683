//! Readers of archives in other languages (contrib/), compared with the responses that `cannery explain --json` prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{compile, python, run, skip_outside, write_folder};

/// A site with each kind of page and rule, also on hosts.
const REDIRECTS: &str = "\
/old/* /docs/:splat 301
/go https://example.com/ 302
/blog/:year/:month /docs/?y=:year&m=:month#top 307
/forced.txt /a.txt 200!
/app/* /app.html 200
/gone/* /gone.html 410
/cdn/* /:splat 200
://*.example.com/moved /a.txt 308
://rules.example.net/* /app.html 200
";

const HEADERS: &str = "\
/*
  X-All: all
/docs/*
  X-All: docs
  Cache-Control: public, max-age=5
/a.txt
  ! X-All
  Link: </b.css>; rel=preload
/*.css
  Content-Disposition: attachment
  Content-Language: fr
/x-*
  CDN-Cache-Control: max-age=9
  Expires: Thu, 31 Dec 2099 23:59:59 GMT
/odd*
  Cache-Control: private, max-age=60
/cdn/*
  Content-Language: la
  X-Cdn: yes
/cdn/b.css
  Content-Language: it
/listed/*
  Cache-Control: public, max-age=99
  Content-Language: el
/app.html
  Content-Language: de
/spa/200.html
  Content-Type: text/html; charset=iso-8859-1
/404.html
  Content-Language: nl
://*.example.com/*
  X-Host: yes
";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();

        let text = "Compressible text, line after line after line.\n".repeat(100);
        let page = format!("<title>page</title>{text}");
        let files: [(&[u8], &[u8]); 18] = [
            (b"index.html", page.as_bytes()),
            (b"a.txt", text.as_bytes()),
            (b"b.css", b"a { color: red }"),
            // The name has the first digits of the SHA-256 of the content.
            (b"x-2d711642b726b044.js", b"x"),
            (b"odd name \xe4.txt", b"odd"),
            (b"forced.txt", b"hidden"),
            (b"app.html", b"<title>app</title>"),
            (b"gone.html", b"<title>gone</title>"),
            (b"404.html", b"<title>missing</title>"),
            (b"docs/index.html", page.as_bytes()),
            (b"docs/404.html", b"<title>missing in docs</title>"),
            (b"spa/200.html", b"<title>fallback</title>"),
            (b"listed/a.txt", b"a"),
            (b"_hosts/example.org/index.html", b"<title>host</title>"),
            (b"_hosts/*.example.com/index.html", b"<title>wildcard host</title>"),
            (b"_hosts/example.org/404.html", b"<title>missing on host</title>"),
            (b"_redirects", REDIRECTS.as_bytes()),
            (b"_headers", HEADERS.as_bytes()),
        ];

        write_folder(&folder.path().join("site"), &files);
        let place = Place { folder };
        let flags = [
            "--compress",
            "identity,gzip,brotli,zstd",
            "--last-modified",
            "@1700000000",
            "--include-folder-listing",
        ];

        compile(&place.path("site"), &place.path("site.cdb"), &flags);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a test vector per line, and returns their number.
    fn write_vectors(&self) -> usize {
        let archive = self.path("site.cdb");
        let mut lines = String::new();
        for arguments in requests() {
            let mut words = vec!["explain", "--json", archive.to_str().unwrap()];
            words.extend(arguments.iter().map(String::as_str));
            let output = run("cannery", &words);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let vector: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            lines.push_str(&format!("{vector}\n"));
        }
        fs::write(self.path("vectors"), &lines).unwrap();
        lines.lines().count()
    }

    /// Runs the tests of a reader with the vectors, and beside the server.
    fn test(&self, command: &mut Command) {
        let programs = Path::new(env!("CARGO_BIN_EXE_cannery-server")).parent().unwrap();
        command.env("CANNERY_BIN", programs).env("CANNERY_PROGRAMS", programs);
        command.env("CANNERY_ARCHIVE", self.path("site.cdb"));
        command.env("CANNERY_VECTORS", self.path("vectors"));
        let output = command.output().unwrap();
        let printed = [output.stdout.as_slice(), &output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(output.status.success(), "{printed}");
        for variable in ["CANNERY_VECTORS", "CANNERY_BIN", "CANNERY_PROGRAMS"] {
            assert!(!printed.contains(variable), "tests were skipped for want of {variable}: {printed}");
        }
    }
}

/// Returns the arguments of `cannery explain` for each request.
fn requests() -> Vec<Vec<String>> {
    const TARGETS: [&str; 45] = [
        "/",
        "/index",
        "/index.html",
        "/a.txt",
        "/a.txt?query",
        "/b.css",
        "/odd%20name%20%E4.txt",
        "/forced.txt",
        "/docs",
        "/docs/",
        "/docs/index",
        "/docs/missing",
        "/missing",
        "/missing.css",
        "/old/",
        "/old/a/b?c=d",
        "/go",
        "/blog/2026/11",
        "/blog/2026/11/23",
        "/app/any/thing?x",
        "/gone/now",
        "/gone.html",
        "/spa/route",
        "/spa/missing.js",
        "/spa/missing.js/",
        "/spa/missing.js%20",
        "/spa/missing.js;v=1.2",
        "/spa/missing.PNG//",
        "/spa/missing%2Epdf/",
        "/spa/route;x=a.js",
        "/spa/route.css%3Fx/",
        "/listed/",
        "/cdn/b.css",
        "/cdn/a.txt",
        "/cdn/docs/",
        "/cdn/odd%20name%20%E4.txt",
        "/gone/a.css",
        "/app/a.css",
        "//a.txt",
        "/./docs/../a.txt",
        "/a.txt/",
        "/%zz",
        "/moved",
        "/a%2Fb",
        "/..",
    ];
    const FIELDS: [&str; 16] = [
        "Accept-Encoding: br",
        "Accept-Encoding: gzip;q=0.5, zstd;q=0.4, *;q=0",
        "Accept-Encoding: identity;q=0, gzip",
        "Range: bytes=0-9",
        "Range: bytes=-5",
        "Range: bytes=10-19,40-49",
        "Range: bytes=999999-",
        "Range: lines=1-2",
        "If-None-Match: *",
        "If-None-Match: \"other\"",
        "If-Match: \"other\"",
        "If-Modified-Since: Wed, 15 Nov 2023 00:00:00 GMT",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "Host: example.org",
        "Host: www.example.com:8080",
    ];

    let mut requests: Vec<Vec<String>> = Vec::new();
    let mut add = |words: &[&str]| requests.push(words.iter().map(|word| (*word).to_owned()).collect());
    for target in TARGETS {
        add(&[target]);
        add(&[target, "-X", "HEAD"]);
        add(&[target, "-H", "Host: a.b.example.com"]);
    }

    add(&["/cdn/x-2d711642b726b044.js"]);
    for target in ["/a.txt", "/docs", "/missing", "/missing.js", "/spa/route"] {
        add(&[target, "-H", "Host: rules.example.net"]);
    }

    for field in FIELDS {
        for target in ["/", "/a.txt", "/missing", "/docs/"] {
            add(&[target, "-H", field]);
        }
        add(&["/a.txt", "-X", "HEAD", "-H", field]);
        add(&["/a.txt", "-H", field, "-H", "Accept-Encoding: gzip"]);
    }
    for method in ["POST", "OPTIONS", "DELETE", "TRACE", "BREW"] {
        add(&["/a.txt", "-X", method]);
        add(&["/missing", "-X", method]);
    }

    requests
}

#[test]
fn go_module_responds_as_the_server() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    assert!(place.write_vectors() > 100);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    place.test(
        Command::new("go")
            // Archives are replaced and closed while requests use them.
            .args(["test", "-race", "-count=1", "-v", "./..."])
            .current_dir(root.join("contrib/go/cannery")),
    );
}

#[test]
fn python_package_responds_as_the_server() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    assert!(place.write_vectors() > 100);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python());
    place.test(
        command.args(["-B", "-m", "unittest", "discover", "-v"]).current_dir(root.join("contrib/python")),
    );
}

/// Runs a program in a directory. Returns what it has printed, and fails if the program does.
fn output_of(command: &mut Command, directory: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let output = command.current_dir(directory).output().unwrap();
    let printed = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {printed}");
    printed
}

/// `go vet` also reports what a release of Go doesn't have that is as old as the one in `go.mod`.
#[test]
fn go_module_is_formatted_and_builds_elsewhere() {
    if skip_outside() {
        return;
    }
    let module = "contrib/go/cannery";
    assert_eq!(output_of(Command::new("gofmt").args(["-l", "-s", "."]), module), "");
    for system in ["linux", "windows", "darwin", "freebsd"] {
        output_of(
            Command::new("go").args(["vet", "./..."]).env("GOOS", system).env("CGO_ENABLED", "0"),
            module,
        );
    }
}

#[test]
fn python_package_is_typed_and_formatted() {
    if skip_outside() {
        return;
    }
    let caches = tempfile::tempdir().unwrap();
    for arguments in [["mypy", "--strict"].as_slice(), &["ruff", "check"], &["ruff", "format", "--check"]] {
        let mut python = Command::new(python());
        python.arg("-m").args(arguments);
        python.env("MYPY_CACHE_DIR", caches.path()).env("RUFF_NO_CACHE", "true");
        output_of(&mut python, "contrib/python");
    }
}
