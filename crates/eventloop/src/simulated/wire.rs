//! One made-up connection, as the kernel keeps it: what has arrived, what is under way, how it ended.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use super::random::Random;
use crate::event::{Event, Readiness};
use crate::socket::Received;
use crate::token::Token;

#[derive(Debug)]
pub(super) struct Wire {
    /// Bytes that the server may receive.
    arrived: VecDeque<u8>,
    /// Bytes that the server has sent and the peer has not taken.
    under_way: VecDeque<u8>,
    /// How much may be under way.
    room: usize,
    /// Whether the peer sends no more.
    peer_ended: bool,
    /// Whether the server sends no more.
    server_ended: bool,
    /// Whether the server has let go of its end.
    closed: bool,
    broken: bool,
    token: Option<Token>,
    /// What the server was not told yet.
    news: Readiness,
    /// Whether the server was told that there is no room.
    wants_room: bool,
    /// How often the server has called to send something.
    sends: usize,
}

const NO_NEWS: Readiness = Readiness { readable: false, ended: false, writable: false, broken: false };

impl Wire {
    pub(super) fn new(room: usize) -> Wire {
        Wire {
            arrived: VecDeque::new(),
            under_way: VecDeque::new(),
            room,
            peer_ended: false,
            server_ended: false,
            closed: false,
            broken: false,
            token: None,
            // As with the kernel, the first event tells what is there from the beginning.
            news: Readiness { writable: true, ..NO_NEWS },
            wants_room: false,
            sends: 0,
        }
    }

    pub(super) fn watch(&mut self, token: Token) {
        self.token = Some(token);
    }

    /// The event that waits for the server, if one does.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        let token = self.token.filter(|_| self.has_news())?;
        let news = std::mem::replace(&mut self.news, NO_NEWS);
        Some(Event::Ready(token, Readiness { ended: self.peer_ended, ..news }))
    }

    pub(super) fn has_news(&self) -> bool {
        self.token.is_some() && !self.closed && self.news != NO_NEWS
    }

    // What the peer does.

    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        if self.closed {
            // Nobody is there to receive: the answer is a reset, and what was under way is lost.
            self.break_off();
        } else if !self.broken {
            self.arrived.extend(bytes);
            self.news.readable = true;
        }
    }

    pub(super) fn end_arriving(&mut self) {
        self.peer_ended = true;
        self.news.readable = true;
        self.news.ended = true;
    }

    pub(super) fn break_off(&mut self) {
        self.broken = true;
        self.news.broken = true;
        self.arrived.clear();
        self.under_way.clear();
    }

    pub(super) fn take(&mut self, most: usize, received: &mut Vec<u8>) {
        let count = most.min(self.under_way.len());
        received.extend_from_slice(&self.under_way.make_contiguous()[..count]);
        self.under_way.drain(..count);
        if std::mem::take(&mut self.wants_room) {
            self.news.writable = true;
        }
    }

    pub(super) fn has_for_peer(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.broken || (self.server_ended && self.under_way.is_empty())
    }

    pub(super) fn sends(&self) -> usize {
        self.sends
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    // What the server does.

    fn check(&self) -> io::Result<()> {
        if self.broken { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        self.check()?;
        let count = buffer.len().min(self.arrived.len());
        buffer[..count].copy_from_slice(&self.arrived.make_contiguous()[..count]);
        self.arrived.drain(..count);
        Ok(match count {
            0 if self.peer_ended => Received::End,
            0 => Received::NotYet,
            bytes => Received::Bytes(bytes),
        })
    }

    pub(super) fn send(&mut self, runs: &[IoSlice<'_>], random: &mut Random) -> io::Result<usize> {
        self.check()?;
        self.sends += 1;
        let wanted: usize = runs.iter().map(|run| run.len()).sum();
        let room = self.room.saturating_sub(self.under_way.len());
        let mut left = wanted.min(room);
        if left > 0 && random.once_in(4) {
            left = random.size(left);
        }
        let sent = left;
        for run in runs {
            let count = left.min(run.len());
            self.under_way.extend(&run[..count]);
            left -= count;
        }
        if sent < wanted {
            // Where there was room all the same, the kernel was short of memory: it soon has some again.
            self.wants_room = true;
            self.news.writable |= sent < room;
        }
        Ok(sent)
    }

    pub(super) fn end_sending(&mut self) -> io::Result<()> {
        self.check()?;
        self.server_ended = true;
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "as the kernel's socket has it")]
    pub(super) fn unconfirmed(&mut self) -> io::Result<u64> {
        self.check()?;
        Ok(self.under_way.len() as u64)
    }

    /// The server lets go. Where something has arrived that it has not received, the kernel breaks the
    /// connection, and the peer may lose what was under way.
    pub(super) fn close(&mut self, random: &mut Random) {
        self.closed = true;
        self.server_ended = true;
        if !self.arrived.is_empty() && random.once_in(2) {
            self.break_off();
        }
    }
}
