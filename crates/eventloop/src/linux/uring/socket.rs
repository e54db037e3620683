//! A connection whose bytes are received by a ring. Sends itself: that call tells at once how much was taken.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use super::state::State;
use crate::socket::{KernelSocket, Received, Socket};
use crate::token::Token;
use crate::zero_copy::PagePipe;

/// A socket of the kernel's, on a ring.
pub struct UringSocket {
    socket: KernelSocket,
    /// Once it is watched.
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

    /// Waits for room where less was sent than there was.
    #[inline]
    fn sent(&self, sent: usize, wanted: usize) -> io::Result<usize> {
        if sent < wanted
            && let Some(token) = self.token.get()
        {
            self.state.borrow_mut().await_room(token)?;
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

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.sent(self.socket.send(bytes)?, bytes.len())
    }

    #[inline]
    fn send_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        let wanted = runs.iter().map(|run| run.len()).sum();
        self.sent(self.socket.send_runs(runs)?, wanted)
    }

    fn send_pages(&self, runs: &[IoSlice<'_>], pages: &[u8], pipe: &PagePipe) -> io::Result<usize> {
        let wanted = runs.iter().map(|run| run.len()).sum::<usize>() + pages.len();
        self.sent(self.socket.send_pages(runs, pages, pipe)?, wanted)
    }

    fn kept_bytes(&self) -> usize {
        self.token.get().map_or(0, |token| self.state.borrow().kept_bytes_of(token))
    }

    fn end_sending(&self) -> io::Result<()> {
        self.socket.end_sending()
    }

    fn unconfirmed(&self) -> io::Result<u64> {
        self.socket.unconfirmed()
    }

    fn abandon(&self) -> io::Result<()> {
        self.socket.abandon()
    }
}

impl Drop for UringSocket {
    fn drop(&mut self) {
        if let Some(token) = self.token.get() {
            self.state.borrow_mut().end(token);
        }
    }
}

impl std::fmt::Debug for UringSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringSocket").field("socket", &self.socket).field("token", &self.token.get()).finish()
    }
}
