//! Logs that are slow, full or unread, which must not affect the server.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use cannery_testkit::http2::Client;

use crate::harness::{Server, parse, request_at, server_command, wait_until};

/// Starts a server that logs to a pipe that no process reads, and causes more lines than the pipe and all buffers hold.
fn stuck() -> (Server, String) {
    let mut command = server_command();
    command.args(["--dummy", "--access-log", "-", "--threads", "1", "--bind", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0"]).stdout(Stdio::piped());
    let server = Server::run(command);
    let admin = server.read_admin_address();
    let request = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "0123456789".repeat(100));
    let requests = request.repeat(100);
    let mut stream = server.connect();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n";
    let mut received = vec![0; answer.len() * 100];
    while dropped(&admin) == 0 {
        stream.write_all(requests.as_bytes()).unwrap();
        stream.read_exact(&mut received).unwrap();
    }
    (server, admin)
}

fn dropped(admin: &str) -> usize {
    let metrics = String::from_utf8(request_at(admin, "GET", "/metrics", "").body).unwrap();
    let value = metrics.lines().find_map(|line| line.strip_prefix("cannery_log_lines_dropped_total "));
    value.unwrap().parse().unwrap()
}

/// The shutdown waited for the last lines without a limit, and the thread that handles signals waited for space in a queue.
#[test]
fn unread_log_delays_neither_signals_nor_shutdown() {
    let (mut server, admin) = stuck();
    let pid = server.pid().to_string();
    let script = "i=0; while [ $i -lt 100 ]; do kill -USR1 $0; i=$((i+1)); done";
    assert!(Command::new("sh").args(["-c", script, &pid]).status().unwrap().success());
    assert_eq!(request_at(&admin, "GET", "/ready", "").status, 200);
    server.signal("TERM");
    server.await_line("access log takes no more lines");
    assert_eq!(server.await_end(), Some(0));
}

/// A thread that printed a message waited for the reader of standard error. In addition, the kernel delivered SIGTERM to a
/// worker thread while other signals were pending, and it was lost.
#[test]
fn unread_standard_error_does_not_delay_signals() {
    let mut command = server_command();
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--threads", "1"]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut printed = String::new();
    while !printed.contains("listening at") {
        let mut bytes = [0; 1024];
        let count = stderr.read(&mut bytes).unwrap();
        printed.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    // Each of these signals causes a line on standard error, and a pipe buffers 64 KiB.
    let script = "i=0; while [ $i -lt 1500 ]; do kill -USR2 $0; i=$((i+1)); done; kill -TERM $0";
    assert!(Command::new("sh").args(["-c", script, &child.id().to_string()]).status().unwrap().success());
    wait_until("the server ends", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        stat.contains(") Z ")
    });
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stderr);
}

/// Lost lines were not counted, and the next line was appended to a truncated one.
#[test]
fn full_disk_loses_whole_lines_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    // A file size limit truncates a write as a full disk does.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cannery-server"), "--dummy", "--access-log"]).arg(&log);
    command.args(["--threads", "1", "--bind", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let server = Server::run(command);
    let admin = server.read_admin_address();
    let lines = || fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();

    for number in 0..20 {
        server.get(&format!("/{number}"));
    }
    wait_until("all lines are written or counted", || lines().len() + dropped(&admin) == 20);
    assert!(dropped(&admin) > 0 && !lines().is_empty());
    assert!(fs::read(&log).unwrap().ends_with(b"\n"));
    server.await_line("access log cannot be written");

    fs::File::create(&log).unwrap();
    server.get("/again");
    wait_until("there is room again", || lines().len() == 1);
    assert_eq!(server.stop(), Some(0));
    let line = &lines()[0];
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("GET /again "), "{line}");
}

/// The bytes of a request, the status of its response, and the request line in the log.
type Rejected = (Vec<u8>, u16, String);

/// A target longer than the limit.
const LONG_TARGET_BYTES: usize = 9000;
/// The longest target that is accepted.
const TARGET_BYTES_MAX: usize = 8192;

