//! Memory that clients pin by not reading.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpStream;

use crate::harness::{Server, compile, pages, wait_until, write_folder};

/// Serves a site with pages that are copied when they are sent.
fn start(folder: &std::path::Path, flags: &[&str]) -> Server {
    let source = folder.join("site");
    let archive = folder.join("site.cdb");
    let page = "content ".repeat(500);
    write_folder(&source, &pages(&[("a.txt", page.leak())]));
    compile(&source, &archive, &["--compress", "identity"]);
    Server::start(&[&["--archive", archive.to_str().unwrap()], flags].concat())
}

/// Pipelines requests on `count` connections until the server stops reading, and reads no response.
fn pipeline(server: &Server, count: usize) -> Vec<TcpStream> {
    let requests = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4000);
    let connect = |_| {
        let mut stream = server.connect();
        stream.set_nonblocking(true).unwrap();
        // Stops when the socket buffers are full.
        let _ = stream.write(requests.as_bytes());
        stream
    };
    (0..count).map(connect).collect()
}

/// Returns a value of `/proc/PID/status`, in KiB.
fn kibibytes(server: &Server, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// The process aborted and closed all connections. This lasted longer with `--io io_uring`, because bytes that the ring
/// had received for clients that don't read were not counted.
#[test]
fn memory_limit_sheds_only_slow_readers() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--limit-memory", "64", "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    let mut slow = pipeline(&server, 500);
    let is_shed = || {
        let metrics = crate::harness::request_at(&admin, "GET", "/metrics", "").body;
        let metrics = String::from_utf8(metrics).unwrap();
        let counted = metrics.lines().find_map(|line| line.split_once("how=\"shed\"} "));
        counted.unwrap().1.parse::<u64>().unwrap() > 0
    };
    wait_until("some are shed", is_shed);
    for _ in 0..20 {
        assert_eq!(server.get("/a.txt").body.len(), 4000);
    }
    slow.extend(pipeline(&server, 200));
    assert_eq!(server.get("/a.txt").body.len(), 4000);
    drop(slow);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn memory_of_slow_readers_is_returned_to_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    assert_eq!(server.get("/a.txt").body.len(), 4000);
    let before = kibibytes(&server, "VmRSS");
    let slow = pipeline(&server, 500);
    wait_until("it keeps much", || kibibytes(&server, "VmRSS") > before + 40 * 1024);
    drop(slow);
    wait_until("it returns most of it", || kibibytes(&server, "VmRSS") < before + 16 * 1024);
}

/// The limit left no memory for a copy, and the next request ended the process by SIGBUS.
#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has leases")]
fn mapped_archive_above_the_memory_limit_survives_truncation() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &[(b"large.bin", &vec![7; 96 << 20])]);
    compile(&source, &archive, &["--compress", "identity"]);
    let server = Server::start(&["--archive", archive.to_str().unwrap(), "--limit-memory", "64"]);
    let tail = |server: &Server| server.request("GET", "/large.bin", "Range: bytes=-2\r\n").body;
    assert_eq!(tail(&server), [7, 7]);
    OpenOptions::new().write(true).open(&archive).unwrap().set_len(0).unwrap();
    server.await_line("this file is being modified");
    assert_eq!(tail(&server), [7, 7]);
    assert_eq!(server.request("GET", "/large.bin", "Range: bytes=0-1\r\n").body, [7, 7]);
    assert_eq!(server.stop(), Some(0));
}
