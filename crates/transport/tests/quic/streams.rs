//! Tests of streams: data in both directions under loss, flow control, ends and errors, and the end of the
//! connection.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cannery_transport::limits::{QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST, QUIC_BIDIRECTIONAL_STREAMS_MAX};
use cannery_transport::quic::{
    CloseReason, Connection, Direction, Event, ReadOutcome, StreamClosed, StreamId, WriteOutcome,
};
use quinn_proto::{ConnectionHandle, Dir, ReadError, VarInt};

use super::network::{Fate, Network};

const SECOND: Duration = Duration::from_secs(1);

/// Returns `length` bytes of which any part reveals its position.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|position| position.wrapping_mul(0x9e37_79b1).to_be_bytes()[5]).collect()
}

/// Opens a stream of the client, writes all of `data` to it, and finishes it.
fn write_in_client(
    network: &mut Network,
    handle: ConnectionHandle,
    dir: Dir,
    data: &[u8],
) -> quinn_proto::StreamId {
    let connection = &mut network.remote(handle).connection;
    let id = connection.streams().open(dir).unwrap();
    assert_eq!(connection.send_stream(id).write(data).unwrap(), data.len());
    connection.send_stream(id).finish().unwrap();
    id
}

/// Appends the data that has arrived at the client.
fn read_in_client(
    network: &mut Network,
    handle: ConnectionHandle,
    id: quinn_proto::StreamId,
    data: &mut Vec<u8>,
) -> ReadOutcome {
    let mut stream = network.remote(handle).connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return ReadOutcome::Closed };
    let outcome = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => data.extend_from_slice(&chunk.bytes),
            Ok(None) => break ReadOutcome::Finished,
            Err(_) => break ReadOutcome::Blocked,
        }
    };
    let _ = chunks.finalize();
    outcome
}

fn read(connection: &mut Connection, id: StreamId) -> (Vec<u8>, ReadOutcome) {
    let mut data = Vec::new();
    let outcome = connection.read(id, |chunk| data.extend_from_slice(chunk));
    (data, outcome)
}

/// A server that returns the content of each stream on the same stream.
#[derive(Default)]
struct Echo {
    pending: BTreeMap<StreamId, Vec<Bytes>>,
    /// Streams that were read to their end.
    finished: Vec<StreamId>,
    blocked_writes: usize,
}

impl Echo {
    fn serve(&mut self, connection: &mut Connection) {
        while let Some(id) = connection.accept(Direction::Bidirectional) {
            self.pending.insert(id, Vec::new());
        }

        for (id, pending) in &mut self.pending {
            let outcome = connection.read(*id, |chunk| pending.push(Bytes::copy_from_slice(chunk)));
            if outcome == ReadOutcome::Finished {
                self.finished.push(*id);
            }

            match connection.write(*id, pending) {
                WriteOutcome::Complete => {
                    pending.clear();
                    if self.finished.contains(id) {
                        let _ = connection.finish(*id);
                    }
                }
                WriteOutcome::Blocked => self.blocked_writes += 1,
                outcome => panic!("{outcome:?}"),
            }
            pending.retain(|piece| !piece.is_empty());
        }
    }
}

/// Sends `streams` contents through an echo server over a path; returns the network.
fn echo(
    path: impl FnMut(&mut super::network::Packet) -> Fate + 'static,
    streams: usize,
    length: usize,
) -> Network {
    let (mut network, handle) = Network::connected();
    network.path = Box::new(path);
    let sent = content(length);
    let mut written = vec![0; streams];
    let mut received = vec![Vec::new(); streams];
    let ids: Vec<_> =
        (0..streams).map(|_| network.remote(handle).connection.streams().open(Dir::Bi).unwrap()).collect();

    let mut echo = Echo::default();
    let mut finished = 0;
    network.run_with(600 * SECOND, |network| {
        if finished == streams {
            return;
        }
        echo.serve(&mut network.server.only().connection);
        for (index, id) in ids.iter().enumerate() {
            let mut stream = network.remote(handle).connection.send_stream(*id);
            if let Ok(more) = stream.write(&sent[written[index]..]) {
                written[index] += more;
                if written[index] == length {
                    let _ = stream.finish();
                }
            }
            let before = received[index].len();
            let outcome = read_in_client(network, handle, *id, &mut received[index]);
            let is_new = before < length || length == 0;
            finished += usize::from(outcome == ReadOutcome::Finished && is_new);
        }
    });
    for data in &received {
        assert_eq!(data.len(), length);
        assert!(*data == sent);
    }
    network
}

