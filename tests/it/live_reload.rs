//! `cannery serve`: pages in browsers follow the folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::harness::{TIMEOUT, request_at, skip_outside, wait_until};

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
        fs::write(self.folder.path().join(name), content).unwrap();
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
    live.write("page.html", "<body>page</BODY>");
    live.write("b.txt", "</body>");
    assert_eq!(live.get("/"), format!("<h1>0</h1>{SCRIPT}"));
    assert_eq!(live.get("/page"), format!("<body>page{SCRIPT}</BODY>"));
    assert_eq!(live.get("/b.txt"), "</body>");

    for flag in ["--no-live-reload", "--production", "--no-follow"] {
        let live = Live::start(&[flag]);
        assert_eq!(live.get("/"), "<h1>0</h1>", "{flag}");
        assert_eq!(request_at(&live.address, "GET", "/__/cannery/live.js", "").status, 404, "{flag}");
    }
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
    assert_eq!(live.get("/"), format!("<h1>0</h1>{SCRIPT}"));
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
    wait_until("changed", || request_at(terminal.address(), "GET", "/", "").body.starts_with(b"changed"));
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
