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
pub(crate) struct Visits {
    address: SocketAddrV4,
    /// What each asks for, as the last thing on its connection.
    request: Vec<u8>,
    /// The content of every answer, whose status is 200.
    content: Vec<u8>,
    clients: Vec<Client>,
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Visits {
    /// So many visitors of a server with some key, who use tickets or do not.
    pub(crate) fn new(
        address: SocketAddrV4,
        (key, resumes): (Key, bool),
        request: Vec<u8>,
        content: Vec<u8>,
        visitors: u32,
    ) -> Result<Visits, Error> {
        let client = Client::new(key, Protocol::Http1)?;
        let one = || if resumes { client.that_collects_tickets() } else { client.clone() };
        Ok(Visits { address, request, content, clients: (0..visitors).map(|_| one()).collect() })
    }

    /// Lets them come for some time with whole handshakes, which do not count. They get their tickets by that.
    pub(crate) fn prepare(&self, processors: &str, time: Duration) -> Result<(), Error> {
        self.come(processors, time, false)?;
        self.clients.iter().for_each(Client::begin_resuming);
        Ok(())
    }

    /// Lets them come until the time is over, or nobody has a ticket left.
    pub(crate) fn run(&self, processors: &str, time: Duration) -> Result<Loaded, Error> {
        let (waits, took) = self.come(processors, time, true)?;
        let resumes = self.clients.iter().any(|client| client.tickets().is_some());
        let raw = format!(
            "{} handshakes of {} visitors for {:.2} s; in us from connecting to the answer: visits, p50, p99, p99.9, \
             longest\n{}",
            if resumes { "resumed" } else { "whole" },
            self.clients.len(),
            took.as_secs_f64(),
            waits.line()
        );
        let requests = waits.len() as f64;
        Ok(Loaded {
            requests,
            requests_per_second: requests / took.as_secs_f64(),
            waits_us: [500, 900, 990, 999, 1000].map(|permille| waits.permille(permille)),
            head_bytes: None,
            raw,
        })
    }

    /// All of them at the same time, and how long all together took.
    fn come(&self, processors: &str, time: Duration, resumes: bool) -> Result<(Waits, Duration), Error> {
        let failed = |source| Error::file(format!("a visit to https://{}", self.address), source);
        thread::scope(|scope| {
            // Threads stay where the one that starts them is.
            let all = scope.spawn(|| {
                pin(processors)?;
                let started = Instant::now();
                let waits = thread::scope(|scope| {
                    let each = |client| scope.spawn(move || self.come_again(client, time, resumes));
                    let running: Vec<_> = self.clients.iter().map(each).collect();
                    let joined =
                        running.into_iter().map(|thread| thread.join().expect("a visitor does not panic"));
                    joined.collect::<io::Result<Vec<_>>>()
                });
                Ok((Waits::new(waits.map_err(failed)?.concat()), started.elapsed()))
            });
            all.join().expect("a visitor does not panic")
        })
    }

    /// One visitor's part.
    fn come_again(&self, client: &Client, time: Duration, resumes: bool) -> io::Result<Vec<Duration>> {
        let started = Instant::now();
        let mut waits = Vec::new();
        while started.elapsed() < time {
            let has_ticket = resumes && client.tickets().is_some_and(|count| count > 0);
            if resumes && client.tickets() == Some(0) {
                break;
            }
            let begun = Instant::now();
            self.visit(client, has_ticket)?;
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
        stream.write_all(&self.request)?;
        let answer = Answer::read(&mut BufReader::new(&mut stream))?;
        if answer.status != 200 || answer.content != self.content {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that differs from the file"));
        }
        stream.conn.send_close_notify();
        stream.flush()
    }
}
