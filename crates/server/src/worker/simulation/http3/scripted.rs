//! A client of the simulated network that follows a script: requests in pieces, slow reading, missing acknowledgments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use cannery_eventloop::simulated::DatagramPeer;
use cannery_eventloop::{Datagram, Ecn, SegmentBatch};
use cannery_testkit::http3::{
    CONTROL_STREAM, DATA, GOAWAY, HEADERS, SETTINGS, decode, field_section, frame, take_frame, varint,
};
use cannery_testkit::tls::ClientOptions;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamId, TransportConfig, VarInt,
};

use super::SERVER;

/// Bytes of each response that are kept, to read its status.
const KEPT_BYTES: usize = 1000;

/// An action of a client.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker::simulation) enum Deed {
    /// Begins a request for this path and ends it unless more follows.
    Request { name: usize, method: &'static str, path: &'static str, ends: bool },
    /// Begins a request, but only sends half of its head.
    HalfHead { name: usize },
    /// Sends a frame of content.
    Content { name: usize, bytes: usize },
    /// Ends the request with this name.
    End { name: usize },
}

/// Which datagrams a client takes note of. It loses all others.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker::simulation) enum Hearing {
    All,
    /// After its requests, one in this time.
    OneIn(Duration),
    Nothing,
}

/// The way in which a client receives.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker::simulation) struct Habits {
    /// The window of each stream in bytes.
    pub(in crate::worker::simulation) window: u32,
    /// Bytes that it reads from its streams each second, which opens the windows again.
    pub(in crate::worker::simulation) bytes_per_second: usize,
    /// Interval at which it sends a PING.
    pub(in crate::worker::simulation) pings: Duration,
    pub(in crate::worker::simulation) hearing: Hearing,
}

impl Habits {
    /// Those of a client that reads everything.
    pub(in crate::worker::simulation) const GOOD: Habits = Habits {
        window: 1 << 20,
        bytes_per_second: usize::MAX,
        pings: Duration::from_secs(5),
        hearing: Hearing::All,
    };
}

/// A client with a script.
pub(in crate::worker::simulation) struct Scripted {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    config: ClientConfig,
    habits: Habits,
    /// Its actions after it has connected, in the order of time.
    script: Vec<(Duration, Deed)>,
    done: usize,
    connected_at: Option<Instant>,
    streams: BTreeMap<usize, StreamId>,
    /// The first bytes of each response.
    responses: BTreeMap<usize, Vec<u8>>,
    /// Content for which the server has opened no window yet.
    contents: BTreeMap<StreamId, Vec<u8>>,
    /// The bytes of the server's own streams.
    server_streams: BTreeMap<StreamId, Vec<u8>>,
    next_hearing: Option<Instant>,
    next_reading: Instant,
    finished: usize,
    is_over: bool,
    timeout: Option<Instant>,
    buffer: Vec<u8>,
}

impl Scripted {
    pub(in crate::worker::simulation) fn new(
        script: Vec<(Duration, Deed)>,
        habits: Habits,
        now: Instant,
    ) -> Scripted {
        let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build());
        let tls = QuicClientConfig::try_from(tls).expect("the client offers TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(tls));

        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(habits.pings));
        transport.stream_receive_window(VarInt::from_u32(habits.window));
        config.transport_config(Arc::new(transport));

        let mut endpoint_config = EndpointConfig::default();
        endpoint_config.rng_seed(Some([7; 32]));

