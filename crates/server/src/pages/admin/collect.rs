//! Collects statistics from the serving processes (in the admin process).
//!
//! The admin process sends datagrams over a socket pair for each serving process. The supervisor keeps these
//! sockets open while processes are restarted. A query is a number of eight bytes, and the reply contains the
//! same number, followed by the statistics as JSON. For a process that does not reply in time, we use the
//! last statistics received from it.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use super::stats::Stats;
use crate::error::StartError;
use crate::observe::{Counters, Status};
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Upper bound, in bytes, for the size of a reply. It contains about a thousand numbers, 64 missing paths, and up to 256
/// patterns of routes with the numbers of each.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Timeout for a reply. Without one, the process has probably exited or might be overloaded.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Returns an inherited socket for statistics.
///
/// # Errors
/// Returns an error if the descriptor is not a socket.
pub(crate) fn inherit(descriptor: i32) -> Result<UnixDatagram, StartError> {
    let failed = |source| StartError::Inherited { descriptor, source };
    let socket = cannery_eventloop::inherit_descriptor(descriptor).map(UnixDatagram::from).map_err(failed)?;
    socket.set_read_timeout(None).map_err(failed)?;
    Ok(socket)
}

/// Starts a thread that replies to queries until the other end is closed.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(crate) fn answer(
    socket: UnixDatagram,
    workers: Vec<Arc<Counters>>,
    status: Arc<Status>,
    sandbox: &Sandbox,
) -> Result<(), StartError> {
    thread::start("stats", sandbox, ThreadRole::Coordinator, move || {
        let mut query = [0; 8];
        // An empty message means that the other end was closed.
        while let Ok(bytes @ 1..) = socket.recv(&mut query) {
            let mut reply = query[..bytes].to_vec();
            if serde_json::to_writer(&mut reply, &Stats::of(&workers, &status)).is_ok() {
                // This only fails if the admin process has exited.
                let _ = socket.send(&reply);
            }
        }
    })?;
    Ok(())
}

/// Queries the serving processes.
#[derive(Debug)]
pub(crate) struct Collector {
    slots: Vec<ProcessSlot>,
    /// Number of the last query.
    query: u64,
    buffer: Vec<u8>,
}

/// A serving process. It can be replaced when it is restarted.
#[derive(Debug)]
struct ProcessSlot {
    socket: UnixDatagram,
    /// Last reply of the current process.
    last: Stats,
    /// Counters of earlier processes. We need these because counters must never decrease.
    earlier: Stats,
}

impl Collector {
    /// Uses inherited sockets.
    ///
    /// # Errors
    /// Returns an error if a descriptor is not a socket.
    pub(crate) fn inherit(descriptors: &[i32]) -> Result<Collector, StartError> {
        let slot = |descriptor: &i32| -> Result<ProcessSlot, StartError> {
            let socket = inherit(*descriptor)?;
            let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
            socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
            socket.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
            Ok(ProcessSlot { socket, last: Stats::default(), earlier: Stats::default() })
        };
        let slots = descriptors.iter().map(slot).collect::<Result<Vec<ProcessSlot>, _>>()?;
        // Replies for an earlier admin process have other numbers.
        let query = u64::from(std::process::id()) << 32;
        Ok(Collector { slots, query, buffer: vec![0; REPLY_BYTES_MAX] })
    }

    /// Returns the statistics of all processes. The counters include processes that have exited.
    pub(super) fn collect(&mut self) -> Stats {
        self.query += 1;
        let query = self.query.to_le_bytes();
        // Send all queries first, so that the processes can work in parallel.
        let is_sent: Vec<bool> = self.slots.iter().map(|slot| slot.socket.send(&query).is_ok()).collect();
        let mut sum = Stats::default();
        for (slot, is_sent) in self.slots.iter_mut().zip(is_sent) {
            let reply = is_sent.then(|| slot.receive(&query, &mut self.buffer).ok()).flatten();
            slot.add_to(&mut sum, reply);
        }
        sum
    }
}

impl ProcessSlot {
    /// Receives the reply to a query. Skips replies to earlier queries.
    fn receive(&self, query: &[u8], buffer: &mut [u8]) -> io::Result<Stats> {
        loop {
            let bytes = self.socket.recv(buffer)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(stats) = buffer[..bytes].strip_prefix(query) {
                return Ok(serde_json::from_slice(stats)?);
            }
        }
    }

    /// Adds the statistics of the process to `sum`, or its last counters if there was no reply.
    fn add_to(&mut self, sum: &mut Stats, reply: Option<Stats>) {
        match reply {
            Some(stats) => {
                if self.last.processes != stats.processes {
                    let mut exited = std::mem::replace(&mut self.last, stats);
                    exited.counted.end_connections();
                    self.earlier.add_counted(&exited);
                } else {
                    self.last = stats;
                }
                sum.add(&self.last);
            }
            None => sum.add_counted(&self.last),
        }
        sum.add_counted(&self.earlier);
    }
}

#[cfg(test)]
mod tests;
