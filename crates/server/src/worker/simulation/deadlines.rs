//! The table of deadlines: for each protocol, what may delay a connection and for what time, measured with
//! the virtual clock.
//!
//! A test compares it with the same table in `docs/design/timeouts.md`.

mod run;

use std::cell::RefCell;
use std::path::Path as FilePath;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{Action, Network, Path, Random, ReadRate};
use cannery_testkit::http2::{
    END_STREAM, INITIAL_WINDOW_SIZE, PING, PREFACE, data, field_block, frame, headers, settings,
    window_update,
};
use cannery_testkit::tls::{ClientOptions, client_hello};

use super::http3::scripted::{Deed, Habits, Hearing, Scripted};
use super::http3::{self, address};
use super::site::Releases;
use crate::config::Timeouts;
use crate::connection::LINGER;
use crate::content::Current;
use crate::context::DRAIN_GRACE;
use crate::deadlines::OLD_RELEASE_TIMEOUT;
use At::BelowRate;
use Cell::{Ends, Never, Open};
use run::Effect::{self, Answered, Closed, Goaway, Reset};
use run::{Listener, Observed, Run};

/// Deadlines are checked once per second, and connections close some round trips later.
const SLACK: u64 = 3;

/// Number of content blocks that a client sends for a handler. This is more than could fit into any
/// time that is observed.
const BLOCKS: usize = 40;

/// When a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Seconds(u64),
    /// After one or two half minutes: the bytes of the first may count as progress.
    BelowRate,
}

/// A row of the table: a situation, and what happens in it over each protocol.
struct Row {
    situation: &'static str,
    http1: Cell,
    http2: Cell,
    http3: Cell,
}

enum Cell {
    Ends(At, Effect, fn() -> Run),
    /// The connection stays open.
    Open(fn() -> Run),
    /// The situation cannot occur, for this reason.
    Never(&'static str),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (at, effect) = match self {
            Open(_) => return f.write_str("none"),
            Never(reason) => return write!(f, "– {reason}"),
            Ends(at, effect, _) => (at, effect),
        };
        match at {
            At::Seconds(seconds) => write!(f, "{seconds} s, ")?,
            BelowRate => write!(f, "{} s, ", Timeouts::default().send.as_secs())?,
        }
        match effect {
            Closed => f.write_str("closed"),
            Reset => f.write_str("reset"),
            Goaway => f.write_str("GOAWAY"),
            Answered(status) => write!(f, "{status}"),
        }
    }
}

