//! Tests amplification: no matter what makes the server send to an address that has not answered, at most
//! three times as much may leave for that address as has come from there, at any time (RFC 9000 §8.1, §9.3).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cannery_testkit::http3::{Forgery, Level};
use cannery_testkit::tls::ClientOptions;
use cannery_transport::quic::{
    Arrival, Context, Direction, EarlyData, Endpoint, Generation, Received, Transmit,
};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ConnectionHandle, Dir};

use super::network::{
    Acceptance, CLIENT, Fate, Network, Packet, SERVER, Server, client_config, context, random_seed,
    tls_client, tls_context,
};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than a datagram takes to arrive, and shorter than a round trip.
const ONE_WAY: Duration = Duration::from_millis(15);

/// Longer than all timers of a connection.
const LONG: Duration = Duration::from_secs(90);

/// An address that answers nothing.
const VICTIM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 66)), 50_000);

/// The client's address with another port, as after a router has lost its state.
const REBOUND: SocketAddr = SocketAddr::new(CLIENT.ip(), 50_001);

/// The bytes that each address has sent and received.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<BTreeMap<SocketAddr, (usize, usize)>>>);

impl Meter {
    fn receive(&self, source: SocketAddr, bytes: usize) {
        self.0.lock().unwrap().entry(source).or_default().0 += bytes;
    }

    fn send(&self, destination: SocketAddr, bytes: usize) {
        let mut traffic = self.0.lock().unwrap();
        let (received, sent) = traffic.entry(destination).or_default();
        *sent += bytes;
        assert!(*sent <= 3 * *received, "{destination} has sent {received} bytes, and is sent {sent}");
    }

    /// Returns the amount that the addresses were sent, followed by the number of addresses.
    fn sent(&self) -> (usize, usize) {
        let traffic = self.0.lock().unwrap();
        (traffic.values().map(|(_, sent)| sent).sum(), traffic.len())
    }

    /// Counts the traffic of the client, which will not get any answers from now on. Only this many of its
    /// datagrams arrive.
    fn silence_client(&self, network: &mut Network, mut datagrams: usize) {
        let meter = self.clone();
        network.path = Box::new(move |packet| {
            if !packet.is_for_server() {
                meter.send(packet.destination, packet.bytes.len());
                return Fate::Drop;
            }
            if datagrams == 0 {
                return Fate::Drop;
            }
            datagrams -= 1;
            meter.receive(packet.source, packet.bytes.len());
            Fate::Deliver
        });
    }

    /// Lets the client's datagrams come from other addresses, which `address` returns by their number.
    fn forge(&self, network: &mut Network, mut address: impl FnMut(usize) -> Option<SocketAddr> + 'static) {
        let meter = self.clone();
        let mut number = 0;
        network.path = Box::new(move |packet| {
            if packet.is_for_server() {
                if let Some(address) = address(number) {
                    packet.source = address;
                    meter.receive(address, packet.bytes.len());
                }
                number += 1;
            } else if packet.destination != CLIENT {
                meter.send(packet.destination, packet.bytes.len());
                return Fate::Drop;
            }
            Fate::Deliver
        });
    }

    /// Passes a datagram to the endpoint, from an address that answers nothing.
    fn pass(&self, network: &mut Network, source: SocketAddr, bytes: &[u8]) {
        self.receive(source, bytes.len());
        let packet = Packet { source, destination: SERVER, ecn: 0, bytes: bytes.to_vec() };
        let mut sent = Vec::new();
        network.server.receive(network.now, &packet, &mut sent);
        network.server.advance(network.now, &mut sent);
        sent.iter().for_each(|packet| self.send(packet.destination, packet.bytes.len()));
    }
}

/// Whether the server sends anything, so that a row shows something.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    Answers,
    Silence,
}

