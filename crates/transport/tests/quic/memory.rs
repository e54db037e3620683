//! Memory of connections, which limits how many a server can have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_testkit::http3::{Forgery, Level};
use cannery_transport::quic::{Arrival, Direction, Event, Received, StreamId, WriteOutcome};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{Dir, TransportConfig};

use super::network::{CLIENT, Network, SERVER, Server, client_config, context, random_seed, tls_client};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn idle_connection_takes_little_memory() {
    const COUNT: u32 = 50;
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let tls = tls_client(&["h3"]);
    for _ in 0..COUNT {
        network.connect(client_config(&tls));
    }
    network.run(Duration::from_secs(20));
    assert_eq!(network.server.endpoint.connections(), COUNT as usize);

    for served in network.server.connections.values_mut() {
        served.connection.free_unused();
    }

    let freed = allocation_counter::measure(|| {
        let connections = std::mem::take(&mut network.server.connections);
        for served in connections.into_values() {
            network.server.endpoint.remove(served.connection);
        }
    });
    let bytes = -freed.bytes_current / i64::from(COUNT);
    assert!((1..13_250).contains(&bytes), "{bytes} bytes per connection");
}

/// A network with a client whose packets of full length carry forged frames.
struct Forged {
    network: Network,
    handle: quinn_proto::ConnectionHandle,
    forgery: Forgery,
}

impl Forged {
    fn new() -> Self {
        let forgery = Forgery::default();
        let tls = QuicClientConfig::try_from(tls_client(&["h3"])).unwrap();
        let mut config = quinn_proto::ClientConfig::new(forgery.wrap(Arc::new(tls)));

        let mut transport = TransportConfig::default();
        let mut congestion = CubicConfig::default();
        congestion.initial_window(1 << 30);
        transport
            .stream_receive_window(u32::MAX.into())
            .pad_to_mtu(true)
            .initial_mtu(1452)
            .congestion_controller_factory(Arc::new(congestion));
        config.transport_config(Arc::new(transport));

        let mut network = Network::new(Server::new(&context(&random_seed())));
        let handle = network.connect(config);
        network.run(Duration::from_secs(1));
        assert!(network.remote(handle).is_established());

        // Afterwards, all buffers for datagrams are in use.
        for _ in 0..40 {
            network.remote(handle).connection.ping();
            network.run(50 * MILLISECOND);
        }

        Self { network, handle, forgery }
    }

    /// Sends packets with these frames. Returns the memory that the server keeps for them, both as measured
    /// and as counted.
    fn send(&mut self, packets: impl IntoIterator<Item = Vec<u8>>) -> (i64, u64) {
        let mut datagrams = VecDeque::new();
        for frames in packets {
            self.forgery.push(Level::Application, frames);
            self.network.remote(self.handle).connection.ping();
            self.network.run(6 * MILLISECOND);
            self.network.intercept(|packet| {
                datagrams.push_back(packet.bytes.clone());
                true
            });
        }
        assert_eq!(self.forgery.waiting(), 0);

        let now = self.network.now;
        let server = &mut self.network.server;
        let mut reply = Vec::new();
        let kept = allocation_counter::measure(|| {
            for bytes in &datagrams {
                let arrival = Arrival { source: CLIENT, destination: Some(SERVER.ip()), ecn: 0, bytes };
                let received = server.endpoint.receive(now, &arrival, &mut reply);
                let Received::Connection(_, event) = received else { panic!("{received:?}") };
                let connection = &mut server.connections.values_mut().next().unwrap().connection;
                connection.receive(event);
                while let Some(event) = connection.next_event() {
                    assert_ne!(event, Event::BudgetExceeded, "the client is not even noticed");
                }
                for direction in [Direction::Unidirectional, Direction::Bidirectional] {
                    while let Some(stream) = connection.accept(direction) {
                        connection.read(stream, |_| {});
                    }
                }
            }
        });
        let counted = server.only().connection.kept_bytes();
        (kept.bytes_current, counted)
    }
}

/// A STREAM frame of one byte behind a gap.
fn gapped(stream: u8, number: usize) -> Vec<u8> {
    let offset = u16::try_from(1 + 2 * number).unwrap() | 0x4000;
    [&[0x0e, stream][..], &offset.to_be_bytes(), &[1, b'x']].concat()
}

/// Fills a packet up with other frames.
type Pad<'a> = &'a dyn Fn(Vec<u8>) -> Vec<u8>;

/// Padding behind a frame used to be cut off, which made the library take a whole datagram for a
/// few bytes.
#[test]
fn data_that_waits_takes_little_memory_wherever_padding_is() {
    const ROOM: usize = 1380;
    let behind = |frames: Vec<u8>| frames;
    let before = |frames: Vec<u8>| [vec![0; ROOM - frames.len()], frames].concat();
    let between = |frames: Vec<u8>| [vec![0; ROOM / 2], frames].concat();
    let pings = |frames: Vec<u8>| [frames.clone(), vec![1; ROOM - frames.len()]].concat();
    // PING frames cost more than padding.
    let pads: [(&str, usize, Pad); 4] =
        [("before", 200, &before), ("behind", 200, &behind), ("both", 200, &between), ("pings", 15, &pings)];
    for (name, datagrams, pad) in pads {
        let mut forged = Forged::new();
        let (kept, counted) = forged.send((0..datagrams).map(|number| pad(gapped(14, number))));
        // 32 KiB is what the library wastes before it copies parts together.
        assert!(kept < 60_000, "padding {name}: {kept} bytes");
        assert!(counted + 10_000 > u64::try_from(kept).unwrap(), "padding {name}: {counted} of {kept} bytes");
    }
}

