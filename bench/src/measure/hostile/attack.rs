//! Attackers: one thread with many connections that are slow, idle or reset.
//!
//! No packaged tool reopens the connections that the server closes, and slowhttptest has neither idle connections nor
//! resets. The thread looks at every connection ten times per second and never waits for one of them, so the attack
//! stays the same while the server is busy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::machine;

/// The behaviour of attackers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
const RESETS: u32 = 100;

/// Limit for opening a connection. The kernel accepts while the server is busy.
const TIMEOUT: Duration = Duration::from_secs(5);

const SLOW_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Padding: ";
const SMALL_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const LARGE_REQUEST: &[u8] = b"GET /large.bin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

impl Kind {
    /// Returns the kind of a step.
    pub(super) fn named(step: &str) -> Result<Kind> {
        Ok(match step {
            "slow heads" => Kind::SlowHead,
            "slow readers" => Kind::SlowReader,
            "idle connections" => Kind::Idle,
            "resets" => Kind::Reset,
            _ => bail!("there is no attack `{step}`"),
        })
    }
}

/// An attack that continues until its end.
pub(super) struct Attack {
    thread: JoinHandle<Result<()>>,
    should_stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
}

/// Numbers of connections until now.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) opened: AtomicU64,
    /// Closed by the server.
    pub(super) closed: AtomicU64,
    /// Attempts to connect that failed.
    failed: AtomicU64,
}

impl Attack {
    /// Begins an attack. Returns after all connections have been opened once, or the same number of attempts failed.
    pub(super) fn begin(
        kind: Kind,
        address: SocketAddrV4,
        connections: u64,
        processors: &'static str,
    ) -> Attack {
        let should_stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let thread = thread::spawn({
            let should_stop = Arc::clone(&should_stop);
            let counts = Arc::clone(&counts);
            move || {
                machine::pin_thread(processors)?;
                match kind {
                    Kind::Reset => reset_until(&should_stop, address, &counts),
                    _ => hold_until(&should_stop, kind, address, connections, &counts),
                }
                Ok(())
            }
        });

        let attack = Attack { thread, should_stop, counts };
        let attempts = || {
            let Counts { opened, failed, .. } = &*attack.counts;
            opened.load(Ordering::Relaxed) + failed.load(Ordering::Relaxed)
        };
        while attempts() < connections && !attack.thread.is_finished() {
            thread::sleep(PASS_EVERY);
        }
        attack
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Closes all connections.
    ///
    /// # Errors
    ///
    /// Fails if the attack couldn't begin.
    pub(super) fn end(self) -> Result<()> {
        self.should_stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("an attack does not panic")
    }
}

/// One of many connections.
struct Held {
    stream: Option<TcpStream>,
    sent: usize,
    /// Time to send or read the next byte.
    next_byte: Instant,
}

fn hold_until(
    should_stop: &AtomicBool,
    kind: Kind,
    address: SocketAddrV4,
    connections: u64,
    counts: &Counts,
) {
    let started = Instant::now();
    let offset = |number: u64| BYTE_EVERY.mul_f64(number as f64 / connections as f64);
    let held = |number| Held { stream: None, sent: 0, next_byte: started + offset(number) };
    let mut all: Vec<_> = (0..connections).map(held).collect();

    while !should_stop.load(Ordering::Relaxed) {
        for held in &mut all {
            if held.advance(kind).is_ok_and(|is_open| is_open) {
                continue;
            }
            if held.stream.take().is_some() {
                counts.closed.fetch_add(1, Ordering::Relaxed);
            }
            let count = if held.open(kind, address).is_ok() { &counts.opened } else { &counts.failed };
            count.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(PASS_EVERY);
    }
}

impl Held {
    fn open(&mut self, kind: Kind, address: SocketAddrV4) -> io::Result<()> {
        let first = match kind {
            Kind::SlowHead => &SLOW_HEAD[..1],
            Kind::SlowReader => LARGE_REQUEST,
            Kind::Idle | Kind::Reset => SMALL_REQUEST,
        };
        let mut stream = TcpStream::connect_timeout(&address.into(), TIMEOUT)?;
        stream.write_all(first)?;
        stream.set_nonblocking(true)?;
        self.stream = Some(stream);
        self.sent = first.len();
        Ok(())
    }

    /// Sends or reads a byte if it is time. Returns `true` if the connection is still open.
    fn advance(&mut self, kind: Kind) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let is_time = Instant::now() >= self.next_byte;
        if is_time {
            self.next_byte += BYTE_EVERY;
        }
        match kind {
            Kind::SlowReader if is_time => read_once(stream, &mut [0; 1]),
            // Without reading, only a reset is visible.
            Kind::SlowReader => Ok(stream.take_error()?.is_none()),
            Kind::SlowHead if is_time => {
                let byte = SLOW_HEAD.get(self.sent).copied().unwrap_or(b'x');
                stream.write_all(&[byte])?;
                self.sent += 1;
                Ok(true)
            }
            Kind::SlowHead | Kind::Idle | Kind::Reset => read_once(stream, &mut [0; 4096]),
        }
    }
}

/// Returns `true` if the connection is still open after one read.
fn read_once(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
    match stream.read(buffer) {
        Ok(count) => Ok(count > 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Closes connections that have unread bytes, which makes the kernel send a reset.
fn reset_until(should_stop: &AtomicBool, address: SocketAddrV4, counts: &Counts) {
    let reset = || {
        let mut stream = TcpStream::connect_timeout(&address.into(), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(LARGE_REQUEST)?;
        stream.peek(&mut [0; 1])
    };
    while !should_stop.load(Ordering::Relaxed) {
        for _ in 0..RESETS {
            let count = if reset().is_ok() { &counts.opened } else { &counts.failed };
            count.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(PASS_EVERY);
    }
}