/// A kind of datagram by its name, its effect, and a function that sends it.
type Row = (&'static str, Effect, fn(&Meter));

const ROWS: &[Row] = &[
    // Before the handshake is done.
    ("ClientHello", Effect::Answers, |meter| hello(meter, 1, |_| {})),
    ("long ClientHello", Effect::Answers, |meter| hello(meter, 2, |_| {})),
    ("ClientHello, repeated", Effect::Answers, |meter| hello(meter, 20, |_| {})),
    ("ClientHello and a Handshake packet", Effect::Answers, |meter| {
        hello(meter, 1, |datagram| append(datagram, 0xe0));
    }),
    ("ClientHello and a 0-RTT packet", Effect::Answers, |meter| {
        hello(meter, 1, |datagram| append(datagram, 0xd0));
    }),
    ("ClientHello and a short header", Effect::Answers, |meter| {
        hello(meter, 1, |datagram| datagram.extend([0x41; 100]));
    }),
    ("ClientHello in a short datagram", Effect::Silence, |meter| {
        hello(meter, 3, |datagram| datagram.truncate(1199));
    }),
    ("part of a ClientHello", Effect::Answers, |meter| initial(meter, &[0x06, 0, 0x40, 0x80])),
    ("late part of a ClientHello", Effect::Answers, |meter| initial(meter, &[0x06, 0x44, 0, 1, 1])),
    ("PING in an Initial packet", Effect::Answers, |meter| initial(meter, &[0x01])),
    ("error in an Initial packet", Effect::Answers, |meter| initial(meter, &[0x1e])),
    ("CONNECTION_CLOSE in an Initial packet", Effect::Silence, |meter| initial(meter, &[0x1c, 0, 0, 0])),
    ("no common protocol", Effect::Answers, no_common_protocol),
    ("0-RTT", Effect::Answers, early_data),
    ("acknowledgment of our first packets", Effect::Answers, acknowledged_initial),
    ("refused", Effect::Answers, |meter| {
        decline(meter, |server, incoming, reply| server.endpoint.refuse(incoming, reply));
    }),
    ("Retry", Effect::Answers, |meter| {
        decline(meter, |server, incoming, reply| server.endpoint.retry(incoming, reply).unwrap());
    }),
    ("token of another address", Effect::Answers, foreign_token),
    ("shutdown during the handshake", Effect::Answers, close_during_handshake),
    // Without a connection.
    ("unknown version", Effect::Answers, |meter| stateless(meter, 0xc3, 0x6b33_43cf, &[1200, 1472])),
    ("unknown version, short", Effect::Silence, |meter| {
        stateless(meter, 0xc3, 0x6b33_43cf, &[30, 100, 1199]);
    }),
    ("version negotiation", Effect::Silence, |meter| stateless(meter, 0xc3, 0, &[30, 1200])),
    ("Initial packet that doesn't open", Effect::Silence, |meter| {
        stateless(meter, 0xc3, 1, &[30, 1199, 1200]);
    }),
    ("0-RTT, Handshake and Retry packets of no connection", Effect::Silence, |meter| {
        [0xd3, 0xe3, 0xf3].iter().for_each(|first| stateless(meter, *first, 1, &[30, 1199, 1200]));
    }),
    ("short header of a lost connection", Effect::Answers, lost_connection),
    ("short header of no connection", Effect::Silence, |meter| {
        let mut network = Network::new(Server::new(&context(&random_seed())));
        (1..200).for_each(|length| meter.pass(&mut network, VICTIM, &vec![0x41; length]));
    }),
    // From another address than before.
    ("migration: PING", Effect::Answers, |meter| migrate(meter, one, ping)),
    ("migration: PING, all from there", Effect::Answers, |meter| migrate(meter, all, ping)),
    ("migration: PING, many addresses", Effect::Answers, |meter| migrate(meter, many, ping)),
    ("migration: port only", Effect::Answers, |meter| migrate(meter, |_| Some(REBOUND), ping)),
    ("migration: request", Effect::Answers, |meter| migrate(meter, one, request)),
    ("migration: requests", Effect::Answers, |meter| migrate(meter, all, request)),
    ("migration: PATH_CHALLENGE", Effect::Answers, |meter| migrate(meter, all, challenge)),
    ("migration: PATH_CHALLENGE and PING in turns", Effect::Answers, |meter| {
        migrate(meter, in_turns, challenge);
    }),
    ("migration: wrong PATH_RESPONSE", Effect::Answers, |meter| {
        migrate(meter, all, |attack| {
            attack.forgery.push(Level::Application, [&[0x1b][..], &[9; 8]].concat());
            request(attack);
        });
    }),
    ("migration: packet as long as possible", Effect::Answers, |meter| {
        migrate(meter, all, |attack| {
            attack.forgery.push(Level::Application, vec![0x01]);
            attack.write(1100);
        });
    }),
    ("migration: acknowledgment of nothing", Effect::Silence, |meter| {
        migrate(meter, one, |attack| {
            attack.forgery.push(Level::Application, vec![0x02, 0x80, 0xff, 0xff, 0xff, 0, 0, 0]);
            request(attack);
        });
    }),
    ("migration: acknowledgments", Effect::Answers, |meter| {
        migrate(meter, in_turns, |attack| {
            request(attack);
            attack.run(200);
        });
    }),
    ("migration: shutdown", Effect::Answers, |meter| {
        migrate(meter, one, |attack| {
            ping(attack);
            attack.run(15);
            let now = attack.network.now;
            attack
                .network
                .server
                .connections
                .values_mut()
                .for_each(|served| served.connection.close(now, 0x100, b""));
        });
    }),
    ("migration: keep-alive", Effect::Answers, |meter| {
        migrate(meter, one, |attack| {
            ping(attack);
            for _ in 0..20 {
                attack.run(500);
                attack.network.server.connections.values_mut().for_each(|served| served.connection.ping());
            }
        });
    }),
    ("migration: CONNECTION_CLOSE", Effect::Silence, |meter| {
        migrate(meter, all, |attack| {
            let now = attack.network.now;
            attack.network.remote(attack.handle).connection.close(now, 0_u32.into(), Bytes::new());
        });
    }),
    ("migration: after a download of the whole path", Effect::Answers, |meter| {
        migrate(meter, all, |attack| {
            request(attack);
            attack.run(3000);
            ping(attack);
        });
    }),
];

#[test]
fn unvalidated_addresses_are_sent_three_times_as_much_as_they_send() {
    for (name, effect, run) in ROWS {
        println!("{name}");
        let meter = Meter::default();
        run(&meter);
        let (sent, addresses) = meter.sent();
        assert!(addresses > 0, "{name}: nothing was sent");
        let expected = if *effect == Effect::Answers { 1..usize::MAX } else { 0..1 };
        assert!(expected.contains(&sent), "{name}: {sent} bytes");
    }
}

fn server() -> Server {
    Server::new(&context(&random_seed()))
}

/// Starts a connection from a client that hears nothing. Its datagrams are modified by `change`, and only
/// this many of them arrive.
fn hello(meter: &Meter, datagrams: usize, change: fn(&mut Vec<u8>)) {
    let mut network = Network::new(server());
    network.connect(client_config(&tls_client(&["h3"])));
    meter.silence_client(&mut network, datagrams);
    let mut path = std::mem::replace(&mut network.path, Box::new(|_| Fate::Deliver));
    network.path = Box::new(move |packet| {
        if packet.is_for_server() {
            change(&mut packet.bytes);
        }
        path(packet)
    });
    network.run(LONG);
}

/// Appends a packet of another type with the same connection IDs, that has no valid keys.
fn append(datagram: &mut Vec<u8>, first: u8) {
    let ids = 5..7 + usize::from(datagram[5]) + usize::from(datagram[6 + usize::from(datagram[5])]);
    let packet = [&[first, 0, 0, 0, 1][..], &datagram[ids], &[0x40, 0xc8], &[0x55; 200]].concat();
    datagram.extend_from_slice(&packet);
}

/// Lets a client that hears nothing send an Initial packet with these frames (and nothing else) three
/// times.
fn initial(meter: &Meter, frames: &[u8]) {
    let forgery = Forgery::default();
    let tls = QuicClientConfig::try_from(tls_client(&["h3"])).unwrap();
    for _ in 0..10 {
        let mut frames = frames.to_vec();
        if let [0x06, 0, 0x40, length] = frames[..] {
            frames.resize(4 + usize::from(length), 0);
            frames[4..8].copy_from_slice(&[1, 0, 0x40, 0]);
        }
        forgery.push(Level::Initial, frames);
    }
    let mut network = Network::new(server());
    network.connect(quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls))));
    meter.silence_client(&mut network, 3);
    network.run(LONG);
}

