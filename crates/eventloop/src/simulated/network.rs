//! The simulated network: peers, their connections, and the virtual clock.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::datagrams::{DatagramPeer, DatagramPeerId, Datagrams, Path, Time, Traffic};
use super::peer::{Action, ConnectionState, Peer, PeerId, ReadRate};
use super::random::Random;
use super::wire::Wire;
use crate::clock::Now;
use crate::event::Event;
use crate::token::Token;

/// Wall clock, in seconds since 1970. It never advances, so that the same request will always get the same response.
pub const UNIX_SECONDS: u64 = 784_111_777;

/// Peers, their connections to the server, and the virtual clock. Clones share the same network.
#[derive(Debug, Clone)]
pub struct Network(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    /// The instant of the start. Only differences from it matter.
    start: Instant,
    /// Virtual time since the start.
    time: Duration,
    peers: Vec<Peer>,
    /// Peers that have connected but were not accepted yet.
    pending: VecDeque<PeerId>,
    listener: Option<u32>,
    /// Whether the server still has to be notified of a pending connection.
    acceptable: bool,
    /// Whether another thread has woken up the loop.
    woken: bool,
    datagrams: Datagrams,
}

impl Network {
    /// Creates a network without peers. All random choices derive from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Network {
        Network(Rc::new(RefCell::new(State {
            random: Random::new(seed),
            start: Instant::now(),
            time: Duration::ZERO,
            peers: Vec::new(),
            pending: VecDeque::new(),
            listener: None,
            acceptable: false,
            woken: false,
            datagrams: Datagrams::default(),
        })))
    }

    /// Adds a peer that connects after a delay and then performs `actions` in order. The number of bytes in flight to it will never
    /// exceed `capacity`.
    pub fn connect(
        &self,
        delay: Duration,
        actions: Vec<Action>,
        read_rate: ReadRate,
        capacity: usize,
    ) -> PeerId {
        let mut state = self.0.borrow_mut();
        let start = state.time + delay;
        state.peers.push(Peer::new(start, actions, read_rate, capacity));
        PeerId(state.peers.len() - 1)
    }

    /// Adds a peer that sends datagrams from this address.
    pub fn add_datagram_peer(
        &self,
        address: SocketAddr,
        peer: Rc<RefCell<dyn DatagramPeer>>,
        path: Path,
    ) -> DatagramPeerId {
        self.0.borrow_mut().datagrams.add_peer(address, peer, path)
    }

    /// Changes the path to a peer, for datagrams sent from now on.
    pub fn set_path(&self, peer: DatagramPeerId, path: Path) {
        self.0.borrow_mut().datagrams.set_path(peer, path);
    }

    /// Changes a peer's address. Datagrams to the old address are lost.
    pub fn rebind(&self, peer: DatagramPeerId, address: SocketAddr) {
        self.0.borrow_mut().datagrams.rebind(peer, address);
    }

    /// Returns a peer's address as seen by the server.
    #[must_use]
    pub fn peer_address(&self, peer: DatagramPeerId) -> SocketAddr {
        self.0.borrow().datagrams.peer_address(peer)
    }

    /// Returns the amount of data that a peer and the server have sent to each other.
    #[must_use]
    pub fn traffic(&self, peer: DatagramPeerId) -> Traffic {
        self.0.borrow().datagrams.traffic(peer)
    }

    /// Returns everything that a peer has received.
    #[must_use]
    pub fn received(&self, peer: PeerId) -> Vec<u8> {
        self.0.borrow().peers[peer.0].received.clone()
    }

    /// Returns the state of a peer's connection.
    #[must_use]
    pub fn state(&self, peer: PeerId) -> ConnectionState {
        self.0.borrow().peers[peer.0].state()
    }

    /// Returns the number of times the server has tried to send to a peer.
    #[must_use]
    pub fn send_calls(&self, peer: PeerId) -> usize {
        self.0.borrow().peers[peer.0].wire.send_calls()
    }

    /// Returns the virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.borrow().time
    }

    /// Returns `true` if nothing more will happen unless the server does something.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.0.borrow();
        !state.woken && state.pending.is_empty() && !state.has_events() && state.next_time().is_none()
    }

    /// Wakes up the loop, like another thread would.
    pub fn wake(&self) {
        self.0.borrow_mut().woken = true;
    }

    /// Runs peers and the clock until there is an event or a timeout. Returns the events.
    pub(super) fn run(&self, timeout: Option<Duration>) -> VecDeque<Event> {
        let mut state = self.0.borrow_mut();
        let end = timeout.map(|timeout| state.time + timeout);
        loop {
            state.run_peers();
            state.run_datagrams();
            let events = state.take_events();
            if !events.is_empty() {
                return events;
            }
            if state.has_events() {
                continue;
            }

            match (state.next_time(), end) {
                (Some(next), end) if end.is_none_or(|end| next < end) => state.time = state.time.max(next),
                (_, Some(end)) => {
                    state.time = state.time.max(end);
                    return VecDeque::new();
                }
                // Nothing can happen any more. The kernel would wait forever.
                (_, None) => return VecDeque::new(),
            }
        }
    }

    pub(super) fn now(&self) -> Now {
        let state = self.0.borrow();
        Now { instant: state.start + state.time, unix_seconds: UNIX_SECONDS }
    }

    pub(super) fn listen(&self, number: u32) {
        self.0.borrow_mut().listener = Some(number);
    }

    pub(super) fn stop_listening(&self) {
        self.0.borrow_mut().listener = None;
    }

    pub(super) fn close_listener(&self) {
        let mut state = self.0.borrow_mut();
        state.listener = None;
        let State { peers, pending, .. } = &mut *state;
        for peer in pending.drain(..) {
            peers[peer.0].wire.reset();
        }
    }

    /// Accepts a connection. May fail at random, like the kernel.
    pub(super) fn accept(&self) -> io::Result<Option<PeerId>> {
        let mut state = self.0.borrow_mut();
        if state.pending.is_empty() {
            return Ok(None);
        }
        if state.random.once_in(16) {
            let no_descriptor = io::Error::from_raw_os_error(libc::EMFILE);
            let aborted = io::ErrorKind::ConnectionAborted.into();
            return Err(if state.random.once_in(2) { no_descriptor } else { aborted });
        }
        Ok(state.pending.pop_front())
    }

    pub(super) fn watch(&self, peer: PeerId, token: Token) {
        self.0.borrow_mut().peers[peer.0].wire.watch(token);
    }

    /// Calls `action` with the datagrams, the time and the source of randomness.
    pub(super) fn with_datagrams<T>(&self, action: impl FnOnce(&mut Datagrams, Time, &mut Random) -> T) -> T {
        let mut state = self.0.borrow_mut();
        let time = state.datagram_time();
        let State { datagrams, random, .. } = &mut *state;
        action(datagrams, time, random)
    }

    /// Calls `action` with a peer's connection and the source of randomness.
    pub(super) fn with_wire<T>(&self, peer: PeerId, action: impl FnOnce(&mut Wire, &mut Random) -> T) -> T {
        let mut state = self.0.borrow_mut();
        let State { peers, random, .. } = &mut *state;
        action(&mut peers[peer.0].wire, random)
    }
}