/// Opens streams of the client until it has to wait, sending a byte on each. Returns their number.
fn open_all(network: &mut Network, handle: ConnectionHandle) -> u32 {
    let connection = &mut network.remote(handle).connection;
    let mut count = 0;
    while let Some(id) = connection.streams().open(Dir::Bi) {
        connection.send_stream(id).write(b"x").unwrap();
        count += 1;
    }
    count
}

#[test]
fn client_with_several_streams_may_open_a_hundred() {
    let (mut network, handle) = Network::connected();
    let first = open_all(&mut network, handle);
    assert_eq!(first, QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST);

    network.run_with(SECOND, |network| {
        let connection = &mut network.server.only().connection;
        while connection.accept(Direction::Bidirectional).is_some() {}
    });
    assert_eq!(first + open_all(&mut network, handle), QUIC_BIDIRECTIONAL_STREAMS_MAX);
}

/// The state of all permitted streams is in memory.
#[test]
fn client_with_one_stream_at_a_time_may_open_few() {
    let (mut network, handle) = Network::connected();
    for _ in 0..2 * QUIC_BIDIRECTIONAL_STREAMS_MAX {
        let id = write_in_client(&mut network, handle, Dir::Bi, b"request");
        network.run(SECOND);
        let connection = &mut network.server.only().connection;
        let stream = connection.accept(Direction::Bidirectional).unwrap();
        assert_eq!(read(connection, stream), (b"request".to_vec(), ReadOutcome::Finished));
        connection.finish(stream).unwrap();
        network.run(SECOND);
        assert_eq!(read_in_client(&mut network, handle, id, &mut Vec::new()), ReadOutcome::Finished);
    }
    network.run(SECOND);
    // A few are permitted again later, together with others.
    let open = open_all(&mut network, handle);
    assert!(
        (QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST / 2..=QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST).contains(&open),
        "{open}"
    );
}

#[test]
fn megabytes_arrive_in_both_directions() {
    let network = echo(|_| Fate::Deliver, 1, 4_000_000);
    assert!(network.sent.iter().all(|packet| packet.bytes.len() <= 1452));
    assert!(network.server.connections.is_empty(), "it is idle after the transfer");
    assert!(!network.server.ended[0].contains(&Event::BudgetExceeded));
}

#[test]
fn data_arrives_despite_loss_and_reordering() {
    let mut state = 11_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    echo(
        move |_| match random() % 100 {
            0..5 => Fate::Drop,
            5..15 => Fate::Delay(Duration::from_millis(random() % 60)),
            _ => Fate::Deliver,
        },
        5,
        300_000,
    );
}

#[test]
fn partial_write_leaves_the_rest() {
    let (mut network, handle) = Network::connected();
    let id = write_in_client(&mut network, handle, Dir::Bi, b"request");
    network.run(SECOND);

    let connection = &mut network.server.only().connection;
    let stream = connection.accept(Direction::Bidirectional).unwrap();
    assert_eq!(read(connection, stream), (b"request".to_vec(), ReadOutcome::Finished));

    // The client's window for a stream has 1.25 MB.
    let body = Bytes::from(content(2_000_000));
    let mut pieces = [Bytes::from_static(b"head"), body.clone()];
    assert_eq!(connection.write(stream, &mut pieces), WriteOutcome::Blocked);
    assert!(pieces[0].is_empty());
    assert!(body.ends_with(&pieces[1]) && pieces[1].len() < body.len());

    let mut received = Vec::new();
    let mut is_finished = false;
    network.run_with(60 * SECOND, |network| {
        is_finished |= read_in_client(network, handle, id, &mut received) == ReadOutcome::Finished;
        let Some(served) = network.server.connections.values_mut().next() else { return };
        if served.events.contains(&Event::Writable(stream)) {
            served.events.clear();
            if served.connection.write(stream, &mut pieces) == WriteOutcome::Complete {
                served.connection.finish(stream).unwrap();
            }
        }
    });
    assert!(is_finished);
    assert_eq!(received, [b"head", &body[..]].concat());
}