fn no_common_protocol(meter: &Meter) {
    let mut network = Network::new(server());
    network.connect(client_config(&tls_client(&["h9"])));
    meter.silence_client(&mut network, 20);
    network.run(LONG);
}

fn early_data(meter: &Meter) {
    let context = Context::new(&tls_context(&random_seed()), None, EarlyData::Accepted).unwrap();
    let tls =
        Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data().build());
    let mut network = Network::new(Server::new(&context));
    network.connect(client_config(&tls));
    network.run(SECOND);
    network.server.connections.clear();
    network.client.connections.clear();

    let handle = network.connect(client_config(&tls));
    assert!(network.remote(handle).connection.has_0rtt());
    // The client is elsewhere, where its token is of no use.
    network.client.address = VICTIM;
    for _ in 0..5 {
        write(&mut network, handle, 7);
    }
    meter.silence_client(&mut network, 20);
    network.run_with(LONG, respond);
}

/// The client acknowledges packets that it has not received.
fn acknowledged_initial(meter: &Meter) {
    let forgery = Forgery::default();
    let tls = QuicClientConfig::try_from(tls_client(&["h3"])).unwrap();
    let mut network = Network::new(server());
    network.connect(quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls))));
    meter.silence_client(&mut network, 20);
    network.run(ONE_WAY);
    for largest in 0..10 {
        forgery.push(Level::Initial, vec![0x02, largest, 0, 0, largest]);
    }
    network.run(LONG);
}

