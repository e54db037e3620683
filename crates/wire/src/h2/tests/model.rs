//! Compares connections to a simple model. Both should write the same frames for any sequence of operations.
//!
//! The model follows the RFCs frame by frame, using maps and wide integers. It does not share any code with connections.

use std::collections::BTreeMap;

use cannery_testkit::http2::{
    END_STREAM, FLOW_CONTROL_ERROR, INITIAL_WINDOW_SIZE, NO_ERROR, PING, PROTOCOL_ERROR, REFUSED_STREAM,
    STREAM_CLOSED, data, frame, priority_update, reset, settings, window_update,
};
use proptest::prelude::*;

use super::peer::{Content, Frame, Peer, last_headers, post, request};

/// An operation of a peer.
#[derive(Debug, Clone)]
enum Operation {
    /// Requests a body that is this long.
    Get {
        bytes: u64,
        urgency: u8,
        incremental: bool,
    },
    /// Requests a body and announces content, possibly with its length.
    Post {
        bytes: u64,
        length: Option<u64>,
    },
    /// A malformed request that has content.
    Malformed,
    Data {
        stream: u32,
        bytes: u32,
        ended: bool,
    },
    /// As much content as the window allows.
    FillWindow {
        stream: u32,
    },
    Trailers {
        stream: u32,
    },
    Reset {
        stream: u32,
    },
    Widen {
        stream: u32,
        bytes: u32,
    },
    WidenConnection {
        bytes: u32,
    },
    InitialWindow {
        bytes: u32,
    },
    Prioritize {
        stream: u32,
        urgency: u8,
        incremental: bool,
    },
    Ping,
    /// Sends all bodies, as far as the windows allow.
    Drain,
}

/// Streams are any numbers. [`act`] turns them into existing streams.
fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let bytes = prop_oneof![Just(0), 1..200_u64, 8_190..8_195_u64, 16_380..70_000_u64];
    let stream = || 0..40_u32;
    let window = || prop_oneof![1..100_u32, 1_000..100_000_u32, Just(0x7fff_ffff)];
    prop_oneof![
        6 => (bytes.clone(), 0..8_u8, any::<bool>())
            .prop_map(|(bytes, urgency, incremental)| Get { bytes, urgency, incremental }),
        2 => (bytes, prop::option::of(0..40_000_u64)).prop_map(|(bytes, length)| Post { bytes, length }),
        3 => (stream(), prop_oneof![Just(0), Just(16_384), 0..16_384_u32], any::<bool>())
            .prop_map(|(stream, bytes, ended)| Data { stream, bytes, ended }),
        1 => Just(Malformed),
        1 => stream().prop_map(|stream| FillWindow { stream }),
        1 => stream().prop_map(|stream| Trailers { stream }),
        1 => stream().prop_map(|stream| Reset { stream }),
        2 => (stream(), window()).prop_map(|(stream, bytes)| Widen { stream, bytes }),
        1 => (1..1_000_000_u32).prop_map(|bytes| WidenConnection { bytes }),
        1 => prop_oneof![0..100_u32, 10_000..1_000_000_u32].prop_map(|bytes| InitialWindow { bytes }),
        1 => (stream(), 0..8_u8, any::<bool>())
            .prop_map(|(stream, urgency, incremental)| Prioritize { stream, urgency, incremental }),
        1 => Just(Ping),
        4 => Just(Drain),
    ]
}

/// A simple connection.
struct Model {
    streams: BTreeMap<u32, ModelStream>,
    last: u32,
    last_incremental: u32,
    window: i64,
    initial_window: i64,
    received: u64,
    early_priorities: Vec<(u32, (u8, bool))>,
    written: Vec<Frame>,
    is_closed: bool,
}

#[derive(Debug)]
struct ModelStream {
    state: State,
    priority: (u8, bool),
    window: i64,
    /// Remaining and total length of the body, in bytes.
    left: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Ended,
    Pending { left: Option<u64>, window: i64 },
    Reset,
}

impl Model {
    fn new() -> Model {
        Model {
            streams: BTreeMap::new(),
            last: 0,
            last_incremental: 0,
            window: 65_535,
            initial_window: 65_535,
            received: 0,
            early_priorities: Vec::new(),
            written: Vec::new(),
            is_closed: false,
        }
    }

    fn open(&mut self) -> u32 {
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        self.last
    }

    fn request(&mut self, bytes: u64, own_priority: (u8, bool), state: State, archive: &[u8]) {
        let id = self.open();
        let open = self.streams.values().filter(|stream| stream.state != State::Reset).count();
        if open >= 128 {
            self.written.push(Frame::Reset(id, REFUSED_STREAM));
            if state != State::Ended {
                self.remember_reset(id);
            }
            return;
        }

        let early =
            self.early_priorities.iter().find(|(stream, _)| *stream == id).map(|(_, priority)| *priority);
        let priority = early.unwrap_or(own_priority);
        self.early_priorities.retain(|(stream, _)| *stream > id);

        self.written.push(Frame::Headers(id, 200, bytes == 0));
        let is_ahead = !self.streams.values().any(|other| other.left > 0 && other.priority.0 <= priority.0);
        let room = self.window.min(self.initial_window).max(0).unsigned_abs();
        let mut stream = ModelStream { state, priority, window: self.initial_window, left: bytes, bytes };
        if bytes > 0 && bytes <= 8192 && bytes <= room && is_ahead {
            self.send_data(id, &mut stream, bytes, archive);
        }

        if stream.left > 0 || state != State::Ended {
            self.streams.insert(id, stream);
        }
    }

