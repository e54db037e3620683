//! The connections of a ring-based loop, and how completions change their state.
//!
//! The kernel receives data before the connection wants to read. If a connection does not read (typically because the peer is slow
//! to accept responses), we need to pause it: the bytes received so far are kept, and the kernel will not receive more until the
//! connection has read them.
//!
//! We use a single operation for the first receive and a multishot operation after that. Many connections send one request and
//! close after the response. We would only have to cancel a multishot operation then.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use super::accept_queue::AcceptQueue;
use super::ring::{Completion, FilledBuffer, Ring};
use super::user_data::{Operation, is_same_generation};
use crate::Waker;
use crate::event::{Event, Readiness};
use crate::socket::Received;
use crate::token::Token;

pub(super) struct State {
    ring: Ring,
    waker: Waker,
    slots: Vec<Slot>,
    queues: Vec<AcceptQueue>,
    datagram_sockets: Vec<DatagramPoll>,
    /// Number of datagram sockets added so far.
    datagram_sockets_added: u32,
    /// The data of the last event, unless its connection has already read it.
    current: Option<(Token, FilledBuffer)>,
    /// Completions that we fetched while we were waiting for another one.
    deferred: VecDeque<Completion>,
    /// Connections that should resume receiving at the next wait, if they still exist.
    to_resume: Vec<Token>,
    /// Memory used for bytes kept, for all connections.
    kept_bytes: usize,
    /// Whether the kernel has run out of buffers.
    lacks_buffers: bool,
    /// A ring error that could not be reported by the failing call. Instead, [`State::wait`] will report it.
    fault: Option<io::Error>,
}

/// A datagram socket polled by the ring.
struct DatagramPoll {
    /// The slot is the number of the socket; the generation counts the sockets added before it.
    owner: Token,
    socket: RawFd,
    /// Whether a [`Operation::PollRoom`] is in progress.
    polls_room: bool,
}

#[derive(Default)]
struct Slot {
    /// Bytes received while the connection was paused. We use a box here because most connections do not have any and should not
    /// pay for them.
    #[allow(clippy::box_collection, reason = "a third of the size")]
    kept: Option<Box<Vec<u8>>>,
    generation: u32,
    socket: RawFd,
    reading: Reading,
    receiving: Receiving,
    /// Whether a [`Operation::PollWritable`] is in progress.
    polls_writable: bool,
}

/// Reading direction of a connection.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// There is no connection in this slot.
    #[default]
    Vacant,
    /// The connection reads whatever is received.
    Open,
    /// The connection has left data unread. Until it has read what we kept, we should not receive more.
    Paused,
    /// The peer has closed its sending direction.
    Closed,
}

/// State of the receive operation.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// There is not one.
    #[default]
    Idle,
    /// The kernel receives.
    Active,
    /// The kernel receives, until it notices that we have cancelled this.
    Cancelling,
}

impl Slot {
    fn readiness(&self) -> Readiness {
        let read_closed = self.reading == Reading::Closed;
        Readiness {
            readable: self.kept.is_some() || read_closed,
            read_closed,
            writable: false,
            failed: false,
        }
    }

    /// Keeps bytes for when the connection reads. Returns the additional memory used for this, in bytes.
    fn keep(&mut self, bytes: &[u8]) -> usize {
        let before = self.kept_bytes();
        self.kept.get_or_insert_default().extend_from_slice(bytes);
        self.kept_bytes() - before
    }

    fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.capacity())
    }
}

impl State {
    pub(super) fn new(waker: Waker) -> io::Result<State> {
        let mut ring = Ring::new()?;
        ring.poll_waker(waker.as_fd().as_raw_fd())?;
        Ok(State {
            ring,
            waker,
            slots: Vec::new(),
            queues: Vec::new(),
            datagram_sockets: Vec::new(),
            datagram_sockets_added: 0,
            current: None,
            deferred: VecDeque::new(),
            to_resume: Vec::new(),
            kept_bytes: 0,
            lacks_buffers: false,
            fault: None,
        })
    }