/// Answers an attempt without a connection.
fn decline(
    meter: &Meter,
    answer: fn(&mut Server, cannery_transport::quic::Incoming, &mut Vec<u8>) -> Transmit,
) {
    let mut network = Network::new(server());
    network.server.acceptance = Acceptance::Held;
    network.connect(client_config(&tls_client(&["h3"])));
    meter.silence_client(&mut network, 5);
    for _ in 0..5 {
        network.run(SECOND);
        for incoming in std::mem::take(&mut network.server.held) {
            let transmit = answer(&mut network.server, incoming, &mut Vec::new());
            meter.send(transmit.destination, transmit.bytes);
        }
    }
}

/// A client returns the token of a Retry packet from another address.
fn foreign_token(meter: &Meter) {
    let mut network = Network::new(server());
    network.server.acceptance = Acceptance::Held;
    network.connect(client_config(&tls_client(&["h3"])));
    network.run(ONE_WAY);
    let incoming = network.server.held.pop().unwrap();
    let mut reply = Vec::new();
    let transmit = network.server.endpoint.retry(incoming, &mut reply).unwrap();
    network.send(Packet { source: SERVER, destination: transmit.destination, ecn: 0, bytes: reply });
    network.server.acceptance = Acceptance::Immediate;
    meter.forge(&mut network, |_| Some(VICTIM));
    network.run(LONG);
}

fn close_during_handshake(meter: &Meter) {
    let mut network = Network::new(server());
    network.connect(client_config(&tls_client(&["h3"])));
    meter.silence_client(&mut network, 20);
    network.run(ONE_WAY);
    let now = network.now;
    network.server.only().connection.close(now, 0x100, b"");
    network.run(LONG);
}

/// Long headers with this first byte and version, of these lengths.
fn stateless(meter: &Meter, first: u8, version: u32, lengths: &[usize]) {
    let mut network = Network::new(server());
    for length in lengths {
        let mut datagram = [&[first][..], &version.to_be_bytes()].concat();
        datagram.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9, 0, 0x44, 0x96]);
        datagram.resize(*length, 0x0c);
        for _ in 0..5 {
            network.now += SECOND;
            meter.pass(&mut network, VICTIM, &datagram);
        }
    }
}

