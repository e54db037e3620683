//! Steady requests of well-behaved clients at a low rate, and their latency.
//!
//! We measure how much an event, such as a reload or an attack, delays other clients, on kept and on new connections. No
//! packaged tool has percentiles for each second, or new connections at a constant rate. Latency counts from the
//! scheduled time, as in `loadgen`.

use std::net::SocketAddrV4;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::http::{self, Connection};
use crate::machine;
use crate::process::Server;
use crate::site::Site;

/// Kept connections, and requests per second on each: far below the server's maximum.
const KEPT_CONNECTIONS: usize = 2;
const KEPT_RATE: u32 = 1000;

/// Requests per second with a connection of their own.
const NEW_RATE: u32 = 200;

/// Well-behaved clients of one server.
pub(crate) struct Steady {
    address: SocketAddrV4,
    target: String,
    content: Vec<u8>,
}

/// The scheduled time and the latency of each request.
pub(crate) type Timings = Vec<(Duration, Duration)>;

impl Steady {
    /// Returns clients of a server that request a target of its site.
    pub(crate) fn new(server: &Server, site: &Site, target: &str) -> Result<Steady> {
        Ok(Steady { address: server.address(), target: target.to_owned(), content: site.content(target)? })
    }

    /// Sends requests for some time. Returns the latencies on kept and on new connections. Fails at the first wrong response.
    pub(crate) fn run(&self, duration: Duration, processors: &str) -> Result<[Timings; 2]> {
        let mut latencies = machine::in_threads(0..=KEPT_CONNECTIONS, |number| {
            machine::pin_thread(processors)?;
            let timings =
                if number < KEPT_CONNECTIONS { self.on_kept(duration) } else { self.on_new(duration) };
            timings.with_context(|| format!("a steady request to {}", self.address))
        })?;
        let on_new = latencies.pop().context("the last client has new connections")?;
        Ok([latencies.concat(), on_new])
    }

    fn on_kept(&self, duration: Duration) -> Result<Timings> {
        let mut connection = Connection::open(self.address)?;
        let request = http::request("1.1", self.address, &self.target, &[]);
        at_rate(KEPT_RATE, duration, || {
            connection.send(&request)?;
            connection.receive()?.expect(&self.content)
        })
    }

    fn on_new(&self, duration: Duration) -> Result<Timings> {
        let close = ["Connection: close".to_owned()];
        at_rate(NEW_RATE, duration, || http::get(self.address, &self.target, &close)?.expect(&self.content))
    }
}

/// Calls `send` at a constant rate. Returns for each call the scheduled time and the latency.
pub(crate) fn at_rate(
    rate: u32,
    duration: Duration,
    mut send: impl FnMut() -> Result<()>,
) -> Result<Timings> {
    let started = Instant::now();
    let interval = Duration::from_secs(1) / rate;
    let mut latencies = Vec::new();
    let mut scheduled = Duration::ZERO;
    while scheduled < duration {
        let early = scheduled.saturating_sub(started.elapsed());
        let mut begin = started + scheduled;
        if !early.is_zero() {
            thread::sleep(early);
            // A late wake-up of ours isn't the server's delay.
            begin = Instant::now();
        }
        send()?;
        latencies.push((scheduled, begin.elapsed()));
        scheduled += interval;
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_delays_the_requests_scheduled_meanwhile() {
        let mut is_first = true;
        let latencies = at_rate(1000, Duration::from_millis(40), || {
            if std::mem::take(&mut is_first) {
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(latencies.len(), 40);
        assert!(latencies[0].1 >= Duration::from_millis(20));
        // The tenth request was scheduled after 9 ms and sent after 20.
        assert!(latencies[9].1 >= Duration::from_millis(9), "{:?}", latencies[9]);
    }
}
