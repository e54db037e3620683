//! HTTP/2 clients load the Python documentation over TCP or TLS: curl, nghttp, httpx, the clients of Node, Go and Java, and
//! Chromium. Each uses one connection and compares the content with the files.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::fixture_site::noise;
use crate::harness::{
    Server, TLS_FLAGS, compile, files_below, percent_encode, python, request_at, serve, skip_outside,
};

/// A server of the Python documentation.
struct Documentation {
    _server: Server,
    /// URL of the TLS listener.
    https: String,
    /// URL of the listener without TLS.
    http: String,
    admin: String,
    /// Each request target, and its source file.
    targets: Vec<(String, PathBuf)>,
    /// File with a line per target that the clients read: target, tab, path of the file.
    list: PathBuf,
    place: tempfile::TempDir,
}

impl Documentation {
    /// Starts a server. Concurrent tests share the archive. Returns `None` if outside programs are skipped.
    fn open() -> Option<Documentation> {
        if skip_outside() {
            return None;
        }

        let folder = std::env::var("CANNERY_PYTHON_DOCS");
        let folder = folder.unwrap_or_else(|_| "/usr/share/doc/python3.11/html".into());
        assert!(Path::new(&folder).is_dir(), "{folder} is missing: `cargo xtask test` installs it");

        let compiled = compiled(Path::new(&folder));
        let archive = compiled.path().join("site.cdb");
        let arguments = ["--archive", archive.to_str().unwrap(), "--admin", "127.0.0.1:0"];
        let server = Server::start(&[&arguments[..], &TLS_FLAGS].concat());
        let http = format!("http://{}", server.address);
        let https = format!("https://{}", server.read_tls_address());
        let admin = server.read_admin_address();

        let place = tempfile::tempdir().unwrap();
        let mut targets = Vec::new();
        let mut lines = String::new();
        for (name, path) in files_below(Path::new(&folder)) {
            if !name.starts_with(b".") {
                let target = format!("/{}", percent_encode(&name));
                writeln!(lines, "{target}\t{}", path.display()).unwrap();
                targets.push((target, path));
            }
        }

        assert!(targets.len() > 1000, "{} targets", targets.len());
        let list = place.path().join("targets");
        fs::write(&list, lines).unwrap();
        Some(Documentation { _server: server, https, http, admin, targets, list, place })
    }

    /// Returns the number of connections that the site's listeners have accepted.
    fn connections(&self) -> usize {
        let metrics = String::from_utf8(request_at(&self.admin, "GET", "/metrics", "").body).unwrap();
        let name = "cannery_connections_accepted_total ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric exists");
        value.parse().unwrap()
    }

    /// Runs a program that must load and compare every target this number of times over one connection.
    fn assert_loaded_by(&self, program: &str, arguments: &[&str], times: usize) {
        let before = self.connections();
        let stdout = stdout(program, arguments);
        let compared = format!("compared {}", self.targets.len() * times);
        assert_eq!(stdout.trim(), compared, "{program} {arguments:?}");
        assert_eq!(self.connections() - before, 1, "{program} {arguments:?}: connections");
    }

    fn list(&self) -> &str {
        self.list.to_str().unwrap()
    }
}

/// Returns a directory with the archive of `folder`. Concurrent tests share it; the last one removes it.
fn compiled(folder: &Path) -> Arc<tempfile::TempDir> {
    static SHARED: Mutex<Weak<tempfile::TempDir>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let place = Arc::new(tempfile::tempdir().unwrap());
        let flags = ["--compress", "identity,gzip,brotli", "--compress-level", "gzip=6,brotli=4"];
        compile(folder, &place.path().join("site.cdb"), &flags);
        *shared = Arc::downgrade(&place);
        place
    })
}

