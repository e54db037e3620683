//! Visitors who come once: each connects, shakes hands, asks for one thing, takes the answer and goes. With tickets, if
//! they have been there before.
//!
//! Every answer is compared with the expected one, and every handshake with the kind that is wanted.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::conversation::{Client, is_resumed};
use super::loaded::Loaded;
use super::machine::pin;
use super::ordinary::Waits;
use super::wire::{Key, Protocol};
use crate::error::Error;

/// Who comes, and for what.
pub(crate) struct Visits<'a> {
    pub(crate) address: SocketAddrV4,
    /// Of the server.
    pub(crate) key: Key,
    /// Whether they have a ticket.
    pub(crate) resumes: bool,
    /// What each asks for, as the last thing on its connection.
    pub(crate) request: &'a [u8],
    /// The content of every answer, whose status is 200.
    pub(crate) content: &'a [u8],
    /// How many come at a time.
    pub(crate) visitors: u32,
    pub(crate) time: Duration,
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Visits<'_> {
    /// Lets them come on some processors until the time is over.
    pub(crate) fn run(&self, processors: &str) -> Result<Loaded, Error> {
        let client = Client::new(self.key, Protocol::Http1)?;
        let failed = |source| Error::file(format!("a visit to https://{}", self.address), source);
        let started = Instant::now();
        let (waits, took) = thread::scope(|scope| {
            // Threads stay where the one that starts them is.
            let all = scope.spawn(|| {
                pin(processors)?;
                let started = Instant::now();
                let waits = thread::scope(|scope| {
                    let running: Vec<_> =
                        (0..self.visitors).map(|_| scope.spawn(|| self.come_again(&client))).collect();
                    let joined =
                        running.into_iter().map(|thread| thread.join().expect("a visitor does not panic"));
                    joined.collect::<io::Result<Vec<_>>>()
                });
                Ok((waits.map_err(failed)?, started.elapsed()))
            });
            all.join().expect("a visitor does not panic")
        })?;
        let waits = Waits::new(waits.concat());
        let requests = waits.len() as f64;
        let waits_us = [500, 900, 990, 999, 1000].map(|permille| waits.permille(permille));
        let kind = if self.resumes { "resumed" } else { "full" };
        let raw = format!(
            "{kind} handshakes of {} visitors for {:.2} s; in us from connecting to the answer: visits, p50, p99, p99.9, \
             longest\n{}",
            self.visitors,
            started.elapsed().as_secs_f64(),
            waits.line()
        );
        Ok(Loaded {
            requests,
            requests_per_second: requests / took.as_secs_f64(),
            waits_us,
            head_bytes: None,
            raw,
        })
    }

    /// One visitor's part. The first visit is for the ticket and does not count as one.
    fn come_again(&self, client: &Client) -> io::Result<Vec<Duration>> {
        let client = if self.resumes { client.that_resumes() } else { client.clone() };
        if self.resumes {
            self.visit(&client, false)?;
        }
        let started = Instant::now();
        let mut waits = Vec::new();
        while started.elapsed() < self.time {
            let begun = Instant::now();
            self.visit(&client, self.resumes)?;
            waits.push(begun.elapsed());
        }
        Ok(waits)
    }

    fn visit(&self, client: &Client, resumed: bool) -> io::Result<()> {
        let connection = TcpStream::connect(self.address)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let mut stream = client.secure(connection)?;
        if is_resumed(&stream) != resumed {
            return Err(io::Error::other("a handshake of the other kind: full, or resumed"));
        }
        stream.write_all(self.request)?;
        let answer = Answer::read(&mut BufReader::new(&mut stream))?;
        if answer.status != 200 || answer.content != self.content {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that differs from the file"));
        }
        stream.conn.send_close_notify();
        stream.flush()
    }
}