#[test]
fn data_of_many_streams_is_counted() {
    let mut forged = Forged::new();
    let streams = [2, 6, 10, 14, 0, 4, 8, 12, 16, 20];
    let (kept, counted) = forged
        .send((0..60).map(|number| streams.iter().flat_map(|stream| gapped(*stream, number)).collect()));
    assert!(kept > 20_000, "{kept} bytes");
    assert!(counted + 10_000 > u64::try_from(kept).unwrap(), "{counted} of {kept} bytes");

    // Data that was read is no longer counted, except for tables of the streams.
    let connection = &mut forged.network.server.only().connection;
    for stream in streams {
        let _ = connection.stop(StreamId::new(stream.into()), 0);
    }
    assert!(connection.kept_bytes() < 10 * 64 * 56 + 10_000, "{}", connection.kept_bytes());
}

#[test]
fn many_tiny_parts_of_a_stream_end_the_connection() {
    let mut forged = Forged::new();
    for packet in 0..2 {
        let frames = (0..200).flat_map(|number| gapped(2, packet * 200 + number)).collect();
        forged.forgery.push(Level::Application, frames);
        forged.network.remote(forged.handle).connection.ping();
        forged.network.run(50 * MILLISECOND);
    }
    let events = &forged.network.server.only().events;
    assert!(events.contains(&Event::BudgetExceeded), "{events:?}");
}

#[test]
fn datagrams_longer_than_announced_are_dropped() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let mut datagram = vec![0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0];
    for (length, is_dropped) in [(1472, false), (1473, true), (60_000, true)] {
        datagram.resize(length, 0x40);
        let arrival = Arrival { source: CLIENT, destination: None, ecn: 0, bytes: &datagram };
        let mut received = None;
        let measured = allocation_counter::measure(|| {
            received = Some(network.server.endpoint.receive(network.now, &arrival, &mut Vec::new()));
        });
        assert_eq!(measured.count_total == 0, is_dropped, "{length} bytes: {received:?}");
        if is_dropped {
            assert!(matches!(received, Some(Received::Dropped)));
        }
    }
}

/// Responses of which half of the packets are lost, in bytes.
const RESPONSE_BYTES: usize = 1 << 20;

/// Answers eight requests. The client loses the packets that its forgery says.
fn respond_with_losses(forged: &mut Forged, duration: Duration) {
    let body = Bytes::from_static(vec![0x55; RESPONSE_BYTES].leak());
    for _ in 0..8 {
        let connection = &mut forged.network.remote(forged.handle).connection;
        let id = connection.streams().open(Dir::Bi).unwrap();
        connection.send_stream(id).write(b"request").unwrap();
        connection.send_stream(id).finish().unwrap();
    }
    forged.network.run_with(duration, |network| {
        let connection = &mut network.server.only().connection;
        while let Some(id) = connection.accept(Direction::Bidirectional) {
            connection.read(id, |_| {});
            assert_eq!(connection.write(id, &mut [body.clone()]), WriteOutcome::Complete);
            connection.finish(id).unwrap();
        }
    });
}

/// The server remembers each range of a response that was acknowledged before earlier data.
#[test]
fn gaps_between_acknowledged_data_are_counted() {
    let mut forged = Forged::new();
    // The congestion window grows.
    respond_with_losses(&mut forged, 2000 * MILLISECOND);
    forged.forgery.lose(|number| number % 2 == 1);
    respond_with_losses(&mut forged, 41 * MILLISECOND);
    // The packets in flight count by themselves, so that they are declared lost.
    forged.forgery.lose(|number| number % 50 != 0);
    forged.network.run(5000 * MILLISECOND);
    let counted = forged.network.server.only().connection.kept_bytes();
    assert!(counted > 30_000, "{counted} bytes");

    let mut complete = Forged::new();
    respond_with_losses(&mut complete, 5000 * MILLISECOND);
    assert!(complete.network.server.only().connection.kept_bytes() < 10_000);
    let freed = |forged: Forged| {
        let mut server = forged.network.server;
        let connections = std::mem::take(&mut server.connections);
        let freed = allocation_counter::measure(|| {
            connections.into_values().for_each(|served| server.endpoint.remove(served.connection));
        });
        -freed.bytes_current
    };
    let idle = freed(complete);
    let kept = freed(forged) - idle;
    assert!(kept > 20_000, "{kept} bytes");
    assert!(counted + 10_000 > u64::try_from(kept).unwrap(), "{counted} of {kept} bytes");
}

#[test]
fn acknowledged_responses_leave_no_gaps() {
    let mut forged = Forged::new();
    forged.forgery.lose(|number| number % 7 == 1);
    respond_with_losses(&mut forged, 300 * MILLISECOND);
    forged.forgery.lose(|_| false);
    forged.network.run(30_000 * MILLISECOND);
    assert_eq!(forged.network.server.only().connection.unacknowledged_streams(), 0);
    assert!(forged.network.server.only().connection.stats().lost_packets > 5);
    assert!(forged.network.server.only().connection.kept_bytes() < 5_000);
}
