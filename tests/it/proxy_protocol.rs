//! The PROXY protocol: who is behind a proxy is known by the header that each connection begins with.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::proxies::haproxy_in_front_of;
use crate::site::{Server, parse, skip_outside};

const REQUEST: &str = "GET /asked HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// A block of version 2 for TCP over IPv4, from 192.0.2.7 and with these extensions.
fn block(extensions: &[u8]) -> Vec<u8> {
    let mut block = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0".to_vec();
    block.push(12 + u8::try_from(extensions.len()).unwrap());
    block.extend_from_slice(&[192, 0, 2, 7, 192, 0, 2, 8, 0x1f, 0x90, 0, 80]);
    block.extend_from_slice(extensions);
    block
}

/// A server whose connections all begin with a header, and its log.
struct Behind {
    server: Server,
    folder: tempfile::TempDir,
}

impl Behind {
    fn start(arguments: &[&str]) -> Behind {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.log");
        let own = ["--dummy", "--proxy-protocol", "--access-log", log.to_str().unwrap()];
        Behind { server: Server::start(&[&own, arguments].concat()), folder }
    }

    /// What the server answers to a header and a request behind it.
    fn ask(&self, header: &[u8]) -> Vec<u8> {
        self.server.raw(&[header, REQUEST.as_bytes()].concat())
    }

    /// Stops the server and gives the client of each line of its log.
    fn clients(self) -> Vec<String> {
        assert_eq!(self.server.stop(), Some(0));
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        log.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

fn is_answer(bytes: &[u8]) -> bool {
    parse(bytes, false).0.body == b"hello world!\n"
}

#[test]
fn the_client_of_the_header_is_the_one_in_the_log() {
    for (header, client) in [
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "2001:db8::1"),
        (b"PROXY TCP6 ::ffff:192.0.2.3 ::1 1 2\r\n".to_vec(), "192.0.2.3"),
        (block(b""), "192.0.2.7"),
        (block(b"\x02\0\x01a\x04\0\0"), "192.0.2.7"),
        // Nobody is named: whoever has connected.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\x02ab".to_vec(), "127.0.0.1"),
        // A client without an internet address.
        ([b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8".as_slice(), &[0; 216]].concat(), "-"),
    ] {
        let behind = Behind::start(&[]);
        assert!(is_answer(&behind.ask(&header)), "{header:?}");
        assert_eq!(behind.clients(), [client], "{header:?}");
    }
}

#[test]
fn a_header_may_come_in_pieces_and_names_the_client_of_all_requests() {
    let behind = Behind::start(&[]);
    for header in [b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(), block(b"")] {
        let mut stream = behind.server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in &header {
            stream.write_all(&[*byte]).unwrap();
        }
        // The end of the header, a request and the beginning of another one in one piece.
        stream.write_all(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\nGET /sec").unwrap();
        stream.write_all(b"ond HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).unwrap();
        let (_, rest) = parse(&answers, false);
        assert!(is_answer(rest));
    }
    // Two threads served: lines of different connections may stand in any order.
    let mut clients = behind.clients();
    clients.sort();
    assert_eq!(clients, ["192.0.2.1", "192.0.2.1", "192.0.2.7", "192.0.2.7"]);
}

#[test]
fn what_is_no_header_is_not_answered_but_counted() {
    let behind = Behind::start(&["--admin", "127.0.0.1:0"]);
    // Operators ask directly.
    let admin = behind.server.admin();
    let metrics = || String::from_utf8(crate::site::ask_at(&admin, "GET", "/metrics", "").body).unwrap();
    assert!(metrics().contains("cannery_proxy_headers_refused_total 0\n"));
    let bad_checksum = block(b"\x03\0\x04\0\0\0\0");
    let headers: [&[u8]; 9] = [
        b"",
        b"\r\n",
        b"PROXY\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 65536\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        &[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
        b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\0\xff\xff",
        &bad_checksum,
    ];
    for header in headers {
        let mut stream = behind.server.connect();
        // It may be closed under what is sent: that is no answer either.
        let _ = stream.write_all(&[header, REQUEST.as_bytes()].concat());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{header:?}: {answer:?}");
    }
    let metrics = metrics();
    assert!(
        metrics.contains(&format!("cannery_proxy_headers_refused_total {}\n", headers.len())),
        "{metrics}"
    );
    assert!(metrics.contains("cannery_connections_open 0\n"), "{metrics}");
    // Others do not notice.
    assert!(is_answer(&behind.ask(&block(b""))));
    assert_eq!(behind.clients(), ["192.0.2.7"]);
}

#[test]
fn nobody_is_believed_without_the_flag() {
    let server = Server::start(&["--dummy"]);
    let answer = server.raw(format!("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n{REQUEST}").as_bytes());
    assert_eq!(parse(&answer, false).0.status, 400);
}

#[test]
fn a_proxy_that_only_looks_whether_we_live_goes_on_as_it_likes() {
    let behind = Behind::start(&[]);
    let mut stream = behind.server.connect();
    stream.write_all(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(TcpStream::connect(&behind.server.address).unwrap());
    assert_eq!(behind.clients().len(), 0);
}

#[test]
fn a_local_socket_has_clients_with_addresses() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let behind = Behind::start(&["--bind", &format!("unix:{}", path.display())]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(&[&block(b""), REQUEST.as_bytes()].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(is_answer(&answer));
    assert_eq!(behind.clients(), ["192.0.2.7"]);
}

/// What curl receives, from an address of its own.
fn curl(arguments: &[&str]) -> Vec<u8> {
    let output =
        Command::new("curl").args(["-sS", "--interface", "127.0.0.9"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn curl_speaks_it_to_us() {
    if skip_outside() {
        return;
    }
    let behind = Behind::start(&[]);
    let url = format!("http://{}/", behind.server.address);
    assert_eq!(curl(&["--haproxy-protocol", &url, &url]), b"hello world!\nhello world!\n");
    assert_eq!(behind.clients(), ["127.0.0.9", "127.0.0.9"]);
}

#[test]
fn haproxy_names_its_clients_in_both_versions() {
    if skip_outside() {
        return;
    }
    for how in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
        // It looks whether we live before it lets anybody in, with headers of its own.
        "send-proxy check inter 100ms",
        "send-proxy-v2 check inter 100ms",
    ] {
        let behind = Behind::start(&[]);
        let proxy = haproxy_in_front_of(&behind.server.address, how, Path::new(behind.folder.path()));
        let url = format!("http://{}/", proxy.address);
        for _ in 0..5 {
            assert_eq!(curl(&[&url]), b"hello world!\n", "{how}");
        }
        drop(proxy);
        // HAProxy may use a connection to us again for the same client alone.
        let clients = behind.clients();
        assert_eq!(clients, ["127.0.0.9"; 5], "{how}");
    }
}
