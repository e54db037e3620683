//! What a loop over a ring knows of its connections, and what completions change of it.
//!
//! The kernel receives before anybody asks. A connection that does not read, because its answers are not taken, is
//! therefore paused: what has come is kept, and no more is received until it reads again. Never calls the kernel
//! but through the ring.
//!
//! At first the kernel receives once for each connection, and only then again and again: many a connection brings one
//! request and ends with its answer, and there would be an operation to be ended with it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use super::data::{Operation, is_same_generation};
use super::queue::Queue;
use super::ring::{Completion, Filled, Ring};
use crate::Waker;
use crate::event::{Event, Readiness};
use crate::socket::Received;
use crate::token::Token;

/// What a loop knows.
pub(super) struct State {
    ring: Ring,
    waker: Waker,
    slots: Vec<Slot>,
    queues: Vec<Queue>,
    /// What the last event has brought, and nobody has read yet.
    current: Option<(Token, Filled)>,
    /// Completions that were fetched while another one was looked for.
    postponed: VecDeque<Completion>,
    /// Connections for which the kernel shall receive again, if they are still there when it is waited for.
    to_receive: Vec<Token>,
    /// Memory of all that is kept for connections, in bytes.
    kept_bytes: usize,
    /// Whether the kernel had no buffer to receive into.
    lacks_buffers: bool,
    /// The ring failed where nobody could be told.
    fault: Option<io::Error>,
}

/// What is known of a connection.
#[derive(Default)]
struct Slot {
    /// What came while the connection did not read. Boxed, since hardly any connection has some, and each pays.
    #[allow(clippy::box_collection, reason = "a third of the size")]
    kept: Option<Box<Vec<u8>>>,
    generation: u32,
    socket: RawFd,
    /// Whether there is such a connection.
    is_live: bool,
    /// Whether the kernel receives for it.
    receives: bool,
    /// Whether it has been told not to.
    is_cancelled: bool,
    /// Whether the connection does not read.
    is_paused: bool,
    /// Whether the kernel tells when there is room to send.
    awaits_room: bool,
    /// Whether the peer sends no more.
    has_ended: bool,
}

impl Slot {
    fn readiness(&self) -> Readiness {
        let readable = self.kept.is_some() || self.has_ended;
        Readiness { readable, ended: self.has_ended, writable: false, broken: false }
    }

    /// Keeps bytes until the connection reads. Returns how much more memory that takes, in bytes.
    fn keep(&mut self, bytes: &[u8]) -> usize {
        let before = self.kept_bytes();
        self.kept.get_or_insert_default().extend_from_slice(bytes);
        self.kept_bytes() - before
    }

    /// Memory of what is kept, in bytes.
    fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.capacity())
    }
}

impl State {
    pub(super) fn new(waker: Waker) -> io::Result<State> {
        let mut ring = Ring::new()?;
        ring.await_knock(waker.as_fd().as_raw_fd())?;
        let (slots, queues) = (Vec::new(), Vec::new());
        let (postponed, to_receive) = (VecDeque::new(), Vec::new());
        let (current, kept_bytes, lacks_buffers, fault) = (None, 0, false, None);
        Ok(State {
            ring,
            waker,
            slots,
            queues,
            current,
            postponed,
            to_receive,
            kept_bytes,
            lacks_buffers,
            fault,
        })
    }