/// Runs a program, which must succeed, and returns its standard output.
fn stdout(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {} {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Loads all targets with curl over one connection and compares the files.
fn curl_loads(documentation: &Documentation, origin: &str, flags: &[&str]) {
    let mut config = String::new();
    let folder = documentation.place.path().join("curl");
    fs::create_dir(&folder).unwrap();
    for (number, (target, _)) in documentation.targets.iter().enumerate() {
        let to = folder.join(number.to_string());
        writeln!(config, "url = \"{origin}{target}\"\noutput = \"{}\"", to.display()).unwrap();
    }
    let file = documentation.place.path().join("curl.config");
    fs::write(&file, config).unwrap();
    let common = ["-sS", "--insecure", "--fail", "-w", "%{http_version} %{num_connects}\n", "-K"];
    let written = stdout("curl", &[&common[..], &[file.to_str().unwrap()], flags].concat());
    let count = |line: &str| written.lines().filter(|written| *written == line).count();
    assert_eq!((count("2 1"), count("2 0")), (1, documentation.targets.len() - 1), "curl {flags:?}");
    for (number, (target, path)) in documentation.targets.iter().enumerate() {
        let content = fs::read(folder.join(number.to_string())).unwrap();
        assert!(content == fs::read(path).unwrap(), "{target} by curl {flags:?}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn curl_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let parallel = ["--http2", "--parallel", "--parallel-max", "50"];
    curl_loads(&documentation, &documentation.https, &parallel);
    curl_loads(&documentation, &documentation.https, &[&parallel[..], &["--compressed"]].concat());
    // curl 7.88 loses prior knowledge of HTTP/2 on a reused connection, whatever the server.
    for (target, path) in documentation.targets.iter().step_by(20) {
        let url = format!("{}{target}", documentation.http);
        let output = Command::new("curl").args(["-sS", "--fail", "--http2-prior-knowledge", &url]).output();
        assert!(output.unwrap().stdout == fs::read(path).unwrap(), "{target} without TLS");
    }
}

#[test]
fn nghttp_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    for origin in [&documentation.https, &documentation.http] {
        let urls: Vec<_> =
            documentation.targets.iter().map(|(target, _)| format!("{origin}{target}")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let before = documentation.connections();
        let flags = ["--no-verify-peer", "--null-out", "--stat"];
        let statistics = stdout("nghttp", &[&flags[..], &urls].concat());
        let loaded = statistics.lines().filter(|line| line.split_whitespace().any(|word| word == "200"));
        assert_eq!(loaded.count(), urls.len(), "{statistics}");
        assert_eq!(documentation.connections() - before, 1);
        // nghttp writes a complete body only for a single URL.
        for (target, path) in documentation.targets.iter().step_by(20) {
            let output =
                Command::new("nghttp").args(["--no-verify-peer", &format!("{origin}{target}")]).output();
            assert!(output.unwrap().stdout == fs::read(path).unwrap(), "{target}");
        }
    }
}

#[test]
fn httpx_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let arguments = ["tests/outside/http2.py", &documentation.https, documentation.list()];
    documentation.assert_loaded_by(python().to_str().unwrap(), &arguments, 3);
}

#[test]
fn node_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    for origin in [&documentation.https, &documentation.http] {
        documentation.assert_loaded_by("node", &["tests/outside/http2.mjs", origin, documentation.list()], 3);
    }
}

#[test]
fn go_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let program = documentation.place.path().join("http2");
    let program = program.to_str().unwrap();
    stdout("go", &["build", "-o", program, "tests/outside/http2.go"]);
    documentation.assert_loaded_by(program, &[&documentation.https, documentation.list()], 2);
}

#[test]
fn java_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let flags = ["-Djdk.internal.httpclient.disableHostnameVerification", "tests/outside/Http2.java"];
    let arguments = [&flags[..], &[&documentation.https, documentation.list()]].concat();
    documentation.assert_loaded_by("java", &arguments, 1);
}

#[test]
fn chromium_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let pages = ["/", "/library/os.html", "/library/asyncio", "/tutorial"];
    let arguments = ["tests/outside/multiplexed_pages.mjs", "h2", &documentation.https, documentation.list()];
    let output = stdout("node", &[&arguments[..], &pages].concat());
    assert_eq!(output.trim(), format!("compared {}", documentation.targets.len()));
}

/// Returns an uncompressed bitmap (BMP) with this number of pixels on each side.
fn picture(side: u32) -> Vec<u8> {
    let pixels = noise(usize::try_from(side * side * 3).unwrap());
    let length = u32::try_from(pixels.len()).unwrap();
    let numbers = [length + 54, 0, 54, 40, side, side, 1 | 24 << 16, 0, length, 0, 0, 0, 0];
    [b"BM".as_slice(), &numbers.map(u32::to_le_bytes).concat(), &pixels].concat()
}

#[test]
fn chromium_gets_the_style_before_earlier_images() {
    if skip_outside() {
        return;
    }
    // Each is larger than the bytes that can be in flight before the style is requested.
    const PICTURES: usize = 4;
    let links = |of: fn(usize) -> String| (0..PICTURES).map(of).collect::<String>();
    let page = format!(
        "<!doctype html><title>page</title>{}<link rel=stylesheet href=/style.css>{}",
        links(|number| format!("<link rel=preload as=image href=/{number}.bmp>")),
        links(|number| format!("<img src=/{number}.bmp alt=\"\">")),
    );
    let style: String =
        (0..16_000).map(|number| format!(".a{number} {{ color: #{number:06x} }}\n")).collect();
    let picture = picture(840);
    let names: Vec<_> = (0..PICTURES).map(|number| format!("{number}.bmp")).collect();
    let mut files: Vec<(&[u8], &[u8])> = names.iter().map(|name| (name.as_bytes(), &*picture)).collect();
    files.push((b"index.html", page.as_bytes()));
    files.push((b"style.css", style.as_bytes()));
    files.push((b"favicon.ico", b""));
    let server = serve(&files, &["--compress", "identity"]);

    let (host, port) = server.tls_address().rsplit_once(':').unwrap();
    // A busy browser may request the first image long before the rest, and no server could then send the style first. A
    // server that ignores priorities fails every attempt.
    const ATTEMPTS: usize = 5;
    let mut last_report = String::new();
    for _ in 0..ATTEMPTS {
        let report = stdout("node", &["tests/outside/waterfall.mjs", host, port, "/", "/style.css"]);
        let loads: Vec<Vec<&str>> = report.lines().map(|line| line.split('\t').collect()).collect();
        assert!(loads.iter().all(|load| load[1] == "h2"), "{report}");
        let place = |name: &str| loads.iter().position(|load| load[0] == name).expect(name);
        let style = &loads[place("/style.css")];
        let number = |text: &str| text.parse::<usize>().unwrap();
        let pictures: Vec<_> = names.iter().map(|name| place(&format!("/{name}"))).collect();
        let is_requested_last = pictures.iter().all(|&picture| number(loads[picture][3]) < number(style[3]));
        assert!(is_requested_last, "the style was requested before an image: {report}");
        let is_complete_first = pictures.iter().all(|&picture| picture > place("/style.css"));
        // Fewer than half of the images' bytes were sent before the style.
        if is_complete_first && number(style[5]) < PICTURES * picture.len() / 2 {
            return;
        }
        last_report = report;
    }
    panic!("the style never arrived before the images: {last_report}");
}
