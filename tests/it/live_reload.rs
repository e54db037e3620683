//! `cannery serve`: pages in browsers follow the folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use serde_json::Value;

use crate::harness::{TIMEOUT, request_at, skip_outside};

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
        Some(url.trim_start_matches("http://").trim_end_matches('/').to_owned())
    });
    (child, address.expect("the server listens"))
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
