//! The programs that people use load the Python documentation over HTTP/2, in the clear or over TLS: curl, nghttp, httpx,
//! Node's, Go's and Java's clients, Chromium. Each on one connection, and each compares the bytes with the files.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::gallery::noise;
use crate::site::{OVER_TLS, Server, ask_at, compile, files_below, python, serve, skip_outside, spell};

/// The documentation, served.
struct Documentation {
    _server: Server,
    /// Where it is served over TLS, and in the clear.
    secured: String,
    plain: String,
    admin: String,
    /// Each target, and the file that it stands for.
    targets: Vec<(String, PathBuf)>,
    /// The same as the list that programs read: a tab between the two.
    list: PathBuf,
    place: tempfile::TempDir,
}

impl Documentation {
    /// A server of the documentation, of an archive that tests which run at the same time share.
    fn open() -> Option<Documentation> {
        if skip_outside() {
            return None;
        }
        let folder = std::env::var("CANNERY_PYTHON_DOCS");
        let folder = folder.unwrap_or_else(|_| "/usr/share/doc/python3.11/html".into());
        assert!(Path::new(&folder).is_dir(), "{folder} is not there: `cargo xtask test` installs it");
        let compiled = compiled(Path::new(&folder));
        let archive = compiled.path().join("site.cdb");
        let arguments = ["--archive", archive.to_str().unwrap(), "--admin", "127.0.0.1:0"];
        let server = Server::start(&[&arguments[..], &OVER_TLS].concat());
        let (plain, secured, admin) =
            (format!("http://{}", server.address), format!("https://{}", server.secured()), server.admin());
        let place = tempfile::tempdir().unwrap();
        let (mut targets, mut lines) = (Vec::new(), String::new());
        for (name, path) in files_below(Path::new(&folder)) {
            if !name.starts_with(b".") {
                let target = format!("/{}", spell(&name));
                writeln!(lines, "{target}\t{}", path.display()).unwrap();
                targets.push((target, path));
            }
        }
        assert!(targets.len() > 1000, "{} targets", targets.len());
        let list = place.path().join("targets");
        fs::write(&list, lines).unwrap();
        Some(Documentation { _server: server, secured, plain, admin, targets, list, place })
    }

    /// How many connections the server has accepted but for those that ask for this.
    fn connections(&self) -> usize {
        let metrics = String::from_utf8(ask_at(&self.admin, "GET", "/metrics", "").body).unwrap();
        let name = "cannery_connections_accepted_total ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("it is counted");
        value.parse().unwrap()
    }

    /// Runs a program that loads all targets, which compares each of them so many times, on one connection.
    fn is_loaded_by(&self, program: &str, arguments: &[&str], times: usize) {
        let before = self.connections();
        let said = said(program, arguments);
        let compared = format!("compared {}", self.targets.len() * times);
        assert_eq!(said.trim(), compared, "{program} {arguments:?}");
        assert_eq!(self.connections() - before, 1, "{program} {arguments:?}: connections");
    }

    fn list(&self) -> &str {
        self.list.to_str().unwrap()
    }
}

/// A folder with the archive of another. It is made once, and taken away with the last who uses it.
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

