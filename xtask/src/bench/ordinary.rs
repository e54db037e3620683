//! Ordinary requests at an even rate, and how long each waited for its answer.
//!
//! A request whose turn came while the one before it was still waiting counts from its turn on: a server that
//! stands still for a second delays all requests of that second, not one. One wrong answer, and there are no
//! figures.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::pin;
use super::median;
use crate::error::Error;

/// Requests a second on each connection that is kept.
const RATE_KEPT: u32 = 1000;

/// Connections that are kept. With their rate, well below what the server can do: what is measured is how
/// long it lets people wait, not how much it can.
const CONNECTIONS_KEPT: u32 = 2;

/// Requests a second that come on a connection of their own.
const RATE_NEW: u32 = 200;

/// How long an answer may take before there is no point in measuring.
const PATIENCE: Duration = Duration::from_secs(20);

/// A visitor who asks for the same page again and again.
#[derive(Clone)]
pub(crate) struct Visitor {
    address: SocketAddrV4,
    target: String,
    body: Vec<u8>,
    /// Of an answer on a connection that is kept. All are equally long: a date always has 29 bytes.
    answer_bytes: usize,
}

/// How long requests waited.
pub(crate) struct Waits {
    /// All of them, in order.
    all: Vec<Duration>,
    /// The same by the second in which their turn came.
    by_second: BTreeMap<u32, Vec<Duration>>,
}

impl Visitor {
    /// Asks once, and fails if the answer ends without `body`.
    pub(crate) fn new(address: SocketAddrV4, target: &str, body: &[u8]) -> Result<Visitor, Error> {
        let (target, body) = (target.to_owned(), body.to_vec());
        let mut visitor = Visitor { address, target, body, answer_bytes: 0 };
        let mut connection = connect(address).map_err(|source| visitor.broken(source))?;
        connection.write_all(&visitor.request(false)).map_err(|source| visitor.broken(source))?;
        let mut answer = Vec::new();
        while visitor.check(&answer).is_err() {
            let mut some = [0; 4096];
            let got = connection.read(&mut some).map_err(|source| visitor.broken(source))?;
            if got == 0 {
                return Err(wrong(&answer));
            }
            answer.extend_from_slice(&some[..got]);
        }
        visitor.answer_bytes = answer.len();
        Ok(visitor)
    }

    /// How long an answer is on a connection that is kept.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Asks for some time, on connections that are kept and on new ones.
    pub(crate) fn ask(&self, seconds: u64, processors: &'static str) -> Result<(Waits, Waits), Error> {
        let time = Duration::from_secs(seconds);
        let kept: Vec<_> = (0..CONNECTIONS_KEPT)
            .map(|_| {
                let visitor = self.clone();
                thread::spawn(move || pin(processors).and_then(|()| visitor.ask_on_one(time)))
            })
            .collect();
        let visitor = self.clone();
        let new = thread::spawn(move || pin(processors).and_then(|()| visitor.ask_on_new(time)));
        let mut waits = Vec::new();
        for thread in kept {
            waits.extend(thread.join().expect("a visitor does not panic")?);
        }
        let waits_new = new.join().expect("a visitor does not panic")?;
        Ok((Waits::of_seconds(waits), Waits::of_seconds(waits_new)))
    }

    fn ask_on_one(&self, time: Duration) -> Result<Vec<(u32, Duration)>, Error> {
        let mut connection = connect(self.address).map_err(|source| self.broken(source))?;
        let mut answer = vec![0; self.answer_bytes];
        at_rate(RATE_KEPT, time, || {
            connection.write_all(&self.request(false)).map_err(|source| self.broken(source))?;
            connection.read_exact(&mut answer).map_err(|source| self.broken(source))?;
            self.check(&answer)
        })
    }

    fn ask_on_new(&self, time: Duration) -> Result<Vec<(u32, Duration)>, Error> {
        let mut answer = Vec::new();
        at_rate(RATE_NEW, time, || {
            let mut connection = connect(self.address).map_err(|source| self.broken(source))?;
            connection.write_all(&self.request(true)).map_err(|source| self.broken(source))?;
            answer.clear();
            connection.read_to_end(&mut answer).map_err(|source| self.broken(source))?;
            self.check(&answer)
        })
    }

    fn request(&self, last: bool) -> Vec<u8> {
        let closing = if last { "Connection: close\r\n" } else { "" };
        format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{closing}\r\n", self.target).into_bytes()
    }

    fn check(&self, answer: &[u8]) -> Result<(), Error> {
        let right = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&self.body);
        if right { Ok(()) } else { Err(wrong(answer)) }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::file(format!("an ordinary request to {}", self.address), source)
    }
}

