//! A simulated peer: its actions, the speed at which it reads, and the state of its connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::random::Random;
use super::wire::Wire;

/// Identifies a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerId(pub(super) usize);

/// Something that a peer does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sends bytes. They arrive in pieces of random size.
    Send(Vec<u8>),
    /// Waits but goes on reading.
    Pause(Duration),
    /// Closes the peer's sending direction.
    ShutdownWrite,
    /// Resets the connection.
    Reset,
    /// Waits until it has received these bytes, or the server has closed the connection.
    Await(Vec<u8>),
    /// Waits until the server has closed the connection.
    AwaitClose,
}

/// Speed at which a peer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadRate {
    /// Reads everything that is available, in pieces of random size.
    Unlimited,
    /// Reads this number of bytes per second.
    BytesPerSecond(usize),
    /// Does not read.
    Zero,
}

/// The state of a peer's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// The connection is open.
    Open,
    /// The server has closed it, and everything sent before has arrived.
    Closed,
    /// It was reset. Bytes in flight were lost.
    Reset,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) wire: Wire,
    pub(super) received: Vec<u8>,
    /// Length of the part of `received` that we have already searched for the awaited bytes.
    searched: usize,
    actions: VecDeque<Action>,
    read_rate: ReadRate,
    /// Time of the next action, since the network's start.
    pub(super) next_action: Duration,
    /// Time of the next read.
    next_read: Duration,
    pub(super) is_connected: bool,
}

impl Peer {
    pub(super) fn new(start: Duration, actions: Vec<Action>, read_rate: ReadRate, capacity: usize) -> Peer {
        Peer {
            wire: Wire::new(capacity),
            received: Vec::new(),
            searched: 0,
            actions: actions.into(),
            read_rate,
            next_action: start,
            next_read: start,
            is_connected: false,
        }
    }

    /// Returns the time when this peer can act next, or `None` if it is done or waiting for the server.
    pub(super) fn next_time(&self) -> Option<Duration> {
        if !self.is_connected {
            return Some(self.next_action);
        }
        let action = match self.actions.front() {
            None => None,
            Some(Action::Await(_) | Action::AwaitClose) => self.wire.is_closed().then_some(self.next_action),
            Some(_) => Some(self.next_action),
        };
        let read = match self.read_rate {
            ReadRate::Zero => None,
            ReadRate::Unlimited | ReadRate::BytesPerSecond(_) => {
                self.wire.has_bytes_in_flight().then_some(self.next_read)
            }
        };
        action.into_iter().chain(read).min()
    }

    /// Reads once or performs one action, if it is time.
    pub(super) fn step(&mut self, now: Duration, random: &mut Random) {
        let can_read =
            self.wire.has_bytes_in_flight() && self.next_read <= now && self.read_rate != ReadRate::Zero;
        let can_act = self.next_action <= now && !self.actions.is_empty();
        if can_read && (!can_act || random.once_in(2)) {
            self.read(now, random);
        } else if can_act {
            self.act(now, random);
        }
        self.finish_await();
    }

    /// Ends an [`Action::Await`] once its bytes have arrived.
    fn finish_await(&mut self) {
        while let Some(Action::Await(awaited)) = self.actions.front() {
            let unsearched = &self.received[self.searched.saturating_sub(awaited.len())..];
            if !unsearched.windows(awaited.len()).any(|bytes| bytes == awaited) {
                self.searched = self.received.len();
                return;
            }
            self.actions.pop_front();
            self.searched = 0;
        }
    }

    fn read(&mut self, now: Duration, random: &mut Random) {
        let bytes_max = match self.read_rate {
            ReadRate::BytesPerSecond(bytes) => {
                self.next_read = now + Duration::from_secs(1);
                bytes
            }
            ReadRate::Unlimited | ReadRate::Zero => random.size(64 * 1024),
        };
        self.wire.read(bytes_max, &mut self.received);
    }

    fn act(&mut self, now: Duration, random: &mut Random) {
        match self.actions.pop_front() {
            Some(Action::Send(bytes)) => {
                let piece = random.size(bytes.len().max(1)).min(bytes.len());
                self.wire.arrive(&bytes[..piece]);
                if piece < bytes.len() {
                    self.actions.push_front(Action::Send(bytes[piece..].to_vec()));
                }
            }
            Some(Action::Pause(pause)) => self.next_action = now + pause,
            Some(Action::ShutdownWrite) => self.wire.peer_shutdown_write(),
            Some(Action::Reset) => {
                self.wire.reset();
                self.actions.clear();
            }
            Some(wait @ (Action::Await(_) | Action::AwaitClose)) if !self.wire.is_closed() => {
                self.actions.push_front(wait);
            }
            Some(Action::Await(_) | Action::AwaitClose) | None => {}
        }
    }

    pub(super) fn state(&self) -> ConnectionState {
        if self.wire.is_reset() {
            ConnectionState::Reset
        } else if self.wire.is_closed() {
            ConnectionState::Closed
        } else {
            ConnectionState::Open
        }
    }
}