/// What a program says that must succeed.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
    let (said, told) = (String::from_utf8(output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {} {told}", output.status);
    said.unwrap()
}

/// curl loads everything into files, each way on one connection.
fn curl_loads(documentation: &Documentation, origin: &str, flags: &[&str]) {
    let (mut config, folder) = (String::new(), documentation.place.path().join("curl"));
    fs::create_dir(&folder).unwrap();
    for (number, (target, _)) in documentation.targets.iter().enumerate() {
        let to = folder.join(number.to_string());
        writeln!(config, "url = \"{origin}{target}\"\noutput = \"{}\"", to.display()).unwrap();
    }
    let file = documentation.place.path().join("curl.config");
    fs::write(&file, config).unwrap();
    let common = ["-sS", "--insecure", "--fail", "-w", "%{http_version} %{num_connects}\n", "-K"];
    let written = said("curl", &[&common[..], &[file.to_str().unwrap()], flags].concat());
    let count = |line: &str| written.lines().filter(|written| *written == line).count();
    assert_eq!((count("2 1"), count("2 0")), (1, documentation.targets.len() - 1), "curl {flags:?}");
    for (number, (target, path)) in documentation.targets.iter().enumerate() {
        let got = fs::read(folder.join(number.to_string())).unwrap();
        assert!(got == fs::read(path).unwrap(), "{target} by curl {flags:?}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn curl_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let at_once = ["--http2", "--parallel", "--parallel-max", "50"];
    curl_loads(&documentation, &documentation.secured, &at_once);
    curl_loads(&documentation, &documentation.secured, &[&at_once[..], &["--compressed"]].concat());
    // On a connection that it has used before, curl 7.88 forgets that it knew of HTTP/2 there, whoever the server is.
    for (target, path) in documentation.targets.iter().step_by(20) {
        let url = format!("{}{target}", documentation.plain);
        let output = Command::new("curl").args(["-sS", "--fail", "--http2-prior-knowledge", &url]).output();
        assert!(output.unwrap().stdout == fs::read(path).unwrap(), "{target} in the clear");
    }
}

#[test]
fn nghttp_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    for origin in [&documentation.secured, &documentation.plain] {
        let urls: Vec<_> =
            documentation.targets.iter().map(|(target, _)| format!("{origin}{target}")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let before = documentation.connections();
        let flags = ["--no-verify-peer", "--null-out", "--stat"];
        let statistics = said("nghttp", &[&flags[..], &urls].concat());
        let loaded = statistics.lines().filter(|line| line.split_whitespace().any(|word| word == "200"));
        assert_eq!(loaded.count(), urls.len(), "{statistics}");
        assert_eq!(documentation.connections() - before, 1);
        // It writes whole answers only where it is asked for one.
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
    let arguments = ["tests/outside/http2.py", &documentation.secured, documentation.list()];
    documentation.is_loaded_by(python().to_str().unwrap(), &arguments, 3);
}

#[test]
fn node_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    for origin in [&documentation.secured, &documentation.plain] {
        documentation.is_loaded_by("node", &["tests/outside/http2.mjs", origin, documentation.list()], 3);
    }
}

#[test]
fn go_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let program = documentation.place.path().join("http2");
    let program = program.to_str().unwrap();
    said("go", &["build", "-o", program, "tests/outside/http2.go"]);
    documentation.is_loaded_by(program, &[&documentation.secured, documentation.list()], 2);
}

#[test]
fn java_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let flags = ["-Djdk.internal.httpclient.disableHostnameVerification", "tests/outside/Http2.java"];
    let arguments = [&flags[..], &[&documentation.secured, documentation.list()]].concat();
    documentation.is_loaded_by("java", &arguments, 1);
}

#[test]
fn chromium_loads_the_documentation_over_http2() {
    let Some(documentation) = Documentation::open() else { return };
    let pages = ["/", "/library/os.html", "/library/asyncio", "/tutorial"];
    let arguments = ["tests/outside/http2_pages.mjs", &documentation.secured, documentation.list()];
    let said = said("node", &[&arguments[..], &pages].concat());
    assert_eq!(said.trim(), format!("compared {}", documentation.targets.len()));
}

/// A picture without compression, that takes so many octets (the bitmap of old).
fn picture(side: u32) -> Vec<u8> {
    let pixels = noise(usize::try_from(side * side * 3).unwrap());
    let length = u32::try_from(pixels.len()).unwrap();
    let numbers = [length + 54, 0, 54, 40, side, side, 1 | 24 << 16, 0, length, 0, 0, 0, 0];
    [b"BM".as_slice(), &numbers.map(u32::to_le_bytes).concat(), &pixels].concat()
}

#[test]
fn chromium_gets_the_style_before_the_pictures_that_it_asked_for_first() {
    if skip_outside() {
        return;
    }
    // Each is larger than what may be under way, and so have left, before the style is asked for.
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

    let (host, port) = server.secured_address().rsplit_once(':').unwrap();
    // A busy browser may ask for the first picture long before it asks for the rest. What has left by then says nothing
    // of the server, which cannot overtake it; one that prefers nothing would never be seen to.
    const TRIES: usize = 5;
    let mut why = String::new();
    for _ in 0..TRIES {
        let said = said("node", &["tests/outside/waterfall.mjs", host, port, "/", "/style.css"]);
        let loads: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
        assert!(loads.iter().all(|load| load[1] == "h2"), "{said}");
        let place = |name: &str| loads.iter().position(|load| load[0] == name).expect(name);
        let (style, number) = (&loads[place("/style.css")], |text: &str| text.parse::<usize>().unwrap());
        let pictures: Vec<_> = names.iter().map(|name| place(&format!("/{name}"))).collect();
        let is_asked_last = pictures.iter().all(|&picture| number(loads[picture][3]) < number(style[3]));
        assert!(is_asked_last, "the pictures were asked for first: {said}");
        let is_whole_first = pictures.iter().all(|&picture| picture > place("/style.css"));
        // What had left before the style was asked for cannot be overtaken; most of it had not.
        if is_whole_first && number(style[5]) < PICTURES * picture.len() / 2 {
            return;
        }
        why = said;
    }
    panic!("the style never came before the pictures: {why}");
}