    fn send_data(&mut self, id: u32, stream: &mut ModelStream, bytes: u64, archive: &[u8]) {
        let start = usize::try_from(stream.bytes - stream.left).unwrap();
        let content = archive[start..][..usize::try_from(bytes).unwrap()].to_vec();
        stream.left -= bytes;
        stream.window -= i64::try_from(bytes).unwrap();
        self.window -= i64::try_from(bytes).unwrap();
        self.written.push(Frame::Data(id, Content(content), stream.left == 0));
    }

    fn send(&mut self, archive: &[u8]) {
        while self.window > 0 && !self.is_closed {
            let mut ready: Vec<_> =
                self.streams.iter().filter(|(_, stream)| stream.left > 0 && stream.window > 0).collect();
            let Some(urgency) = ready.iter().map(|(_, stream)| stream.priority.0).min() else { return };
            ready.retain(|(_, stream)| stream.priority.0 == urgency);
            let whole = ready.iter().find(|(_, stream)| !stream.priority.1);
            let turn = || ready.iter().find(|(id, _)| **id > self.last_incremental).or(ready.first());
            let Some((id, stream)) = whole.or_else(turn) else { return };
            let id = **id;
            if stream.priority.1 {
                self.last_incremental = id;
            }
            let mut stream = self.streams.remove(&id).unwrap();
            let bytes = stream.left.min(16_384).min(stream.window.min(self.window).unsigned_abs());
            self.send_data(id, &mut stream, bytes, archive);
            self.streams.insert(id, stream);
            self.remove_if_done(id);
        }
    }

    /// Removes a stream that does not have to wait.
    fn remove_if_done(&mut self, id: u32) {
        let stream = &self.streams[&id];
        match stream.state {
            _ if stream.left > 0 => {}
            State::Ended => _ = self.streams.remove(&id),
            State::Pending { window: 0, .. } => {
                self.written.push(Frame::Reset(id, NO_ERROR));
                self.remember_reset(id);
            }
            _ => {}
        }
    }

    fn remember_reset(&mut self, id: u32) {
        self.streams.remove(&id);
        let state = State::Reset;
        self.streams.insert(id, ModelStream { state, priority: (3, false), window: 0, left: 0, bytes: 0 });
    }

    /// Resets a stream because of an error.
    fn reset(&mut self, id: u32, code: u32) {
        self.written.push(Frame::Reset(id, code));
        if self.streams.get(&id).is_some_and(|stream| stream.state != State::Ended) {
            self.remember_reset(id);
        } else {
            self.streams.remove(&id);
        }
    }

    fn close(&mut self, code: u32) {
        self.written.push(Frame::GoAway(self.last, code));
        self.is_closed = true;
    }

    fn data(&mut self, id: u32, bytes: u64, ended: bool) {
        self.received += bytes;
        if self.received > 32_767 {
            self.written.push(Frame::WindowUpdate(0, u32::try_from(self.received).unwrap()));
            self.received = 0;
        }

        let Some(stream) = self.streams.get_mut(&id) else { return self.reset(id, STREAM_CLOSED) };
        let State::Pending { left, window } = &mut stream.state else {
            if stream.state == State::Ended {
                self.reset(id, STREAM_CLOSED);
            } else if ended {
                self.streams.remove(&id);
            }
            return;
        };

        *window -= i64::try_from(bytes).unwrap();
        if *window < 0 {
            return self.reset(id, FLOW_CONTROL_ERROR);
        }
        if left.is_some_and(|left| left < bytes) {
            return self.reset(id, PROTOCOL_ERROR);
        }

        *left = left.map(|left| left - bytes);
        if ended { self.end_content(id) } else { self.remove_if_done(id) }
    }

    fn end_content(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).unwrap();
        let State::Pending { left, .. } = std::mem::replace(&mut stream.state, State::Ended) else { return };
        if left.is_some_and(|left| left > 0) {
            self.reset(id, PROTOCOL_ERROR);
        } else {
            self.remove_if_done(id);
        }
    }

    fn trailers(&mut self, id: u32) {
        match self.streams.get(&id).map(|stream| stream.state) {
            None => self.close(STREAM_CLOSED),
            Some(State::Ended) => self.reset(id, STREAM_CLOSED),
            Some(State::Reset) => _ = self.streams.remove(&id),
            Some(State::Pending { .. }) => self.end_content(id),
        }
    }

    fn widen(&mut self, id: u32, bytes: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.state == State::Reset {
            return;
        }
        stream.window += i64::from(bytes);
        if stream.window > 0x7fff_ffff {
            self.reset(id, FLOW_CONTROL_ERROR);
        }
    }

    fn set_initial_window(&mut self, bytes: u32) {
        let change = i64::from(bytes) - self.initial_window;
        self.initial_window = bytes.into();
        let mut is_too_large = false;
        for stream in self.streams.values_mut().filter(|stream| stream.state != State::Reset) {
            stream.window += change;
            is_too_large |= stream.window > 0x7fff_ffff;
        }
        if is_too_large { self.close(FLOW_CONTROL_ERROR) } else { self.written.push(Frame::SettingsAck) }
    }

    fn prioritize(&mut self, id: u32, priority: (u8, bool)) {
        if id <= self.last {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.priority = priority;
            }
        } else {
            self.early_priorities.retain(|(stream, _)| *stream != id);
            if self.early_priorities.len() == 16 {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
        }
    }
}

