//! HTTP/3: where the server announces it, and how it logs, reloads and stops. The responses themselves are compared with those
//! of the other protocols in all tests (`transports`).

use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cannery_testkit::http3::{Client, Options};

use crate::harness::{QUIC_FLAGS, Server, TIMEOUT, TLS_FLAGS, server_command, signal};

/// The fields of a request.
fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Starts a server without a site with these flags and a certificate.
fn start_dummy(flags: &[&str]) -> Server {
    Server::start(&[&["--dummy"], &TLS_FLAGS[..], flags].concat())
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address).unwrap_or_else(|ended| panic!("no connection: {ended}"))
}

#[test]
fn start_messages_name_the_address() {
    let server = start_dummy(&QUIC_FLAGS);
    assert!(server.read_tls_address().starts_with("127.0.0.1:"));
    let line = server.await_line("HTTP/3");
    let address = line.strip_prefix("listening at https://").and_then(|rest| rest.strip_suffix("/ (HTTP/3)"));
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    assert_eq!(connect(address).request(&get("/")).unwrap().status, 200);
}

#[test]
fn quiet_server_prints_no_address() {
    // Nothing else can tell that a quiet server is ready, so the test chooses the ports.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let quic = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = server_command();
    command.args(["--dummy", "--quiet", "--tls-self-ecdsa", "--bind-tls", &tcp]);
    command.args(["--bind-quic", &quic.to_string()]).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();

    let end = Instant::now() + TIMEOUT;
    let options = Options { timeout: Duration::from_secs(1), ..Options::default() };
    while Client::connect_with(quic, &options).is_err() {
        assert!(Instant::now() < end, "the server doesn't start");
    }
    signal(&server, "TERM");
    let mut printed = String::new();
    server.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(!printed.contains("listening"), "{printed}");
}
