//! A loop in memory with a single peer, who asks in every turn: for counting what a turn costs.
//!
//! It makes no system call, tells one time for ever, and allocates nothing once it runs. No part of a server.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Event, EventLoop, Now, Readiness, Received, Socket, Token};

/// Bytes of an answer that are looked at: its status line's beginning, `HTTP/1.1 200`.
pub(crate) const FRONT_BYTES: usize = 12;

/// A time to answer at, in seconds since 1970: all dates are as long as any other.
const SECONDS: u64 = 1_763_700_000;

/// What the peer asks, and what it got.
#[derive(Debug)]
pub(crate) struct Peer {
    /// For each turn, until the last is asked again and again.
    requests: RefCell<Vec<Vec<u8>>>,
    /// Which of them it asks next.
    next: Cell<usize>,
    /// Whether the requests of this turn are still to be received.
    asks: Cell<bool>,
    /// Bytes that it took since it last asked.
    taken: Cell<usize>,
    /// The first bytes of those.
    front: Cell<[u8; FRONT_BYTES]>,
    /// Whether whoever receives from it meets a fault of its own.
    #[cfg(test)]
    meets_fault: Cell<bool>,
}

impl Peer {
    pub(crate) fn new() -> Rc<Peer> {
        let (requests, next, asks) = (RefCell::default(), Cell::default(), Cell::new(false));
        Rc::new(Peer {
            requests,
            next,
            asks,
            taken: Cell::new(0),
            front: Cell::default(),
            #[cfg(test)]
            meets_fault: Cell::default(),
        })
    }

    #[cfg(test)]
    pub(crate) fn meet_fault(&self) {
        self.meets_fault.set(true);
    }

    /// From now on it asks these, one in each turn, and then the last again and again.
    pub(crate) fn set_requests(&self, requests: Vec<Vec<u8>>) {
        self.next.set(0);
        *self.requests.borrow_mut() = requests;
    }

    /// It asks, and has got nothing yet.
    pub(crate) fn ask(&self) {
        self.asks.set(true);
        self.taken.set(0);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    pub(crate) fn front(&self) -> [u8; FRONT_BYTES] {
        self.front.get()
    }

    fn take(&self, bytes: &[u8]) {
        if self.taken.get() == 0
            && let Some(front) = bytes.first_chunk()
        {
            self.front.set(*front);
        }
        self.taken.set(self.taken.get() + bytes.len());
    }
}

/// The peer's connection, as the server has it.
#[derive(Debug)]
pub(crate) struct PeerSocket(Rc<Peer>);

impl Socket for PeerSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if !self.0.asks.replace(false) {
            return Ok(Received::WouldBlock);
        }
        #[cfg(test)]
        assert!(!self.0.meets_fault.get(), "made for a test");
        let (all, place) = (self.0.requests.borrow(), self.0.next.get());
        let requests = &all[place];
        self.0.next.set((place + 1).min(all.len() - 1));
        buffer[..requests.len()].copy_from_slice(requests);
        Ok(Received::Bytes(requests.len()))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.take(bytes);
        Ok(bytes.len())
    }

    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        runs.iter().for_each(|run| self.0.take(run));
        Ok(runs.iter().map(|run| run.len()).sum())
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn reset_on_close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The loop: the first turn accepts the peer, every other one has its requests.
#[derive(Debug)]
pub(crate) struct OnePeer {
    peer: Rc<Peer>,
    /// Nothing until the peer is accepted.
    token: Option<Token>,
    now: Now,
    has_event: bool,
}

impl OnePeer {
    pub(crate) fn new(peer: Rc<Peer>) -> OnePeer {
        let now = Now { instant: Instant::now(), unix_seconds: SECONDS };
        OnePeer { peer, token: None, now, has_event: false }
    }
}

impl EventLoop for OnePeer {
    type Listener = ();
    type Socket = PeerSocket;

    fn wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        self.has_event = true;
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.has_event, false) {
            return None;
        }
        let readiness = Readiness { readable: true, read_closed: false, writable: true, failed: false };
        Some(self.token.map_or(Event::Acceptable(0), |token| Event::Ready(token, readiness)))
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn add_listener(&mut self, (): &(), _: u32) -> io::Result<()> {
        Ok(())
    }

    fn add_socket(&mut self, _: &PeerSocket, token: Token) -> io::Result<()> {
        self.token = Some(token);
        Ok(())
    }

    fn accept(&mut self, (): &()) -> io::Result<Option<Accepted<PeerSocket>>> {
        let is_accepted = self.token.is_some();
        let accepted = || {
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000));
            Accepted { socket: PeerSocket(Rc::clone(&self.peer)), peer: Some(peer) }
        };
        Ok((!is_accepted).then(accepted))
    }

    fn remove_listener(&mut self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn close_listener(&mut self, (): ()) {}
}
