//! `--tls-ticket-seed`: servers with the same file resume each other's sessions, over TCP and QUIC.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use cannery_testkit::http3::{Client, Options};
use cannery_testkit::tls::{self, ClientOptions};
use rustls::HandshakeKind;

use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, request_at, run};
use crate::processes::Orphan;

/// Writes a seed that only its owner can read.
fn write_seed(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn start(seed: &Path, flags: &[&str]) -> Server {
    let seed = ["--tls-ticket-seed", seed.to_str().unwrap()];
    let dummy = ["--dummy", "--admin", "127.0.0.1:0"];
    Server::start(&[&dummy, &TLS_FLAGS[..], &QUIC_FLAGS, &seed, flags].concat())
}

fn resumed(server: &Server) -> u64 {
    let metrics = request_at(&server.read_admin_address(), "GET", "/metrics", "").body;
    let metrics = String::from_utf8(metrics).unwrap();
    let name = "cannery_tls_handshakes_total{kind=\"resumed\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn servers_with_the_same_seed_resume_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let (seed, same, other) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
    write_seed(&seed, &[3; 32]);
    write_seed(&same, &[3; 32]);
    write_seed(&other, &[4; 32]);
    let servers = [start(&seed, &[]), start(&same, &["--processes", "2"]), start(&other, &[])];
    let addresses = servers.each_ref().map(Server::read_tls_address);

    for options in [ClientOptions::default(), ClientOptions::default().tls12()] {
        let config = Arc::new(options.resumption(8).build());
        let kind = |address: &str| {
            let stream = TcpStream::connect(address).unwrap();
            let mut tls = tls::connect(stream, "localhost", Arc::clone(&config)).unwrap();
            // The ticket arrives with the response.
            tls.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            tls.read_to_end(&mut Vec::new()).unwrap();
            tls.conn.handshake_kind()
        };
        assert_ne!(kind(&addresses[0]), Some(HandshakeKind::Resumed));
        for server in [1, 0, 1, 1] {
            assert_eq!(kind(&addresses[server]), Some(HandshakeKind::Resumed), "server {server}");
        }
        assert_ne!(kind(&addresses[2]), Some(HandshakeKind::Resumed), "another seed");
    }

    let tls = ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).build();
    let options = Options { tls: Arc::new(tls), ..Options::default() };
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
    let addresses = servers.each_ref().map(Server::read_quic_address);
    let visit = |server: usize| {
        let before = resumed(&servers[server]);
        let mut client = Client::connect_with(addresses[server], &options).unwrap();
        assert_eq!(client.request(&fields).unwrap().status, 200);
        resumed(&servers[server]) - before
    };
    assert_eq!([visit(0), visit(1), visit(0)], [0, 1, 1]);
    assert_eq!(visit(2), 0, "another seed");
}

#[test]
fn tickets_outlive_a_takeover() {
    let folder = tempfile::tempdir().unwrap();
    let seed = folder.path().join("seed");
    write_seed(&seed, &[5; 64]);
    let mut server = start(&seed, &["--processes", "2"]);
    let address = server.read_tls_address();
    let config = Arc::new(ClientOptions::default().resumption(8).build());
    let kind = || {
        let stream = TcpStream::connect(&address).unwrap();
        let mut tls = tls::connect(stream, "localhost", Arc::clone(&config)).unwrap();
        tls.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        tls.read_to_end(&mut Vec::new()).unwrap();
        tls.conn.handshake_kind()
    };
    kind();
    server.signal("USR2");
    let new = Orphan::await_takeover(&server);
    assert_eq!(server.await_end(), Some(0));
    assert_eq!(kind(), Some(HandshakeKind::Resumed));
    new.stop();
}

#[test]
fn seeds_that_are_no_secret_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let seed = folder.path().join("seed");
    let start = |flags: &[&str]| {
        let common = ["--dummy", "--bind", "127.0.0.1:0", "--tls-ticket-seed", seed.to_str().unwrap()];
        let output = run("cannery-server", &[&common, flags].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    write_seed(&seed, &[1; 31]);
    let (code, text) = start(&TLS_FLAGS);
    assert!(code == Some(3) && text.contains("31 bytes") && text.contains("seed"), "{code:?} {text}");
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, text) = start(&TLS_FLAGS);
    assert!(code == Some(3) && text.contains("chmod 600"), "{code:?} {text}");
    let (code, text) = start(&[]);
    assert!(code == Some(2) && text.contains("needs a certificate"), "{code:?} {text}");
}
