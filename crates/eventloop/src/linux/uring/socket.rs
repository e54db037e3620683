//! A connection on a ring. The ring receives; sends, however, are plain system calls, since we need their
//! result at once.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use super::super::zero_copy::SplicePipe;
use super::state::State;
use crate::socket::{KernelSocket, Received, Socket};
use crate::token::Token;

/// A kernel socket on a ring.
pub struct UringSocket {
    socket: KernelSocket,
    /// `None` until the loop is watching the connection.
    token: Cell<Option<Token>>,
    state: Rc<RefCell<State>>,
}

impl UringSocket {
    pub(super) fn new(descriptor: OwnedFd, state: Rc<RefCell<State>>) -> UringSocket {
        UringSocket { socket: KernelSocket::new(descriptor), token: Cell::new(None), state }
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }

    pub(super) fn set_token(&self, token: Token) {
        self.token.set(Some(token));
    }

    /// If less than `wanted` was sent, requests an event for when there is room. Returns `sent`.
    #[inline]
    fn after_send(&self, sent: usize, wanted: usize) -> io::Result<usize> {
        if sent < wanted
            && let Some(token) = self.token.get()
        {
            self.state.borrow_mut().poll_writable(token)?;
        }
        Ok(sent)
    }
}

impl AsFd for UringSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket for UringSocket {
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        match self.token.get() {
            Some(token) => Ok(self.state.borrow_mut().receive(token, buffer)),
            None => self.socket.receive(buffer),
        }
    }

    fn kept_bytes(&self) -> usize {
        self.token.get().map_or(0, |token| self.state.borrow().kept_bytes_of(token))
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.after_send(self.socket.send(bytes)?, bytes.len())
    }

    #[inline]
    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let wanted = runs.iter().map(|run| run.len()).sum();
        self.after_send(self.socket.send_vectored(runs)?, wanted)
    }

    fn send_zero_copy(&self, runs: &[IoSlice<'_>], body: &[u8], pipe: &SplicePipe) -> io::Result<usize> {
        let wanted = runs.iter().map(|run| run.len()).sum::<usize>() + body.len();
        self.after_send(self.socket.send_zero_copy(runs, body, pipe)?, wanted)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        self.socket.unacknowledged_bytes()
    }

    fn reset_on_close(&self) -> io::Result<()> {
        self.socket.reset_on_close()
    }
}

impl Drop for UringSocket {
    fn drop(&mut self) {
        if let Some(token) = self.token.get() {
            self.state.borrow_mut().remove_connection(token);
        }
    }
}

impl std::fmt::Debug for UringSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringSocket").field("socket", &self.socket).field("token", &self.token.get()).finish()
    }
}
