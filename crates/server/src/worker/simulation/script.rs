//! Scripts of HTTP/1 peers: generated requests, and the timing with which they are sent.

use std::time::Duration;

use cannery_eventloop::simulated::{Action, Network, PeerId, Random, ReadRate};

/// Requests of every kind, which a peer can pipeline.
const REQUESTS: [&str; 18] = [
    "GET /small HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /middle HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1000-75000\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0,60000-79000,-3\r\n\r\n",
    "HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
    "\r\nGET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\nGET /small HTTP/1.1\r\nHost: \r\n\r\n",
    "PUT /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    // The server closes the connection after responding to any of the following.
    "GET /large HTTP/1.0\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost : h\r\n\r\n",
    "GET /small HTTP/1.1\r\n\r\n",
    "NONSENSE\r\n\r\n",
];

/// The number of requests, from the first, that leave the connection open.
const PERSISTENT: usize = 12;

/// PROXY protocol headers, which a proxy sends before the requests.
const PROXY_HEADERS: [&[u8]; 4] = [
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\x02\x01\xc0\0\x02\x02\x03\xe8\0\x50\x04\0\0",
];

/// The way in which a peer ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Waits until the server closes the connection.
    AwaitClose,
    /// Shuts down writing after the last request while continuing to read.
    ShutdownWrite,
    /// Resets the connection at a random point of the script.
    Reset,
}

/// Actions of one peer.
pub(super) struct Script {
    /// The bytes that the server must parse as requests.
    pub(super) request_bytes: Vec<u8>,
    actions: Vec<Action>,
    pub(super) read_rate: ReadRate,
    pub(super) ending: Ending,
    /// Whether its pauses may exceed a timeout of the server.
    pub(super) may_time_out: bool,
    /// Whether the last request is incomplete.
    pub(super) is_cut: bool,
}

impl Script {
    /// Generates a script. If `proxied`, it will start with a PROXY header (truncated or malformed in one of
    /// eight cases).
    pub(super) fn generate(random: &mut Random, proxied: bool) -> Script {
        let mut request_bytes = Vec::new();
        for _ in 0..random.size(6) {
            request_bytes.extend_from_slice(REQUESTS[random.below(PERSISTENT)].as_bytes());
        }
        if random.once_in(2) {
            request_bytes.extend_from_slice(REQUESTS[random.below(REQUESTS.len())].as_bytes());
        }

        let is_cut = random.once_in(8);
        if is_cut {
            request_bytes.truncate(random.below(request_bytes.len()));
        }

        let read_rate = match random.below(8) {
            0 => ReadRate::Zero,
            1 => ReadRate::BytesPerSecond(random.size(2000)),
            2 => ReadRate::BytesPerSecond(20_000),
            _ => ReadRate::Unlimited,
        };
        let ending = match random.below(4) {
            0 => Ending::ShutdownWrite,
            1 => Ending::Reset,
            _ => Ending::AwaitClose,
        };

        let mut header =
            if proxied { PROXY_HEADERS[random.below(PROXY_HEADERS.len())].to_vec() } else { Vec::new() };
        let (actions, may_time_out) = if proxied && random.once_in(8) {
            let place = random.below(header.len());
            match random.once_in(2) {
                true => header.truncate(place),
                // No valid header has this byte among its first eleven.
                false => header[..=place.min(10)].fill(b'!'),
            }
            request_bytes.clear();
            actions(&header, ending, random)
        } else {
            actions(&[header.as_slice(), &request_bytes].concat(), ending, random)
        };
        Script { request_bytes, actions, read_rate, ending, may_time_out, is_cut }
    }

    pub(super) fn connect(&self, network: &Network, random: &mut Random) -> PeerId {
        let after = Duration::from_millis(random.below(100) as u64);
        network.connect(after, self.actions.clone(), self.read_rate, 500 + random.size(80_000))
    }
}

/// The actions that send `bytes` and end the connection, and whether their pauses may exceed a
/// timeout.
fn actions(bytes: &[u8], ending: Ending, random: &mut Random) -> (Vec<Action>, bool) {
    let mut actions = pieces(bytes, random);
    match ending {
        Ending::AwaitClose => actions.push(Action::AwaitClose),
        Ending::ShutdownWrite => actions.push(Action::ShutdownWrite),
        Ending::Reset => actions.insert(random.below(actions.len() + 1), Action::Reset),
    }
    // The shortest idle timeout (five seconds) applies while other connections are waiting for a slot, so
    // compare the sum.
    let may_time_out = pauses(&actions) > Duration::from_secs(4);
    (actions, may_time_out)
}

/// Splits `bytes` at random positions, with pauses in between.
pub(super) fn pieces(bytes: &[u8], random: &mut Random) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(random.size(rest.len()));
        rest = others;
        actions.push(Action::Send(piece.to_vec()));
        if random.once_in(3) {
            actions.push(Action::Pause(Duration::from_millis(random.below(1000) as u64)));
        }
        if random.once_in(24) {
            actions.push(Action::Pause(Duration::from_secs(random.below(100) as u64)));
        }
    }
    actions
}

/// Returns the sum of all pauses.
pub(super) fn pauses(actions: &[Action]) -> Duration {
    actions.iter().map(|action| if let Action::Pause(pause) = action { *pause } else { Duration::ZERO }).sum()
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for action in &self.actions {
            match action {
                Action::Send(bytes) => writeln!(f, "  sends {:?}", String::from_utf8_lossy(bytes))?,
                other => writeln!(f, "  {other:?}")?,
            }
        }
        write!(f, "  reads {:?}", self.read_rate)
    }
}
