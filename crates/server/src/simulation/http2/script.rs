//! What one peer of HTTP/2 does in a run, and what the server owes it for that.

use std::time::Duration;

use cannery_eventloop::simulated::{Action, Network, PeerId, Random, ReadRate};

use super::super::script::{Ending, pauses, pieces};
use super::frames::{
    ACK, DATA, END_STREAM, GOAWAY, HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, PING, PREFACE, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, SETTINGS, block, frame, headers, reset, settings, window_update,
};
use super::requests::REQUESTS;

/// The header of a proxy that does not know who asks.
const PROXY_HEADER: &[u8] = b"PROXY UNKNOWN\r\n";

/// What the server's PING says that asks whether the peer knows that it goes.
pub(super) const GOING: &[u8; 8] = b"cannery!";

/// What windows begin with (RFC 9113 §6.9.2).
const WINDOW_BYTES: u32 = 65_535;

/// More than any body has.
const AMPLE: u32 = 100_000;

/// What a peer does.
pub(super) struct Script {
    acts: Vec<Action>,
    pub(super) appetite: ReadRate,
    pub(super) ending: Ending,
    /// The streams that it opens, in order.
    pub(super) streams: Vec<Stream>,
    /// The sizes of the table that its SETTINGS name, for each of them, in order.
    pub(super) tables: Vec<Option<u32>>,
    /// What its PINGs say, in order.
    pub(super) pings: Vec<[u8; 8]>,
    /// Bytes of all bodies together that it has room for when all is said.
    pub(super) window: u64,
    /// With which error the server must end the connection.
    pub(super) fault: Option<u32>,
    /// Whether it is so slow somewhere that the server's patience may end.
    pub(super) dawdles: bool,
    /// Whether it stops somewhere before the end, perhaps in the middle of a frame.
    pub(super) is_cut: bool,
}

/// A stream that a peer opens.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Its request, among all.
    pub(super) request: usize,
    pub(super) fate: Fate,
    /// By how much the peer opens its window, beside what all begin with.
    updates: u64,
    /// Bytes of body that the peer has room for when all is said.
    pub(super) least_window: u64,
    /// The most that it ever had room for.
    pub(super) most_window: u64,
    /// Whether content is still to be sent.
    is_open: bool,
}

/// What becomes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is answered.
    LoggedRequest,
    /// The peer resets it.
    Reset,
    /// It is no request: the server resets it with this error, and gives no answer.
    Malformed(u32),
    /// Its content is not what was said: the server resets it with this error, wherever the answer is.
    Spoilt(u32),
}

/// A script that is being invented.
struct Draft<'r> {
    random: &'r mut Random,
    /// Bytes that are sent one behind the other, pauses between.
    runs: Vec<Vec<u8>>,
    streams: Vec<Stream>,
    tables: Vec<Option<u32>>,
    pings: Vec<[u8; 8]>,
    window: u64,
    /// What the window of a stream begins with.
    initial_window: u32,
    next: u32,
    fault: Option<u32>,
}

impl Script {
    pub(super) fn invent(random: &mut Random, proxied: bool) -> Script {
        let mut draft = Draft::begin(random);
        for _ in 0..draft.random.size(24) {
            draft.act();
        }
        draft.open_windows();
        if draft.random.once_in(8) {
            draft.spoil_connection();
        }
        draft.finish(proxied)
    }

    pub(super) fn connect(&self, network: &Network, random: &mut Random) -> PeerId {
        let after = Duration::from_millis(random.below(100) as u64);
        network.connect(after, self.acts.clone(), self.appetite, 500 + random.size(80_000))
    }
}

impl<'r> Draft<'r> {
    /// The preface and the first SETTINGS.
    fn begin(random: &'r mut Random) -> Draft<'r> {
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
            draft.widen_all(4_000_000);
        }
        draft
    }