/// Datagrams of a connection that the server has lost, of all lengths.
fn lost_connection(meter: &Meter) {
    let context = context(&random_seed());
    let mut network = Network::new(Server::new(&context));
    let handle = network.connect(client_config(&tls_client(&["h3"])));
    network.run(SECOND);

    network.remote(handle).connection.ping();
    network.run(SECOND);
    let last = network.sent.iter().rfind(|packet| packet.is_for_server()).unwrap().bytes.clone();

    network.server = Server::with_endpoint(Endpoint::new(&context, 0, Generation::new(0), [8; 32]));
    for length in 11..1472 {
        let mut datagram = last.clone();
        datagram.resize(length, 0x55);
        network.now += Duration::from_millis(200);
        meter.pass(&mut network, VICTIM, &datagram);
        // Each is an address of its own.
        meter.0.lock().unwrap().retain(|_, (received, sent)| {
            assert!(sent < received || *sent == 0, "a reset of {sent} bytes answers {received}");
            false
        });
    }

    let arrival = Arrival { source: VICTIM, destination: None, ecn: 0, bytes: &last };
    network.now += SECOND;
    let mut reply = Vec::new();
    meter.receive(VICTIM, last.len());
    let received = network.server.endpoint.receive(network.now, &arrival, &mut reply);
    let Received::Reply(transmit) = received else { panic!("{received:?}") };
    meter.send(VICTIM, transmit.bytes);
}

/// A connection whose datagrams get forged addresses.
struct Attack {
    network: Network,
    handle: ConnectionHandle,
    forgery: Forgery,
}

impl Attack {
    fn run(&mut self, milliseconds: u64) {
        self.network.run_with(Duration::from_millis(milliseconds), respond);
    }

    fn write(&mut self, bytes: usize) {
        write(&mut self.network, self.handle, bytes);
    }
}

/// Lets a client act forty times from other addresses and then waits until all timers have expired.
fn migrate(meter: &Meter, address: fn(usize) -> Option<SocketAddr>, act: fn(&mut Attack)) {
    for delay_ms in [1000, 10_000] {
        let forgery = Forgery::default();
        let tls = QuicClientConfig::try_from(tls_client(&["h3"])).unwrap();
        let mut network = Network::new(server());
        let handle = network.connect(quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls))));
        // Before and after the path was probed for longer datagrams.
        network.run(Duration::from_millis(delay_ms));
        meter.forge(&mut network, address);
        let mut attack = Attack { network, handle, forgery };
        for _ in 0..40 {
            if attack.network.client.connections.is_empty() || attack.network.server.connections.is_empty() {
                break;
            }
            act(&mut attack);
            attack.run(50);
        }
        attack.network.run_with(LONG, respond);
    }
}

fn one(number: usize) -> Option<SocketAddr> {
    (number == 0).then_some(VICTIM)
}

fn all(_: usize) -> Option<SocketAddr> {
    Some(VICTIM)
}

fn in_turns(number: usize) -> Option<SocketAddr> {
    number.is_multiple_of(2).then_some(VICTIM)
}

fn many(number: usize) -> Option<SocketAddr> {
    let last = u8::try_from(number % 200).unwrap();
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)), 50_000))
}

fn ping(attack: &mut Attack) {
    attack.network.remote(attack.handle).connection.ping();
}

fn request(attack: &mut Attack) {
    attack.write(7);
}

fn challenge(attack: &mut Attack) {
    attack.forgery.push(Level::Application, [&[0x1a][..], &[7; 8]].concat());
    request(attack);
    ping(attack);
}

/// Sends a request of this length.
fn write(network: &mut Network, handle: ConnectionHandle, bytes: usize) {
    let connection = &mut network.remote(handle).connection;
    if let Some(id) = connection.streams().open(Dir::Bi) {
        let _ = connection.send_stream(id).write(&vec![b'r'; bytes]);
        let _ = connection.send_stream(id).finish();
    }
}

/// Answers all requests with more than the client may be sent.
fn respond(network: &mut Network) {
    for served in network.server.connections.values_mut() {
        while let Some(id) = served.connection.accept(Direction::Bidirectional) {
            served.connection.read(id, |_| {});
            served.connection.write(id, &mut [Bytes::from_static(&[b'x'; 100_000])]);
            let _ = served.connection.finish(id);
        }
    }
}
