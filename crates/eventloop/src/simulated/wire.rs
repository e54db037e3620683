//! A simulated connection: received bytes, bytes in flight, and the state of each direction.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use super::random::Random;
use crate::event::{Event, Readiness};
use crate::socket::Received;
use crate::token::Token;

#[derive(Debug)]
pub(super) struct Wire {
    /// Bytes the server may receive.
    arrived: VecDeque<u8>,
    /// Bytes the server has sent and the peer has not read.
    in_flight: VecDeque<u8>,
    /// The most bytes in flight.
    capacity: usize,
    /// The peer has closed its sending direction.
    peer_write_closed: bool,
    /// The server has closed its sending direction.
    server_write_closed: bool,
    /// The server has closed its socket.
    server_closed: bool,
    is_reset: bool,
    token: Option<Token>,
    /// The readiness that the next event reports.
    unreported: Readiness,
    /// A send of the server was short, so it needs an event when there is room.
    awaits_room: bool,
    /// Number of times the server has called a send function.
    send_calls: usize,
}

const NOT_READY: Readiness =
    Readiness { readable: false, read_closed: false, writable: false, failed: false };

impl Wire {
    pub(super) fn new(capacity: usize) -> Wire {
        Wire {
            arrived: VecDeque::new(),
            in_flight: VecDeque::new(),
            capacity,
            peer_write_closed: false,
            server_write_closed: false,
            server_closed: false,
            is_reset: false,
            token: None,
            // As with the kernel, the first event reports the initial readiness.
            unreported: Readiness { writable: true, ..NOT_READY },
            awaits_room: false,
            send_calls: 0,
        }
    }

    pub(super) fn watch(&mut self, token: Token) {
        self.token = Some(token);
    }

    /// Takes the pending event, if there is one.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        let token = self.token.filter(|_| self.has_event())?;
        let readiness = std::mem::replace(&mut self.unreported, NOT_READY);
        Some(Event::Ready(token, Readiness { read_closed: self.peer_write_closed, ..readiness }))
    }

    pub(super) fn has_event(&self) -> bool {
        self.token.is_some() && !self.server_closed && self.unreported != NOT_READY
    }

    // Operations of the peer.

    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        if self.server_closed {
            // The kernel resets the connection, so bytes in flight are lost.
            self.reset();
        } else if !self.is_reset {
            self.arrived.extend(bytes);
            self.unreported.readable = true;
        }
    }

    pub(super) fn peer_shutdown_write(&mut self) {
        self.peer_write_closed = true;
        self.unreported.readable = true;
        self.unreported.read_closed = true;
    }

    pub(super) fn reset(&mut self) {
        self.is_reset = true;
        self.unreported.failed = true;
        self.arrived.clear();
        self.in_flight.clear();
    }

    pub(super) fn read(&mut self, bytes_max: usize, received: &mut Vec<u8>) {
        let count = bytes_max.min(self.in_flight.len());
        received.extend_from_slice(&self.in_flight.make_contiguous()[..count]);
        self.in_flight.drain(..count);
        if std::mem::take(&mut self.awaits_room) {
            self.unreported.writable = true;
        }
    }

    pub(super) fn has_bytes_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_reset || (self.server_write_closed && self.in_flight.is_empty())
    }

    pub(super) fn send_calls(&self) -> usize {
        self.send_calls
    }

    pub(super) fn is_reset(&self) -> bool {
        self.is_reset
    }

    // Operations of the server.

    fn check(&self) -> io::Result<()> {
        if self.is_reset { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        self.check()?;
        let count = buffer.len().min(self.arrived.len());
        buffer[..count].copy_from_slice(&self.arrived.make_contiguous()[..count]);
        self.arrived.drain(..count);
        Ok(match count {
            0 if self.peer_write_closed => Received::Closed,
            0 => Received::WouldBlock,
            bytes => Received::Bytes(bytes),
        })
    }

    pub(super) fn send(&mut self, runs: &[IoSlice<'_>], random: &mut Random) -> io::Result<usize> {
        self.check()?;
        self.send_calls += 1;
        let wanted: usize = runs.iter().map(|run| run.len()).sum();
        let room = self.capacity.saturating_sub(self.in_flight.len());
        let mut left = wanted.min(room);
        if left > 0 && random.once_in(4) {
            left = random.size(left);
        }

        let sent = left;
        for run in runs {
            let count = left.min(run.len());
            self.in_flight.extend(&run[..count]);
            left -= count;
        }

        if sent < wanted {
            // A short send despite room means that the kernel currently lacks memory. It should have some again soon.
            self.awaits_room = true;
            self.unreported.writable |= sent < room;
        }
        Ok(sent)
    }

    pub(super) fn shutdown_write(&mut self) -> io::Result<()> {
        self.check()?;
        self.server_write_closed = true;
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "the interface of a socket")]
    pub(super) fn unacknowledged_bytes(&mut self) -> io::Result<u64> {
        self.check()?;
        Ok(self.in_flight.len() as u64)
    }

    /// Closes the server's socket. If received bytes are unread, the kernel will reset the connection, and bytes in flight may be
    /// lost.
    pub(super) fn close(&mut self, random: &mut Random) {
        self.server_closed = true;
        self.server_write_closed = true;
        if !self.arrived.is_empty() && random.once_in(2) {
            self.reset();
        }
    }
}