/// Returns the table.
fn table() -> Vec<Row> {
    let Timeouts { head, idle, idle_crowded, handler, .. } = Timeouts::default();
    let [head, idle, crowded, handler] =
        [head, idle, idle_crowded, handler].map(|time| At::Seconds(time.as_secs()));
    let [linger, old_release] = [LINGER, OLD_RELEASE_TIMEOUT].map(|time| At::Seconds(time.as_secs()));

    vec![
        Row {
            situation: "half of a PROXY header",
            http1: Ends(head, Closed, || {
                Run::tcp(trickle(b"PROXY TCP4 192.0.2.1 ")).on(Listener::Proxied { http1: true })
            }),
            http2: Ends(head, Closed, || {
                Run::tcp(trickle(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\xff"))
                    .on(Listener::Proxied { http1: false })
            }),
            http3: Never("PROXY headers are for TCP"),
        },
        Row {
            situation: "half of a handshake",
            // Half of a ClientHello, and a whole one without what follows.
            http1: Ends(head, Closed, || {
                let hello = hello("http/1.1");
                Run::tcp(trickle(&hello[..hello.len() / 2])).on(Listener::Tls)
            }),
            http2: Ends(head, Closed, || {
                // A record of 53 bytes, such as Finished.
                let begun = [&hello("h2"), &[0x17, 3, 3, 0, 53][..]].concat();
                Run::tcp(trickle(&begun)).on(Listener::Tls)
            }),
            // It repeats its ClientHello.
            http3: Ends(head, Closed, || {
                Run::quic(Vec::new(), Habits { hearing: Hearing::Nothing, ..Habits::GOOD })
            }),
        },
        Row {
            situation: "no request yet",
            http1: Ends(idle, Closed, || Run::tcp(Vec::new())),
            http2: Ends(idle, Goaway, || Run::tcp(pings(vec![Action::Send(preface(65_535))]))),
            http3: Ends(idle, Closed, || Run::quic(Vec::new(), Habits::GOOD)),
        },
        Row {
            situation: "no request, after one",
            http1: Ends(idle, Closed, || Run::tcp(vec![send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n")])),
            http2: Ends(idle, Goaway, || Run::tcp(pings(vec![h2(65_535, h2_get("/small"))]))),
            http3: Ends(idle, Closed, || Run::quic(vec![(0, get("/small"))], Habits::GOOD)),
        },
        Row {
            situation: "the same, while other clients wait for a connection",
            http1: Ends(crowded, Closed, || {
                Run::tcp(vec![send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n")]).with_other_client()
            }),
            http2: Ends(crowded, Goaway, || {
                Run::tcp(pings(vec![h2(65_535, h2_get("/small"))])).with_other_client()
            }),
            http3: Ends(crowded, Closed, || {
                Run::quic(vec![(0, get("/small"))], Habits::GOOD).with_other_client()
            }),
        },
        Row {
            situation: "half of a request's head",
            http1: Ends(head, Answered(408), || Run::tcp(trickle(b"GET /small HTTP/1.1\r\nHost: h\r\nX: "))),
            http2: Ends(head, Goaway, || {
                let request = h2_get("/small");
                Run::tcp(vec![h2(65_535, request[..request.len() - 3].to_vec())])
            }),
            http3: Ends(head, Closed, || Run::quic(vec![(0, Deed::HalfHead { name: 0 })], Habits::GOOD)),
        },
        Row {
            situation: "half of a request's content",
            http1: Ends(head, Closed, || {
                Run::tcp(trickle(b"POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf"))
            }),
            http2: Ends(head, Goaway, || {
                let post = [h2_request(1, "POST", "/small", false), data(1, 0, b"half")].concat();
                Run::tcp(vec![h2(65_535, post)])
            }),
            http3: Ends(head, Closed, || Run::quic(vec![(0, begin(0, "POST", "/small"))], Habits::GOOD)),
        },
        Row {
            situation: "content for a handler, 16 KiB in each 8 s",
            http1: Open(|| Run::tcp(h1_upload(8))),
            http2: Open(|| Run::tcp(h2_upload(8))),
            http3: Open(|| Run::quic(h3_upload(8), Habits::GOOD)),
        },
        Row {
            situation: "content for a handler, 16 KiB in each 12 s",
            http1: Ends(head, Closed, || Run::tcp(h1_upload(12))),
            http2: Ends(head, Goaway, || Run::tcp(h2_upload(12))),
            http3: Ends(head, Closed, || Run::quic(h3_upload(12), Habits::GOOD)),
        },
        Row {
            situation: "an upload, of which its handler reads everything and the client sends no more",
            http1: Ends(head, Closed, || Run::tcp(h1_blocks("/read", 1))),
            http2: Ends(head, Goaway, || Run::tcp(h2_blocks("/read", 1))),
            http3: Ends(head, Closed, || Run::quic(h3_blocks("/read", 1), Habits::GOOD)),
        },
        Row {
            situation: "an upload of which 64 KiB wait, and its handler reads nothing",
            http1: Ends(handler, Answered(503), || Run::tcp(h1_blocks("/unread", 6))),
            http2: Ends(handler, Answered(503), || Run::tcp(h2_blocks("/unread", 6))),
            http3: Ends(handler, Answered(503), || Run::quic(h3_blocks("/unread", 4), Habits::GOOD)),
        },
        Row {
            situation: "an upload that was answered, and the client sends no more",
            http1: Ends(head, Closed, || {
                let half = "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf";
                Run::tcp(vec![send(half)]).awaiting_uploads()
            }),
            http2: Ends(head, Goaway, || Run::tcp(h2_blocks("/early", 1)).awaiting_uploads()),
            // The client does not have to end what the server has stopped.
            http3: Ends(idle, Closed, || Run::quic(h3_blocks("/early", 1), Habits::GOOD).awaiting_uploads()),
        },
        Row {
            situation: "one incomplete request among many others",
            http1: Never("one request at a time"),
            http2: Ends(head, Goaway, || {
                let mut actions = vec![h2(65_535, h2_request(1, "POST", "/small", false))];
                for number in 1..300 {
                    actions.push(Action::Pause(Duration::from_millis(100)));
                    actions.push(Action::Send(h2_request(2 * number + 1, "GET", "/small", true)));
                }
                Run::tcp(actions)
            }),
            http3: Ends(head, Closed, || {
                let mut script = vec![(0, begin(0, "POST", "/small"))];
                script.extend((1..300).map(|number| (100 * number as u64, whole(number, "/small"))));
                Run::quic(script, Habits::GOOD)
            }),
        },
        Row {
            situation: "overlapping requests, of which one is always incomplete",
            http1: Never("one request at a time"),
            http2: Open(|| {
                // Responses do not wait for the connection's window.
                let mut actions = vec![h2(65_535, window_update(0, 1 << 24))];
                for number in 0..3000 {
                    actions.push(Action::Pause(Duration::from_millis(100)));
                    actions.push(Action::Send(h2_request(2 * number + 1, "POST", "/small", false)));
                    if number >= 3 {
                        actions.push(Action::Send(data(2 * (number - 3) + 1, END_STREAM, b"")));
                    }
                }
                Run::tcp(actions)
            }),
            http3: Open(|| Run::quic(overlapping(3000), Habits::GOOD)),
        },
        Row {
            situation: "a handler that doesn't return",
            http1: Ends(handler, Answered(503), || {
                Run::tcp(vec![send("GET /stuck HTTP/1.1\r\nHost: h\r\n\r\n")])
            }),
            http2: Ends(handler, Answered(503), || Run::tcp(vec![h2(65_535, h2_get("/stuck"))])),
            http3: Ends(handler, Answered(503), || Run::quic(vec![(0, get("/stuck"))], Habits::GOOD)),
        },
        Row {
            situation: "a handler's body of which the handler writes nothing",
            http1: Open(|| Run::tcp(vec![send("GET /silent HTTP/1.1\r\nHost: h\r\n\r\n")])),
            http2: Open(|| Run::tcp(vec![h2(65_535, h2_get("/silent"))])),
            http3: Open(|| Run::quic(vec![(0, get("/silent"))], Habits::GOOD)),
        },
        Row {
            situation: "a handler's body of which the client takes nothing",
            http1: Ends(BelowRate, Reset, || {
                Run::tcp_at(ReadRate::Zero, vec![send("GET /endless HTTP/1.1\r\nHost: h\r\n\r\n")])
            }),
            http2: Ends(BelowRate, Goaway, || Run::tcp(pings(vec![h2(1000, h2_get("/endless"))]))),
            http3: Ends(BelowRate, Closed, || {
                Run::quic(vec![(0, get("/endless"))], Habits { window: 20_000, ..TAKES_NOTHING })
            }),
        },
        Row {
            situation: "a handler's body of which the client takes 120 bytes a second",
            http1: Open(|| Run::tcp_at(SLOW, vec![send("GET /endless HTTP/1.1\r\nHost: h\r\n\r\n")])),
            http2: Open(|| Run::tcp_at(SLOW, vec![h2(1 << 20, all_of("/endless"))])),
            http3: Open(|| {
                let habits = Habits { window: 2000, bytes_per_second: 120, ..Habits::GOOD };
                Run::quic(vec![(0, get("/endless"))], habits)
            }),
        },
        Row {
            situation: "a response of which the client takes nothing",
            http1: Ends(BelowRate, Reset, || {
                Run::tcp_at(ReadRate::Zero, vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")])
            }),
            // Each PING is answered, so that the client acknowledges bytes: but not of the response.
            http2: Ends(BelowRate, Goaway, || Run::tcp(pings(vec![h2(1000, h2_get("/large"))]))),
            http3: Ends(BelowRate, Closed, || {
                Run::quic(vec![(0, get("/large"))], Habits { window: 20_000, ..TAKES_NOTHING })
            }),
        },
        Row {
            situation: "the same, with windows for all of it",
            http1: Never("it has no windows"),
            http2: Ends(BelowRate, Reset, || {
                Run::tcp_at(ReadRate::Zero, vec![h2(1 << 20, all_of("/large"))])
            }),
            http3: Ends(BelowRate, Closed, || Run::quic(vec![(0, get("/large"))], HEARS_LITTLE)),
        },
        Row {
            situation: "a response of which the client takes 120 bytes a second",
            http1: Open(|| Run::tcp_at(SLOW, vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")])),
            http2: Open(|| Run::tcp_at(SLOW, vec![h2(1 << 20, all_of("/large"))])),
            http3: Open(|| {
                let habits = Habits { window: 2000, bytes_per_second: 120, ..Habits::GOOD };
                Run::quic(vec![(0, get("/large"))], habits)
            }),
        },
        Row {
            situation: "a response from a release that was replaced, beside others",
            http1: Never("one response at a time"),
            http2: Ends(old_release, Goaway, || {
                let mut actions = vec![h2(1000, h2_get("/large"))];
                for number in 1..60 {
                    actions.push(Action::Pause(Duration::from_millis(500)));
                    actions.push(Action::Send(h2_request(2 * number + 1, "GET", "/small", true)));
                }
                Run::tcp(actions).replaced_at(Duration::from_secs(2))
            }),
            http3: Ends(old_release, Goaway, || busy_reader().replaced_at(Duration::from_secs(2))),
        },
        Row {
            situation: "the last response, after which the client doesn't close",
            http1: Ends(linger, Closed, || Run::tcp(vec![send("invalid\r\n\r\n")])),
            // A connection error, after which the server sends GOAWAY.
            http2: Ends(linger, Closed, || Run::tcp(vec![h2(65_535, data(0, 0, b"invalid"))])),
            http3: Never("one side closes both directions"),
        },
    ]
}

/// A client that acknowledges packets without ever opening a window.
const TAKES_NOTHING: Habits =
    Habits { bytes_per_second: 0, pings: Duration::from_millis(250), ..Habits::GOOD };

/// A client that acknowledges a packet from time to time, as QUIC itself would otherwise end the
/// connection.
const HEARS_LITTLE: Habits =
    Habits { bytes_per_second: 0, hearing: Hearing::OneIn(Duration::from_secs(20)), ..Habits::GOOD };

const SLOW: ReadRate = ReadRate::BytesPerSecond(120);

/// The actions of a client that sends `begun` and then a byte from time to time, without completing
/// anything.
fn trickle(begun: &[u8]) -> Vec<Action> {
    let mut actions = vec![Action::Send(begun.to_vec())];
    for _ in 0..15 {
        actions.extend([Action::Pause(Duration::from_secs(1)), send("1")]);
    }
    actions
}

/// Adds PING frames of HTTP/2 for five minutes.
fn pings(mut actions: Vec<Action>) -> Vec<Action> {
    for _ in 0..3000 {
        actions.push(Action::Pause(Duration::from_millis(100)));
        actions.push(Action::Send(frame(PING, 0, 0, b"8 bytes.")));
    }
    actions
}

fn hello(protocol: &str) -> Vec<u8> {
    client_hello("localhost", ClientOptions::default().tls13().protocols(&[protocol]).build())
}

/// Returns an upload of 16 KiB at a time, in intervals of this many seconds.
fn h1_upload(seconds: u64) -> Vec<Action> {
    let mut actions = vec![send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n")];
    for _ in 0..BLOCKS {
        actions.extend([Action::Send(vec![b'x'; 16_384]), Action::Pause(Duration::from_secs(seconds))]);
    }
    actions
}

fn h2_upload(seconds: u64) -> Vec<Action> {
    let mut actions = vec![h2(65_535, h2_request(1, "POST", "/upload", false))];
    for _ in 0..BLOCKS {
        let block = Action::Send(data(1, 0, &[b'x'; 16_384]));
        actions.extend([block, Action::Pause(Duration::from_secs(seconds))]);
    }
    actions
}

fn h3_upload(seconds: u64) -> Vec<(u64, Deed)> {
    let mut script = vec![(0, begin(0, "POST", "/upload"))];
    script.extend(
        (0..BLOCKS as u64).map(|block| (seconds * 1000 * block, Deed::Content { name: 0, bytes: 16_384 })),
    );
    script
}

/// Returns the start of an upload: this many blocks of 16 KiB, three in a second.
fn h1_blocks(target: &str, blocks: usize) -> Vec<Action> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n");
    let mut actions = vec![send(&head)];
    for _ in 0..blocks.div_ceil(3) {
        let block = vec![b'x'; 16_384 * blocks.min(3)];
        actions.extend([Action::Send(block), Action::Pause(Duration::from_secs(1))]);
    }
    actions
}

fn h2_blocks(target: &str, blocks: usize) -> Vec<Action> {
    let mut actions = vec![h2(65_535, h2_request(1, "POST", target, false))];
    for number in 1..=blocks {
        actions.push(Action::Send(data(1, 0, &[b'x'; 16_384])));
        if number % 3 == 0 {
            actions.push(Action::Pause(Duration::from_secs(1)));
        }
    }
    actions
}

fn h3_blocks(target: &'static str, blocks: u64) -> Vec<(u64, Deed)> {
    let mut script = vec![(0, begin(0, "POST", target))];
    script.extend((0..blocks).map(|block| (300 * block, Deed::Content { name: 0, bytes: 16_384 })));
    script
}

/// Returns requests of which each takes 0.3 s, ten a second.
fn overlapping(requests: usize) -> Vec<(u64, Deed)> {
    let mut script = Vec::new();
    for number in 0..requests {
        let at = 100 * number as u64;
        script.push((at, begin(number, "GET", "/small")));
        script.push((at + 301, Deed::End { name: number }));
    }
    script.sort_by_key(|(at, _)| *at);
    script
}

/// Returns a client that takes nothing of a response, and all of many others.
fn busy_reader() -> Run {
    let mut script = vec![(0, get("/large"))];
    script.extend((1..600).map(|number| (500 * number as u64, whole(number, "/small"))));
    Run::quic(script, Habits { window: 20_000, bytes_per_second: 0, ..Habits::GOOD })
}

fn send(text: &str) -> Action {
    Action::Send(text.as_bytes().to_vec())
}

fn preface(window: u32) -> Vec<u8> {
    [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, window)])].concat()
}

fn h2_request(stream: u32, method: &str, target: &str, ends: bool) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "http"), (":path", target), (":authority", "h")];
    headers(stream, if ends { END_STREAM } else { 0 }, &field_block(&fields))
}

/// Returns the first bytes of a client of HTTP/2, with streams that have this window.
fn h2(window: u32, then: Vec<u8>) -> Action {
    Action::Send([preface(window), then].concat())
}

fn h2_get(target: &str) -> Vec<u8> {
    h2_request(1, "GET", target, true)
}

/// Opens the window of the connection, and requests a response.
fn all_of(target: &str) -> Vec<u8> {
    [window_update(0, 1 << 24), h2_get(target)].concat()
}

fn get(path: &'static str) -> Deed {
    whole(0, path)
}

fn whole(name: usize, path: &'static str) -> Deed {
    Deed::Request { name, method: "GET", path, ends: true }
}

fn begin(name: usize, method: &'static str, path: &'static str) -> Deed {
    Deed::Request { name, method, path, ends: false }
}

/// Returns why a cell is not as the table says.
fn fault_of(cell: &Cell) -> Option<String> {
    let send = Timeouts::default().send.as_secs();
    match cell {
        Ends(at, effect, run) => {
            let expected = match at {
                At::Seconds(seconds) => *seconds..=seconds + SLACK,
                BelowRate => send..=2 * send + SLACK,
            };

            match run().observe(&[*effect], Duration::from_millis(500)) {
                Observed::Effect { time, .. } if expected.contains(&time.as_secs()) => None,
                other => Some(format!("{other} instead of {effect:?} after {expected:?} s")),
            }
        }
        Open(run) => match run()
            .observe(&[Closed, Reset, Goaway, Answered(408), Answered(503)], Duration::from_secs(30))
        {
            Observed::Nothing => None,
            other => Some(format!("{other} instead of no deadline")),
        },
        Never(_) => None,
    }
}

#[test]
fn each_cell_is_as_the_table_says() {
    let mut faults = Vec::new();
    for Row { situation, http1, http2, http3 } in table() {
        for (protocol, cell) in [("HTTP/1.1", http1), ("HTTP/2", http2), ("HTTP/3", http3)] {
            faults.extend(fault_of(&cell).map(|fault| format!("{situation} over {protocol}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn page_has_the_table() {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/timeouts.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<String> = table()
        .into_iter()
        .map(|Row { situation, http1, http2, http3 }| {
            let [http1, http2, http3] = [http1, http2, http3].map(|cell| cell.to_string());
            format!("| {situation} | {http1} | {http2} | {http3} |")
        })
        .collect();
    // The first two lines are the head.
    let of_page: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert_eq!(of_page, rows, "docs/design/timeouts.md");
}

/// A client that takes nothing of a response should keep its release open until the deadline, but no
/// longer.
#[test]
fn reader_that_takes_nothing_pins_no_release() {
    let deadline = 2 * Timeouts::default().send + Duration::from_secs(SLACK);
    for habits in [Habits { window: 20_000, ..TAKES_NOTHING }, HEARS_LITTLE] {
        let open = Run::quic(vec![(0, get("/large"))], habits).release_is_open_for();
        assert!(open.is_some_and(|time| time <= deadline), "{habits:?}: {open:?}");
    }
}

/// Nor the place of another client, if connections are limited.
#[test]
fn reader_that_takes_nothing_keeps_no_client_waiting() {
    let deadline = 2 * Timeouts::default().send + Duration::from_secs(SLACK);
    for habits in [Habits { window: 20_000, ..TAKES_NOTHING }, HEARS_LITTLE] {
        let answered = Run::quic(vec![(0, get("/large"))], habits).other_client_is_answered();
        let range = Timeouts::default().send..=deadline;
        assert!(answered.is_some_and(|time| range.contains(&time)), "{habits:?}: {answered:?}");
    }
}

/// Even if a client takes everything of other responses, so that the connection makes progress, it should
/// not be able to pin a release.
#[test]
fn busy_client_pins_no_release() {
    let deadline = OLD_RELEASE_TIMEOUT + DRAIN_GRACE + 2 * Timeouts::default().send;
    let open = busy_reader().release_is_open_for();
    assert!(open.is_some_and(|time| time <= deadline + Duration::from_secs(2 + SLACK)), "{open:?}");
}

#[test]
fn overlapping_requests_are_all_answered() {
    const REQUESTS: usize = 250;
    let network = Network::new(3);
    let current = Arc::new(Current::new(Releases::build().first));
    let mut worker = http3::worker(&network, &current, None, &mut Random::new(3));
    let script = overlapping(REQUESTS).into_iter().map(|(at, deed)| (Duration::from_millis(at), deed));
    let client = Rc::new(RefCell::new(Scripted::new(script.collect(), Habits::GOOD, worker.now())));
    network.add_datagram_peer(address(0, 0), Rc::clone(&client) as _, Path::PERFECT);
    while client.borrow().finished() < REQUESTS {
        worker.run_iteration(None);
        let finished = client.borrow().finished();
        assert!(network.elapsed() < Duration::from_secs(30), "{finished} of {REQUESTS} are answered");
    }
}
