//! Connections that the kernel has accepted at a listener, and that the worker has not taken yet.
//!
//! The queue is bounded: when it is full, the kernel stops accepting until the worker has emptied it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::ring::{Completion, Ring};
use super::user_data::Operation;
use crate::event::Event;
use crate::token::Token;

/// The length at which accepting stops. Further connections stay in the listener's queue, where any process can accept
/// them.
const QUEUED_MAX: usize = 256;

/// The accepted connections of one listener.
pub(super) struct AcceptQueue {
    listener: RawFd,
    number: u32,
    state: AcceptState,
    /// Accepting does not start again.
    is_closed: bool,
    queued: VecDeque<OwnedFd>,
    /// The error that stopped the kernel.
    error: Option<io::Error>,
}

/// The state of the operation that accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptState {
    /// The kernel accepts.
    Active,
    /// The kernel accepts until it has processed a cancellation.
    Cancelling,
    /// The operation ended without an error, and should start again.
    Interrupted,
    /// The kernel does not accept until the worker takes a connection from the empty queue.
    Stopped,
}

impl AcceptQueue {
    pub(super) fn new(listener: RawFd, number: u32) -> AcceptQueue {
        AcceptQueue {
            listener,
            number,
            state: AcceptState::Stopped,
            is_closed: false,
            queued: VecDeque::new(),
            error: None,
        }
    }

    pub(super) fn listener(&self) -> RawFd {
        self.listener
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns `true` if the kernel may still accept a connection.
    pub(super) fn is_accepting(&self) -> bool {
        matches!(self.state, AcceptState::Active | AcceptState::Cancelling)
    }

    /// Returns `true` if accepting does not start again.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Starts accepting, unless the kernel accepts already or the queue is closed.
    pub(super) fn start(&mut self, ring: &mut Ring) -> io::Result<()> {
        if !self.is_accepting() && !self.is_closed {
            ring.accept(self.listener, self.number)?;
            self.state = AcceptState::Active;
        }
        Ok(())
    }

    /// Stops accepting for good. Connections that are accepted before the kernel processes this are still queued.
    pub(super) fn close(&mut self, ring: &mut Ring) -> io::Result<()> {
        self.is_closed = true;
        self.stop(ring)
    }

    fn stop(&mut self, ring: &mut Ring) -> io::Result<()> {
        match self.state {
            AcceptState::Active => {
                self.state = AcceptState::Cancelling;
                ring.cancel(Operation::Accept, Token { slot: self.number, generation: 0 })?;
            }
            AcceptState::Interrupted => self.state = AcceptState::Stopped,
            AcceptState::Cancelling | AcceptState::Stopped => {}
        }
        Ok(())
    }

    /// Records a completion. Returns the event for the worker, if [`pop`](Self::pop) now returns a connection or an error.
    pub(super) fn record(&mut self, completion: Completion) -> Option<Event> {
        let Completion { result, has_more, accepted, .. } = completion;
        let is_error = result < 0 && result != -libc::ECANCELED;
        if is_error {
            self.error = Some(io::Error::from_raw_os_error(-result));
        }
        if !has_more {
            self.state = match self.state {
                AcceptState::Active if !is_error => AcceptState::Interrupted,
                // The worker has emptied the queue in the meantime, and found that the kernel accepts. So it won't ask again.
                AcceptState::Cancelling if !is_error && self.queued.is_empty() && accepted.is_none() => {
                    AcceptState::Interrupted
                }
                // After an error, the worker decides when to try again.
                _ => AcceptState::Stopped,
            };
        }
        let is_accepted = accepted.is_some();
        self.queued.extend(accepted);
        (is_error || is_accepted).then_some(Event::Acceptable(self.number))
    }

    /// Stops accepting if the queue is full, and otherwise continues an interrupted operation, unless the queue is closed.
    pub(super) fn regulate(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.queued.len() >= QUEUED_MAX {
            self.stop(ring)
        } else if self.state == AcceptState::Interrupted {
            self.start(ring)
        } else {
            Ok(())
        }
    }

    /// Takes the next connection. If there is none, returns the kernel's error, or makes the kernel accept again.
    pub(super) fn pop(&mut self, ring: &mut Ring) -> io::Result<Option<OwnedFd>> {
        if let Some(connection) = self.queued.pop_front() {
            return Ok(Some(connection));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.start(ring)?;
        Ok(None)
    }
}
