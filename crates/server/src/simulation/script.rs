//! What one peer does in a run: requests, and how they are sent.

use std::time::Duration;

use cannery_eventloop::simulated::{Action, Network, PeerId, Random, ReadRate};

/// Requests of every kind, as one peer may send them one behind the other.
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
    // From here on the connection ends behind the answer.
    "GET /large HTTP/1.0\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost : h\r\n\r\n",
    "GET /small HTTP/1.1\r\n\r\n",
    "NONSENSE\r\n\r\n",
];

/// How many of them leave the connection open.
const KEEPING: usize = 12;

/// PROXY headers, as one proxy may send them in front of the requests.
const HEADERS: [&[u8]; 4] = [
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\x02\x01\xc0\0\x02\x02\x03\xe8\0\x50\x04\0\0",
];

/// What a peer does when it has sent its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Waits until the server ends the connection.
    Waits,
    /// Says that it sends no more, and takes what comes.
    EndsSending,
    /// Breaks the connection somewhere on the way.
    Resets,
}

/// What a peer does.
pub(super) struct Script {
    /// All bytes that are read as requests.
    pub(super) sends: Vec<u8>,
    acts: Vec<Action>,
    pub(super) appetite: ReadRate,
    pub(super) ending: Ending,
    /// Whether it is so slow somewhere that the server's patience may end.
    pub(super) dawdles: bool,
    /// Whether it never sends the end of its last request.
    pub(super) is_cut: bool,
}

impl Script {
    /// `proxied` says whether a PROXY header has to come first; now and then it is cut, or none.
    pub(super) fn invent(random: &mut Random, proxied: bool) -> Script {
        let mut sends = Vec::new();
        for _ in 0..random.size(6) {
            sends.extend_from_slice(REQUESTS[random.below(KEEPING)].as_bytes());
        }
        if random.once_in(2) {
            sends.extend_from_slice(REQUESTS[random.below(REQUESTS.len())].as_bytes());
        }
        let is_cut = random.once_in(8);
        if is_cut {
            sends.truncate(random.below(sends.len()));
        }
        let appetite = match random.below(8) {
            0 => ReadRate::Zero,
            1 => ReadRate::BytesPerSecond(random.size(2000)),
            2 => ReadRate::BytesPerSecond(20_000),
            _ => ReadRate::Unlimited,
        };
        let ending = match random.below(4) {
            0 => Ending::EndsSending,
            1 => Ending::Resets,
            _ => Ending::Waits,
        };
        let mut header = if proxied { HEADERS[random.below(HEADERS.len())].to_vec() } else { Vec::new() };
        let (acts, dawdles) = if proxied && random.once_in(8) {
            let place = random.below(header.len());
            match random.once_in(2) {
                true => header.truncate(place),
                // No header has this byte there, whatever it may hold elsewhere.
                false => header[..=place.min(10)].fill(b'!'),
            }
            sends.clear();
            acts(&header, ending, random)
        } else {
            acts(&[header.as_slice(), &sends].concat(), ending, random)
        };
        Script { sends, acts, appetite, ending, dawdles, is_cut }
    }

    pub(super) fn connect(&self, network: &Network, random: &mut Random) -> PeerId {
        let after = Duration::from_millis(random.below(100) as u64);
        network.connect(after, self.acts.clone(), self.appetite, 500 + random.size(80_000))
    }
}

/// The bytes cut anywhere, with pauses between, and the ending; whether some pause tries the server's patience.
fn acts(sends: &[u8], ending: Ending, random: &mut Random) -> (Vec<Action>, bool) {
    let mut acts = pieces(sends, random);
    match ending {
        Ending::Waits => acts.push(Action::AwaitClose),
        Ending::EndsSending => acts.push(Action::ShutdownWrite),
        Ending::Resets => acts.insert(random.below(acts.len() + 1), Action::Reset),
    }
    // Small pauses add up as well. Where others wait for a place, nobody is left idle for longer than five seconds.
    let dawdles = pauses(&acts) > Duration::from_secs(4);
    (acts, dawdles)
}

/// The bytes cut anywhere, with pauses between.
pub(super) fn pieces(sends: &[u8], random: &mut Random) -> Vec<Action> {
    let (mut acts, mut rest) = (Vec::new(), sends);
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(random.size(rest.len()));
        rest = others;
        acts.push(Action::Send(piece.to_vec()));
        if random.once_in(3) {
            acts.push(Action::Pause(Duration::from_millis(random.below(1000) as u64)));
        }
        if random.once_in(24) {
            acts.push(Action::Pause(Duration::from_secs(random.below(100) as u64)));
        }
    }
    acts
}

/// How long all pauses together are.
pub(super) fn pauses(acts: &[Action]) -> Duration {
    acts.iter().map(|act| if let Action::Pause(pause) = act { *pause } else { Duration::ZERO }).sum()
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for act in &self.acts {
            match act {
                Action::Send(bytes) => writeln!(f, "  sends {:?}", String::from_utf8_lossy(bytes))?,
                other => writeln!(f, "  {other:?}")?,
            }
        }
        write!(f, "  takes {:?}", self.appetite)
    }
}