    fn say(&mut self, bytes: Vec<u8>) {
        match self.runs.last_mut() {
            Some(run) if !self.random.once_in(6) => run.extend(bytes),
            _ => self.runs.push(bytes),
        }
    }

    fn below(&mut self, end: usize) -> u32 {
        u32::try_from(self.random.below(end)).expect("small")
    }

    /// One thing that peers do.
    fn act(&mut self) {
        match self.random.below(16) {
            0..=6 => self.ask(),
            7 => self.reset_one(),
            8 => self.send_content(),
            9 => self.widen_one(),
            10 => {
                let bytes = self.window_bytes();
                self.widen_all(bytes);
            }
            11 => self.ping(),
            12 if self.random.once_in(2) => self.settings(),
            13 => self.prioritize(),
            14 => self.ask_nonsense(),
            _ => self.chatter(),
        }
    }

    fn window_bytes(&mut self) -> u32 {
        u32::try_from(self.random.size(200_000)).expect("small")
    }

    /// SETTINGS: of the table, of windows, of neither.
    fn settings(&mut self) {
        let table = self.random.once_in(3).then(|| [0, 40, 100, 1000, 4096, 65_536][self.random.below(6)]);
        let window =
            self.random.once_in(3).then(|| [0, 1, 1000, 16_384, 65_535, 1_000_000][self.random.below(6)]);
        let parameters = table.map(|bytes| (HEADER_TABLE_SIZE, bytes));
        let others = window.map(|bytes| (INITIAL_WINDOW_SIZE, bytes));
        let push = self.random.once_in(2).then_some((2, 0));
        let all: Vec<_> = push.into_iter().chain(parameters).chain(others).chain([(0x1a2a, 7)]).collect();
        self.say(settings(&all));
        self.tables.push(table);
        self.initial_window = window.unwrap_or(self.initial_window);
        self.note_windows();
    }

    /// Notes how wide all windows are now.
    fn note_windows(&mut self) {
        for stream in &mut self.streams {
            let bytes = stream.updates + u64::from(self.initial_window);
            stream.least_window = bytes;
            stream.most_window = stream.most_window.max(bytes);
        }
    }

    /// Opens a stream by a request of any kind.
    fn ask(&mut self) {
        let request = self.random.below(REQUESTS.len());
        let priority = format!("u={}, i=?{}", self.random.below(8), self.random.below(2));
        let has_content = REQUESTS[request].has_content;
        let mut fields = fields_of(request);
        if self.random.once_in(2) {
            fields.push(("priority", &priority));
        }
        // What is said of the content's length is not always true.
        let length = has_content && self.random.once_in(2);
        if length {
            fields.push(("content-length", "5"));
        }
        let cut = self.random.once_in(8).then(|| self.random.below(40));
        let id = self.open(request);
        self.say(headers(id, !has_content, &block(&fields), cut));
        if let Some(stream) = self.streams.last_mut() {
            stream.is_open = has_content;
        }
        if !length {
            return;
        }
        if self.random.once_in(4) {
            self.spoil(id);
        } else if self.random.once_in(2) {
            self.say(frame(DATA, END_STREAM, id, b"hello"));
            self.end(id);
        } else {
            self.say(frame(DATA, 0, id, b"hello"));
            self.say(frame(DATA, END_STREAM, id, b""));
            self.end(id);
        }
    }

    /// A head that is no request.
    fn ask_nonsense(&mut self) {
        const PROTOCOL_ERROR: u32 = 1;
        let mut fields = fields_of(0);
        match self.random.below(3) {
            0 => fields.push(("connection", "close")),
            1 => fields.push((":path", "/small")),
            _ => fields.push(("Upper", "case")),
        }
        let id = self.open(0);
        self.say(headers(id, true, &block(&fields), None));
        self.settle(id, Fate::Malformed(PROTOCOL_ERROR));
    }

