//! The bad clients: one thread that holds many connections open, and does little or nothing on each.
//!
//! Looks at every connection a few times a second and opens those anew that the server has ended. It never
//! waits for one of them, so that it stays as bad as it was when the server is busy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::bench::machine::pin;
use crate::error::Error;

/// What the bad clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Send the head of a request, a byte a minute.
    SlowHead,
    /// Ask for a large file, and take a byte of it a minute.
    SlowReader,
    /// Ask once, take the answer, and stay.
    Idle,
    /// Ask for a large file and reset the connection when its first bytes come, a thousand times a second.
    Reset,
}

/// Between two bytes of a slow client.
const BYTE_EVERY: Duration = Duration::from_secs(60);

/// Between two looks at all connections.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Connections that are reset at each look.
const RESETS: u32 = 100;

/// How long a connection may take to come about. While the server has no time to accept, the kernel does.
const PATIENCE: Duration = Duration::from_secs(5);

const SLOW_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Nothing: ";
const SMALL_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const LARGE_REQUEST: &[u8] = b"GET /large.bin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// An attack that goes on until it is stopped.
pub(super) struct Attack {
    thread: JoinHandle<Result<(), Error>>,
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Connections that were opened.
    pub(super) opened: AtomicU64,
    /// Connections that the server ended.
    pub(super) ended: AtomicU64,
    /// Attempts to connect that came to nothing.
    pub(super) failed: AtomicU64,
}

impl Attack {
    /// Begins, and returns when all connections have been opened for the first time, or as many attempts failed.
    pub(super) fn begin(
        kind: Kind,
        address: SocketAddrV4,
        connections: u64,
        processors: &'static str,
    ) -> Attack {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Tally::default());
        let (stop_of_thread, tally_of_thread) = (Arc::clone(&stop), Arc::clone(&tally));
        let thread = thread::spawn(move || {
            pin(processors)?;
            match kind {
                Kind::Reset => reset_until(&stop_of_thread, address, &tally_of_thread),
                _ => hold_until(&stop_of_thread, kind, address, connections, &tally_of_thread),
            }
            Ok(())
        });
        let attack = Attack { thread, stop, tally };
        let tries =
            |tally: &Tally| tally.opened.load(Ordering::Relaxed) + tally.failed.load(Ordering::Relaxed);
        while tries(&attack.tally) < connections && !attack.thread.is_finished() {
            thread::sleep(LOOK_EVERY);
        }
        attack
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Ends all connections, and says if the attack could not begin.
    pub(super) fn end(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("an attack does not panic")
    }
}

/// One of many connections.
struct Held {
    connection: Option<TcpStream>,
    sent: usize,
    /// When it sends or takes its next byte.
    next_byte: Instant,
}

fn hold_until(stop: &AtomicBool, kind: Kind, address: SocketAddrV4, connections: u64, tally: &Tally) {
    let started = Instant::now();
    let share = |number: u64| BYTE_EVERY.mul_f64(number as f64 / connections as f64);
    let mut all: Vec<_> = (0..connections)
        .map(|number| Held { connection: None, sent: 0, next_byte: started + share(number) })
        .collect();
    while !stop.load(Ordering::Relaxed) {
        for held in &mut all {
            if !held.go_on(kind).is_ok_and(|goes_on| goes_on) {
                if held.connection.take().is_some() {
                    tally.ended.fetch_add(1, Ordering::Relaxed);
                }
                match held.open(kind, address) {
                    Ok(()) => tally.opened.fetch_add(1, Ordering::Relaxed),
                    Err(_) => tally.failed.fetch_add(1, Ordering::Relaxed),
                };
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

impl Held {
    fn open(&mut self, kind: Kind, address: SocketAddrV4) -> io::Result<()> {
        let mut connection = TcpStream::connect_timeout(&address.into(), PATIENCE)?;
        let (first, sent): (&[u8], usize) = match kind {
            Kind::SlowHead => (&SLOW_HEAD[..1], 1),
            Kind::SlowReader => (LARGE_REQUEST, LARGE_REQUEST.len()),
            Kind::Idle | Kind::Reset => (SMALL_REQUEST, SMALL_REQUEST.len()),
        };
        connection.write_all(first)?;
        connection.set_nonblocking(true)?;
        self.connection = Some(connection);
        self.sent = sent;
        Ok(())
    }

    /// Does what is due; tells whether the connection is still there.
    fn go_on(&mut self, kind: Kind) -> io::Result<bool> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let due = Instant::now() >= self.next_byte;
        if due {
            self.next_byte += BYTE_EVERY;
        }
        match kind {
            Kind::SlowReader if due => take(connection, &mut [0; 1]),
            // To look for the end it would have to read: it sees only a reset.
            Kind::SlowReader => Ok(connection.take_error()?.is_none()),
            Kind::SlowHead if due => {
                let byte = SLOW_HEAD.get(self.sent).copied().unwrap_or(b'x');
                connection.write_all(&[byte])?;
                self.sent += 1;
                Ok(true)
            }
            Kind::SlowHead | Kind::Idle | Kind::Reset => take(connection, &mut [0; 4096]),
        }
    }
}

/// Reads once; tells whether the connection goes on.
fn take(connection: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
    match connection.read(buffer) {
        Ok(bytes) => Ok(bytes > 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Closes connections while bytes wait on them that nobody has read: the kernel tells the peer by a reset.
fn reset_until(stop: &AtomicBool, address: SocketAddrV4, tally: &Tally) {
    let reset = || {
        let mut connection = TcpStream::connect_timeout(&address.into(), PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(LARGE_REQUEST)?;
        connection.peek(&mut [0; 1])
    };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..RESETS {
            match reset() {
                Ok(_) => tally.opened.fetch_add(1, Ordering::Relaxed),
                Err(_) => tally.failed.fetch_add(1, Ordering::Relaxed),
            };
        }
        thread::sleep(LOOK_EVERY);
    }
}
