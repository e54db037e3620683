//! A worker's turns, one after the other, for whoever counts what one costs: instructions or allocations.
//!
//! All of a turn is the server's own code but its ends: a loop and a socket in memory stand where else the kernel is
//! called. Never used by a server.

#[cfg(test)]
mod allocations;
mod single_client;

use std::rc::Rc;
use std::sync::Arc;

use self::single_client::{FRONT_BYTES, OnePeer, Peer};
use crate::config::{self, AccessLog, Config, ListenerKind};
use crate::content::Content;
use crate::error::StartError;
use crate::observe::{Counters, LogFile, LogWriter, Observer, Status};
use crate::reload::Current;
use crate::sandbox::Sandbox;
use crate::worker::{Plan, StopOrder, Worker};

/// A worker with one connection, whose peer asks in every turn.
pub struct Turns {
    worker: Worker<OnePeer>,
    peer: Rc<Peer>,
}

/// What a worker tells of its work.
#[derive(Debug, Clone)]
pub struct Telling {
    /// Whether it counts.
    pub metrics: bool,
    /// Where it writes a line for each request, if anywhere.
    pub log: Option<AccessLog>,
}

impl Telling {
    /// Nothing.
    pub const NOTHING: Telling = Telling { metrics: false, log: None };
}

impl Turns {
    /// A worker that serves this, and has accepted its peer.
    ///
    /// # Errors
    /// What is to be served, or the log, cannot be opened.
    pub fn new(content: config::Content, telling: Telling) -> Result<Turns, StartError> {
        let log = telling.log.as_ref().map(LogFile::open).transpose()?;
        let status = Arc::new(Status::new(std::iter::empty()));
        let start = |log: LogFile| log.start(1, status, config::NoticeHandler::ignore(), &Sandbox::default());
        let log = log.map(start).transpose()?;
        let counters = telling.metrics.then(|| Arc::new(Counters::default()));
        let observer = Observer::new(counters, log.as_ref().map(LogWriter::buffer));
        let config = Config { access_log: telling.log, ..Config::plain(content) };
        let (content, _leases) = Content::open(&config, None)?;
        let (current, stop) = (Arc::new(Current::new(Arc::new(content))), Arc::new(StopOrder::default()));
        let peer = Peer::new();
        let plan = Plan::new(&config, [(ListenerKind::Plain, ())], current, stop, observer);
        let worker = Worker::new(OnePeer::new(Rc::clone(&peer)), plan).map_err(StartError::EventLoop)?;
        let mut turns = Turns { worker, peer };
        turns.worker.run_iteration(None);
        Ok(turns)
    }

    /// What the peer asks in every turn from now on: whole requests, no more than one call receives.
    pub fn set_requests(&mut self, requests: &[u8]) {
        self.peer.set_requests(vec![requests.to_vec()]);
    }

    /// The same where no turn's requests are those of the turn before, as with the streams of HTTP/2. There is at least one
    /// turn; the last one's are asked again in those that follow.
    pub fn set_requests_of_turns(&mut self, requests: Vec<Vec<u8>>) {
        self.peer.set_requests(requests);
    }

    /// One turn: the peer asks, and is answered. Gives the bytes of the answers.
    pub fn turn(&mut self) -> usize {
        self.peer.ask();
        self.worker.run_iteration(None);
        self.peer.taken()
    }

    /// How the last turn's first answer begins: its version and its status.
    #[must_use]
    pub fn front(&self) -> [u8; FRONT_BYTES] {
        self.peer.front()
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_the_connection_that_meets_it_and_not_the_worker() {
        let mut turns = Turns::new(config::Content::Dummy { body: b"here" }, Telling::NOTHING).unwrap();
        turns.set_requests(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(turns.turn() > 0);
        assert!(!turns.worker.is_idle());
        turns.peer.meet_fault();
        turns.peer.ask();
        turns.worker.run_guarded_iteration(None);
        assert!(turns.worker.is_idle());
        turns.worker.run_guarded_iteration(None);
    }
}