impl State {
    /// Lets some of the peers act, in random order.
    fn run_peers(&mut self) {
        for _ in 0..self.random.size(8) {
            let numbered = self.peers.iter().enumerate();
            let ready = numbered.filter(|(_, peer)| peer.next_time().is_some_and(|next| next <= self.time));
            let ready: Vec<usize> = ready.map(|(number, _)| number).collect();
            if ready.is_empty() {
                return;
            }
            let chosen = ready[self.random.below(ready.len())];
            let peer = &mut self.peers[chosen];
            if !std::mem::replace(&mut peer.is_connected, true) {
                if self.listener.is_some() {
                    self.pending.push_back(PeerId(chosen));
                    self.acceptable = true;
                } else {
                    peer.wire.reset();
                }
            }
            peer.step(self.time, &mut self.random);
        }
    }

    fn run_datagrams(&mut self) {
        let time = self.datagram_time();
        self.datagrams.run(time, &mut self.random);
    }

    fn datagram_time(&self) -> Time {
        Time { start: self.start, elapsed: self.time }
    }

    fn has_events(&self) -> bool {
        self.peers.iter().any(|peer| peer.wire.has_event()) || self.datagrams.has_event()
    }

    fn next_time(&self) -> Option<Duration> {
        let datagrams = self.datagrams.next_time(self.start);
        self.peers.iter().filter_map(Peer::next_time).chain(datagrams).min()
    }

    /// Takes some of the pending events, in random order. The rest will follow later.
    fn take_events(&mut self) -> VecDeque<Event> {
        let mut events = Vec::new();
        if std::mem::take(&mut self.woken) {
            events.push(Event::Woken);
        }
        if let (true, Some(number)) = (std::mem::take(&mut self.acceptable), self.listener) {
            events.push(Event::Acceptable(number));
        }
        for peer in &mut self.peers {
            if !self.random.once_in(4) {
                events.extend(peer.wire.take_event());
            }
        }
        self.datagrams.take_events(&mut self.random, &mut events);
        for last in (1..events.len()).rev() {
            events.swap(last, self.random.below(last + 1));
        }
        events.into()
    }
}
