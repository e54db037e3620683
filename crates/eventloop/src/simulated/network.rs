//! The made-up network: peers and their connections, and the time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::peer::{Act, Appetite, Fate, Peer, PeerNumber};
use super::random::Random;
use super::wire::Wire;
use crate::clock::Now;
use crate::event::Event;
use crate::token::Token;

/// The seconds since 1970 that the wall clock shows, which stands still: so the same request has the same
/// answer at any time.
pub const UNIX_SECONDS: u64 = 784_111_777;

/// Peers, their connections to one server, and the time. Clones are the same network.
#[derive(Debug, Clone)]
pub struct Network(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    /// An instant that stands for the beginning: only the distance from it counts.
    start: Instant,
    time: Duration,
    peers: Vec<Peer>,
    /// Who has connected and was not accepted.
    waiting: VecDeque<PeerNumber>,
    listener: Option<u32>,
    /// Whether the server was not told of a connection that waits.
    acceptable: bool,
    /// Whether another thread has knocked.
    woken: bool,
}

impl Network {
    /// A network without peers, whose chances come from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Network {
        Network(Rc::new(RefCell::new(State {
            random: Random::new(seed),
            start: Instant::now(),
            time: Duration::ZERO,
            peers: Vec::new(),
            waiting: VecDeque::new(),
            listener: None,
            acceptable: false,
            woken: false,
        })))
    }

    /// A peer that connects after so long and then does these things in order. No more than `room` bytes
    /// are under way to it at a time.
    pub fn connect(&self, after: Duration, acts: Vec<Act>, appetite: Appetite, room: usize) -> PeerNumber {
        let mut state = self.0.borrow_mut();
        let start = state.time + after;
        state.peers.push(Peer::new(start, acts, appetite, room));
        PeerNumber(state.peers.len() - 1)
    }

    /// What a peer has received, all of it.
    #[must_use]
    pub fn received(&self, peer: PeerNumber) -> Vec<u8> {
        self.0.borrow().peers[peer.0].received.clone()
    }

    /// What has become of a peer's connection.
    #[must_use]
    pub fn fate(&self, peer: PeerNumber) -> Fate {
        self.0.borrow().peers[peer.0].fate()
    }

    /// How often the server has called to send something on a peer's connection.
    #[must_use]
    pub fn sends(&self, peer: PeerNumber) -> usize {
        self.0.borrow().peers[peer.0].wire.sends()
    }

    /// How much time has passed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.borrow().time
    }

    /// Whether nothing will happen any more but what the server does of its own accord.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let state = self.0.borrow();
        !state.woken && state.waiting.is_empty() && !state.has_events() && state.next_time().is_none()
    }

    /// Another thread's knock.
    pub fn wake(&self) {
        self.0.borrow_mut().woken = true;
    }

    /// Lets peers act and time pass until something has happened that the server is told of, at most for so
    /// long; then what it is told.
    pub(super) fn go_on(&self, timeout: Option<Duration>) -> VecDeque<Event> {
        let mut state = self.0.borrow_mut();
        let end = timeout.map(|timeout| state.time + timeout);
        loop {
            state.let_peers_act();
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
                // Nothing will ever happen: the kernel would wait for ever.
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

    pub(super) fn end_listening(&self) {
        let mut state = self.0.borrow_mut();
        state.listener = None;
        let State { peers, waiting, .. } = &mut *state;
        waiting.drain(..).for_each(|peer| peers[peer.0].wire.break_off());
    }

    /// Accepts a connection, or fails as the kernel sometimes does.
    pub(super) fn accept(&self) -> io::Result<Option<PeerNumber>> {
        let mut state = self.0.borrow_mut();
        if state.waiting.is_empty() {
            return Ok(None);
        }
        if state.random.once_in(16) {
            let kind = io::Error::from_raw_os_error(libc::EMFILE);
            return Err(if state.random.once_in(2) { kind } else { io::ErrorKind::ConnectionAborted.into() });
        }
        Ok(state.waiting.pop_front())
    }

    pub(super) fn watch(&self, peer: PeerNumber, token: Token) {
        self.0.borrow_mut().peers[peer.0].wire.watch(token);
    }

    /// Lends a connection, and chances, to what a socket does.
    pub(super) fn with_wire<T>(
        &self,
        peer: PeerNumber,
        action: impl FnOnce(&mut Wire, &mut Random) -> T,
    ) -> T {
        let mut state = self.0.borrow_mut();
        let State { peers, random, .. } = &mut *state;
        action(&mut peers[peer.0].wire, random)
    }
}

impl State {
    /// Lets some of those act who can, in any order.
    fn let_peers_act(&mut self) {
        for _ in 0..self.random.size(8) {
            let numbered = self.peers.iter().enumerate();
            let due = numbered.filter(|(_, peer)| peer.next_time().is_some_and(|next| next <= self.time));
            let due: Vec<usize> = due.map(|(number, _)| number).collect();
            if due.is_empty() {
                return;
            }
            let chosen = due[self.random.below(due.len())];
            let peer = &mut self.peers[chosen];
            if !std::mem::replace(&mut peer.is_connected, true) {
                if self.listener.is_some() {
                    self.waiting.push_back(PeerNumber(chosen));
                    self.acceptable = true;
                } else {
                    peer.wire.break_off();
                }
            }
            peer.go_on(self.time, &mut self.random);
        }
    }

    fn has_events(&self) -> bool {
        self.peers.iter().any(|peer| peer.wire.has_news())
    }

    fn next_time(&self) -> Option<Duration> {
        self.peers.iter().filter_map(Peer::next_time).min()
    }

    /// Some of the events that wait, in any order: the others come later.
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
        for last in (1..events.len()).rev() {
            events.swap(last, self.random.below(last + 1));
        }
        events.into()
    }
}
