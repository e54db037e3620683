//! Scripts of HTTP/2 peers: generated frames, and the expected outcome of each stream.

use std::time::Duration;

use cannery_eventloop::simulated::{Action, Network, PeerId, Random, ReadRate};
use cannery_testkit::http2::{
    ACK, COMPRESSION_ERROR, ENABLE_PUSH, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY,
    HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, PING, PREFACE, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS,
    data, field_block, frame, headers, priority_update, reset, settings, split_headers, window_update,
};

use super::super::script::{Ending, pauses, pieces};
use super::requests::REQUESTS;

/// A PROXY header without a client address.
const PROXY_HEADER: &[u8] = b"PROXY UNKNOWN\r\n";

/// Payload of the PING that the server sends after a GOAWAY. Once it is acknowledged, we know that the client
/// has received both.
pub(super) const GOAWAY_PING: &[u8; 8] = b"cannery!";

/// Default size of a flow-control window (RFC 9113 §6.9.2).
const WINDOW_BYTES: u32 = 65_535;

/// A window larger than any body of the site.
const WINDOW_ABOVE_ALL_BODIES: u32 = 100_000;

/// Actions of one peer, and the state that results from them.
pub(super) struct Script {
    actions: Vec<Action>,
    pub(super) read_rate: ReadRate,
    pub(super) ending: Ending,
    /// The streams that the peer opens, in order.
    pub(super) streams: Vec<Stream>,
    /// SETTINGS_HEADER_TABLE_SIZE of each SETTINGS frame, in order; `None` for one without it.
    pub(super) tables: Vec<Option<u32>>,
    /// Payloads of the PINGs, in order.
    pub(super) pings: Vec<[u8; 8]>,
    /// The connection window, as the sum of all increments.
    pub(super) window: u64,
    /// The error code with which the server must end the connection.
    pub(super) fault: Option<u32>,
    /// Whether its pauses may exceed a timeout of the server.
    pub(super) may_time_out: bool,
    /// Whether the script is truncated, possibly within a frame.
    pub(super) is_cut: bool,
}

/// A stream that a peer opens.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Index in [`REQUESTS`].
    pub(super) request: usize,
    pub(super) fate: Fate,
    /// Sum of the increments of its WINDOW_UPDATE frames.
    updates: u64,
    /// The window at the end of the script.
    pub(super) window_final: u64,
    /// The largest window at any time.
    pub(super) window_max: u64,
    /// Whether the peer has yet to send END_STREAM.
    is_open: bool,
}

/// Expected outcome of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server responds.
    Answered,
    /// The peer resets it.
    Reset,
    /// The request is malformed. The server should reset the stream with this error code without sending a
    /// response.
    Malformed(u32),
    /// The content contradicts Content-Length: the server resets the stream with this error code, possibly amid the
    /// response.
    WrongLength(u32),
}

/// Builder of a script.
struct Draft<'r> {
    random: &'r mut Random,
    /// Bytes that are sent in order, with pauses between the elements.
    runs: Vec<Vec<u8>>,
    streams: Vec<Stream>,
    tables: Vec<Option<u32>>,
    pings: Vec<[u8; 8]>,
    window: u64,
    /// The window of a new stream.
    initial_window: u32,
    next: u32,
    fault: Option<u32>,
}

impl Script {
    pub(super) fn generate(random: &mut Random, proxied: bool) -> Script {
        let mut draft = Draft::new(random);
        for _ in 0..draft.random.size(24) {
            draft.add_random_action();
        }
        draft.open_windows();
        if draft.random.once_in(8) {
            draft.break_connection();
        }
        draft.finish(proxied)
    }

    pub(super) fn connect(&self, network: &Network, random: &mut Random) -> PeerId {
        let after = Duration::from_millis(random.below(100) as u64);
        network.connect(after, self.actions.clone(), self.read_rate, 500 + random.size(80_000))
    }
}