    /// Begins to receive for a connection.
    pub(super) fn begin(&mut self, socket: RawFd, token: Token) -> io::Result<()> {
        let place = token.slot as usize;
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, Slot::default);
        }
        self.ring.receive_once(socket, token)?;
        let generation = token.generation;
        self.slots[place] = Slot { generation, socket, is_live: true, receives: true, ..Slot::default() };
        Ok(())
    }

    /// Forgets a connection, which is about to be closed. Until then the kernel would keep it open.
    pub(super) fn end(&mut self, token: Token) {
        if let Some((_, filled)) = self.current.take_if(|(owner, _)| *owner == token) {
            self.ring.give_back(filled);
        }
        let slot = std::mem::take(&mut self.slots[token.slot as usize]);
        self.kept_bytes -= slot.kept_bytes();
        if slot.receives && !slot.is_cancelled {
            let cancelled = self.ring.cancel(Operation::Receive, token);
            self.remember(cancelled);
        }
        if slot.awaits_room {
            let cancelled = self.ring.cancel(Operation::Room, token);
            self.remember(cancelled);
        }
    }

    /// Takes what has come, as much as there is room for.
    #[inline]
    pub(super) fn receive(&mut self, token: Token, buffer: &mut [u8]) -> Received {
        if let Some((_, filled)) = self.current.take_if(|(owner, _)| *owner == token) {
            let bytes = self.ring.bytes(&filled);
            let taken = bytes.len().min(buffer.len());
            buffer[..taken].copy_from_slice(&bytes[..taken]);
            if taken < bytes.len() {
                self.kept_bytes += self.slots[token.slot as usize].keep(&bytes[taken..]);
            }
            self.ring.give_back(filled);
            return Received::Bytes(taken);
        }
        self.receive_kept(token, buffer)
    }

    #[cold]
    fn receive_kept(&mut self, token: Token, buffer: &mut [u8]) -> Received {
        let slot = &mut self.slots[token.slot as usize];
        let received = match slot.kept.take() {
            Some(mut kept) => {
                let taken = kept.len().min(buffer.len());
                buffer[..taken].copy_from_slice(&kept[..taken]);
                kept.drain(..taken);
                if kept.is_empty() {
                    self.kept_bytes -= kept.capacity();
                } else {
                    slot.kept = Some(kept);
                }
                Received::Bytes(taken)
            }
            None if slot.has_ended => Received::End,
            None => Received::NotYet,
        };
        if slot.kept.is_none() && slot.is_paused {
            slot.is_paused = false;
            self.to_receive.push(token);
        }
        received
    }

    /// Memory of what is kept for a connection, in bytes.
    pub(super) fn kept_bytes_of(&self, token: Token) -> usize {
        self.slots[token.slot as usize].kept_bytes()
    }

    /// Memory of what is kept for all connections, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Has the kernel receive for those for whom it has stopped to.
    fn receive_again(&mut self) {
        while let Some(token) = self.to_receive.pop() {
            let Some((slot, token)) = self.live(token) else { continue };
            if slot.receives || slot.is_paused || slot.has_ended {
                continue;
            }
            (slot.receives, slot.is_cancelled) = (true, false);
            let socket = slot.socket;
            let received = self.ring.receive(socket, token);
            self.remember(received);
        }
    }

    /// Has the kernel tell when there is room to send.
    pub(super) fn await_room(&mut self, token: Token) -> io::Result<()> {
        let slot = &mut self.slots[token.slot as usize];
        if !slot.awaits_room {
            slot.awaits_room = true;
            self.ring.await_room(slot.socket, token)?;
        }
        Ok(())
    }

    /// Hands over what is to be done, and waits for something to happen.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_aside();
        // Once, however many connections there was none for.
        if std::mem::take(&mut self.lacks_buffers) {
            self.ring.add_buffers();
        }
        self.receive_again();
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.ring.wait(timeout)
    }

    /// The next thing that has happened.
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        if self.current.is_some() {
            self.set_aside();
        }
        loop {
            let completion = self.postponed.pop_front().or_else(|| self.ring.next())?;
            let event = match completion.operation {
                Operation::Receive => self.received(completion),
                Operation::Room => self.room(&completion),
                Operation::Accept => self.accepted(completion),
                Operation::Knock => self.knocked(&completion),
                Operation::Cancel => None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Keeps what the last event has brought if nobody has read it: then its connection does not read.
    fn set_aside(&mut self) {
        let Some((token, filled)) = self.current.take() else { return };
        let slot = &mut self.slots[token.slot as usize];
        self.kept_bytes += slot.keep(self.ring.bytes(&filled));
        slot.is_paused = true;
        let is_cancelled = std::mem::replace(&mut slot.is_cancelled, slot.receives);
        let must_cancel = slot.receives && !is_cancelled;
        self.ring.give_back(filled);
        if must_cancel {
            let cancelled = self.ring.cancel(Operation::Receive, token);
            self.remember(cancelled);
        }
    }

    /// The connection of a completion, unless it is gone.
    fn live(&mut self, owner: Token) -> Option<(&mut Slot, Token)> {
        let slot = self.slots.get_mut(owner.slot as usize)?;
        let is_it = slot.is_live && is_same_generation(slot.generation, owner.generation);
        let token = Token { slot: owner.slot, generation: slot.generation };
        is_it.then_some((slot, token))
    }

    #[inline]
    fn received(&mut self, completion: Completion) -> Option<Event> {
        let Completion { owner, result, goes_on, filled, .. } = completion;
        let Some((slot, token)) = self.live(owner) else {
            filled.into_iter().for_each(|filled| self.ring.give_back(filled));
            return None;
        };
        slot.receives = goes_on;
        let mut readiness = slot.readiness();
        let has_kept = slot.kept.is_some();
        match result {
            1.. => readiness.readable = true,
            0 => {
                slot.has_ended = true;
                (readiness.readable, readiness.ended) = (true, true);
            }
            // There were no buffers, or it was told to stop.
            _ if [libc::ENOBUFS, libc::ECANCELED].contains(&-result) => {
                slot.is_cancelled = false;
                self.lacks_buffers |= result == -libc::ENOBUFS;
                if !goes_on {
                    self.to_receive.push(token);
                }
                filled.into_iter().for_each(|filled| self.ring.give_back(filled));
                return None;
            }
            _ => readiness.broken = true,
        }
        if result > 0 && !goes_on {
            self.to_receive.push(token);
        }
        if let Some(filled) = filled {
            if result > 0 && has_kept {
                // Behind what is kept already; the connection was told of that.
                self.kept_bytes += self.slots[token.slot as usize].keep(self.ring.bytes(&filled));
                self.ring.give_back(filled);
                return None;
            }
            if result > 0 {
                self.current = Some((token, filled));
            } else {
                self.ring.give_back(filled);
            }
        }
        Some(Event::Ready(token, readiness))
    }

    fn room(&mut self, completion: &Completion) -> Option<Event> {
        let (slot, token) = self.live(completion.owner)?;
        slot.awaits_room = false;
        let flags = i32::from(libc::POLLERR | libc::POLLHUP);
        let broken = completion.result < 0 || completion.result & flags != 0;
        let readiness = Readiness { writable: true, broken, ..slot.readiness() };
        Some(Event::Ready(token, readiness))
    }

    fn knocked(&mut self, completion: &Completion) -> Option<Event> {
        self.waker.clear();
        if !completion.goes_on {
            let again = self.ring.await_knock(self.waker.as_fd().as_raw_fd());
            self.remember(again);
        }
        Some(Event::Woken)
    }

    /// Watches a listener.
    pub(super) fn add_listener(&mut self, listener: RawFd, number: u32) -> io::Result<()> {
        let mut queue = Queue::new(listener, number);
        queue.listen(&mut self.ring)?;
        // It may have been watched before.
        self.queues.retain(|before| before.listener() != listener);
        self.queues.push(queue);
        Ok(())
    }

    /// The queue of a listener.
    pub(super) fn queue(&mut self, listener: RawFd) -> Option<(&mut Queue, &mut Ring)> {
        let State { queues, ring, .. } = self;
        queues.iter_mut().find(|queue| queue.listener() == listener).map(|queue| (queue, ring))
    }

    fn accepted(&mut self, completion: Completion) -> Option<Event> {
        let number = completion.owner.slot;
        let State { queues, ring, .. } = self;
        let queue = queues.iter_mut().find(|queue| queue.number() == number)?;
        let (tells, done) = queue.take_in(completion, ring);
        self.remember(done);
        tells.then_some(Event::Acceptable(number))
    }

    /// Accepts nobody any more, and waits until the kernel has understood: those whom it has accepted until then
    /// are in the queue.
    pub(super) fn remove_listener(&mut self, listener: RawFd) -> io::Result<()> {
        let Some((queue, ring)) = self.queue(listener) else { return Ok(()) };
        let number = queue.number();
        queue.close(ring)?;
        while self.queue(listener).is_some_and(|(queue, _)| queue.is_listening()) {
            self.ring.wait(None)?;
            while let Some(completion) = self.ring.next() {
                if completion.operation == Operation::Accept && completion.owner.slot == number {
                    self.accepted(completion);
                } else {
                    self.postponed.push_back(completion);
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.fault = Some(error);
        }
    }
}
