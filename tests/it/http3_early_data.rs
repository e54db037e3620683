//! Early data (0-RTT) of HTTP/3: accepted with `--early-data` alone, and only GET and HEAD are answered before the handshake is
//! done. That no early data is read twice is tested in `crates/transport/tests/quic/early_data.rs`.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use cannery_testkit::http3::{Client, Options};
use cannery_testkit::tls::ClientOptions;

use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, request_at, wait_until};

/// Returns a request with this method.
fn request(method: &str) -> [(&str, &str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", "/")]
}

/// Starts a server with these flags.
fn start(flags: &[&str]) -> Server {
    let dummy = ["--dummy", "--admin", "127.0.0.1:0"];
    Server::start(&[&dummy, &TLS_FLAGS[..], &QUIC_FLAGS, flags].concat())
}

/// Returns the options of a client that has sessions of the server.
fn options_with_session(server: SocketAddr) -> Options {
    let tls = ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data().build();
    let options = Options { tls: Arc::new(tls), ..Options::default() };
    let mut client = Client::connect_with(server, &options).unwrap();
    // The session arrives before the response.
    assert_eq!(client.request(&request("GET")).unwrap().status, 200);
    options
}

/// Returns the number of requests that the server has answered during handshakes.
fn early_requests(server: &Server) -> String {
    let metrics =
        String::from_utf8(request_at(&server.read_admin_address(), "GET", "/metrics", "").body).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("cannery_http3_early_requests_total "));
    line.unwrap().to_owned()
}

#[test]
fn requests_are_answered_before_the_handshake_is_done() {
    let server = start(&["--early-data"]);
    let address = server.read_quic_address();
    let options = options_with_session(address);
    // On a busy machine, the server may receive a request together with the end of the handshake.
    wait_until("a request is answered before the handshake is done", || {
        let mut client = Client::connect_early(address, &options).unwrap();
        for method in ["GET", "HEAD"] {
            assert_eq!(client.request(&request(method)).unwrap().status, 200);
        }
        assert!(client.is_early_data_accepted());
        early_requests(&server) != "0"
    });
}

#[test]
fn other_methods_wait_for_the_handshake() {
    let server = start(&["--early-data"]);
    let address = server.read_quic_address();
    let options = options_with_session(address);
    let mut client = Client::connect_early(address, &options).unwrap();
    let streams = ["POST", "DELETE"].map(|method| (method, client.send_request(&request(method)).unwrap()));
    for (method, stream) in streams {
        assert_eq!(client.receive(stream, method).unwrap().status, 200);
    }
    assert!(client.is_early_data_accepted());
    assert_eq!(early_requests(&server), "0");
}

/// Requests in early data may come from a forged address, which no log may name and no proxy may have.
#[test]
fn early_requests_come_from_addresses_that_are_proved() {
    let folder = tempfile::tempdir().unwrap();
    for (proxies, client_address) in [("127.0.0.0/8", "203.0.113.9"), ("unix", "127.0.0.1")] {
        let log = folder.path().join(client_address);
        let flags = ["--early-data", "--access-log", log.to_str().unwrap(), "--trusted-proxy", proxies];
        let server = start(&flags);
        let address = server.read_quic_address();
        let options = options_with_session(address);
        let mut client = Client::connect_early(address, &options).unwrap();
        let fields = [&request("HEAD")[..], &[("x-forwarded-for", "203.0.113.9")]].concat();
        assert_eq!(client.request(&fields).unwrap().status, 200);
        assert!(client.is_early_data_accepted());
        assert_eq!(server.stop(), Some(0));
        let lines = fs::read_to_string(&log).unwrap();
        let line = lines.lines().find(|line| line.contains("\"HEAD / HTTP/3.0\"")).unwrap();
        assert!(line.starts_with(&format!("{client_address} - - [")), "{line}");
    }
}
