//! HTTP/3 over paths that lose, change, reorder and delay datagrams: every transfer completes, with the right bytes.
//!
//! The cases are those of the QUIC interop runner, over a relay instead of a simulated network.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cannery_testkit::http3::{Client, Options};
use cannery_testkit::relay::{Impairments, Relay};

use crate::fixture_site::noise;
use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, compile, write_folder};

const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/large.bin")];

/// A server with a large file behind a relay.
struct Path {
    content: Vec<u8>,
    relay: Relay,
    /// The address of the server itself.
    server: SocketAddr,
    _running: Server,
    _folder: tempfile::TempDir,
}

impl Path {
    /// Serves a file of this number of bytes.
    fn new(bytes: usize, impairments: Impairments) -> Path {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        let archive = folder.path().join("site.cdb");
        let content = noise(bytes);
        write_folder(&source, &[(b"large.bin", &content)]);
        compile(&source, &archive, &["--compress", "identity"]);
        let archive = ["--archive", archive.to_str().unwrap()];
        let server = Server::start(&[&archive, &TLS_FLAGS[..], &QUIC_FLAGS].concat());
        let address = server.read_quic_address();
        let relay = Relay::start(address, impairments).unwrap();
        Path { content, relay, server: address, _running: server, _folder: folder }
    }

    fn connect(&self) -> Client {
        connect(self.relay.address(), &patient())
    }

    /// Panics unless a transfer over the path is complete.
    fn transfer(&self) {
        assert!(self.can_transfer(), "no connection");
    }

    /// Connects, and panics unless a transfer that has begun completes. Returns `false` if the handshake fails. For the client, it may
    /// be done: then its last packets were lost, it gets nothing, and the server gives up.
    fn can_transfer(&self) -> bool {
        let Ok(mut client) = Client::connect_with(self.relay.address(), &patient()) else { return false };
        let begun =
            client.send_request(&REQUEST).and_then(|stream| client.receive_part(stream, 1).map(|()| stream));
        let stream = match begun {
            Ok(stream) => stream,
            Err(_) if client.is_given_up() => return false,
            Err(ended) => panic!("no response: {ended}"),
        };
        let response = client.receive(stream, "GET").unwrap_or_else(|ended| panic!("no response: {ended}"));
        assert_eq!(response.status, 200);
        assert!(response.body == self.content, "{} bytes", response.body.len());
        true
    }
}

/// Returns the options of a client that waits for many retransmissions.
fn patient() -> Options {
    Options { timeout: Duration::from_secs(60), ..Options::default() }
}

fn connect(address: SocketAddr, options: &Options) -> Client {
    Client::connect_with(address, options).unwrap_or_else(|ended| panic!("no connection: {ended}"))
}

#[test]
fn lost_datagrams_are_sent_again() {
    let path = Path::new(1_000_000, Impairments { loss_percent: 5, ..Impairments::default() });
    path.transfer();
    assert!(path.relay.impaired() > 10);
}

#[test]
fn changed_datagrams_are_dropped() {
    let path = Path::new(1_000_000, Impairments { corruption_percent: 5, ..Impairments::default() });
    path.transfer();
    assert!(path.relay.impaired() > 10);
}

#[test]
fn reordered_datagrams_form_the_content() {
    let path = Path::new(1_000_000, Impairments { reordering_percent: 20, ..Impairments::default() });
    path.transfer();
    assert!(path.relay.impaired() > 50);
}

#[test]
fn handshakes_complete_despite_loss_and_corruption() {
    for impairments in [
        Impairments { loss_percent: 20, ..Impairments::default() },
        Impairments { corruption_percent: 20, ..Impairments::default() },
    ] {
        let path = Path::new(1_000, impairments);
        // The server ends a handshake after ten seconds, in which a packet is sent four times. About one in 300 loses one of
        // its packets each time. Its client connects again, as browsers do.
        let mut given_up = 0;
        for _ in 0..10 {
            while !path.can_transfer() {
                given_up += 1;
                assert!(given_up < 3, "handshakes fail");
            }
        }
        assert!(path.relay.impaired() > 10);
    }
}

#[test]
fn long_round_trips_only_take_time() {
    // A round trip of 750 ms, as in the interop runner. The windows grow until the file fits.
    let delay = Duration::from_millis(375);
    Path::new(300_000, Impairments { delay, ..Impairments::default() }).transfer();
}

#[test]
fn transfer_resumes_after_a_blackhole() {
    let path = Path::new(3_000_000, Impairments::default());
    let mut client = path.connect();
    let stream = client.send_request(&REQUEST).unwrap();
    for part in 1..3 {
        client.receive_part(stream, part * 500_000).unwrap();
        assert!(!client.is_complete(stream));
        path.relay.impair(Impairments { is_blackhole: true, ..Impairments::default() });
        // The client sends as much as it can, and receives no answer.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(1));
                path.relay.impair(Impairments::default());
            });
            client.receive_part(stream, (part + 1) * 500_000 - 1).unwrap();
        });
    }
    assert!(client.receive(stream, "GET").unwrap().body == path.content);
}

#[test]
fn transfer_survives_a_forgotten_nat_binding() {
    let path = Path::new(3_000_000, Impairments::default());
    let mut client = path.connect();
    let stream = client.send_request(&REQUEST).unwrap();
    for part in 1..4 {
        client.receive_part(stream, part * 500_000).unwrap();
        assert!(!client.is_complete(stream));
        path.relay.rebind().unwrap();
    }
    assert!(client.receive(stream, "GET").unwrap().body == path.content);
}

#[test]
fn transfer_follows_the_client_to_another_address() {
    let path = Path::new(3_000_000, Impairments::default());
    // Directly, because the relay hides the address of the client.
    let mut client = connect(path.server, &Options::default());
    let stream = client.send_request(&REQUEST).unwrap();
    for part in 1..4_u8 {
        client.receive_part(stream, usize::from(part) * 500_000).unwrap();
        assert!(!client.is_complete(stream));
        client.rebind(Ipv4Addr::new(127, 0, 0, 1 + part).into()).unwrap();
    }
    assert!(client.receive(stream, "GET").unwrap().body == path.content);
}

#[test]
fn many_connections_change_their_addresses() {
    // Longer than the window of a client, so that each transfer is incomplete when the address changes.
    const WINDOW: u32 = 16 * 1024;
    const THREADS: u8 = 10;
    const CONNECTIONS_PER_THREAD: u8 = 20;

    let path = Path::new(5 * WINDOW as usize, Impairments::default());
    let options = Options { stream_window: WINDOW, ..patient() };
    std::thread::scope(|scope| {
        for part in 0..THREADS {
            let Path { server, content, .. } = &path;
            let options = &options;
            scope.spawn(move || {
                let mut transfers: Vec<_> = (0..CONNECTIONS_PER_THREAD)
                    .map(|_| {
                        let mut client = connect(*server, options);
                        let stream = client.send_request(&REQUEST).unwrap();
                        client.receive_part(stream, 1000).unwrap();
                        assert!(!client.is_complete(stream));
                        (client, stream)
                    })
                    .collect();
                for (number, (client, stream)) in (0_u8..).zip(&mut transfers) {
                    client.rebind(Ipv4Addr::new(127, 0, 1 + part, 1 + number).into()).unwrap();
                    assert!(client.receive(*stream, "GET").unwrap().body == *content);
                }
            });
        }
    });
}
