//! A peer: what it does, how it takes what is sent to it, and what became of its connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::random::Random;
use super::wire::Wire;

/// Which peer of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerNumber(pub(super) usize);

/// Something that a peer does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends these bytes, in pieces as the network likes.
    Send(Vec<u8>),
    /// Does nothing for so long; what is sent to it is taken as before.
    Pause(Duration),
    /// Says that it sends no more.
    EndSending,
    /// Breaks the connection.
    Reset,
    /// Waits until these bytes have come from the server, or it has ended the connection.
    Await(Vec<u8>),
    /// Waits until the server has ended the connection.
    AwaitEnd,
}

/// How a peer takes what is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appetite {
    /// Takes whatever is there, in pieces of any size.
    Good,
    /// Takes so many bytes a second and no more.
    Slow(usize),
    /// Takes nothing.
    None,
}

/// What became of a peer's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is still open.
    Open,
    /// The server ended it, and all that was sent before has arrived.
    Ended,
    /// It broke: what was under way is lost.
    Broken,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) wire: Wire,
    pub(super) received: Vec<u8>,
    /// Of those, the ones among which what it waits for is not.
    searched: usize,
    acts: VecDeque<Act>,
    appetite: Appetite,
    /// When the next act begins, since the network's beginning.
    pub(super) next_act: Duration,
    /// When it next takes something.
    next_bite: Duration,
    pub(super) is_connected: bool,
}

impl Peer {
    pub(super) fn new(start: Duration, acts: Vec<Act>, appetite: Appetite, room: usize) -> Peer {
        Peer {
            wire: Wire::new(room),
            received: Vec::new(),
            searched: 0,
            acts: acts.into(),
            appetite,
            next_act: start,
            next_bite: start,
            is_connected: false,
        }
    }

    /// When this peer can next do something; nothing if that hangs on the server alone, or is over.
    pub(super) fn next_time(&self) -> Option<Duration> {
        if !self.is_connected {
            return Some(self.next_act);
        }
        let act = match self.acts.front() {
            None => None,
            Some(Act::Await(_) | Act::AwaitEnd) => self.wire.has_ended().then_some(self.next_act),
            Some(_) => Some(self.next_act),
        };
        let bite = match self.appetite {
            Appetite::None => None,
            Appetite::Good | Appetite::Slow(_) => self.wire.has_for_peer().then_some(self.next_bite),
        };
        act.into_iter().chain(bite).min()
    }

    /// Does one thing, if there is one to do now.
    pub(super) fn go_on(&mut self, now: Duration, random: &mut Random) {
        let can_bite = self.wire.has_for_peer() && self.next_bite <= now && self.appetite != Appetite::None;
        let can_act = self.next_act <= now && !self.acts.is_empty();
        if can_bite && (!can_act || random.once_in(2)) {
            self.bite(now, random);
        } else if can_act {
            self.act(now, random);
        }
        self.listen();
    }

    /// Goes on behind what it waits for, if that has come.
    fn listen(&mut self) {
        while let Some(Act::Await(awaited)) = self.acts.front() {
            let unsearched = &self.received[self.searched.saturating_sub(awaited.len())..];
            if !unsearched.windows(awaited.len()).any(|bytes| bytes == awaited) {
                self.searched = self.received.len();
                return;
            }
            self.acts.pop_front();
            self.searched = 0;
        }
    }

    fn bite(&mut self, now: Duration, random: &mut Random) {
        let most = match self.appetite {
            Appetite::Slow(bytes_a_second) => {
                self.next_bite = now + Duration::from_secs(1);
                bytes_a_second
            }
            Appetite::Good | Appetite::None => random.size(64 * 1024),
        };
        self.wire.take(most, &mut self.received);
    }

    fn act(&mut self, now: Duration, random: &mut Random) {
        match self.acts.pop_front() {
            Some(Act::Send(bytes)) => {
                let piece = random.size(bytes.len().max(1)).min(bytes.len());
                self.wire.arrive(&bytes[..piece]);
                if piece < bytes.len() {
                    self.acts.push_front(Act::Send(bytes[piece..].to_vec()));
                }
            }
            Some(Act::Pause(pause)) => self.next_act = now + pause,
            Some(Act::EndSending) => self.wire.end_arriving(),
            Some(Act::Reset) => {
                self.wire.break_off();
                self.acts.clear();
            }
            Some(wait @ (Act::Await(_) | Act::AwaitEnd)) if !self.wire.has_ended() => {
                self.acts.push_front(wait);
            }
            Some(Act::Await(_) | Act::AwaitEnd) | None => {}
        }
    }

    pub(super) fn fate(&self) -> Fate {
        if self.wire.is_broken() {
            Fate::Broken
        } else if self.wire.has_ended() {
            Fate::Ended
        } else {
            Fate::Open
        }
    }
}
