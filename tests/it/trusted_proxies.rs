//! Trusted proxies: the client address from `Forwarded` or `X-Forwarded-For` in the access log.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::harness::{Server, compile, pages, run, write_folder};

/// A server that trusts some proxies, and its access log.
struct Proxied {
    server: Server,
    folder: tempfile::TempDir,
}

impl Proxied {
    fn start(flags: &[&str]) -> Proxied {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        let archive = folder.path().join("site.cdb");
        write_folder(&source, &pages(&[("index.html", "page")]));
        compile(&source, &archive, &[]);
        let log = folder.path().join("access.log");
        let own = ["--archive", archive.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
        Proxied { server: Server::start_on_all_transports(&[&own, flags].concat()), folder }
    }

    /// Stops the server and returns the clients of its log, each once.
    fn clients(self) -> Vec<String> {
        assert_eq!(self.server.stop(), Some(0));
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        let mut clients: Vec<_> =
            log.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        clients.sort();
        clients.dedup();
        clients
    }
}

const TRUSTED: [&str; 2] = ["--trusted-proxy", "127.0.0.0/8"];

/// Checks HTTP/1.1 and HTTP/2, each over TCP and TLS.
#[test]
fn client_is_the_rightmost_address_that_is_not_trusted() {
    for (lines, client) in [
        ("X-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9"),
        ("X-Forwarded-For: 198.51.100.1, 203.0.113.9, 127.0.0.7\r\n", "203.0.113.9"),
        ("X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1"),
        ("Forwarded: for=203.0.113.9\r\n", "127.0.0.1"),
        ("X-Forwarded-For: nonsense\r\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ] {
        let proxied = Proxied::start(&TRUSTED);
        assert_eq!(proxied.server.request("GET", "/", lines).status, 200);
        assert_eq!(proxied.clients(), [client], "{lines}");
    }
}

#[test]
fn forwarded_replaces_x_forwarded_for() {
    let proxied = Proxied::start(&[&TRUSTED[..], &["--trusted-proxy-header", "forwarded"]].concat());
    let lines = "X-Forwarded-For: 198.51.100.1\r\nForwarded: for=\"[2001:db8::9]:80\";proto=https\r\n";
    assert_eq!(proxied.server.request("GET", "/", lines).status, 200);
    assert_eq!(proxied.clients(), ["2001:db8::9"]);
}

#[test]
fn untrusted_peers_name_no_client() {
    for flags in [&[][..], &["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "unix"]] {
        let proxied = Proxied::start(flags);
        assert_eq!(proxied.server.request("GET", "/", "X-Forwarded-For: 203.0.113.9\r\n").status, 200);
        assert_eq!(proxied.clients(), ["127.0.0.1"]);
    }
}

#[test]
fn unix_socket_can_be_trusted() {
    for (trusted, client) in [("unix", "203.0.113.9"), ("127.0.0.1", "-")] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let address = format!("unix:{}", path.display());
        let proxied = Proxied::start(&["--bind", &address, "--trusted-proxy", trusted]);
        let mut stream = UnixStream::connect(&path).unwrap();
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(proxied.clients(), [client]);
    }
}

/// The address in the PROXY header is the peer that must be trusted.
#[test]
fn proxy_protocol_names_the_peer() {
    for (peer, client) in [("10.0.0.7", "203.0.113.9"), ("192.0.2.7", "192.0.2.7")] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let flags = ["--dummy", "--proxy-protocol", "--trusted-proxy", "10.0.0.0/8", "--access-log"];
        let server = Server::start(&[&flags[..], &[log.to_str().unwrap()]].concat());
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n";
        server.raw(format!("PROXY TCP4 {peer} 192.0.2.2 1 2\r\n{request}").as_bytes());
        assert_eq!(server.stop(), Some(0));
        let line = fs::read_to_string(&log).unwrap();
        assert!(line.starts_with(&format!("{client} - ")), "{line}");
    }
}

#[test]
fn wrong_networks_are_refused() {
    for wrong in ["10.0.0.0/33", "example.com", ""] {
        let output = run("cannery-server", &["--dummy", "--access-log", "-", "--trusted-proxy", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
    let output = run("cannery-server", &["--dummy", "--trusted-proxy", "unix"]);
    assert_eq!(output.status.code(), Some(2), "it has no effect without a log");
}
