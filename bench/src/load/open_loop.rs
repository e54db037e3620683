//! Requests at a constant rate, independent of the responses: an open loop, in which a slow server can't slow down its
//! clients.
//!
//! Latency counts from the scheduled time of a request, so a server that stalls delays all requests of that time (the
//! opposite is known as coordinated omission). We need 100,000 requests per second, for which no packaged tool serves:
//! wrk2 isn't packaged by Debian, oha needs more CPU time for a request than a server, and h2load's `--rps` counts from
//! the time of sending. Each thread polls without sleeping and uses its processor fully.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::{Exchange, Job, Report};
use crate::machine;

/// Limit for responses that are missing at the end.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of ready connections returned by one call.
const EVENTS: usize = 256;

/// The part of a response that must match exactly.
const STATUS_BYTES: usize = b"HTTP/1.1 200".len();

/// Sends requests from a thread on each processor until the time is over and all responses have arrived.
///
/// # Errors
///
/// Fails if a response differs in length or status from the given one, or if the server doesn't keep up.
pub(crate) fn run(job: &Job<'_>, exchange: &Exchange, requests_per_s: f64) -> Result<Report> {
    let processors: Vec<_> = job.processors.split(',').collect();
    let connections = (job.connections as usize).div_ceil(processors.len());
    let interval = Duration::from_secs_f64(processors.len() as f64 / requests_per_s);

    let latencies = machine::in_threads(processors, |processor| {
        machine::pin_thread(processor)?;
        let mut thread = Thread::connect(job, exchange, connections)?;
        thread.run(interval).with_context(|| format!("http://{}/", job.address))?;
        Ok(thread.latencies)
    })?;
    Ok(Report::of_latencies(latencies.concat(), job.duration))
}

/// One thread with its connections.
struct Thread<'a> {
    job: &'a Job<'a>,
    exchange: &'a Exchange,
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
    /// Connections without a request in flight, the longest idle first.
    idle: VecDeque<usize>,
    latencies: Vec<Duration>,
}

struct Connection {
    stream: TcpStream,
    /// Scheduled time of the request in flight.
    scheduled: Instant,
    received: usize,
}

impl<'a> Thread<'a> {
    fn connect(job: &'a Job<'a>, exchange: &'a Exchange, count: usize) -> io::Result<Thread<'a>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for number in 0..count {
            let stream = TcpStream::connect(job.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
            connections.push(Connection { stream, scheduled: Instant::now(), received: 0 });
        }
        let idle = (0..count).collect();
        Ok(Thread { job, exchange, epoll, connections, idle, latencies: Vec::new() })
    }

    fn run(&mut self, interval: Duration) -> io::Result<()> {
        let started = Instant::now();
        let end = started + self.job.duration;
        let mut scheduled = started;
        let mut sent = 0;
        let mut events = Vec::with_capacity(EVENTS);
        while scheduled < end || self.latencies.len() < sent {
            let now = Instant::now();
            if now > end + TIMEOUT {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "the server doesn't keep up with half the load",
                ));
            }

            while scheduled < end
                && scheduled <= now
                && let Some(number) = self.idle.pop_front()
            {
                self.send(number, scheduled)?;
                sent += 1;
                scheduled += interval;
            }
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default()))?;
            for event in events.drain(..) {
                self.receive(usize::try_from(event.data.u64()).expect("the index of a connection"))?;
            }
        }
        Ok(())
    }

    /// Sends a scheduled request on an idle connection.
    fn send(&mut self, number: usize, scheduled: Instant) -> io::Result<()> {
        let connection = &mut self.connections[number];
        connection.scheduled = scheduled;
        // The request is smaller than any socket buffer, so it is always written whole.
        connection.stream.write_all(&self.exchange.request)
    }

    fn receive(&mut self, number: usize) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let connection = &mut self.connections[number];
        let count = match connection.stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            result => result?,
        };

        let expected = &self.exchange.response;
        let has_status = connection.received > 0 || buffer[..count].starts_with(&expected[..STATUS_BYTES]);
        connection.received += count;
        if count == 0 || !has_status || connection.received > expected.len() {
            return Err(io::Error::new(ErrorKind::InvalidData, "a response differs from the first one"));
        }
        if connection.received == expected.len() {
            self.latencies.push(connection.scheduled.elapsed());
            connection.received = 0;
            self.idle.push_back(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