    /// Adds a connection and starts receiving for it.
    pub(super) fn add_connection(&mut self, socket: RawFd, token: Token) -> io::Result<()> {
        let index = token.slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        self.ring.receive_once(socket, token)?;
        self.slots[index] = Slot {
            generation: token.generation,
            socket,
            reading: Reading::Open,
            receiving: Receiving::Active,
            ..Slot::default()
        };
        Ok(())
    }

    /// Removes a connection. You must do this before closing the socket, because operations in progress would keep it open.
    pub(super) fn remove_connection(&mut self, token: Token) {
        if let Some((_, buffer)) = self.current.take_if(|(owner, _)| *owner == token) {
            self.ring.recycle(buffer);
        }
        let slot = std::mem::take(&mut self.slots[token.slot as usize]);
        self.kept_bytes -= slot.kept_bytes();
        if slot.receiving == Receiving::Active {
            let result = self.ring.cancel(Operation::Receive, token);
            self.store_fault(result);
        }
        if slot.polls_writable {
            let result = self.ring.cancel(Operation::PollWritable, token);
            self.store_fault(result);
        }
    }

    /// Copies bytes received by a connection to `buffer`.
    #[inline]
    pub(super) fn receive(&mut self, token: Token, buffer: &mut [u8]) -> Received {
        if let Some((_, filled)) = self.current.take_if(|(owner, _)| *owner == token) {
            let bytes = self.ring.bytes(&filled);
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            if count < bytes.len() {
                self.kept_bytes += self.slots[token.slot as usize].keep(&bytes[count..]);
            }
            self.ring.recycle(filled);
            return Received::Bytes(count);
        }
        self.receive_kept(token, buffer)
    }

    #[cold]
    fn receive_kept(&mut self, token: Token, buffer: &mut [u8]) -> Received {
        let slot = &mut self.slots[token.slot as usize];
        let received = match slot.kept.take() {
            Some(mut kept) => {
                let count = kept.len().min(buffer.len());
                buffer[..count].copy_from_slice(&kept[..count]);
                kept.drain(..count);
                if kept.is_empty() {
                    self.kept_bytes -= kept.capacity();
                } else {
                    slot.kept = Some(kept);
                }
                Received::Bytes(count)
            }
            None if slot.reading == Reading::Closed => Received::Closed,
            None => Received::WouldBlock,
        };

        // The kernel can start to receive again, since the connection has read everything.
        if slot.kept.is_none() && slot.reading == Reading::Paused {
            slot.reading = Reading::Open;
            self.to_resume.push(token);
        }
        received
    }

    /// Returns the memory used for bytes kept for a connection.
    pub(super) fn kept_bytes_of(&self, token: Token) -> usize {
        self.slots[token.slot as usize].kept_bytes()
    }

    /// Returns the memory used for bytes kept for all connections.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Resumes receiving for connections that have started to read again, or whose operation has ended.
    fn resume_receiving(&mut self) {
        while let Some(token) = self.to_resume.pop() {
            let Some((slot, token)) = self.slot_of(token) else { continue };
            if slot.receiving == Receiving::Idle && slot.reading == Reading::Open {
                slot.receiving = Receiving::Active;
                let socket = slot.socket;
                let result = self.ring.receive_multishot(socket, token);
                self.store_fault(result);
            }
        }
    }

    /// Requests an event for when a connection has room to send.
    pub(super) fn poll_writable(&mut self, token: Token) -> io::Result<()> {
        let slot = &mut self.slots[token.slot as usize];
        if !slot.polls_writable {
            slot.polls_writable = true;
            self.ring.poll_writable(slot.socket, token)?;
        }
        Ok(())
    }

