//! Connections accepted from a listener by the kernel, but not yet taken by the worker.
//!
//! The queue is bounded. When it is full, the kernel will not accept any more until the worker has emptied it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::ring::{Completion, Ring};
use super::user_data::Operation;
use crate::event::Event;
use crate::token::Token;

/// Queue length at which we stop accepting. Further connections stay in the listener's own queue, where other processes can accept
/// them if necessary.
const QUEUED_MAX: usize = 256;

/// Accepted connections from a listener.
pub(super) struct AcceptQueue {
    listener: RawFd,
    number: u32,
    state: AcceptState,
    /// Whether we have stopped accepting for good.
    is_closed: bool,
    queued: VecDeque<OwnedFd>,
    /// The error that made the kernel stop.
    error: Option<io::Error>,
}

/// State of the accept operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptState {
    /// The kernel accepts.
    Active,
    /// The kernel accepts, until it notices that we have cancelled this.
    Cancelling,
    /// The operation has ended without an error. We should start it again.
    Interrupted,
    /// The kernel does not accept. We will start again when the worker finds the queue empty.
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

    /// Returns `true` if the kernel might still accept connections.
    pub(super) fn is_accepting(&self) -> bool {
        matches!(self.state, AcceptState::Active | AcceptState::Cancelling)
    }

    /// Returns `true` if we have stopped accepting for good.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Starts accepting. Nothing happens if that is already the case, or when the queue is closed.
    pub(super) fn start(&mut self, ring: &mut Ring) -> io::Result<()> {
        if !self.is_accepting() && !self.is_closed {
            ring.accept(self.listener, self.number)?;
            self.state = AcceptState::Active;
        }
        Ok(())
    }

    /// Stops accepting for good. Note that connections might still be added to the queue until the kernel has noticed.
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

    /// Records a completion. Returns an event if [`pop`](Self::pop) will now return a connection or an error.
    pub(super) fn record(&mut self, completion: Completion) -> Option<Event> {
        let Completion { result, has_more, accepted, .. } = completion;
        let is_error = result < 0 && result != -libc::ECANCELED;
        if is_error {
            self.error = Some(io::Error::from_raw_os_error(-result));
        }
        if !has_more {
            self.state = match self.state {
                AcceptState::Active if !is_error => AcceptState::Interrupted,
                // In the meantime, the worker may have emptied the queue while the kernel was still accepting. If so, it will not
                // ask again, and we need to continue.
                AcceptState::Cancelling if !is_error && self.queued.is_empty() && accepted.is_none() => {
                    AcceptState::Interrupted
                }
                // After an error, it is up to the worker when to try again.
                _ => AcceptState::Stopped,
            };
        }

        let is_accepted = accepted.is_some();
        self.queued.extend(accepted);
        (is_error || is_accepted).then_some(Event::Acceptable(self.number))
    }

    /// Stops accepting when the queue is full. Otherwise, we continue if the operation was interrupted.
    pub(super) fn regulate(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.queued.len() >= QUEUED_MAX {
            self.stop(ring)
        } else if self.state == AcceptState::Interrupted {
            self.start(ring)
        } else {
            Ok(())
        }
    }

    /// Takes the next connection. If the queue is empty, returns the kernel's error if there was one, and otherwise makes sure that
    /// the kernel is accepting.
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
