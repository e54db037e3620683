//! Connections that the kernel has accepted at a listener, and nobody has taken yet.
//!
//! Bounded: where nobody takes them, no more are accepted. Never decides who is let in.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::data::Operation;
use super::ring::{Completion, Ring};
use crate::token::Token;

/// Connections that wait here before accepting is paused. Others wait at the listener, where they are nobody's yet.
const WAITING_MAX: usize = 256;

/// The queue of one listener.
pub(super) struct Queue {
    listener: RawFd,
    number: u32,
    waiting: VecDeque<OwnedFd>,
    /// Why the kernel could not go on accepting.
    error: Option<io::Error>,
    /// Whether the kernel accepts.
    listens: bool,
    /// Whether it has been told not to.
    is_cancelled: bool,
    /// Whether it shall not any more.
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(listener: RawFd, number: u32) -> Queue {
        let (listens, is_cancelled, is_closed) = (false, false, false);
        Queue { listener, number, waiting: VecDeque::new(), error: None, listens, is_cancelled, is_closed }
    }

    pub(super) fn listener(&self) -> RawFd {
        self.listener
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether the kernel accepts.
    pub(super) fn is_listening(&self) -> bool {
        self.listens
    }

    /// Whether it shall not any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Has the kernel accept, if it does not.
    pub(super) fn listen(&mut self, ring: &mut Ring) -> io::Result<()> {
        if !self.listens && !self.is_closed {
            ring.accept(self.listener, self.number)?;
            (self.listens, self.is_cancelled) = (true, false);
        }
        Ok(())
    }

    /// Has the kernel accept no more.
    pub(super) fn close(&mut self, ring: &mut Ring) -> io::Result<()> {
        self.is_closed = true;
        self.pause(ring)
    }

    fn pause(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.listens && !self.is_cancelled {
            self.is_cancelled = true;
            ring.cancel(Operation::Accept, Token { slot: self.number, generation: 0 })?;
        }
        Ok(())
    }

    /// Takes what a completion says; tells whether there is something to be told.
    pub(super) fn take_in(&mut self, completion: Completion, ring: &mut Ring) -> (bool, io::Result<()>) {
        let Completion { result, goes_on, accepted, .. } = completion;
        self.listens = goes_on;
        let is_error = result < 0 && result != -libc::ECANCELED;
        if is_error {
            self.error = Some(io::Error::from_raw_os_error(-result));
        }
        let tells = is_error || accepted.is_some();
        self.waiting.extend(accepted);
        let done = match self.waiting.len() >= WAITING_MAX {
            true => self.pause(ring),
            // After an error whoever takes connections decides when it is worth trying again.
            false if is_error || self.is_cancelled => Ok(()),
            false => self.listen(ring),
        };
        (tells, done)
    }

    /// The next connection, or nothing where none waits here.
    pub(super) fn take(&mut self, ring: &mut Ring) -> io::Result<Option<OwnedFd>> {
        if let Some(connection) = self.waiting.pop_front() {
            return Ok(Some(connection));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.listen(ring)?;
        Ok(None)
    }
}
