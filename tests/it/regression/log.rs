//! A log that is slow, full or not read affects nothing but itself.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::harness::{Server, request_at, server_command, wait_until};

/// A server whose access log is a pipe that no process reads, with more lines than the pipe and all buffers hold.
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

/// The last lines were waited for without bound, and the thread that hears signals waited for room in a queue.
#[test]
fn unread_log_delays_neither_signals_nor_the_end() {
    let (mut server, admin) = stuck();
    let pid = server.pid().to_string();
    let script = "i=0; while [ $i -lt 100 ]; do kill -USR1 $0; i=$((i+1)); done";
    assert!(Command::new("sh").args(["-c", script, &pid]).status().unwrap().success());
    assert_eq!(request_at(&admin, "GET", "/ready", "").status, 200);
    server.signal("TERM");
    server.await_line("access log takes no more lines");
    assert_eq!(server.await_end(), Some(0));
}

/// A thread that had something to say waited for the reader of standard error. Besides, the kernel had a worker handle
/// SIGTERM while other signals were pending, and no thread noticed it.
#[test]
fn unread_standard_error_does_not_delay_signals() {
    let mut command = server_command();
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--threads", "1"]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut said = String::new();
    while !said.contains("listening at") {
        let mut bytes = [0; 1024];
        let count = stderr.read(&mut bytes).unwrap();
        said.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    // Each of these signals has a line on standard error, and a pipe has room for 64 KiB.
    let script = "i=0; while [ $i -lt 1500 ]; do kill -USR2 $0; i=$((i+1)); done; kill -TERM $0";
    assert!(Command::new("sh").args(["-c", script, &child.id().to_string()]).status().unwrap().success());
    wait_until("the server ends", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        stat.contains(") Z ")
    });
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stderr);
}

/// Lost lines were not counted, and the next line was joined to one that had been cut.
#[test]
fn full_disk_loses_whole_lines_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    // A limit of the size of files ends a write where a full disk would.
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