#[test]
fn stream_window_bounds_unread_data() {
    let (mut network, handle) = Network::connected();
    let connection = &mut network.remote(handle).connection;
    let id = connection.streams().open(Dir::Bi).unwrap();
    assert_eq!(connection.send_stream(id).write(&[1; 100_000]).unwrap(), 16 * 1024);
    // Eight streams fill the window of the connection.
    for _ in 0..7 {
        let id = connection.streams().open(Dir::Bi).unwrap();
        assert_eq!(connection.send_stream(id).write(&[1; 100_000]).unwrap(), 16 * 1024);
    }
    let id = connection.streams().open(Dir::Bi).unwrap();
    assert!(connection.send_stream(id).write(&[1]).is_err());
}

#[test]
fn stream_limits_are_those_of_the_transport_parameters() {
    let (mut network, handle) = Network::connected();
    let connection = &mut network.remote(handle).connection;
    let mut opened = |dir| std::iter::from_fn(|| connection.streams().open(dir)).count();
    assert_eq!((opened(Dir::Bi), opened(Dir::Uni)), (10, 4));
    assert_eq!(connection.datagrams().max_size(), None, "datagrams are disabled");
}

#[test]
fn unidirectional_streams_carry_data_one_way() {
    let (mut network, handle) = Network::connected();
    write_in_client(&mut network, handle, Dir::Uni, b"settings");
    network.run(SECOND);
    let served = network.server.only();
    assert!(served.events.contains(&Event::StreamsOpened(Direction::Unidirectional)));

    let stream = served.connection.accept(Direction::Unidirectional).unwrap();
    assert_eq!(stream.direction(), Direction::Unidirectional);
    assert!(stream.is_opened_by_client());
    assert_eq!(served.connection.write(stream, &mut [Bytes::from_static(b"x")]), WriteOutcome::Closed);
    assert_eq!(served.connection.finish(stream), Err(StreamClosed));
    assert_eq!(read(&mut served.connection, stream), (b"settings".to_vec(), ReadOutcome::Finished));
    assert_eq!(read(&mut served.connection, stream).1, ReadOutcome::Closed);

    let own = served.connection.open(Direction::Unidirectional).unwrap();
    assert_eq!(own.number(), 3);
    assert_eq!(read(&mut served.connection, own).1, ReadOutcome::Closed);
    assert_eq!(served.connection.write(own, &mut [Bytes::from_static(b"ours")]), WriteOutcome::Complete);
    served.connection.finish(own).unwrap();
    network.run(SECOND);
    let id = network.remote(handle).connection.streams().accept(Dir::Uni).unwrap();
    let mut received = Vec::new();
    assert_eq!(read_in_client(&mut network, handle, id, &mut received), ReadOutcome::Finished);
    assert_eq!(received, b"ours");
    network.run(SECOND);
    assert!(network.server.only().events.contains(&Event::Finished(own)));
}

#[test]
fn reset_and_stop_carry_codes_both_ways() {
    let (mut network, handle) = Network::connected();
    let connection = &mut network.remote(handle).connection;
    let id = connection.streams().open(Dir::Bi).unwrap();
    connection.send_stream(id).write(b"begun").unwrap();
    network.run(SECOND);
    let connection = &mut network.server.only().connection;
    let stream = connection.accept(Direction::Bidirectional).unwrap();
    assert_eq!(read(connection, stream), (b"begun".to_vec(), ReadOutcome::Blocked));

    let connection = &mut network.remote(handle).connection;
    connection.send_stream(id).reset(VarInt::from_u32(0x10c)).unwrap();
    connection.recv_stream(id).stop(VarInt::from_u32(0x10d)).unwrap();
    network.run(SECOND);
    let served = network.server.only();
    assert!(served.events.contains(&Event::Stopped(stream, 0x10d)));
    assert!(served.events.contains(&Event::Readable(stream)));
    assert_eq!(read(&mut served.connection, stream).1, ReadOutcome::Reset(0x10c));
    let outcome = served.connection.write(stream, &mut [Bytes::from_static(b"late")]);
    assert_eq!(outcome, WriteOutcome::Stopped(0x10d));
    assert_eq!(served.connection.reset(stream, 0x10d), Ok(()));
    network.run(SECOND);

    let id = network.remote(handle).connection.streams().open(Dir::Bi).unwrap();
    network.remote(handle).connection.send_stream(id).write(b"second").unwrap();
    network.run(SECOND);
    let connection = &mut network.server.only().connection;
    let stream = connection.accept(Direction::Bidirectional).unwrap();
    connection.stop(stream, 0x100).unwrap();
    assert_eq!(connection.stop(stream, 0x100), Err(StreamClosed));
    connection.reset(stream, 0x102).unwrap();
    network.run(SECOND);
    let connection = &mut network.remote(handle).connection;
    assert_eq!(connection.send_stream(id).stopped().unwrap(), Some(VarInt::from_u32(0x100)));
    let mut stream = connection.recv_stream(id);
    let error = stream.read(true).unwrap().next(1).unwrap_err();
    assert_eq!(error, ReadError::Reset(VarInt::from_u32(0x102)));
}