    fn open(&mut self, request: usize) -> u32 {
        let id = self.next + 2 * if self.random.once_in(8) { self.below(5) } else { 0 };
        self.next = id + 2;
        let window = self.initial_window.into();
        let (fate, updates, is_open) = (Fate::LoggedRequest, 0, false);
        let (least_window, most_window) = (window, window);
        self.streams.push(Stream { id, request, fate, updates, least_window, most_window, is_open });
        id
    }

    fn settle(&mut self, id: u32, fate: Fate) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            stream.fate = fate;
            stream.is_open = false;
        }
    }

    fn end(&mut self, id: u32) {
        self.settle(id, Fate::LoggedRequest);
    }

    /// Content that is longer or shorter than its head said.
    fn spoil(&mut self, id: u32) {
        const PROTOCOL_ERROR: u32 = 1;
        let content: &[u8] = if self.random.once_in(2) { b"hell" } else { b"hello, world" };
        self.say(frame(DATA, END_STREAM, id, content));
        self.settle(id, Fate::Spoilt(PROTOCOL_ERROR));
    }

    /// Some stream that this peer did not reset, and that is a request.
    fn some_stream(&mut self) -> Option<usize> {
        let answered = |stream: &Stream| stream.fate == Fate::LoggedRequest;
        let places: Vec<_> =
            (0..self.streams.len()).filter(|place| answered(&self.streams[*place])).collect();
        (!places.is_empty()).then(|| places[self.random.below(places.len())])
    }

    fn reset_one(&mut self) {
        let Some(place) = self.some_stream() else { return };
        let id = self.streams[place].id;
        self.say(reset(id));
        self.settle(id, Fate::Reset);
    }

    /// A part of the content of a request that has not said how much it is.
    fn send_content(&mut self) {
        let Some(place) = self.streams.iter().position(|stream| stream.is_open) else { return };
        let id = self.streams[place].id;
        let content = vec![b'x'; self.random.below(2000)];
        self.say(frame(DATA, 0, id, &content));
        match self.random.below(3) {
            0 => self.say(frame(DATA, END_STREAM, id, b"")),
            1 => self.say(headers(id, true, &block(&[("trailer", "field")]), None)),
            _ => return,
        }
        self.end(id);
    }

    fn widen_one(&mut self) {
        let Some(place) = self.some_stream() else { return };
        let bytes = self.window_bytes();
        self.widen(place, bytes);
    }

    fn widen(&mut self, place: usize, bytes: u32) {
        self.say(window_update(self.streams[place].id, bytes));
        self.streams[place].updates += u64::from(bytes);
        self.note_windows();
    }

    fn widen_all(&mut self, bytes: u32) {
        self.say(window_update(0, bytes));
        self.window += u64::from(bytes);
    }

    fn ping(&mut self) {
        let said = self.random.number().to_be_bytes();
        self.say(frame(PING, 0, 0, &said));
        self.pings.push(said);
    }

    fn prioritize(&mut self) {
        let stream = 2 * self.below(30) + 1;
        let priority =
            format!("u={}{}", self.random.below(8), if self.random.once_in(2) { ", i" } else { "" });
        self.say(frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes(), priority.as_bytes()].concat()));
    }

    /// What asks for nothing and changes nothing.
    fn chatter(&mut self) {
        let bytes = match self.random.below(5) {
            0 => frame(PRIORITY, 0, self.next, &[0, 0, 0, 0, 16]),
            1 => frame(SETTINGS, ACK, 0, &[]),
            2 => frame(0xbe, 0xff, 7, b"unknown"),
            3 => frame(GOAWAY, 0, 0, &[0; 8]),
            _ => frame(PING, ACK, 0, b"not ours"),
        };
        self.say(bytes);
    }

    /// Most often the windows are opened in the end for all that waits, at once or in steps.
    fn open_windows(&mut self) {
        let of_all = u32::try_from(self.streams.len()).expect("few");
        let steps = [1, 1, 2, 7][self.random.below(4)];
        for place in 0..self.streams.len() {
            if self.streams[place].is_open {
                let id = self.streams[place].id;
                self.say(frame(DATA, END_STREAM, id, b"the last of it"));
                self.end(id);
            }
        }
        if self.random.once_in(8) {
            return;
        }
        for _ in 0..steps {
            for place in 0..self.streams.len() {
                if matches!(self.streams[place].fate, Fate::LoggedRequest | Fate::Reset) {
                    self.widen(place, AMPLE.div_ceil(steps));
                }
            }
            self.widen_all(AMPLE.div_ceil(steps) * (of_all + 1));
        }
    }

    /// Something that no connection survives.
    fn spoil_connection(&mut self) {
        const PROTOCOL_ERROR: u32 = 1;
        const FLOW_CONTROL_ERROR: u32 = 3;
        const FRAME_SIZE_ERROR: u32 = 6;
        const COMPRESSION_ERROR: u32 = 9;
        let idle = self.next + 100;
        let (bytes, code) = match self.random.below(8) {
            0 => (frame(DATA, 0, idle, b"x"), PROTOCOL_ERROR),
            1 => (window_update(0, 0), PROTOCOL_ERROR),
            2 => (window_update(0, 0x7fff_ffff).repeat(2), FLOW_CONTROL_ERROR),
            3 => (frame(PING, 0, 0, b"short"), FRAME_SIZE_ERROR),
            4 => (headers(idle, true, &[0x80], None), COMPRESSION_ERROR),
            5 => (frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR),
            6 => (headers(self.next + 1, true, &block(&fields_of(0)), None), PROTOCOL_ERROR),
            _ => (frame(RST_STREAM, 0, idle, &[0; 4]), PROTOCOL_ERROR),
        };
        if code == FLOW_CONTROL_ERROR {
            // The first of the two may be taken.
            self.window += 0x7fff_ffff;
        }
        self.say(bytes);
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
        let appetite = match random.below(8) {
            0 => ReadRate::Zero,
            1 => ReadRate::BytesPerSecond(random.size(20_000)),
            _ => ReadRate::Unlimited,
        };
        let mut acts: Vec<Action> = runs.iter().flat_map(|run| pieces(run, random)).collect();
        if random.once_in(2) {
            // A peer in a hurry.
            for act in &mut acts {
                if let Action::Pause(pause) = act {
                    *pause /= 64;
                }
            }
        }
        let ending = match random.below(6) {
            0 => Ending::EndsSending,
            1 => Ending::Resets,
            _ => Ending::Waits,
        };
        match ending {
            Ending::Waits => {
                if !is_cut && fault.is_none() && random.once_in(2) {
                    acts.push(Action::Await(GOING.to_vec()));
                    acts.push(Action::Send(frame(PING, ACK, 0, GOING)));
                }
                acts.push(Action::AwaitClose);
            }
            Ending::EndsSending => acts.push(Action::ShutdownWrite),
            Ending::Resets => acts.insert(random.below(acts.len() + 1), Action::Reset),
        }
        let dawdles = pauses(&acts) > Duration::from_secs(4);
        Script { acts, appetite, ending, streams, tables, pings, window, fault, dawdles, is_cut }
    }
}

/// The fields of a request.
fn fields_of(request: usize) -> Vec<(&'static str, &'static str)> {
    let request = &REQUESTS[request];
    let pseudo =
        [(":method", request.method), (":scheme", "http"), (":path", request.target), (":authority", "h")];
    [&pseudo, request.fields].concat()
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for act in &self.acts {
            match act {
                Action::Send(bytes) => writeln!(f, "  sends {}", bytes.escape_ascii())?,
                other => writeln!(f, "  {other:?}")?,
            }
        }
        for stream in &self.streams {
            writeln!(f, "  {stream:?}")?;
        }
        write!(f, "  takes {:?}", self.appetite)
    }
}
