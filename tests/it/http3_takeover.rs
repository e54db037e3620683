//! A takeover over HTTP/3: no request fails, and open connections go on.
//!
//! A client that receives GOAWAY sends further requests over a new connection. It may repeat a request only if the server has
//! said that it did not process it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cannery_testkit::Ended;
use cannery_testkit::http3::Client;

use crate::fixture_site::noise;
use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, compile, server_command, wait_until, write_folder};
use crate::processes::Orphan;

/// Longer than the window of the client, so that a response remains incomplete while the client doesn't read.
const LARGE_BYTES: usize = 2_000_000;

const SMALL: &[u8] = b"small";

fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Starts a server of two processes with two threads each.
fn start(folder: &Path) -> (Server, Vec<u8>) {
    let source = folder.join("site");
    let archive = folder.join("site.cdb");
    let large = noise(LARGE_BYTES);
    write_folder(&source, &[(b"large.bin", &large), (b"small.txt", SMALL)]);
    compile(&source, &archive, &["--compress", "identity"]);
    let mut command = server_command();
    command.arg("--archive").arg(&archive).args(["--bind", "127.0.0.1:0"]).args(TLS_FLAGS).args(QUIC_FLAGS);
    command.args(["--processes", "2", "--threads", "2", "--drain", "60"]);
    (Server::run(command), large)
}

/// A client that uses one connection until the server wants it to leave.
struct ReconnectingClient {
    server: SocketAddr,
    client: Client,
    connections: usize,
}

impl ReconnectingClient {
    fn connect(server: SocketAddr) -> ReconnectingClient {
        ReconnectingClient { server, client: connect(server), connections: 1 }
    }

    /// Loads a path, over a new connection if necessary. Panics if the request fails.
    fn load(&mut self, path: &str) -> Vec<u8> {
        loop {
            if self.client.goaway().is_some() {
                std::mem::replace(&mut self.client, connect(self.server)).close();
                self.connections += 1;
            }
            match self.client.request(&get(path)) {
                Ok(response) => return response.body,
                Err(Ended::GoneAway(_)) => assert!(self.client.goaway().is_some(), "rejected without GOAWAY"),
                Err(ended) => panic!("{path} over connection {}: {ended}", self.connections),
            }
        }
    }
}

/// Stops the clients at the end of a test, even if it fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect(server: SocketAddr) -> Client {
    Client::connect(server).unwrap_or_else(|ended| panic!("no connection: {ended}"))
}

#[test]
fn takeover_fails_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let (mut old, large) = start(folder.path());
    let address = old.read_quic_address();
    // Each of the four workers has connections.
    let downloads = (0..8).map(|_| {
        let mut client = connect(address);
        let stream = client.send_request(&get("/large.bin")).unwrap();
        client.receive_part(stream, 10_000).unwrap();
        assert!(!client.is_complete(stream));
        (client, stream)
    });
    let downloads: Vec<_> = downloads.collect();

    let stop = AtomicBool::new(false);
    let responses = AtomicUsize::new(0);
    let moved = AtomicUsize::new(0);
    let new = std::thread::scope(|scope| {
        let _guard = StopAtEnd(&stop);
        let (stop, responses, moved, large) = (&stop, &responses, &moved, large.as_slice());
        // The old program serves the downloads, with datagrams that the new one forwards. The clients acknowledge all the
        // time, because the old program closes connections of clients that have vanished.
        for (mut client, stream) in downloads {
            scope.spawn(move || {
                let has_old_program = || moved.load(Ordering::Relaxed) < 3 && !stop.load(Ordering::Relaxed);
                client.acknowledge_while(has_old_program).unwrap();
                assert!(client.goaway().is_none());
                assert!(client.receive(stream, "GET").unwrap().body == large);
                assert!(client.goaway().is_some());
                client.close();
            });
        }
        for (path, content) in [("/small.txt", SMALL), ("/small.txt", SMALL), ("/large.bin", large)] {
            scope.spawn(move || {
                let mut client = ReconnectingClient::connect(address);
                while !stop.load(Ordering::Relaxed) {
                    let had_moved = client.connections > 1;
                    assert!(client.load(path) == content, "{path}");
                    responses.fetch_add(1, Ordering::Relaxed);
                    moved.fetch_add(usize::from(client.connections > 1 && !had_moved), Ordering::Relaxed);
                }
                client.client.close();
            });
        }
        // New connections, which begin with either program. They are enough for some to begin while both read the sockets, with
        // a ClientHello that comes in two datagrams.
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut client = ReconnectingClient::connect(address);
                    assert_eq!(client.load("/small.txt"), SMALL);
                    client.client.close();
                }
            });
        }

        wait_until("responses of the old program", || responses.load(Ordering::Relaxed) > 100);
        old.signal("USR2");
        let new = Orphan::await_takeover(&old);
        wait_until("responses over new connections", || moved.load(Ordering::Relaxed) == 3);
        new
    });

    assert_eq!(old.await_end(), Some(0));
    new.stop();
}
