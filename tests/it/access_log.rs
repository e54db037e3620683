//! The access log: one line per request, escaped, and written without delaying responses.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{Server, compile, pages, server_command, wait_until, write_folder};

struct Logged {
    server: Server,
    folder: tempfile::TempDir,
}

impl Logged {
    fn start(flags: &[&str]) -> Logged {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        fs::create_dir(&source).unwrap();
        write_folder(&source, &pages(&[("a.txt", "content"), ("404.html", "none")]));
        let archive = folder.path().join("site.cdb");
        compile(&source, &archive, &[]);
        let log = folder.path().join("access.log");
        let named = ["--archive", archive.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
        Logged { server: Server::start(&[&named, flags].concat()), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Stops the server and reads the log, which is complete then.
    fn finish(self) -> Vec<String> {
        let path = self.path("access.log");
        assert_eq!(self.server.stop(), Some(0));
        lines(&path)
    }
}

fn lines(path: &Path) -> Vec<String> {
    String::from_utf8(fs::read(path).unwrap()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn combined_format_has_a_line_per_request() {
    let logged = Logged::start(&[]);
    logged.server.request("GET", "/a.txt?q=1", "Referer: http://r/\r\nUser-Agent: t\"e\\s\u{e9}\r\n");
    logged.server.request("HEAD", "/a.txt", "");
    logged.server.get("/nothing");
    logged.server.raw(b"nonsense\r\n\r\n");
    let lines = logged.finish();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    // Two threads serve, so the order of the lines is undefined.
    let line_with =
        |words: &str| lines.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{lines:#?}"));
    let (start, rest) = line_with("q=1").split_once(" [").unwrap();
    assert_eq!(start, "127.0.0.1 - -");
    let (time, rest) = rest.split_once("] ").unwrap();
    assert!(time.ends_with(" +0000") && time.len() == "06/Nov/1994:08:49:37 +0000".len(), "{time}");
    assert_eq!(rest, r#""GET /a.txt?q=1 HTTP/1.1" 200 7 "http://r/" "t\x22e\x5Cs\xC3\xA9""#);
    line_with(r#""HEAD /a.txt HTTP/1.1" 200 0 "-" "-""#);
    line_with(r#""GET /nothing HTTP/1.1" 404 4 "#);
    let rejected = line_with(r#""-" 400 "#);
    assert!(rejected.ends_with(r#" "-" "-""#) && !rejected.contains(" 400 0 "), "{rejected}");
}

#[test]
fn json_format_has_a_line_per_request() {
    let logged = Logged::start(&["--access-log-format", "json"]);
    logged.server.request("GET", "/a.txt", "User-Agent: \"caf\u{e9}\"\r\n");
    logged.server.raw(b"GET /\xff HTTP/1.0\r\n\r\n");
    logged.server.request("GET", "/a.txt", "Accept-Encoding: br\r\n");

    let lines = logged.finish();
    let mut parsed: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    parsed.sort_by_key(|line| (line["version"] == "1.0", line["user_agent"].is_null()));

    for line in &parsed {
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == "1994-11-06T08:49:37.000Z".len() && time.ends_with('Z'), "{line}");
        assert!((0.0..20.0).contains(&line["duration"].as_f64().unwrap()), "{line}");
        assert_eq!((line.get("tls"), line.get("coding")), (None, None), "{line}");
    }

    assert_eq!(parsed[0]["user_agent"], "\"caf\u{e9}\"");
    assert_eq!((&parsed[0]["status"], &parsed[0]["bytes"]), (&200.into(), &7.into()));
    assert_eq!((&parsed[0]["peer"], &parsed[0]["host"]), (&"127.0.0.1".into(), &"localhost".into()));
    let last = &parsed[2];
    assert_eq!((&last["target"], &last["version"]), (&"/\\xff".into(), &"1.0".into()));
}

#[test]
fn json_has_tls_version_and_coding() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    let text = "words to be compressed, ".repeat(100);
    write_folder(&source, &[(b"a.txt", text.as_bytes())]);
    compile(&source, &archive, &[]);
    let log = folder.path().join("log");
    let flags = ["--access-log-format", "json", "--access-log", log.to_str().unwrap()];
    let server =
        Server::start_on_all_transports(&[&["--archive", archive.to_str().unwrap()][..], &flags].concat());
    server.request("GET", "/a.txt", "Accept-Encoding: br\r\n");
    server.request("GET", "/a.txt", "");
    assert_eq!(server.stop(), Some(0));
    let lines = lines(&log);
    let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    // Five transports: three of them over TLS, two of them HTTP/2, one of them HTTP/3.
    assert_eq!((lines.len(), with("\"coding\":\"br\""), with("\"coding\"")), (10, 5, 5), "{lines:#?}");
    let versions = (with("\"version\":\"2.0\""), with("\"version\":\"3.0\""));
    assert_eq!((with("\"tls\":\"1.3\""), versions), (6, (4, 2)), "{lines:#?}");
}

#[test]
fn sigusr1_reopens_the_log() {
    let logged = Logged::start(&[]);
    logged.server.get("/a.txt");
    let log = logged.path("access.log");
    let old = logged.path("access.log.1");
    await_lines(&log, 1);
    fs::rename(&log, &old).unwrap();
    logged.server.signal("USR1");
    await_file(&log);
    logged.server.get("/nothing");
    await_lines(&log, 1);
    assert_eq!(lines(&old).len(), 1);
    assert!(logged.finish()[0].contains("/nothing"));
}

/// Waits for lines, which the server writes within about a second.
fn await_lines(path: &Path, count: usize) {
    wait_until("the log has its lines", || lines(path).len() >= count);
}

fn await_file(path: &Path) {
    wait_until("the log is open again", || path.exists());
}

#[test]
fn unwritable_log_is_reported_once() {
    let logged = Logged::start(&[]);
    let log = logged.path("access.log");
    fs::rename(&log, logged.path("old")).unwrap();
    fs::create_dir(&log).unwrap();
    logged.server.signal("USR1");
    let line = logged.server.await_line("access log cannot be written");
    assert!(line.contains("directory"), "{line}");
    assert_eq!(logged.server.get("/a.txt").status, 200);
    fs::remove_dir(&log).unwrap();
    logged.server.signal("USR1");
    logged.server.await_line("written again");
    await_file(&log);
    logged.server.get("/a.txt");
    wait_until("both requests are logged", || lines(&log).len() + lines(&logged.path("old")).len() == 2);
    assert!(!logged.finish().is_empty());
}

#[test]
fn log_that_cannot_be_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::harness::run(
        "cannery-server",
        &["--dummy", "--access-log", folder.path().to_str().unwrap(), "--bind", "127.0.0.1:0"],
    );
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the access log"));
}

#[test]
fn unread_log_pipe_never_blocks_a_worker() {
    // Standard output is a pipe that is not read.
    let mut command = server_command();
    command.args(["--dummy", "--access-log", "-", "--threads", "1", "--bind", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0"]).stdout(Stdio::piped());

    let server = Server::run(command);
    let request = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "0123456789".repeat(100));
    let requests = request.repeat(100);
    let mut stream = server.connect();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n";
    let mut received = vec![0; answer.len() * 100];

    // Far more than the pipe and the log's buffers can hold.
    for _ in 0..300 {
        stream.write_all(requests.as_bytes()).unwrap();
        stream.read_exact(&mut received).unwrap();
    }

    let admin = server.read_admin_address();
    wait_until("lines are dropped", || {
        let metrics = crate::harness::request_at(&admin, "GET", "/metrics", "").body;
        let metrics = String::from_utf8(metrics).unwrap();
        let line = metrics.lines().find(|line| line.starts_with("cannery_log_lines_dropped_total ")).unwrap();
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap() > 0
    });
}