fn rejected_over_http1() -> Vec<Rejected> {
    let long = format!("/{}", "x".repeat(LONG_TARGET_BYTES));
    let fields = "A: b\r\n".repeat(1000);

    let requests = [
        ("GET /field HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n".to_owned(), 400, "GET /field HTTP/1.1"),
        ("GET /\u{e9}\"\\ HTTP/1.0\r\nHost: a b\r\n\r\n".to_owned(), 400, r"GET /\xC3\xA9\x22\x5C HTTP/1.0"),
        ("HEAD /head HTTP/1.1\r\n\r\n".to_owned(), 400, "HEAD /head HTTP/1.1"),
        ("GET /version HTTP/3.0\r\nHost: h\r\n\r\n".to_owned(), 505, "GET /version"),
        (
            format!("GET {long} HTTP/1.1\r\nHost: h\r\n\r\n"),
            414,
            &format!("GET {} HTTP/1.1", &long[..TARGET_BYTES_MAX]),
        ),
        (format!("GET /fields HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), 431, "GET /fields HTTP/1.1"),
        ("GET /e HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n".to_owned(), 417, "GET /e HTTP/1.1"),
        (
            "POST /chunk HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n".to_owned(),
            400,
            "POST /chunk HTTP/1.1",
        ),
        ("nonsense\r\n\r\n".to_owned(), 400, "-"),
        // The rest of the head is never sent.
        ("GET /slow?q HTTP/1.1\r\nHost: h".to_owned(), 408, "GET /slow?q HTTP/1.1"),
    ];
    requests.map(|(request, status, line)| (request.into_bytes(), status, line.to_owned())).into()
}

/// Header fields of a request over HTTP/2.
type RequestFields = Vec<(String, String)>;

/// Returns requests over HTTP/2, the status of the response, and the target.
fn rejected_over_http2() -> Vec<(RequestFields, u16, String)> {
    let request = |target: &str, more: &[(&str, &str)]| -> RequestFields {
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", target)];
        fields.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let long = format!("/{}", "x".repeat(LONG_TARGET_BYTES));
    vec![
        (request("/e", &[("expect", "x")]), 417, "/e".to_owned()),
        (request("/host", &[("host", "other")]), 400, "/host".to_owned()),
        (request("/fields", &[("a", "b"); 200]), 431, "/fields".to_owned()),
        (request(&long, &[]), 414, long[..TARGET_BYTES_MAX].to_owned()),
    ]
}

/// Sends all rejected requests. Returns the lines of the log, and for each the expected request line, status, and content
/// length.
fn log_of_rejected(folder: &Path, format: &str) -> (Vec<String>, Vec<(String, u16, usize)>) {
    let log = folder.join(format);
    let flags = ["--dummy", "--access-log", log.to_str().unwrap(), "--access-log-format", format];
    let server = Server::start(&flags);
    let mut expected = Vec::new();
    for (request, status, line) in rejected_over_http1() {
        let received = server.raw(&request);
        let (response, rest) = parse(&received, if request.starts_with(b"HEAD") { "HEAD" } else { "GET" });
        assert_eq!((response.status, rest.len()), (status, 0), "{line}");
        expected.push((line, status, response.body.len()));
    }
    let mut connection = Client::new(server.connect());
    for (fields, status, target) in rejected_over_http2() {
        let response = connection.request(&fields).unwrap();
        assert_eq!(response.status, status, "{target}");
        expected.push((format!("GET {target} HTTP/2.0"), status, response.body.len()));
    }
    assert_eq!(server.stop(), Some(0));
    (fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect(), expected)
}

/// The lines of all rejected requests contained `"-" 400 0`.
#[test]
fn rejected_requests_are_logged_with_request_line_and_length() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, expected) = log_of_rejected(folder.path(), "combined");
    assert_eq!(lines.len(), expected.len());
    for (request, status, bytes) in expected {
        let words = format!("] \"{request}\" {status} {bytes} ");
        assert!(lines.iter().any(|line| line.contains(&words)), "{words} in {lines:#?}");
        assert_eq!(bytes == 0, request.starts_with("HEAD"), "{words}");
    }
}

#[test]
fn rejected_requests_are_logged_as_json_with_request_line_and_length() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, expected) = log_of_rejected(folder.path(), "json");
    let lines: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();

    assert_eq!(lines.len(), expected.len());
    for (request, status, bytes) in expected {
        let is_it = |line: &&serde_json::Value| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            // Each format escapes bytes in its own way.
            let target = text("target").replace('\u{e9}', r"\xC3\xA9").replace("\"\\", r"\x22\x5C");
            let version = line["version"].as_str().map(|version| format!(" HTTP/{version}"));
            let of_line = format!("{} {target}{}", text("method"), version.unwrap_or_default());
            (line["method"].is_null() && request == "-" || of_line == request)
                && line["status"] == status
                && line["bytes"] == bytes
        };
        assert!(lines.iter().any(|line| is_it(&line)), "{request} {status} {bytes} in {lines:#?}");
    }

    let over_http2 = lines.iter().filter(|line| line["version"] == "2.0" && line["host"].is_string()).count();
    assert_eq!(over_http2, 4, "{lines:#?}");
}
