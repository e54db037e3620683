//! The table of deadlines: what a client may delay for how long, over each protocol, measured with the virtual clock.
//!
//! `docs/design/timeouts.md` has the same table, and a test compares both.

use std::cell::RefCell;
use std::path::Path as FilePath;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{
    Action, Network, Path, PeerId, Random, ReadRate, Simulated, SimulatedListener,
};
use cannery_testkit::http2::{
    END_STREAM, INITIAL_WINDOW_SIZE, PING, PREFACE, data, field_block, frame, headers, settings,
    window_update,
};

use super::http3::scripted::{Deed, Habits, Scripted};
use super::http3::{self, address};
use super::plan;
use super::site::Releases;
use crate::config::Timeouts;
use crate::connection::{DRAIN_GRACE, OLD_RELEASE_TIMEOUT};
use crate::reload::Current;
use crate::worker::Worker;

/// Deadlines are checked once per second, and connections close some round trips later.
const SLACK: u64 = 3;

/// A connection that is still open after this time has no deadline.
const LONG: Duration = Duration::from_secs(300);

/// The last response of HTTP/1 and GOAWAY of HTTP/2 precede the end by the time that a client has to close.
const LINGER: u64 = 5;

/// When a connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// After this many seconds.
    After(u64),
    /// After one or two half minutes: the bytes of the first may count as progress.
    BelowRate,
    Never,
}

/// A row of the table: a situation, and when a connection of each protocol ends in it. `None` if it can't occur.
struct Row {
    situation: &'static str,
    http1: Option<(Ends, fn() -> Run)>,
    http2: Option<(Ends, fn() -> Run)>,
    http3: Option<(Ends, fn() -> Run)>,
}

/// The activity of a connection.
enum Run {
    Tcp { actions: Vec<Action>, read_rate: ReadRate },
    Quic { script: Vec<(Duration, Deed)>, habits: Habits },
}