        Scripted {
            endpoint: Endpoint::new(Arc::new(endpoint_config), None, true, None),
            connection: None,
            config,
            habits,
            script,
            done: 0,
            connected_at: None,
            streams: BTreeMap::new(),
            responses: BTreeMap::new(),
            contents: BTreeMap::new(),
            server_streams: BTreeMap::new(),
            next_hearing: None,
            next_reading: now,
            finished: 0,
            is_over: false,
            timeout: None,
            buffer: Vec::new(),
        }
    }

    /// Returns the number of responses that it has read to the end.
    pub(in crate::worker::simulation) fn finished(&self) -> usize {
        self.finished
    }

    /// Returns the status of the response to the request with this name, once it has come.
    pub(in crate::worker::simulation) fn status(&self, name: usize) -> Option<u16> {
        let (kind, section) = take_frame(&mut self.responses.get(&name)?.as_slice())?;
        assert_eq!(kind, HEADERS, "a response begins with its head");
        let (_, status) = decode(section).into_iter().find(|(name, _)| name == ":status")?;
        status.parse().ok()
    }

    /// Returns `true` once the server has sent GOAWAY.
    pub(in crate::worker::simulation) fn has_goaway(&self) -> bool {
        self.server_streams.values().any(|bytes| {
            let Some(mut frames) = bytes.strip_prefix(varint(CONTROL_STREAM).as_slice()) else {
                return false;
            };
            std::iter::from_fn(|| take_frame(&mut frames)).any(|(kind, _)| kind == GOAWAY)
        })
    }

    fn next_deed(&self) -> Option<Instant> {
        let (after, _) = self.script.get(self.done)?;
        Some(self.connected_at? + *after)
    }

    fn run(&mut self, now: Instant) {
        let Some((handle, mut connection)) = self.connection.take() else { return };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    self.connected_at = Some(now);
                    let control = connection.streams().open(Dir::Uni).expect("servers allow three streams");
                    let start = [varint(CONTROL_STREAM), frame(SETTINGS, &[])].concat();
                    connection.send_stream(control).write(&start).expect("the stream is empty");
                }
                Event::ConnectionLost { .. } => self.is_over = true,
                _ => {}
            }
        }

        self.read_server_streams(&mut connection);
        while self.next_deed().is_some_and(|at| at <= now) && !self.is_over {
            let (_, deed) = self.script[self.done];
            self.done += 1;
            self.perform(deed, &mut connection);
        }

        for (id, waiting) in &mut self.contents {
            // The server may have stopped it.
            while let Ok(written @ 1..) = connection.send_stream(*id).write(waiting) {
                waiting.drain(..written);
            }
        }

        if now >= self.next_reading {
            self.next_reading = now + Duration::from_secs(1);
            self.read(&mut connection);
        } else if self.habits.bytes_per_second == usize::MAX {
            self.read(&mut connection);
        }

        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        self.connection = Some((handle, connection));
    }

    fn perform(&mut self, deed: Deed, connection: &mut Connection) {
        match deed {
            Deed::Request { name, method, path, ends } => {
                let id = connection.streams().open(Dir::Bi).expect("the script opens few at a time");
                let fields =
                    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
                let mut stream = connection.send_stream(id);
                stream.write(&frame(HEADERS, &field_section(&fields))).expect("the stream is empty");
                if ends {
                    stream.finish().expect("the stream is open");
                }
                self.streams.insert(name, id);
            }

            Deed::HalfHead { name } => {
                let id = connection.streams().open(Dir::Bi).expect("the script opens few at a time");
                let head = frame(HEADERS, &field_section(&[(":method", "GET"), (":scheme", "https")]));
                connection.send_stream(id).write(&head[..head.len() / 2]).expect("the stream is empty");
                self.streams.insert(name, id);
            }

            Deed::Content { name, bytes } => {
                let waiting = self.contents.entry(self.streams[&name]).or_default();
                waiting.extend(frame(DATA, &vec![b'x'; bytes]));
            }
            // The server might have reset it.
            Deed::End { name } => _ = connection.send_stream(self.streams[&name]).finish(),
        }
    }

    fn read_server_streams(&mut self, connection: &mut Connection) {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.server_streams.insert(id, Vec::new());
        }

        for (id, bytes) in &mut self.server_streams {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
        }
    }

    fn read(&mut self, connection: &mut Connection) {
        let mut left = self.habits.bytes_per_second;
        let mut ended = Vec::new();

        for (name, id) in &self.streams {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while left > 0 {
                match chunks.next(left) {
                    Ok(Some(chunk)) => {
                        left -= chunk.bytes.len();
                        let kept = self.responses.entry(*name).or_default();
                        let room = KEPT_BYTES.saturating_sub(kept.len()).min(chunk.bytes.len());
                        kept.extend_from_slice(&chunk.bytes[..room]);
                    }
                    Ok(None) => {
                        self.finished += 1;
                        ended.push(*name);
                        break;
                    }
                    Err(_) => break,
                }
            }
            let _ = chunks.finalize();
        }

        // Ends of requests might still follow.
        self.streams.retain(|name, _| {
            !ended.contains(name)
                || self.script[self.done..]
                    .iter()
                    .any(|(_, deed)| matches!(deed, Deed::End { name: other } if other == name))
        });
    }
}

impl DatagramPeer for Scripted {
    fn receive(&mut self, now: Instant, datagram: Datagram<'_>) {
        match self.habits.hearing {
            Hearing::Nothing => return,
            Hearing::OneIn(time) if self.done == self.script.len() && datagram.bytes.len() > 100 => {
                if self.next_hearing.is_some_and(|next| now < next) {
                    return;
                }
                self.next_hearing = Some(now + time);
            }
            Hearing::OneIn(_) | Hearing::All => {}
        }
        self.buffer.clear();
        let bytes = BytesMut::from(&*datagram.bytes);
        let event = self.endpoint.handle(now, datagram.source, None, None, bytes, &mut self.buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event
            && let Some((_, connection)) = &mut self.connection
        {
            connection.handle_event(event);
        }
        self.run(now);
    }

    fn transmit(&mut self, now: Instant) -> Option<SegmentBatch<'_>> {
        if self.connection.is_none() && !self.is_over {
            let connected = self.endpoint.connect(now, self.config.clone(), SERVER, "localhost");
            self.connection = Some(connected.expect("the configuration is valid"));
        }
        let (_, connection) = self.connection.as_mut()?;
        self.buffer.clear();
        let transmit = connection.poll_transmit(now, 1, &mut self.buffer);
        self.timeout = connection.poll_timeout();
        let transmit = transmit?;
        Some(SegmentBatch {
            destination: transmit.destination,
            source: None,
            ecn: transmit.ecn.and_then(|ecn| Ecn::from_traffic_class(ecn as u8)),
            bytes: &self.buffer[..transmit.size],
            segment_bytes: transmit.segment_size,
        })
    }

    fn timeout(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let reading = (!self.streams.is_empty()).then_some(self.next_reading);
        [self.timeout, self.next_deed(), reading].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection
            && self.timeout.is_some_and(|timeout| timeout <= now)
        {
            connection.handle_timeout(now);
        }
        self.run(now);
    }
}
