//! The PROXY protocol: the header at the start of each connection names the client of a proxy.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::harness::{Server, parse, skip_outside};
use crate::proxies::haproxy_in_front_of;

const REQUEST: &str = "GET /asked HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Returns a header of version 2 for TCP over IPv4 from 192.0.2.7, with these extensions.
fn version2(extensions: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0".to_vec();
    header.push(12 + u8::try_from(extensions.len()).unwrap());
    header.extend_from_slice(&[192, 0, 2, 7, 192, 0, 2, 8, 0x1f, 0x90, 0, 80]);
    header.extend_from_slice(extensions);
    header
}

/// A server that requires a header on each connection, and its access log.
struct Proxied {
    server: Server,
    folder: tempfile::TempDir,
}

impl Proxied {
    fn start(arguments: &[&str]) -> Proxied {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.log");
        let own = ["--dummy", "--proxy-protocol", "--access-log", log.to_str().unwrap()];
        Proxied { server: Server::start(&[&own, arguments].concat()), folder }
    }

    /// Sends a header and a request, and returns the response.
    fn request(&self, header: &[u8]) -> Vec<u8> {
        self.server.raw(&[header, REQUEST.as_bytes()].concat())
    }

    /// Stops the server and returns the client in each line of its log.
    fn clients(self) -> Vec<String> {
        assert_eq!(self.server.stop(), Some(0));
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        log.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

fn is_response(bytes: &[u8]) -> bool {
    parse(bytes, "GET").0.body == b"hello world!\n"
}

#[test]
fn header_names_the_client_in_the_log() {
    for (header, client) in [
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "2001:db8::1"),
        (b"PROXY TCP6 ::ffff:192.0.2.3 ::1 1 2\r\n".to_vec(), "192.0.2.3"),
        (version2(b""), "192.0.2.7"),
        (version2(b"\x02\0\x01a\x04\0\0"), "192.0.2.7"),
        // The header names no client: the log has the peer.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\x02ab".to_vec(), "127.0.0.1"),
        // A client with a Unix socket address.
        ([b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8".as_slice(), &[0; 216]].concat(), "-"),
    ] {
        let proxied = Proxied::start(&[]);
        assert!(is_response(&proxied.request(&header)), "{header:?}");
        assert_eq!(proxied.clients(), [client], "{header:?}");
    }
}

#[test]
fn header_may_arrive_in_pieces() {
    let proxied = Proxied::start(&[]);
    for header in [b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(), version2(b"")] {
        let mut stream = proxied.server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in &header {
            stream.write_all(&[*byte]).unwrap();
        }
        // A request and the start of another one in one piece.
        stream.write_all(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\nGET /sec").unwrap();
        stream.write_all(b"ond HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        let (_, rest) = parse(&received, "GET");
        assert!(is_response(rest));
    }
    // Two threads serve, so the order of the lines is undefined.
    let mut clients = proxied.clients();
    clients.sort();
    assert_eq!(clients, ["192.0.2.1", "192.0.2.1", "192.0.2.7", "192.0.2.7"]);
}

#[test]
fn malformed_headers_are_counted_and_not_answered() {
    let proxied = Proxied::start(&["--admin", "127.0.0.1:0"]);

    // The admin listener expects no header.
    let admin = proxied.server.read_admin_address();
    let metrics =
        || String::from_utf8(crate::harness::request_at(&admin, "GET", "/metrics", "").body).unwrap();
    assert!(metrics().contains("cannery_proxy_headers_refused_total 0\n"));

    let bad_checksum = version2(b"\x03\0\x04\0\0\0\0");
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
        let mut stream = proxied.server.connect();
        // The server may close the connection before it has received everything.
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

    // Other connections are served.
    assert!(is_response(&proxied.request(&version2(b""))));
    assert_eq!(proxied.clients(), ["192.0.2.7"]);
}

#[test]
fn header_without_the_flag_is_a_bad_request() {
    let server = Server::start(&["--dummy"]);
    let answer = server.raw(format!("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n{REQUEST}").as_bytes());
    assert_eq!(parse(&answer, "GET").0.status, 400);
}

#[test]
fn health_checks_of_a_proxy_are_accepted() {
    let proxied = Proxied::start(&[]);
    let mut stream = proxied.server.connect();
    stream.write_all(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(TcpStream::connect(&proxied.server.address).unwrap());
    assert_eq!(proxied.clients().len(), 0);
}

#[test]
fn header_on_a_unix_socket_names_the_client() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let proxied = Proxied::start(&["--bind", &format!("unix:{}", path.display())]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(&[&version2(b""), REQUEST.as_bytes()].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(is_response(&answer));
    assert_eq!(proxied.clients(), ["192.0.2.7"]);
}

/// Runs curl from another loopback address and returns what it receives.
fn curl(arguments: &[&str]) -> Vec<u8> {
    let output =
        Command::new("curl").args(["-sS", "--interface", "127.0.0.9"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn curl_sends_the_header() {
    if skip_outside() {
        return;
    }
    let proxied = Proxied::start(&[]);
    let url = format!("http://{}/", proxied.server.address);
    assert_eq!(curl(&["--haproxy-protocol", &url, &url]), b"hello world!\nhello world!\n");
    assert_eq!(proxied.clients(), ["127.0.0.9", "127.0.0.9"]);
}

#[test]
fn haproxy_sends_both_versions() {
    if skip_outside() {
        return;
    }
    for how in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
        // Health checks send headers of their own.
        "send-proxy check inter 100ms",
        "send-proxy-v2 check inter 100ms",
    ] {
        let proxied = Proxied::start(&[]);
        let proxy = haproxy_in_front_of(&proxied.server.address, how, Path::new(proxied.folder.path()));
        let url = format!("http://{}/", proxy.address);

        for _ in 0..5 {
            assert_eq!(curl(&[&url]), b"hello world!\n", "{how}");
        }

        drop(proxy);
        // HAProxy reuses a connection only for the same client.
        let clients = proxied.clients();
        assert_eq!(clients, ["127.0.0.9"; 5], "{how}");
    }
}
