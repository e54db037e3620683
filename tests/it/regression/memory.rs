//! Memory that clients pin by not reading.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use cannery_testkit::http1;
use cannery_testkit::http3::{Client, Forgery, Level, Options};

use crate::harness::{
    QUIC_FLAGS, Server, TLS_FLAGS, compile, pages, server_command, wait_until, write_folder,
};

/// Returns the archive of a site with a page that is copied when it is sent.
pub(super) fn compile_pages(folder: &Path) -> PathBuf {
    let source = folder.join("site");
    let archive = folder.join("site.cdb");
    let page = "content ".repeat(500);
    write_folder(&source, &pages(&[("a.txt", page.leak())]));
    compile(&source, &archive, &["--compress", "identity"]);
    archive
}

/// Serves this site.
fn start(folder: &Path, flags: &[&str]) -> Server {
    let archive = compile_pages(folder);
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
pub(super) fn kibibytes(server: &Server, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the number of connections that were closed for their memory.
pub(super) fn shed(admin: &str) -> u64 {
    let metrics = crate::harness::request_at(admin, "GET", "/metrics", "").body;
    let metrics = String::from_utf8(metrics).unwrap();
    let counted = metrics.lines().find_map(|line| line.split_once("how=\"shed\"} "));
    counted.unwrap().1.parse().unwrap()
}

/// The process aborted and closed all connections. This lasted longer with `--io io_uring`, because bytes that the ring
/// had received for clients that don't read were not counted.
#[test]
fn memory_limit_sheds_only_slow_readers() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--limit-memory", "64", "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    let mut slow = pipeline(&server, 500);
    wait_until("some are shed", || shed(&admin) > 0);
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

/// Returns an HTTP/2 connection preface, and requests whose fields fill the dynamic table of the server (RFC 7541 §4).
fn requests_that_fill_the_table() -> Vec<u8> {
    let string = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
    // GET, http, `/a.txt` and `h`, which the table doesn't keep.
    let mut block = b"\x82\x86".to_vec();
    block.extend([b"\x04".to_vec(), string(b"/a.txt"), b"\x01".to_vec(), string(b"h")].concat());
    for number in 0..30_u32 {
        block.push(0x40);
        block.extend(string(format!("x{number}").as_bytes()));
        block.extend(string(&[b'v'; 90]));
    }
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let requests = (0..20).flat_map(|number| frame(1, 5, 1 + 2 * number, &block));
    [begin.to_vec(), frame(4, 0, 0, &[])].concat().into_iter().chain(requests).collect()
}

/// The tables of HPACK were counted with a third of the memory that clients could make them take, and the process aborted.
#[test]
fn memory_limit_counts_the_tables_of_http2() {
    let folder = tempfile::tempdir().unwrap();
    let archive = compile_pages(folder.path());
    let mut command = server_command();
    command.args(["--archive", archive.to_str().unwrap(), "--bind", "127.0.0.1:0", "--threads", "1"]);
    let server = Server::run({
        command.args(["--limit-memory", "20"]);
        command
    });

    let requests = requests_that_fill_the_table();
    let mut idle = Vec::new();
    for _ in 0..1800 {
        // While memory is scarce, the server accepts no connection.
        let mut stream = server.connect();
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(&requests);
        idle.push(stream);
    }

    drop(idle);
    wait_until("memory is free", || server.get("/a.txt").body.len() == 4000);
    assert_eq!(server.stop(), Some(0));
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

/// Sends frames, each in a packet of its own. Returns the connection, unless it has ended.
fn pin(address: SocketAddr, frames: impl Iterator<Item = Vec<u8>>) -> Option<Client> {
    pin_with(address, Options::default(), frames)
}

/// Does the same with these options.
pub(super) fn pin_with(
    address: SocketAddr,
    options: Options,
    frames: impl Iterator<Item = Vec<u8>>,
) -> Option<Client> {
    let forgery = Forgery::default();
    let options = Options { forgery: Some(forgery.clone()), ..options };
    let mut client = Client::connect_with(address, &options).ok()?;
    frames.for_each(|frame| forgery.push(Level::Application, frame));
    client.send_forged(&forgery).ok()?;
    Some(client)
}

/// Returns a STREAM frame (RFC 9000 §19.8). No frame has the first byte of the stream.
pub(super) fn stream_frame(stream: u8, number: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let offset = 1 + number * length.max(2);
    let fields = [offset, length].map(|field| (0x4000 | field).to_be_bytes()).concat();
    [&[0x0e, stream][..], &fields, data].concat()
}

/// A byte that waited for an earlier one kept a datagram of any length, which no budget counted, and the process aborted.
#[test]
fn packets_that_wait_for_others_are_bounded_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--threads", "1", "--limit-memory", "48", "--admin", "127.0.0.1:0"];
    let server = start(folder.path(), &[&flags[..], &TLS_FLAGS, &QUIC_FLAGS].concat());
    let address = server.read_quic_address();
    let admin = server.read_admin_address();
    assert_eq!(server.get("/a.txt").body.len(), 4000);

    // With padding, a byte that waits takes as much memory as it should.
    let before = kibibytes(&server, "VmRSS");
    let padded = || {
        let numbers = |stream| (0..100).map(move |number| stream_frame(stream, number, b"x"));
        let frames = [10, 14, 0, 4, 8, 12, 16, 20, 24, 28].into_iter().flat_map(numbers);
        frames.map(|mut frame| {
            frame.resize(1380, 0);
            frame
        })
    };
    let padded: Vec<_> = (0..4).filter_map(|_| pin(address, padded())).collect();
    assert_eq!((padded.len(), shed(&admin)), (4, 0));
    let after = kibibytes(&server, "VmRSS");
    assert!(after < before + 4 * 1024, "{before} KiB, then {after} KiB");

    // Data that waits is counted, up to the windows of the streams and of the connection.
    let full = || {
        let numbers = |stream| (0..12).map(move |number| stream_frame(stream, number, &[b'x'; 1300]));
        [0, 4, 8, 12, 16, 20, 24, 28].into_iter().flat_map(numbers)
    };
    let mut pinned = Vec::new();
    let mut kept_open = http1::Client::new(server.connect());
    while shed(&admin) == 0 {
        assert!(pinned.len() < 500, "some are shed");
        pinned.push(pin(address, full()));
        assert_eq!(server.get("/a.txt").body.len(), 4000);
        // A connection of another protocol that keeps little isn't closed.
        let response = kept_open.request(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "GET");
        assert_eq!(response.unwrap().body.len(), 4000);
    }
    server.await_line("all connections of a thread kept more than");
    assert!(kept_open.request(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "GET").is_ok());
    drop(pinned);
    assert_eq!(server.stop(), Some(0));
}