fn connect(address: SocketAddrV4) -> io::Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&address.into(), PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

/// Does something at an even rate, and says in which second each time was, and how long it waited for its end.
fn at_rate(
    rate: u32,
    time: Duration,
    mut visit: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<(u32, Duration)>, Error> {
    let started = Instant::now();
    let mut waits = Vec::new();
    for number in 0.. {
        let turn = started + Duration::from_secs(1) / rate * number;
        if turn >= started + time {
            break;
        }
        let mut now = Instant::now();
        if let Some(early) = turn.checked_duration_since(now) {
            thread::sleep(early);
            // That we were woken late is not the server's doing.
            now = Instant::now();
        } else {
            now = turn;
        }
        visit()?;
        waits.push((number / rate, now.elapsed()));
    }
    Ok(waits)
}

fn wrong(answer: &[u8]) -> Error {
    Error::Unexpected {
        what: "an ordinary request".into(),
        expected: "the page".into(),
        got: String::from_utf8_lossy(&answer[..answer.len().min(200)]).escape_debug().to_string(),
    }
}

impl Waits {
    /// Waits of one second, or of a time whose seconds do not matter.
    pub(crate) fn new(waits: Vec<Duration>) -> Waits {
        Waits::of_seconds(waits.into_iter().map(|wait| (0, wait)).collect())
    }

    fn of_seconds(waits: Vec<(u32, Duration)>) -> Waits {
        let (mut all, mut by_second) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for (second, wait) in waits {
            all.push(wait);
            by_second.entry(second).or_default().push(wait);
        }
        all.sort_unstable();
        by_second.values_mut().for_each(|waits| waits.sort_unstable());
        Waits { all, by_second }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// These and others of the same time.
    pub(crate) fn with(self, others: Waits) -> Waits {
        let both = [self.by_second, others.by_second].into_iter().flatten();
        let waits = both.flat_map(|(second, waits)| waits.into_iter().map(move |wait| (second, wait)));
        Waits::of_seconds(waits.collect())
    }

    /// How long the fastest so many of a thousand waited at most, in microseconds: the median of all seconds, so that
    /// seconds in which the machine was busy with something else do not count.
    pub(crate) fn permille_of_seconds(&self, permille: usize) -> f64 {
        median(self.by_second.values().map(|waits| permille_of(waits, permille)).collect())
    }

    /// How many were longer than so many microseconds.
    pub(crate) fn above(&self, microseconds: f64) -> usize {
        self.all.iter().filter(|wait| wait.as_secs_f64() * 1e6 > microseconds).count()
    }

    /// How long the fastest so many of a thousand waited at most, in microseconds.
    pub(crate) fn permille(&self, permille: usize) -> f64 {
        permille_of(&self.all, permille)
    }

    /// Count, percentiles and the longest, in columns.
    pub(crate) fn line(&self) -> String {
        let [p50, p99, p999, longest] = [500, 990, 999, 1000].map(|permille| self.permille(permille));
        format!("{:>7} {p50:>8.0} {p99:>8.0} {p999:>8.0} {longest:>9.0}", self.all.len())
    }
}

/// How long the fastest so many of a thousand waited at most, in microseconds; `waits` are in order.
fn permille_of(waits: &[Duration], permille: usize) -> f64 {
    let rank = (waits.len() * permille).div_ceil(1000).max(1) - 1;
    waits.get(rank).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_waits_that_occurred() {
        let waits = Waits::new((1..=200).rev().map(Duration::from_micros).collect());
        let of = |permille| waits.permille(permille).round();
        assert_eq!([of(0), of(500), of(990), of(999), of(1000)], [1.0, 100.0, 198.0, 200.0, 200.0]);
        assert!(Waits::new(Vec::new()).permille(500).is_nan());
    }

    #[test]
    fn a_bad_second_does_not_count_among_good_ones() {
        let waits = (0..3000).map(|number| {
            let second = number / 1000;
            (second, Duration::from_micros(if second == 1 { 9000 } else { 10 + u64::from(second) }))
        });
        let waits = Waits::of_seconds(waits.collect());
        assert_eq!([waits.permille(990).round(), waits.permille_of_seconds(990).round()], [9000.0, 12.0]);
    }

    #[test]
    fn who_is_held_up_delays_those_whose_turn_comes_meanwhile() {
        let mut first = true;
        let waits = at_rate(1000, Duration::from_millis(40), || {
            if std::mem::take(&mut first) {
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(waits.len(), 40);
        assert!(waits[0].1 >= Duration::from_millis(20));
        // The tenth had its turn after ten milliseconds, and its answer after twenty.
        assert!(waits[9].1 >= Duration::from_millis(9), "{:?}", waits[9]);
    }
}