#[test]
fn higher_priority_is_sent_first() {
    let (mut network, handle) = Network::connected();
    let low = write_in_client(&mut network, handle, Dir::Bi, b"low");
    let high = write_in_client(&mut network, handle, Dir::Bi, b"high");
    network.run(SECOND);

    let connection = &mut network.server.only().connection;
    for priority in [0, 5] {
        let stream = connection.accept(Direction::Bidirectional).unwrap();
        connection.set_priority(stream, priority).unwrap();
        connection.write(stream, &mut [Bytes::from(content(200_000))]);
    }

    let mut received = [0, 0];
    network.run_with(SECOND, |network| {
        for (index, id) in [low, high].into_iter().enumerate() {
            let mut data = Vec::new();
            read_in_client(network, handle, id, &mut data);
            received[index] += data.len();
        }
        if received[1] < 190_000 {
            assert!(received[0] < 5_000, "{received:?}");
        }
    });

    assert_eq!(received, [200_000, 200_000]);
}

#[test]
fn unknown_streams_are_closed() {
    let (mut network, _) = Network::connected();
    let connection = &mut network.server.only().connection;
    for number in [0, 2, 3, 4000, (1 << 62) - 1] {
        let stream = StreamId::new(number);
        if number != 0 && number != 2 {
            assert_eq!(read(connection, stream).1, ReadOutcome::Closed, "{number}");
            assert_eq!(connection.stop(stream, 0), Err(StreamClosed));
        }
        if number > 3 {
            assert_eq!(connection.write(stream, &mut [Bytes::from_static(b"x")]), WriteOutcome::Closed);
            assert_eq!(connection.reset(stream, 0), Err(StreamClosed));
            assert_eq!(connection.set_priority(stream, 0), Err(StreamClosed));
        }
    }
}

#[test]
fn close_code_of_the_server_reaches_the_client() {
    let (mut network, handle) = Network::connected();
    let now = network.now;
    let connection = &mut network.server.only().connection;
    connection.close(now, 0x101, b"done");
    assert!(connection.is_closed() && !connection.is_drained());
    network.run(5 * SECOND);
    let loss = network.remote(handle).loss().unwrap().to_string();
    assert!(loss.contains("257") && loss.contains("done"), "{loss}");
    assert_eq!((network.server.connections.len(), network.server.endpoint.connections()), (0, 0));
}

#[test]
fn close_code_of_the_client_reaches_the_server() {
    let (mut network, handle) = Network::connected();
    let now = network.now;
    network.remote(handle).connection.close(now, VarInt::from_u32(0x104), Bytes::new());
    network.run(Duration::from_millis(20));
    let events = &network.server.ended[0];
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::ByApplication(0x104))));
    assert_eq!((network.server.connections.len(), network.server.endpoint.connections()), (0, 0));
}

#[test]
fn silent_client_times_out() {
    let (mut network, _) = Network::connected();
    network.path = Box::new(|_| Fate::Drop);
    network.run(Duration::from_secs(40));
    let end = network.server.ended.pop().unwrap().pop();
    assert_eq!(end, Some(Event::Closed(CloseReason::TimedOut)));
    assert_eq!(network.server.endpoint.connections(), 0);
    assert_eq!(network.server.endpoint.half_open(), 0);
}