impl<'r> Draft<'r> {
    /// Starts a script with the preface and the first SETTINGS.
    fn new(random: &'r mut Random) -> Draft<'r> {
        let mut draft = Draft {
            random,
            runs: vec![PREFACE.to_vec()],
            streams: Vec::new(),
            tables: Vec::new(),
            pings: Vec::new(),
            window: WINDOW_BYTES.into(),
            initial_window: WINDOW_BYTES,
            next: 1,
            fault: None,
        };
        draft.settings();
        if draft.random.once_in(2) {
            draft.widen_connection(4_000_000);
        }
        draft
    }

    fn send(&mut self, bytes: Vec<u8>) {
        match self.runs.last_mut() {
            Some(run) if !self.random.once_in(6) => run.extend(bytes),
            _ => self.runs.push(bytes),
        }
    }

    fn below(&mut self, end: usize) -> u32 {
        u32::try_from(self.random.below(end)).expect("small")
    }

    /// Adds a random action.
    fn add_random_action(&mut self) {
        match self.random.below(16) {
            0..=6 => self.open_request(),
            7 => self.reset_one(),
            8 => self.send_content(),
            9 => self.widen_stream(),
            10 => {
                let bytes = self.window_bytes();
                self.widen_connection(bytes);
            }
            11 => self.ping(),
            12 if self.random.once_in(2) => self.settings(),
            13 => self.prioritize(),
            14 => self.send_malformed_request(),
            _ => self.send_ignored_frame(),
        }
    }

    fn window_bytes(&mut self) -> u32 {
        u32::try_from(self.random.size(200_000)).expect("small")
    }

    /// Sends SETTINGS with or without a table size and an initial window.
    fn settings(&mut self) {
        let table = self.random.once_in(3).then(|| [0, 40, 100, 1000, 4096, 65_536][self.random.below(6)]);
        let window =
            self.random.once_in(3).then(|| [0, 1, 1000, 16_384, 65_535, 1_000_000][self.random.below(6)]);
        let parameters = table.map(|bytes| (HEADER_TABLE_SIZE, bytes));
        let others = window.map(|bytes| (INITIAL_WINDOW_SIZE, bytes));
        let push = self.random.once_in(2).then_some((ENABLE_PUSH, 0));
        let all: Vec<_> = push.into_iter().chain(parameters).chain(others).chain([(0x1a2a, 7)]).collect();
        self.send(settings(&all));
        self.tables.push(table);
        self.initial_window = window.unwrap_or(self.initial_window);
        self.update_windows();
    }

    /// Updates the windows of all streams.
    fn update_windows(&mut self) {
        for stream in &mut self.streams {
            let bytes = stream.updates + u64::from(self.initial_window);
            stream.window_final = bytes;
            stream.window_max = stream.window_max.max(bytes);
        }
    }

    /// Opens a stream with a random request.
    fn open_request(&mut self) {
        let request = self.random.below(REQUESTS.len());
        let priority = format!("u={}, i=?{}", self.random.below(8), self.random.below(2));
        let has_content = REQUESTS[request].has_content;
        let mut fields = request_fields(request);
        if self.random.once_in(2) {
            fields.push(("priority", &priority));
        }
        let has_length = has_content && self.random.once_in(2);
        if has_length {
            fields.push(("content-length", "5"));
        }
        let split_at = self.random.once_in(8).then(|| self.random.below(40));

        let id = self.open(request);
        let block = field_block(&fields);
        let flags = if has_content { 0 } else { END_STREAM };
        self.send(match split_at {
            Some(position) => split_headers(id, flags, &block, position),
            None => headers(id, flags, &block),
        });
        if let Some(stream) = self.streams.last_mut() {
            stream.is_open = has_content;
        }

        if !has_length {
            return;
        }

        if self.random.once_in(4) {
            self.send_wrong_length(id);
        } else if self.random.once_in(2) {
            self.send(data(id, END_STREAM, b"hello"));
            self.end(id);
        } else {
            self.send(data(id, 0, b"hello"));
            self.send(data(id, END_STREAM, b""));
            self.end(id);
        }
    }

    /// Sends a malformed request (RFC 9113 §8.1.1).
    fn send_malformed_request(&mut self) {
        let mut fields = request_fields(0);
        match self.random.below(3) {
            0 => fields.push(("connection", "close")),
            1 => fields.push((":path", "/small")),
            _ => fields.push(("Upper", "case")),
        }
        let id = self.open(0);
        self.send(headers(id, END_STREAM, &field_block(&fields)));
        self.set_fate(id, Fate::Malformed(PROTOCOL_ERROR));
    }

    fn open(&mut self, request: usize) -> u32 {
        let id = self.next + 2 * if self.random.once_in(8) { self.below(5) } else { 0 };
        self.next = id + 2;
        let window = self.initial_window.into();
        self.streams.push(Stream {
            id,
            request,
            fate: Fate::Answered,
            updates: 0,
            window_final: window,
            window_max: window,
            is_open: false,
        });
        id
    }

    fn set_fate(&mut self, id: u32, fate: Fate) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            stream.fate = fate;
            stream.is_open = false;
        }
    }

    fn end(&mut self, id: u32) {
        self.set_fate(id, Fate::Answered);
    }

    /// Sends content that is longer or shorter than its Content-Length.
    fn send_wrong_length(&mut self, id: u32) {
        let content: &[u8] = if self.random.once_in(2) { b"hell" } else { b"hello, world" };
        self.send(data(id, END_STREAM, content));
        self.set_fate(id, Fate::WrongLength(PROTOCOL_ERROR));
    }

    /// Returns the index of a random stream with the fate `Answered`, if possible.
    fn some_stream(&mut self) -> Option<usize> {
        let is_answered = |stream: &Stream| stream.fate == Fate::Answered;
        let indices: Vec<_> =
            (0..self.streams.len()).filter(|index| is_answered(&self.streams[*index])).collect();
        (!indices.is_empty()).then(|| indices[self.random.below(indices.len())])
    }

    fn reset_one(&mut self) {
        let Some(index) = self.some_stream() else { return };
        let id = self.streams[index].id;
        self.send(reset(id));
        self.set_fate(id, Fate::Reset);
    }

    /// Sends content of a request without Content-Length.
    fn send_content(&mut self) {
        let Some(index) = self.streams.iter().position(|stream| stream.is_open) else { return };
        let id = self.streams[index].id;
        let content = vec![b'x'; self.random.below(2000)];
        self.send(data(id, 0, &content));
        match self.random.below(3) {
            0 => self.send(data(id, END_STREAM, b"")),
            1 => self.send(headers(id, END_STREAM, &field_block(&[("trailer", "field")]))),
            _ => return,
        }
        self.end(id);
    }

    fn widen_stream(&mut self) {
        let Some(index) = self.some_stream() else { return };
        let bytes = self.window_bytes();
        self.widen(index, bytes);
    }

    fn widen(&mut self, index: usize, bytes: u32) {
        self.send(window_update(self.streams[index].id, bytes));
        self.streams[index].updates += u64::from(bytes);
        self.update_windows();
    }

    fn widen_connection(&mut self, bytes: u32) {
        self.send(window_update(0, bytes));
        self.window += u64::from(bytes);
    }

    fn ping(&mut self) {
        let payload = self.random.number().to_be_bytes();
        self.send(frame(PING, 0, 0, &payload));
        self.pings.push(payload);
    }

    fn prioritize(&mut self) {
        let stream = 2 * self.below(30) + 1;
        let priority =
            format!("u={}{}", self.random.below(8), if self.random.once_in(2) { ", i" } else { "" });
        self.send(priority_update(stream, &priority));
    }

    /// Sends a frame that has no effect on the connection.
    fn send_ignored_frame(&mut self) {
        let bytes = match self.random.below(5) {
            0 => frame(PRIORITY, 0, self.next, &[0, 0, 0, 0, 16]),
            1 => frame(SETTINGS, ACK, 0, &[]),
            2 => frame(0xbe, 0xff, 7, b"unknown"),
            3 => frame(GOAWAY, 0, 0, &[0; 8]),
            _ => frame(PING, ACK, 0, b"not ours"),
        };
        self.send(bytes);
    }

    /// Ends all open content. Seven of eight scripts also open the windows for all responses, in one or more
    /// steps.
    fn open_windows(&mut self) {
        let streams = u32::try_from(self.streams.len()).expect("few");
        let steps = [1, 1, 2, 7][self.random.below(4)];

        for index in 0..self.streams.len() {
            if self.streams[index].is_open {
                let id = self.streams[index].id;
                self.send(data(id, END_STREAM, b"the last of it"));
                self.end(id);
            }
        }

        if self.random.once_in(8) {
            return;
        }

        for _ in 0..steps {
            for index in 0..self.streams.len() {
                if matches!(self.streams[index].fate, Fate::Answered | Fate::Reset) {
                    self.widen(index, WINDOW_ABOVE_ALL_BODIES.div_ceil(steps));
                }
            }
            self.widen_connection(WINDOW_ABOVE_ALL_BODIES.div_ceil(steps) * (streams + 1));
        }
    }

    /// Sends a frame that is a connection error.
    fn break_connection(&mut self) {
        let idle = self.next + 100;
        let (bytes, code) = match self.random.below(8) {
            0 => (data(idle, 0, b"x"), PROTOCOL_ERROR),
            1 => (window_update(0, 0), PROTOCOL_ERROR),
            2 => (window_update(0, 0x7fff_ffff).repeat(2), FLOW_CONTROL_ERROR),
            3 => (frame(PING, 0, 0, b"short"), FRAME_SIZE_ERROR),
            4 => (headers(idle, END_STREAM, &[0x80]), COMPRESSION_ERROR),
            5 => (frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR),
            6 => (headers(self.next + 1, END_STREAM, &field_block(&request_fields(0))), PROTOCOL_ERROR),
            _ => (frame(RST_STREAM, 0, idle, &[0; 4]), PROTOCOL_ERROR),
        };

        if code == FLOW_CONTROL_ERROR {
            // The server may accept the first of the two increments.
            self.window += 0x7fff_ffff;
        }

        self.send(bytes);
        self.fault = Some(code);
    }

    fn finish(self, proxied: bool) -> Script {
        let Draft { random, mut runs, streams, tables, pings, window, fault, .. } = self;
        if proxied {
            runs[0] = [PROXY_HEADER, &runs[0]].concat();
        }

        let is_cut = random.once_in(8);
        if is_cut {
            runs.truncate(random.size(runs.len()));
            if let Some(last) = runs.last_mut() {
                last.truncate(random.below(last.len()));
            }
        }

        let read_rate = match random.below(8) {
            0 => ReadRate::Zero,
            1 => ReadRate::BytesPerSecond(random.size(20_000)),
            _ => ReadRate::Unlimited,
        };

        let mut actions: Vec<Action> = runs.iter().flat_map(|run| pieces(run, random)).collect();
        if random.once_in(2) {
            // Half of the peers make only short pauses.
            for action in &mut actions {
                if let Action::Pause(pause) = action {
                    *pause /= 64;
                }
            }
        }

        let ending = match random.below(6) {
            0 => Ending::ShutdownWrite,
            1 => Ending::Reset,
            _ => Ending::AwaitClose,
        };
        match ending {
            Ending::AwaitClose => {
                if !is_cut && fault.is_none() && random.once_in(2) {
                    actions.push(Action::Await(GOAWAY_PING.to_vec()));
                    actions.push(Action::Send(frame(PING, ACK, 0, GOAWAY_PING)));
                }
                actions.push(Action::AwaitClose);
            }
            Ending::ShutdownWrite => actions.push(Action::ShutdownWrite),
            Ending::Reset => actions.insert(random.below(actions.len() + 1), Action::Reset),
        }

        let may_time_out = pauses(&actions) > Duration::from_secs(4);
        Script { actions, read_rate, ending, streams, tables, pings, window, fault, may_time_out, is_cut }
    }
}

/// Returns the fields of a request of [`REQUESTS`].
fn request_fields(request: usize) -> Vec<(&'static str, &'static str)> {
    let request = &REQUESTS[request];
    let pseudo =
        [(":method", request.method), (":scheme", "http"), (":path", request.target), (":authority", "h")];
    [&pseudo, request.fields].concat()
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for action in &self.actions {
            match action {
                Action::Send(bytes) => writeln!(f, "  sends {}", bytes.escape_ascii())?,
                other => writeln!(f, "  {other:?}")?,
            }
        }
        for stream in &self.streams {
            writeln!(f, "  {stream:?}")?;
        }
        write!(f, "  reads {:?}", self.read_rate)
    }
}