/// Returns the table.
fn table() -> Vec<Row> {
    let Timeouts { head, idle, .. } = Timeouts::default();
    let [head, idle] = [head, idle].map(|time| Ends::After(time.as_secs()));
    vec![
        Row {
            situation: "half of a request's head",
            http1: Some((head, || tcp(vec![send("GET /small HTTP/1.1\r\nHost: h\r\nX: ")]))),
            http2: Some((head, || {
                let request = h2_request(1, "GET", "/small", true);
                tcp(vec![Action::Send([preface(65_535), request[..request.len() - 3].to_vec()].concat())])
            })),
            http3: Some((head, || quic(vec![(0, Deed::HalfHead { name: 0 })], Habits::GOOD))),
        },
        Row {
            situation: "half of a request's content",
            http1: Some((head, || {
                tcp(vec![send("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")])
            })),
            http2: Some((head, || {
                let post = [h2_request(1, "POST", "/small", false), data(1, 0, b"half")].concat();
                tcp(vec![Action::Send([preface(65_535), post].concat())])
            })),
            http3: Some((head, || quic(vec![(0, request(0, "POST", "/small", false))], Habits::GOOD))),
        },
        Row {
            situation: "one incomplete request among many others",
            http1: None,
            http2: Some((head, || {
                let begin = [preface(65_535), h2_request(1, "POST", "/small", false)].concat();
                let mut actions = vec![Action::Send(begin)];
                for number in 1..300 {
                    actions.push(Action::Pause(Duration::from_millis(100)));
                    actions.push(Action::Send(h2_request(2 * number + 1, "GET", "/small", true)));
                }
                tcp(actions)
            })),
            http3: Some((head, || {
                let mut script = vec![(0, request(0, "POST", "/small", false))];
                script.extend(
                    (1..300).map(|number| (100 * number as u64, request(number, "GET", "/small", true))),
                );
                quic(script, Habits::GOOD)
            })),
        },
        Row {
            situation: "overlapping requests, of which one is always incomplete",
            http1: None,
            http2: Some((Ends::Never, || {
                // Responses don't wait for the connection's window.
                let mut actions = vec![Action::Send([preface(65_535), window_update(0, 1 << 24)].concat())];
                for number in 0..3000 {
                    actions.push(Action::Pause(Duration::from_millis(100)));
                    actions.push(Action::Send(h2_request(2 * number + 1, "POST", "/small", false)));
                    if number >= 3 {
                        actions.push(Action::Send(data(2 * (number - 3) + 1, END_STREAM, b"")));
                    }
                }
                tcp(actions)
            })),
            http3: Some((Ends::Never, || {
                let mut script = Vec::new();
                for number in 0..3000 {
                    let at = 100 * number as u64;
                    script.push((at, request(number, "GET", "/small", false)));
                    script.push((at + 301, Deed::End { name: number }));
                }
                script.sort_by_key(|(at, _)| *at);
                quic(script, Habits::GOOD)
            })),
        },
        Row {
            situation: "no request, after one",
            http1: Some((idle, || tcp(vec![send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n")]))),
            http2: Some((idle, || {
                tcp(vec![Action::Send([preface(65_535), h2_request(1, "GET", "/small", true)].concat())])
            })),
            http3: Some((idle, || quic(vec![(0, request(0, "GET", "/small", true))], Habits::GOOD))),
        },
        Row {
            situation: "a response of which the client takes nothing",
            http1: Some((Ends::BelowRate, || {
                let actions = vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")];
                Run::Tcp { actions, read_rate: ReadRate::Zero }
            })),
            http2: Some((Ends::BelowRate, || {
                let mut actions =
                    vec![Action::Send([preface(1000), h2_request(1, "GET", "/large", true)].concat())];
                // Each PING is answered, so that the client acknowledges bytes: but not of the response.
                for _ in 0..3000 {
                    actions.push(Action::Pause(Duration::from_millis(100)));
                    actions.push(Action::Send(frame(PING, 0, 0, b"8 bytes.")));
                }
                tcp(actions)
            })),
            http3: Some((Ends::BelowRate, || {
                let pings = Duration::from_millis(250);
                let habits = Habits { window: 20_000, bytes_per_second: 0, pings, hears_every: None };
                quic(vec![(0, request(0, "GET", "/large", true))], habits)
            })),
        },
        Row {
            situation: "the same, with windows for all of it",
            http1: None,
            http2: Some((Ends::BelowRate, || {
                let request = h2_request(1, "GET", "/large", true);
                let actions =
                    vec![Action::Send([preface(1 << 20), window_update(0, 1 << 24), request].concat())];
                Run::Tcp { actions, read_rate: ReadRate::Zero }
            })),
            http3: Some((Ends::BelowRate, || {
                // It acknowledges a packet from time to time, so that QUIC itself doesn't end the connection.
                let hears_every = Some(Duration::from_secs(20));
                let pings = Duration::from_secs(5);
                let habits = Habits { window: 1 << 20, bytes_per_second: 0, pings, hears_every };
                quic(vec![(0, request(0, "GET", "/large", true))], habits)
            })),
        },
        Row {
            situation: "a response of which the client takes 120 bytes a second",
            http1: Some((Ends::Never, || {
                let actions = vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")];
                Run::Tcp { actions, read_rate: ReadRate::BytesPerSecond(120) }
            })),
            http2: Some((Ends::Never, || {
                let request = h2_request(1, "GET", "/large", true);
                let actions =
                    vec![Action::Send([preface(1 << 20), window_update(0, 1 << 24), request].concat())];
                Run::Tcp { actions, read_rate: ReadRate::BytesPerSecond(120) }
            })),
            http3: Some((Ends::Never, || {
                let habits = Habits { window: 2000, bytes_per_second: 120, ..Habits::GOOD };
                quic(vec![(0, request(0, "GET", "/large", true))], habits)
            })),
        },
    ]
}

fn tcp(actions: Vec<Action>) -> Run {
    Run::Tcp { actions, read_rate: ReadRate::Unlimited }
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

fn quic(script: Vec<(u64, Deed)>, habits: Habits) -> Run {
    let script = script.into_iter().map(|(at, deed)| (Duration::from_millis(at), deed)).collect();
    Run::Quic { script, habits }
}

fn request(name: usize, method: &'static str, path: &'static str, ends: bool) -> Deed {
    Deed::Request { name, method, path, ends }
}

/// Returns when the server has ended the connection, or `None` if it is open after a long time.
fn ended(run: Run) -> Option<Duration> {
    match run {
        Run::Tcp { mut actions, read_rate } => {
            actions.extend([Action::AwaitClose, Action::ShutdownWrite]);
            let network = Network::new(3);
            let _: PeerId = network.connect(Duration::ZERO, actions, read_rate, 5000);
            let mut worker = Worker::new(Simulated::new(network.clone()), plan(SimulatedListener).0).unwrap();
            observe(&network, &mut worker, |worker| worker.is_idle())
        }
        Run::Quic { script, habits } => {
            let network = Network::new(3);
            let current = Arc::new(Current::new(Releases::build().first));
            let mut worker = http3::worker(&network, &current, None, &mut Random::new(3));
            let client = Rc::new(RefCell::new(Scripted::new(script, habits, worker.now())));
            network.add_datagram_peer(address(0, 0), Rc::clone(&client) as _, Path::PERFECT);
            observe(&network, &mut worker, |worker| worker.http3.as_ref().unwrap().len() == 0)
        }
    }
}

/// Runs a worker until it has no connection any more.
fn observe(
    network: &Network,
    worker: &mut Worker<Simulated>,
    is_over: impl Fn(&Worker<Simulated>) -> bool,
) -> Option<Duration> {
    while is_over(worker) {
        worker.run_iteration(None);
        assert!(network.elapsed() < Duration::from_secs(5), "the client connects");
    }
    while network.elapsed() < LONG {
        if is_over(worker) {
            return Some(network.elapsed());
        }
        worker.run_iteration(None);
    }
    None
}

#[test]
fn connections_end_as_the_table_says() {
    for Row { situation, http1, http2, http3 } in table() {
        for (protocol, cell) in [("HTTP/1.1", http1), ("HTTP/2", http2), ("HTTP/3", http3)] {
            let Some((ends, run)) = cell else { continue };
            let ended = ended(run()).map(|time| time.as_secs());
            let send = Timeouts::default().send.as_secs();
            let expected = match ends {
                Ends::After(seconds) => Some(seconds..=seconds + LINGER + SLACK),
                Ends::BelowRate => Some(send..=2 * send + LINGER + SLACK),
                Ends::Never => None,
            };
            let is_expected = match (&expected, ended) {
                (Some(expected), Some(ended)) => expected.contains(&ended),
                (None, None) => true,
                _ => false,
            };
            assert!(
                is_expected,
                "{situation} over {protocol}: {expected:?} expected, ended after {ended:?} s"
            );
        }
    }
}

/// The rows of docs/design/timeouts.md begin with those of the table, and have the same deadlines.
#[test]
fn page_has_the_table() {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/timeouts.md");
    let page = std::fs::read_to_string(path).unwrap();
    for Row { situation, http1, http2, http3 } in table() {
        let cells = [http1, http2, http3].map(|cell| match cell {
            Some((Ends::After(seconds), _)) => format!("{seconds} s"),
            Some((Ends::BelowRate, _)) => "30 s".to_owned(),
            Some((Ends::Never, _)) => "none".to_owned(),
            None => "–".to_owned(),
        });
        let row = page.lines().find(|line| line.starts_with(&format!("| {situation} |")));
        let row = row.unwrap_or_else(|| panic!("docs/design/timeouts.md has no row for {situation:?}"));
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        for (column, cell) in columns[2..].iter().zip(cells) {
            assert!(column.starts_with(&cell), "{situation}: {column:?} instead of {cell:?}");
        }
    }
}

/// Returns how long a release is open that is replaced after two seconds.
fn release_is_open_for(script: Vec<(Duration, Deed)>, habits: Habits) -> Option<Duration> {
    let network = Network::new(3);
    let releases = Releases::build().unshared();
    let current = Arc::new(Current::new(Arc::clone(&releases.first)));
    let mut worker = http3::worker(&network, &current, None, &mut Random::new(3));
    let client = Rc::new(RefCell::new(Scripted::new(script, habits, worker.now())));
    network.add_datagram_peer(address(0, 0), client, Path::PERFECT);
    while network.elapsed() < Duration::from_secs(2) {
        worker.run_iteration(None);
    }
    current.replace(Arc::clone(&releases.second));
    network.wake();
    while network.elapsed() < LONG {
        if Arc::strong_count(&releases.first) == 1 {
            return Some(network.elapsed());
        }
        worker.run_iteration(None);
    }
    None
}

/// A client that takes nothing of a response keeps its release open until the deadline, and no longer.
#[test]
fn reader_that_takes_nothing_pins_no_release() {
    let deadline = 2 * Timeouts::default().send + Duration::from_secs(SLACK);
    for situation in ["a response of which the client takes nothing", "the same, with windows for all of it"]
    {
        let row = table().into_iter().find(|row| row.situation == situation).unwrap();
        let Some((_, run)) = row.http3 else { unreachable!("it occurs over HTTP/3") };
        let Run::Quic { script, habits } = run() else { unreachable!("it is a run of HTTP/3") };
        let open = release_is_open_for(script, habits);
        assert!(open.is_some_and(|time| time <= deadline), "{situation}: {open:?}");
    }
}

/// Also if it takes everything of others, so that the connection makes progress.
#[test]
fn busy_client_pins_no_release() {
    let mut script = vec![(0, request(0, "GET", "/large", true))];
    script.extend((1..600).map(|number| (500 * number as u64, request(number, "GET", "/small", true))));
    let Run::Quic { script, .. } = quic(script, Habits::GOOD) else { unreachable!("it is a run of HTTP/3") };
    let habits = Habits { window: 20_000, bytes_per_second: 0, ..Habits::GOOD };
    let deadline = OLD_RELEASE_TIMEOUT + DRAIN_GRACE + 2 * Timeouts::default().send;
    let open = release_is_open_for(script, habits);
    assert!(open.is_some_and(|time| time <= deadline + Duration::from_secs(2 + SLACK)), "{open:?}");
}

#[test]
fn overlapping_requests_are_all_answered() {
    let network = Network::new(3);
    let current = Arc::new(Current::new(Releases::build().first));
    let mut worker = http3::worker(&network, &current, None, &mut Random::new(3));
    let mut script = Vec::new();
    for number in 0..250_usize {
        let at = 100 * number as u64;
        script.push((Duration::from_millis(at), request(number, "GET", "/small", false)));
        script.push((Duration::from_millis(at + 301), Deed::End { name: number }));
    }
    script.sort_by_key(|(at, _)| *at);
    let client = Rc::new(RefCell::new(Scripted::new(script, Habits::GOOD, worker.now())));
    network.add_datagram_peer(address(0, 0), Rc::clone(&client) as _, Path::PERFECT);
    while client.borrow().finished() < 250 {
        worker.run_iteration(None);
        let finished = client.borrow().finished();
        assert!(network.elapsed() < Duration::from_secs(30), "{finished} of 250 are answered");
    }
}
