//! Attackers: one thread with many connections that are slow, idle or reset.
//!
//! No packaged tool reopens the connections that the server closes, and slowhttptest has neither idle connections nor
//! resets. The thread looks at every connection ten times per second and never waits for one of them, so the attack
//! stays the same while the server is busy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::machine::{self, wait_until};

/// The behaviour of attackers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// They send the head of a request, one byte per minute.
    SlowHead,
    /// They request a large file and read one byte per minute.
    SlowReader,
    /// They send one request, read the response, and stay.
    Idle,
    /// They request a large file and reset the connection after its first bytes, a thousand times per second.
    Reset,
}

/// Time between two bytes of a slow client.
const BYTE_EVERY: Duration = Duration::from_secs(60);

/// Time between two passes over all connections.
const PASS_EVERY: Duration = Duration::from_millis(100);

/// Connections that are reset in each pass.
const RESETS: usize = 100;

/// Limit for opening a connection. The kernel accepts while the server is busy.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limit for the first attempts of all connections.
const BEGINNING_MAX: Duration = Duration::from_secs(600);

const SLOW_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Padding: ";
const SMALL_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const LARGE_REQUEST: &[u8] = b"GET /large.bin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// An attack with the numbers of connections until now.
pub(super) struct Attack {
    kind: Kind,
    address: SocketAddrV4,
    connections: u32,
    pub(super) opened: AtomicU64,
    /// Closed by the server.
    pub(super) closed: AtomicU64,
    /// Attempts to connect.
    attempts: AtomicU64,
}

impl Attack {
    /// Returns the attack of a step.
    pub(super) fn named(step: &str, address: SocketAddrV4, connections: u32) -> Result<Attack> {
        let kind = match step {
            "slow heads" => Kind::SlowHead,
            "slow readers" => Kind::SlowReader,
            "idle connections" => Kind::Idle,
            "resets" => Kind::Reset,
            _ => bail!("there is no attack `{step}`"),
        };
        let [opened, closed, attempts] = [0; 3].map(AtomicU64::new);
        Ok(Attack { kind, address, connections, opened, closed, attempts })
    }

    /// Calls `run` during the attack: after all connections have been opened once, or the same number of attempts failed.
    pub(super) fn during<T>(&self, processors: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let attack = |should_stop: &AtomicBool| {
            machine::pin_thread(processors)?;
            self.attack(should_stop);
            Ok(())
        };
        let have_all_begun = || Ok(self.attempts.load(Ordering::Relaxed) >= u64::from(self.connections));
        let (result, ()) = machine::during(attack, || {
            wait_until(BEGINNING_MAX, PASS_EVERY, have_all_begun).context("the attackers don't connect")?;
            run()
        })?;
        Ok(result)
    }

    fn attack(&self, should_stop: &AtomicBool) {
        let started = Instant::now();
        let offset = |number| BYTE_EVERY.mul_f64(f64::from(number) / f64::from(self.connections));
        let held = |number| Held { stream: None, sent: 0, next_byte: started + offset(number) };
        let mut all: Vec<_> = (0..self.connections).map(held).collect();
        while !should_stop.load(Ordering::Relaxed) {
            if self.kind == Kind::Reset {
                (0..RESETS).for_each(|_| self.count_attempt(self.reset().is_ok()));
            } else {
                all.iter_mut().for_each(|held| self.advance(held));
            }
            thread::sleep(PASS_EVERY);
        }
    }

    fn count_attempt(&self, is_open: bool) {
        self.opened.fetch_add(u64::from(is_open), Ordering::Relaxed);
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes a connection that has unread bytes, which makes the kernel send a reset.
    fn reset(&self) -> io::Result<usize> {
        let mut stream = TcpStream::connect_timeout(&self.address.into(), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(LARGE_REQUEST)?;
        stream.peek(&mut [0; 1])
    }

    /// Continues a connection, and opens it again if the server has closed it.
    fn advance(&self, held: &mut Held) {
        if held.advance(self.kind).is_ok() {
            return;
        }
        if held.stream.take().is_some() {
            self.closed.fetch_add(1, Ordering::Relaxed);
        }
        self.count_attempt(held.open(self.kind, self.address).is_ok());
    }
}

/// One of many connections.
struct Held {
    stream: Option<TcpStream>,
    sent: usize,
    /// Time to send or read the next byte.
    next_byte: Instant,
}

impl Held {
    fn open(&mut self, kind: Kind, address: SocketAddrV4) -> io::Result<()> {
        let first = match kind {
            Kind::SlowHead => &SLOW_HEAD[..1],
            Kind::SlowReader | Kind::Reset => LARGE_REQUEST,
            Kind::Idle => SMALL_REQUEST,
        };
        let mut stream = TcpStream::connect_timeout(&address.into(), TIMEOUT)?;
        stream.write_all(first)?;
        stream.set_nonblocking(true)?;
        self.stream = Some(stream);
        self.sent = first.len();
        Ok(())
    }

    /// Sends or reads a byte if it is time. Returns an error if the connection is closed.
    fn advance(&mut self, kind: Kind) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(ErrorKind::NotConnected.into()) };

        let is_time = Instant::now() >= self.next_byte;
        if is_time {
            self.next_byte += BYTE_EVERY;
        }

        if kind == Kind::SlowHead && is_time {
            let byte = SLOW_HEAD.get(self.sent).copied().unwrap_or(b'x');
            self.sent += 1;
            return stream.write_all(&[byte]);
        }

        let received = match kind {
            Kind::SlowReader if is_time => stream.read(&mut [0; 1]),
            // Without reading, only a reset is visible.
            Kind::SlowReader => return stream.take_error()?.map_or(Ok(()), Err),
            _ => stream.read(&mut [0; 4096]),
        };

        match received {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