/// Does the same operation on both. Returns the frames that the connection has written.
fn act(operation: &Operation, peer: &mut Peer, model: &mut Model, archive: &[u8]) -> Vec<Frame> {
    let used = |number: u32, model: &Model| number % (model.last / 2 + 1) * 2 + 1;
    let priority = |urgency: u8, incremental: bool| format!("u={urgency}, i=?{}", u8::from(incremental));
    let next = if model.last == 0 { 1 } else { model.last + 2 };
    if model.last == 0
        && !matches!(operation, Operation::Get { .. } | Operation::Post { .. } | Operation::Ping)
    {
        return Vec::new();
    }

    match *operation {
        Operation::Get { bytes, urgency, incremental } => {
            model.request(bytes, (urgency, incremental), State::Ended, archive);
            let (path, priority) = (format!("/{bytes}"), priority(urgency, incremental));
            peer.send(&last_headers(next, &request(&path, &[("priority", &priority)])))
        }
        Operation::Post { bytes, length } => {
            model.request(bytes, (3, false), State::Pending { left: length, window: 65_535 }, archive);
            let text = length.map(|length| length.to_string());
            let more: Vec<_> = text.iter().map(|length| ("content-length", length.as_str())).collect();
            peer.send(&post(next, &format!("/{bytes}"), &more))
        }
        Operation::Malformed => {
            let id = model.open();
            model.written.push(Frame::Reset(id, PROTOCOL_ERROR));
            model.remember_reset(id);
            peer.send(&post(id, "/1", &[("connection", "close")]))
        }
        Operation::FillWindow { stream } => {
            let id = used(stream, model);
            let lengths = [16_384, 16_384, 16_384, 16_383];
            lengths.iter().for_each(|length| model.data(id, *length as u64, false));
            peer.send(&lengths.iter().flat_map(|length| data(id, 0, &vec![0; *length])).collect::<Vec<_>>())
        }
        Operation::Data { stream, bytes, ended } => {
            let id = used(stream, model);
            model.data(id, bytes.into(), ended);
            let flags = if ended { END_STREAM } else { 0 };
            peer.send(&data(id, flags, &vec![0; bytes as usize]))
        }
        Operation::Trailers { stream } => {
            let id = used(stream, model);
            model.trailers(id);
            peer.send(&last_headers(id, &[("a", "b")]))
        }
        Operation::Reset { stream } => {
            let id = used(stream, model);
            model.streams.remove(&id);
            peer.send(&reset(id))
        }
        Operation::Widen { stream, bytes } => {
            let id = used(stream, model);
            model.widen(id, bytes);
            peer.send(&window_update(id, bytes))
        }
        Operation::WidenConnection { bytes } => {
            model.window += i64::from(bytes);
            peer.send(&window_update(0, bytes))
        }
        Operation::InitialWindow { bytes } => {
            model.set_initial_window(bytes);
            peer.send(&settings(&[(INITIAL_WINDOW_SIZE, bytes)]))
        }
        Operation::Prioritize { stream, urgency, incremental } => {
            let id = 2 * stream + 1;
            model.prioritize(id, (urgency, incremental));
            peer.send(&priority_update(id, &priority(urgency, incremental)))
        }
        Operation::Ping => {
            model.written.push(Frame::PingAck(vec![7; 8]));
            peer.send(&frame(PING, 0, 0, &[7; 8]))
        }
        Operation::Drain => {
            model.send(archive);
            peer.fills = true;
            let frames = peer.drain();
            peer.fills = false;
            frames
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn connection_matches_its_model(operations in prop::collection::vec(operation(), 1..150)) {
        let mut peer = Peer::open();
        let archive = peer.body(200_000).to_vec();
        peer.fills = false;
        let mut model = Model::new();
        for (position, operation) in operations.iter().enumerate() {
            let written = act(operation, &mut peer, &mut model, &archive);
            let expected = std::mem::take(&mut model.written);
            prop_assert_eq!(written, expected, "at {} {:?}", position, operation);
            if model.is_closed {
                prop_assert!(peer.connection.has_ended());
                break;
            }
            prop_assert_eq!(peer.connection.has_bodies(), model.streams.values().any(|stream| stream.left > 0));
        }
    }
}