    /// Submits operations and waits for a completion. This will not block if we have fetched some before.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.pause_unread();
        // We should do this once per wait, no matter how many connections lacked a buffer.
        if std::mem::take(&mut self.lacks_buffers) {
            self.ring.add_buffers();
        }
        self.resume_receiving();
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let timeout = if self.deferred.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.ring.wait(timeout)
    }

    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        if self.current.is_some() {
            self.pause_unread();
        }
        loop {
            let completion = self.deferred.pop_front().or_else(|| self.ring.next())?;
            let event = match completion.operation {
                Operation::Receive => self.on_receive(completion),
                Operation::PollWritable => self.on_writable(&completion),
                Operation::Accept => self.on_accept(completion),
                Operation::PollWaker => self.on_wake_up(&completion),
                Operation::PollDatagrams | Operation::PollRoom => self.on_datagrams(&completion),
                Operation::Cancel => None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// If a connection did not read the data of the last event, keeps that data and pauses the connection.
    fn pause_unread(&mut self) {
        let Some((token, buffer)) = self.current.take() else { return };
        let slot = &mut self.slots[token.slot as usize];
        self.kept_bytes += slot.keep(self.ring.bytes(&buffer));
        self.ring.recycle(buffer);

        if slot.reading == Reading::Open {
            slot.reading = Reading::Paused;
        }
        if slot.receiving == Receiving::Active {
            slot.receiving = Receiving::Cancelling;
            let result = self.ring.cancel(Operation::Receive, token);
            self.store_fault(result);
        }
    }

    /// Returns a connection's slot and its complete token, or `None` once the connection is gone.
    fn slot_of(&mut self, owner: Token) -> Option<(&mut Slot, Token)> {
        let slot = self.slots.get_mut(owner.slot as usize)?;
        let is_owner =
            slot.reading != Reading::Vacant && is_same_generation(slot.generation, owner.generation);
        let token = Token { slot: owner.slot, generation: slot.generation };
        is_owner.then_some((slot, token))
    }

    #[inline]
    fn on_receive(&mut self, completion: Completion) -> Option<Event> {
        let Completion { owner, result, has_more, buffer, .. } = completion;
        // The connection may have been removed while the kernel was receiving for it.
        let Some((slot, token)) = self.slot_of(owner) else {
            self.recycle(buffer);
            return None;
        };
        if !has_more {
            slot.receiving = Receiving::Idle;
        }

        let mut readiness = slot.readiness();
        let has_kept = slot.kept.is_some();
        match result {
            1.. => readiness.readable = true,
            0 => {
                slot.reading = Reading::Closed;
                readiness.readable = true;
                readiness.read_closed = true;
            }
            // Either the kernel has currently run out of buffers, or it has processed a cancellation.
            _ if [libc::ENOBUFS, libc::ECANCELED].contains(&-result) => {
                self.lacks_buffers |= result == -libc::ENOBUFS;
                if !has_more {
                    self.to_resume.push(token);
                }
                self.recycle(buffer);
                return None;
            }
            _ => readiness.failed = true,
        }

        if result > 0 && !has_more {
            self.to_resume.push(token);
        }

        match buffer {
            // We have already returned an event for the bytes kept.
            Some(buffer) if result > 0 && has_kept => {
                self.kept_bytes += self.slots[token.slot as usize].keep(self.ring.bytes(&buffer));
                self.ring.recycle(buffer);
                return None;
            }
            Some(buffer) if result > 0 => self.current = Some((token, buffer)),
            buffer => self.recycle(buffer),
        }
        Some(Event::Ready(token, readiness))
    }

    fn on_writable(&mut self, completion: &Completion) -> Option<Event> {
        let (slot, token) = self.slot_of(completion.owner)?;
        slot.polls_writable = false;
        let failure_flags = i32::from(libc::POLLERR | libc::POLLHUP);
        let failed = completion.result < 0 || completion.result & failure_flags != 0;
        let readiness = Readiness { writable: true, failed, ..slot.readiness() };
        Some(Event::Ready(token, readiness))
    }

    fn on_wake_up(&mut self, completion: &Completion) -> Option<Event> {
        self.waker.clear();
        if !completion.has_more {
            let result = self.ring.poll_waker(self.waker.as_fd().as_raw_fd());
            self.store_fault(result);
        }
        Some(Event::Woken)
    }

    /// Starts accepting from a listener.
    pub(super) fn add_listener(&mut self, listener: RawFd, number: u32) -> io::Result<()> {
        let mut queue = AcceptQueue::new(listener, number);
        queue.start(&mut self.ring)?;
        // We may have watched this listener before.
        self.queues.retain(|queue| queue.listener() != listener);
        self.queues.push(queue);
        Ok(())
    }

    /// Returns the queue for a listener, and the ring.
    pub(super) fn queue(&mut self, listener: RawFd) -> Option<(&mut AcceptQueue, &mut Ring)> {
        let State { queues, ring, .. } = self;
        queues.iter_mut().find(|queue| queue.listener() == listener).map(|queue| (queue, ring))
    }

    fn on_accept(&mut self, completion: Completion) -> Option<Event> {
        let number = completion.owner.slot;
        let queue = self.queues.iter_mut().find(|queue| queue.number() == number)?;
        let event = queue.record(completion);
        let result = queue.regulate(&mut self.ring);
        self.store_fault(result);
        event
    }

    /// Stops accepting from a listener and waits until the kernel has noticed. Connections accepted by then will be in the queue.
    pub(super) fn remove_listener(&mut self, listener: RawFd) -> io::Result<()> {
        let Some((queue, ring)) = self.queue(listener) else { return Ok(()) };
        // Close the queue first. Otherwise, it would accept again after an interruption.
        queue.close(ring)?;

        let number = queue.number();
        let is_own = |completion: &Completion| {
            completion.operation == Operation::Accept && completion.owner.slot == number
        };
        // The last completion may have been fetched already while we were removing another listener. In this case there will not be
        // another one.
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.deferred).into_iter().partition(is_own);
        self.deferred = others;
        for completion in own {
            self.on_accept(completion);
        }

        while self.queue(listener).is_some_and(|(queue, _)| queue.is_accepting()) {
            self.ring.wait(None)?;
            while let Some(completion) = self.ring.next() {
                if is_own(&completion) {
                    self.on_accept(completion);
                } else {
                    self.deferred.push_back(completion);
                }
            }
        }
        Ok(())
    }

    /// Starts polling a datagram socket.
    pub(super) fn add_datagrams(&mut self, socket: RawFd, number: u32) -> io::Result<()> {
        let owner = Token { slot: number, generation: self.datagram_sockets_added };
        self.datagram_sockets_added = self.datagram_sockets_added.wrapping_add(1);
        self.ring.poll_datagrams(socket, owner)?;
        self.datagram_sockets.push(DatagramPoll { owner, socket, polls_room: false });
        Ok(())
    }

    /// Requests an event for when a datagram socket has room to send.
    pub(super) fn poll_room(&mut self, number: u32) -> io::Result<()> {
        match self.datagram_sockets.iter_mut().find(|poll| poll.owner.slot == number) {
            Some(poll) if !poll.polls_room => {
                poll.polls_room = true;
                self.ring.poll_room(poll.socket, poll.owner)
            }
            _ => Ok(()),
        }
    }

    /// Stops polling a datagram socket.
    pub(super) fn remove_datagrams(&mut self, number: u32) -> io::Result<()> {
        let Some(index) = self.datagram_sockets.iter().position(|poll| poll.owner.slot == number) else {
            return Ok(());
        };
        let poll = self.datagram_sockets.swap_remove(index);
        self.ring.cancel(Operation::PollDatagrams, poll.owner)?;
        if poll.polls_room { self.ring.cancel(Operation::PollRoom, poll.owner) } else { Ok(()) }
    }

    fn on_datagrams(&mut self, completion: &Completion) -> Option<Event> {
        let Completion { owner, operation, has_more, .. } = *completion;
        let is_owner = |poll: &&mut DatagramPoll| {
            poll.owner.slot == owner.slot && is_same_generation(poll.owner.generation, owner.generation)
        };
        let poll = self.datagram_sockets.iter_mut().find(is_owner)?;
        if operation == Operation::PollRoom {
            poll.polls_room = false;
        } else if !has_more {
            let result = self.ring.poll_datagrams(poll.socket, poll.owner);
            self.store_fault(result);
        }
        Some(Event::Datagrams(owner.slot))
    }

    fn recycle(&mut self, buffer: Option<FilledBuffer>) {
        if let Some(buffer) = buffer {
            self.ring.recycle(buffer);
        }
    }

    /// Stores a ring error for [`State::wait`].
    fn store_fault(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fault = Some(error);
        }
    }
}
