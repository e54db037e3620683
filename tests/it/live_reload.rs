//! `cannery serve`: pages in browsers follow the folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use cannery_testkit::{Response, http1, http2, http3};
use serde_json::Value;

use crate::harness::{TIMEOUT, request_at, skip_outside, wait_until};
use crate::transports::{connect, connect_tls};

const SCRIPT: &str = "<script src=\"/__/cannery/live.js\" defer></script>";

/// A folder that is served and edited.
struct Live {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Live {
    fn start(flags: &[&str]) -> Live {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("index.html"), "<h1>0</h1>").unwrap();
        fs::write(folder.path().join("a.css"), "a{}").unwrap();
        let (child, address) = serve(folder.path(), "127.0.0.1:0", flags);
        Live { child, address, folder }
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn get(&self, target: &str) -> String {
        let response = request_at(&self.address, "GET", target, "");
        assert_eq!(response.status, 200, "{target}");
        String::from_utf8(response.body).unwrap()
    }

    /// Returns the state that a page which is loaded now shows.
    fn state(&self) -> String {
        let script = self.get("/__/cannery/live.js");
        script.split("let state = \"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    /// Returns what a page with this query is to do. Waits if there is nothing.
    fn instruction(&self, query: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/__/cannery/live?{query}"))).unwrap()
    }
}

fn serve(folder: &Path, address: &str, flags: &[&str]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    command.arg("serve").arg(folder).args(["--json", "--threads", "2", "--bind", address]).args(flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, lines) = channel();
    std::thread::spawn(move || output.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let address = std::iter::repeat_with(|| lines.recv_timeout(TIMEOUT).unwrap()).find_map(|line| {
        let event: Value = serde_json::from_str(&line).unwrap();
        let url = event["url"].as_str()?;
        Some(url.split("//").nth(1)?.trim_end_matches('/').to_owned())
    });
    (child, address.expect("the server listens"))
}

/// `cannery serve` as a person runs it in a terminal.
struct Terminal {
    child: Child,
    url: String,
    /// Lines of standard error.
    lines: Receiver<String>,
}

impl Terminal {
    fn start(folder: &Path, configure: impl FnOnce(&mut Command)) -> Terminal {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.arg("serve").arg(folder).args(["--threads", "2", "--bind", "127.0.0.1:0"]);
        configure(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, lines) = channel();
        std::thread::spawn(move || errors.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let url = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        Terminal { child, url, lines }
    }

    fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches('/')
    }

    fn next_line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).unwrap()
    }

    /// Waits for a line with this text, and returns it.
    fn await_line(&self, text: &str) -> String {
        std::iter::repeat_with(|| self.next_line()).find(|line| line.contains(text)).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn stop(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

impl Drop for Live {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

#[test]
fn pages_have_the_script_and_nothing_else_does() {
    let live = Live::start(&[]);
    live.write("page.html", "<!DOCTYPE html><title>t</title><iframe srcdoc='<body></body>'></iframe>");
    live.write("b.txt", "</body>");
    assert_eq!(live.get("/"), format!("{SCRIPT}<h1>0</h1>"));
    let page = format!("<!DOCTYPE html>{SCRIPT}<title>t</title><iframe srcdoc='<body></body>'></iframe>");
    assert_eq!(live.get("/page"), page);
    assert_eq!(live.get("/b.txt"), "</body>");

    for flag in ["--no-live-reload", "--production", "--no-follow"] {
        let live = Live::start(&[flag]);
        assert_eq!(live.get("/"), "<h1>0</h1>", "{flag}");
        assert_eq!(request_at(&live.address, "GET", "/__/cannery/live.js", "").status, 404, "{flag}");
    }
}

/// Fetched fragments had the script too, and each copy kept a connection of the browser.
#[test]
fn only_documents_have_the_script() {
    let live = Live::start(&[]);
    live.write("fragment.html", "<li>one</li>");
    let get = |target, lines: &str| request_at(&live.address, "GET", target, lines);
    let with_script = format!("{SCRIPT}<li>one</li>");
    for document in ["document", "iframe", "frame"] {
        let page = get("/fragment", &format!("Sec-Fetch-Dest: {document}\r\nAccept: */*\r\n"));
        assert_eq!(page.body, with_script.as_bytes(), "{document}");
    }
    for field in ["Accept: text/html,*/*;q=0.8", "Sec-Fetch-Dest: empty\r\nSec-Purpose: prefetch"] {
        assert_eq!(get("/fragment", &format!("{field}\r\n")).body, with_script.as_bytes(), "{field}");
    }

    let mut tag = None;
    for lines in [
        "Sec-Fetch-Dest: empty",
        "Sec-Fetch-Dest: empty\r\nAccept: text/html",
        "Sec-Fetch-Dest: object",
        "Accept: */*",
        "Accept: text/html, */*\r\nX-Requested-With: XMLHttpRequest",
        "Accept: text/html, */*\r\nHX-Request: true",
    ] {
        let fragment = get("/fragment", &format!("{lines}\r\n"));
        assert_eq!(fragment.body, b"<li>one</li>", "{lines}");
        assert_eq!(fragment.field("Content-Length"), Some("12"), "{lines}");
        assert!(fragment.field("Vary").unwrap().contains("Sec-Fetch-Dest"), "{lines}");
        // RFC 9110 §9.3.2: `HEAD` has the same fields.
        for condition in ["", "If-None-Match: \"other\"\r\n", "Range: bytes=0-1\r\n"] {
            let lines = format!("{lines}\r\n{condition}");
            let head = request_at(&live.address, "HEAD", "/fragment", &lines);
            assert_eq!(head.status, 200, "{lines}");
            for name in ["Vary", "ETag", "Content-Length", "Content-Type", "Cache-Control"] {
                assert_eq!(head.field(name), fragment.field(name), "{lines}: {name}");
            }
        }
        tag = fragment.field("ETag").map(str::to_owned);
    }

    // A document that is revalidated with the tag of the fragment is sent whole, and neither compressed nor as a part.
    let lines = format!("If-None-Match: {}\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\n", tag.unwrap());
    let document = get("/fragment", &format!("Sec-Fetch-Dest: document\r\n{lines}"));
    assert_eq!((document.status, &document.body[..]), (200, with_script.as_bytes()));
    assert_eq!((document.field("ETag"), document.field("Content-Encoding")), (None, None));
    assert_eq!(document.field("Cache-Control"), Some("no-cache"));
    assert_eq!(get("/fragment", &format!("Sec-Fetch-Dest: empty\r\n{lines}")).status, 304);
    let head = request_at(&live.address, "HEAD", "/fragment", "Sec-Fetch-Dest: document\r\n");
    assert_eq!(head.field("Content-Length"), Some(with_script.len().to_string().as_str()));

    // Other files have no script, and no body for HEAD either. The next response would come after it.
    live.write("folder/index.html", "page");
    wait_until("the folder is served", || request_at(&live.address, "GET", "/folder/", "").status == 200);
    for (target, status) in [("/a.css", 200), ("/folder", 308), ("/missing.css", 404)] {
        let mut client = http1::Client::new(connect(&live.address));
        let mut request = |method: &str, target: &str| {
            let lines = "Host: localhost\r\nSec-Fetch-Dest: document";
            client
                .request(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n\r\n").as_bytes(), method)
                .unwrap()
        };
        assert_eq!(request("HEAD", target).status, status, "{target}");
        assert_eq!(request("GET", "/fragment").body, with_script.as_bytes(), "{target}");
    }
}

#[test]
fn script_is_in_the_encoding_and_of_the_origin_of_the_page() {
    let live = Live::start(&["--compress", "gzip"]);
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    fs::write(live.folder.path().join("utf16.html"), utf16("\u{feff}<p>ä</body>")).unwrap();
    // Its encoding isn't UTF-8, so the script follows the declaration.
    let base = b"<base href=https://other.example/><meta charset=iso-8859-1>".to_vec();
    fs::write(live.folder.path().join("base.html"), [&base[..], b"\xe4"].concat()).unwrap();
    live.write("a.xhtml", "<html xmlns=\"http://www.w3.org/1999/xhtml\"><body/></html>");
    let get = |target| request_at(&live.address, "GET", target, "Sec-Fetch-Dest: document\r\n").body;
    assert_eq!(get("/utf16"), utf16(&format!("\u{feff}{SCRIPT}<p>ä</body>")));
    let script = format!("<script src=\"http://{}/__/cannery/live.js\" defer></script>", live.address);
    assert_eq!(get("/base"), [&base[..], script.as_bytes(), b"\xe4"].concat());
    assert!(get("/a.xhtml").ends_with(b"<body/></html>"));
}

/// They showed no warnings, and the page that was missing did not appear once it was there.
#[test]
fn error_pages_and_listings_have_the_script() {
    let live = Live::start(&[]);
    live.write("docs/a.txt", "");
    let document = |target| request_at(&live.address, "GET", target, "Sec-Fetch-Dest: document\r\n");
    let has_script = |response: &Response| {
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(response.field("Content-Length"), Some(text.len().to_string().as_str()));
        text.contains(SCRIPT)
    };
    for (target, status) in [("/none", 404), ("/docs/", 200)] {
        let page = document(target);
        assert_eq!((page.status, has_script(&page)), (status, true), "{target}");
    }
    assert_eq!(document("/none").field("Cache-Control"), Some("no-store"));
    live.write("404.html", "<p>our own");
    let page = document("/none");
    assert_eq!((page.status, &page.body[..]), (404, format!("{SCRIPT}<p>our own").as_bytes()));
    assert_eq!(request_at(&live.address, "GET", "/none", "Sec-Fetch-Dest: empty\r\n").body, b"<p>our own");
}

/// Requests the same over each protocol, from a server without and one with TLS.
fn on_each_protocol(
    plain: &str,
    tls: &str,
    host: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Vec<Response> {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
    let list = |scheme| {
        let mut list = vec![(":method", "GET"), (":scheme", scheme), (":authority", host), (":path", target)];
        list.extend_from_slice(fields);
        list
    };
    vec![
        http1::Client::new(connect(plain)).request(request.as_bytes(), "GET").unwrap(),
        http1::Client::new(connect_tls(tls, &["http/1.1"])).request(request.as_bytes(), "GET").unwrap(),
        http2::Client::new(connect(plain)).request(&list("http")).unwrap(),
        http2::Client::new(connect_tls(tls, &["h2"])).request(&list("https")).unwrap(),
        http3::Client::connect(tls.parse().unwrap()).unwrap().request(&list("https")).unwrap(),
    ]
}

/// A page of a stranger could read the site and the names of its files, under a name of its own that leads to this machine.
#[test]
fn hosts_of_strangers_are_refused() {
    for flag in ["--json", "--production"] {
        let flags = [flag, "--allow-host", "site.test", "--allow-host", "*.tunnel.example"];
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("index.html", "home"),
            ("_hosts/named.example/index.html", "named"),
            ("_hosts/_wildcard.wild.example/index.html", "wild"),
            ("_redirects", "https://moved.example/* https://named.example/:splat 302\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let (mut child, plain) = serve(folder.path(), "127.0.0.1:0", &flags);
        let (mut tls_child, tls) = serve(folder.path(), "127.0.0.1:0", &[&flags[..], &["--tls"]].concat());
        let responses = |host: &str, target| on_each_protocol(&plain, &tls, host, target, &[]);

        let targets =
            ["/", "/none", "/__/cannery/live.js", "/__/cannery/live?1-first", "/__/heartbeat", "/_hosts/"];
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "a.wild.example",
            "site.test.evil",
        ] {
            for target in targets {
                for response in responses(host, target) {
                    let text = String::from_utf8(response.body).unwrap();
                    assert_eq!(response.status, 421, "{host} {target}");
                    assert!(text.contains("--allow-host ") && !text.contains("home"), "{text}");
                }
            }
        }
        let hosts =
            ["localhost", "LOCALHOST:1", "app.localhost", "127.0.0.1", "[::1]:80", "192.0.2.1", "site.test"];
        for host in hosts.into_iter().chain(["a.tunnel.example", "named.example", "moved.example"]) {
            for response in responses(host, "/") {
                assert!(
                    response.status == 200 || host == "moved.example" && response.status == 302,
                    "{host}"
                );
            }
        }
        for host in ["localhost.:1", "A.Localhost.", "[0:0:0:0:0:0:0:1]:80", "127.0.0.1.", "SITE.test."] {
            assert!(responses(host, "/").iter().all(|response| response.status == 200), "{host}");
        }
        // The target and `Host`, or `:authority` and `host`, name two hosts.
        for (host, other) in [("localhost", "evil.example"), ("evil.example", "localhost")] {
            let request = format!("GET http://{other}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let response = http1::Client::new(connect(&plain)).request(request.as_bytes(), "GET").unwrap();
            assert_eq!(response.status, 421, "{other}, {host}");
            for response in on_each_protocol(&plain, &tls, host, "/", &[("host", other)]) {
                assert!([400, 421].contains(&response.status), "{host}, {other}: {}", response.status);
            }
        }
        // Clients of HTTP/1.0 may name no host; browsers always do.
        let mut client = connect(&plain);
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
        for child in [&mut child, &mut tls_child] {
            stop(child);
        }
    }
}

/// A page of a stranger can request a target that is too long, and read the error page under its own host name.
#[test]
fn refused_requests_get_no_page_of_the_site() {
    let live = Live::start(&[]);

    for status in [400, 408, 414, 431] {
        live.write(&format!("{status}.html"), "a page of the site");
    }
    live.write("404.html", "a page of the site");
    wait_until("served", || {
        String::from_utf8_lossy(&request_at(&live.address, "GET", "/none", "").body).contains("a page")
    });

    let line =
        |target: &str, lines: &str| format!("GET {target} HTTP/1.1\r\nHost: evil.example\r\n{lines}\r\n");
    for (request, status) in [
        (line(&format!("/{}", "a".repeat(9000)), ""), 414),
        (line("/", &format!("Cookie: {}\r\n", "a".repeat(17_000))), 431),
        (line("/", "Two words: a\r\n"), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
    ] {
        let response = http1::Client::new(connect(&live.address)).request(request.as_bytes(), "GET").unwrap();
        assert_eq!(response.status, status);
        assert!(!String::from_utf8_lossy(&response.body).contains("a page of the site"), "{status}");
    }
}

#[test]
fn request_that_waits_is_refused_for_hosts_of_strangers() {
    let live = Live::start(&[]);
    let target = format!("/__/cannery/live?{}", live.state());
    let refused = |lines: &str| request_at(&live.address, "GET", &target, lines).status;
    assert_eq!(refused("Host: evil.example\r\n"), 421);
    assert_eq!(refused("Origin: http://evil.example\r\n"), 403);
}

#[test]
fn pages_of_other_origins_learn_nothing() {
    let (plain, tls) = (Live::start(&[]), Live::start(&["--tls"]));
    let host = "localhost:8080";
    let get = |target, fields: &[(&str, &str)]| {
        on_each_protocol(&plain.address, &tls.address, host, target, fields)
    };

    for target in ["/__/cannery/live.js", "/__/cannery/live?1-first", "/__/cannery/live"] {
        for field in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://localhost:3000"),
            ("origin", "null"),
        ] {
            for response in get(target, &[field]) {
                assert_eq!(response.status, 403, "{target} {field:?}");
            }
        }
        let own = [("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8080")];
        for fields in [&own[..], &[("sec-fetch-site", "none")], &[]] {
            for response in get(target, fields) {
                assert_eq!(response.status, 200, "{target} {fields:?}");
                assert_eq!(response.field("Cross-Origin-Resource-Policy"), Some("same-origin"));
                assert_eq!(response.field("Cache-Control"), Some("no-store"));
            }
        }
    }

    // Pages may be in frames of others, and get the script over each protocol.
    for response in get("/", &[("sec-fetch-dest", "iframe"), ("sec-fetch-site", "cross-site")]) {
        assert_eq!(response.body, format!("{SCRIPT}<h1>0</h1>").as_bytes());
    }
    for response in get("/", &[("sec-fetch-dest", "empty")]) {
        assert_eq!(response.body, b"<h1>0</h1>");
    }
}

#[test]
fn requests_of_browsers_are_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let terminal = Terminal::start(folder.path(), |_| {});
    for _ in 0..3 {
        for target in
            ["/.well-known/appspecific/com.chrome.devtools.json", "/favicon.ico", "/apple-touch-icon.png"]
        {
            assert_eq!(request_at(terminal.address(), "GET", target, "").status, 404, "{target}");
        }
    }
    assert_eq!(request_at(terminal.address(), "GET", "/last", "").status, 404);
    let mut printed = Vec::new();
    while !printed.iter().any(|line: &String| line.contains("/last")) {
        printed.extend(Some(terminal.next_line()).filter(|line| line.starts_with("404 ")));
    }
    // Each worker prints its own lines.
    let count = |target| printed.iter().filter(|line| line.contains(target)).count();
    assert_eq!(count("devtools"), 0, "{printed:?}");
    assert!(count("/favicon.ico") <= 1 && count("/apple-touch-icon") <= 1, "{printed:?}");
}

/// The line only had the status and the path.
#[test]
fn refused_host_is_printed_with_the_flag_that_permits_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let terminal = Terminal::start(folder.path(), |_| {});
    assert_eq!(request_at(terminal.address(), "GET", "/", "Host: evil.example\r\n").status, 421);
    terminal.await_line("421 GET /  (`--allow-host evil.example` would permit this host)");
}

#[test]
fn page_waits_for_a_change_and_learns_its_kind() {
    let live = Live::start(&[]);
    let state = live.state();
    let instruction = std::thread::scope(|scope| {
        let waits = scope.spawn(|| live.instruction(&state));
        live.write("a.css", "a{color:red}");
        waits.join().unwrap()
    });
    assert_eq!((&instruction["action"], &instruction["failure"]), (&"styles".into(), &Value::Null));
    assert_eq!(instruction["styles"], serde_json::json!(["a.css"]));

    let styled = instruction["state"].as_str().unwrap();
    live.write("index.html", "<h1>1</h1>");
    assert_eq!(live.instruction(styled)["action"], "reload");
    // A page that has missed both reloads too, and so does one of an earlier server.
    assert_eq!(live.instruction(&state)["action"], "reload");
    assert_eq!(live.instruction("1-1")["action"], "reload");
    assert_eq!(live.instruction(&format!("{}-first", live.state()))["action"], "nothing");
}

#[test]
fn failure_is_shown_until_it_is_fixed() {
    let live = Live::start(&[]);
    let state = live.state();
    live.write("_headers", "/*\n  Basic-Auth: a:b\n");
    let failed = live.instruction(&state);
    assert_eq!(failed["action"], "nothing");
    let diagnostic = &failed["failure"]["diagnostics"][0];
    assert_eq!((&diagnostic["file"], &diagnostic["line"]), (&"_headers".into(), &2.into()));
    assert!(diagnostic["message"].as_str().unwrap().len() > 20, "{diagnostic}");
    // The last version is served, and a page that is loaded now learns of the failure.
    assert_eq!(live.get("/"), format!("{SCRIPT}<h1>0</h1>"));
    assert!(live.instruction(&format!("{}-first", live.state()))["failure"].is_object());

    fs::remove_file(live.folder.path().join("_headers")).unwrap();
    assert_eq!(live.instruction(failed["state"].as_str().unwrap())["failure"], Value::Null);
}

#[test]
fn warnings_are_shown_until_they_are_fixed() {
    let live = Live::start(&[]);
    live.write("_redirects", "/old /new 99\n");
    // The page that is loaded now is of the build with the warning.
    live.get("/");
    let warned = live.instruction(&format!("{}-first", live.state()));
    assert_eq!((&warned["failure"], &warned["warning_count"]), (&Value::Null, &1.into()));
    let warning = &warned["warnings"][0];
    assert_eq!((&warning["file"], &warning["line"]), (&"_redirects".into(), &1.into()));
    assert!(warning["message"].as_str().unwrap().contains("use one of"), "{warning}");

    fs::remove_file(live.folder.path().join("_redirects")).unwrap();
    let fixed = live.instruction(warned["state"].as_str().unwrap());
    assert_eq!(fixed["warnings"], serde_json::json!([]));
}

#[test]
fn policies_that_block_the_script_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    write("_headers", "/sandboxed\n  Content-Security-Policy: sandbox allow-scripts\n");
    let policy = |policy| format!("<head>\n<meta http-equiv=Content-Security-Policy content=\"{policy}\">");
    write("blocked.html", &policy("default-src 'none'"));
    write("permitted.html", &policy("default-src 'self'"));
    let terminal = Terminal::start(folder.path(), |_| {});
    let rule = terminal.await_line("live-reload-blocked]");
    assert!(rule.starts_with("_headers:1: warning") && rule.contains("allow-same-origin"), "{rule}");
    // The next change leaves out no warning of a page that it doesn't concern.
    let page = terminal.await_line("live-reload-blocked-by-page]");
    assert!(page.starts_with("blocked.html:2: warning") && page.contains("--no-live-reload"), "{page}");
    write("blocked.html", &policy("connect-src *"));
    fs::remove_file(folder.path().join("_headers")).unwrap();
    terminal.await_line("no more warnings");
}

#[test]
fn service_worker_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let terminal = Terminal::start(folder.path(), |_| {});
    let request = |target, fields| request_at(terminal.address(), "GET", target, fields).status;
    assert_eq!(request("/", "Service-Worker: none\r\n"), 200);
    assert_eq!(request("/sw.js?1", "Service-Worker: script\r\n"), 404);
    assert_eq!(request("/another.js", "service-worker:script\r\n"), 404);
    let line = terminal.await_line("service worker");
    assert!(line.contains("`/sw.js?1`") && line.contains("nregister"), "{line}");
    let rest = [terminal.next_line(), terminal.next_line()];
    assert!(rest.iter().all(|line| line.starts_with("404 ")), "{rest:?}");
}

#[test]
fn quiet_terminal_has_only_errors() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    write("index.html", "home");
    write("_redirects", "/old /new 99\n");
    let terminal = Terminal::start(folder.path(), |command| {
        command.arg("-q");
    });
    assert_eq!(request_at(terminal.address(), "GET", "/none", "").status, 404);
    write("index.html", "changed");
    wait_until("changed", || request_at(terminal.address(), "GET", "/", "").body.ends_with(b"changed"));
    write("_headers", "/*\n  Basic-Auth: a:b\n");
    let line = terminal.await_line("");
    assert!(line.contains("_redirects:1: warning") || line.contains("_headers:2: error"), "{line}");
    terminal.await_line("error: 1 error in the folder");
}

#[test]
fn open_runs_the_opener_with_the_url() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("index.html"), "home").unwrap();
    let opener = folder.path().join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    fs::write(&opener, "#!/bin/sh\nprintf %s \"$*\" > \"$0.new\" && mv \"$0.new\" \"$0.opened\"\n").unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let terminal = Terminal::start(&site, |command| {
        command.arg("--open").env("PATH", path);
    });
    let opened = opener.with_extension("opened");
    wait_until("the opener runs", || opened.exists());
    assert_eq!(fs::read_to_string(opened).unwrap(), terminal.url);
}

#[test]
fn missing_opener_is_a_note() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let terminal = Terminal::start(folder.path(), |command| {
        command.arg("--open").env("PATH", folder.path());
    });
    terminal.await_line("to open the browser");
    assert_eq!(request_at(terminal.address(), "GET", "/", "").status, 200);
}

#[test]
fn browser_follows_over_tls() {
    if skip_outside() {
        return;
    }
    let live = Live::start(&["--tls"]);
    let url = format!("https://{}/", live.address);
    let mut browser = Command::new("node");
    browser.args(["tests/outside/live_reload_tls.mjs", &url]).arg(live.folder.path());
    assert!(browser.status().unwrap().success());
}

/// Eight tabs, eight frames or a few fragments took all connections of the browser.
#[test]
fn browser_follows_in_many_documents() {
    if skip_outside() {
        return;
    }
    let live = Live::start(&[]);
    let mut browser = Command::new("node");
    browser.args(["tests/outside/live_reload_shared.mjs", &format!("http://{}/", live.address)]);
    assert!(browser.arg(live.folder.path()).status().unwrap().success());
}

/// At an address of the network without TLS, browsers have neither locks nor `Sec-Fetch-Dest`.
#[test]
fn browser_follows_in_an_insecure_context() {
    if skip_outside() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "<h1>0</h1>").unwrap();
    // Chromium is told that this name is the loopback address.
    let (child, address) = serve(folder.path(), "127.0.0.1:0", &["--allow-host", "site.test"]);
    let live = Live { child, address, folder };
    let port = live.address.rsplit(':').next().unwrap();
    let mut browser = Command::new("node");
    browser.args(["tests/outside/live_reload_shared.mjs", &format!("http://site.test:{port}/")]);
    assert!(browser.arg(live.folder.path()).arg("insecure").status().unwrap().success());
}

#[test]
fn browser_follows_the_folder() {
    if skip_outside() {
        return;
    }
    let mut live = Live::start(&[]);
    let url = format!("http://{}/", live.address);
    let mut browser = Command::new("node");
    browser.args(["tests/outside/live_reload.mjs", &url]).arg(live.folder.path());
    let mut browser = browser.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(browser.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("restart"));
    stop(&mut live.child);
    let (child, _) = serve(live.folder.path(), &live.address, &[]);
    live.child = child;
    browser.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(browser.wait().unwrap().success());
}
