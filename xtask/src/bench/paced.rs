//! Requests at an even rate, whatever the answers do: an open loop, in which a slow server cannot slow its clients.
//!
//! A wait is counted from the moment when the request was due, not from when a connection was free to send it, so
//! that a server that stands still delays all requests of that time (coordinated omission is what the other way of
//! counting is called). The clock is looked at all the time: each thread of the generator uses its processor up.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::loaded::Loaded;
use super::machine::pin;
use super::ordinary::Waits;
use crate::error::Error;

/// What is asked, by how many, and how often.
pub(crate) struct Pace<'a> {
    pub(crate) address: SocketAddrV4,
    pub(crate) request: &'a [u8],
    /// All answers have the same length and the same status line, or the run has failed.
    pub(crate) answer: &'a [u8],
    pub(crate) connections: u32,
    pub(crate) requests_per_second: f64,
    pub(crate) seconds: u64,
}

/// Answers that are still missing when the time is over may take so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for what is ready at once.
const EVENTS: usize = 256;

/// As much of an answer as tells its status.
const STATUS_BYTES: usize = b"HTTP/1.1 200".len();

impl Pace<'_> {
    /// Asks from a thread on each of some processors, until the time is over and all answers are there.
    pub(crate) fn run(&self, processors: &str) -> Result<Loaded, Error> {
        let threads: Vec<_> = processors.split(',').collect();
        let share = Share {
            connections: self.connections.div_ceil(u32::try_from(threads.len()).unwrap_or(1)),
            interval: Duration::from_secs_f64(threads.len() as f64 / self.requests_per_second),
        };
        let waits = thread::scope(|scope| {
            let running: Vec<_> = threads
                .iter()
                .map(|processor| {
                    scope.spawn(|| {
                        pin(processor)?;
                        self.ask(&share)
                            .map_err(|source| Error::file(format!("http://{}/", self.address), source))
                    })
                })
                .collect();
            let joined = running.into_iter().map(|thread| thread.join().expect("a generator does not panic"));
            joined.collect::<Result<Vec<_>, _>>()
        })?;
        let waits = Waits::new(waits.concat());
        let requests = waits.len() as f64;
        let waits_us = [500, 900, 990, 999, 1000].map(|permille| waits.permille(permille));
        let raw = format!(
            "{:.0} requests/s due for {} s on {} connections; waits in us: requests, p50, p99, p99.9, longest\n{}",
            self.requests_per_second,
            self.seconds,
            self.connections,
            waits.line()
        );
        Ok(Loaded {
            requests,
            requests_per_second: requests / self.seconds as f64,
            waits_us,
            head_bytes: None,
            raw,
        })
    }

    /// One thread's part: how long each of its requests waited.
    fn ask(&self, share: &Share) -> io::Result<Vec<Duration>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut asking =
            Asking { pace: self, connections: Vec::new(), idle: VecDeque::new(), waits: Vec::new() };
        for number in 0..share.connections {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number.into()), epoll::EventFlags::IN)?;
            asking.idle.push_back(asking.connections.len());
            asking.connections.push(Connection { stream, due: Instant::now(), received: 0 });
        }

        let started = Instant::now();
        let ends = started + Duration::from_secs(self.seconds);
        let (mut asked, mut due) = (0, started);
        let mut events = Vec::with_capacity(EVENTS);
        while due < ends || asking.waits.len() < asked {
            let now = Instant::now();
            if now > ends + PATIENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "it does not keep up with half the load"));
            }
            while due < ends && due <= now && asking.send(due)? {
                asked += 1;
                due += share.interval;
            }
            epoll::wait(&epoll, spare_capacity(&mut events), Some(&Timespec::default()))?;
            for event in events.drain(..) {
                let number = event.data.u64();
                asking.receive(usize::try_from(number).expect("the number of a connection"))?;
            }
        }
        Ok(asking.waits)
    }
}

/// What falls to each thread.
struct Share {
    connections: u32,
    /// From one request of the thread to the next.
    interval: Duration,
}

struct Connection {
    stream: TcpStream,
    /// When the request on its way should have been sent.
    due: Instant,
    received: usize,
}

struct Asking<'a> {
    pace: &'a Pace<'a>,
    connections: Vec<Connection>,
    /// Those without a request on its way; the longest idle first.
    idle: VecDeque<usize>,
    waits: Vec<Duration>,
}

impl Asking<'_> {
    /// Sends a request that is due, if a connection is free.
    fn send(&mut self, due: Instant) -> io::Result<bool> {
        let Some(number) = self.idle.pop_front() else { return Ok(false) };
        let connection = &mut self.connections[number];
        connection.due = due;
        // A request is so small that it always leaves whole.
        connection.stream.write_all(self.pace.request)?;
        Ok(true)
    }

    fn receive(&mut self, number: usize) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let connection = &mut self.connections[number];
        let got = match connection.stream.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            got => got?,
        };
        let whole = self.pace.answer;
        let is_expected = connection.received > 0 || bytes[..got].starts_with(&whole[..STATUS_BYTES]);
        connection.received += got;
        if got == 0 || !is_expected || connection.received > whole.len() {
            return Err(io::Error::new(ErrorKind::InvalidData, "an answer that differs from the first"));
        }
        if connection.received == whole.len() {
            self.waits.push(connection.due.elapsed());
            connection.received = 0;
            self.idle.push_back(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// A server that answers so many requests, each connection on a thread of its own, and pauses before the first.
    fn serve(pause: Duration, answer: &'static [u8]) -> SocketAddrV4 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            unreachable!("an address of IPv4")
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let mut pause = Some(pause);
                    for _ in lines.map_while(Result::ok).filter(String::is_empty) {
                        thread::sleep(pause.take().unwrap_or_default());
                        (&stream).write_all(answer).unwrap();
                    }
                });
            }
        });
        address
    }

    fn pace(address: SocketAddrV4) -> Pace<'static> {
        let request = b"GET / HTTP/1.1\r\n\r\n";
        Pace { address, request, answer: ANSWER, connections: 2, requests_per_second: 500.0, seconds: 1 }
    }

    #[test]
    fn every_request_that_is_due_is_asked_and_answered() {
        let loaded = pace(serve(Duration::ZERO, ANSWER)).run("0").unwrap();
        assert!((loaded.requests - 500.0).abs() < 1.5, "{}", loaded.requests);
        assert!(loaded.waits_us.is_sorted() && loaded.waits_us[0] > 0.0);
    }

    #[test]
    fn a_server_that_stands_still_delays_all_who_are_due_meanwhile() {
        let loaded = pace(serve(Duration::from_millis(400), ANSWER)).run("0").unwrap();
        // Both connections wait for 400 ms, in which 200 of the 500 requests become due.
        let [_, p90, .., longest] = loaded.waits_us;
        assert!(longest >= 400_000.0 && p90 >= 250_000.0, "{:?}", loaded.waits_us);
    }

    #[test]
    fn an_answer_of_another_status_or_length_is_an_error() {
        assert!(
            pace(serve(Duration::ZERO, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")).run("0").is_err()
        );
        assert!(
            pace(serve(Duration::ZERO, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!!")).run("0").is_err()
        );
    }
}
