//! An event loop based on a ring; see `io_uring(7)`. The kernel accepts and receives on its own, and all completions can be fetched
//! with a single call.
//!
//! For datagrams, however, the ring only reports that some have arrived, and the worker needs to receive them. A single call can
//! receive a whole batch anyway. Moreover, merged datagrams need buffers of 64 KB, of which we do not want to have many.
//!
//! This loop should be indistinguishable from the epoll one. The ring is created in the worker's thread. System call filters do not
//! see ring operations, so we restrict the ring to the operations we need (this cannot be undone later).

mod accept_queue;
mod ring;
mod socket;
mod state;
mod user_data;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

pub use socket::UringSocket;

use super::syscalls;
use super::waker::Waker;
use crate::balance::Balancer;
use crate::clock::{Clock, Now};
use crate::datagram::UdpSocket;
use crate::event::Event;
use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::socket::Accepted;
use crate::token::Token;
use ring::Ring;
use state::State;

/// An event loop based on a ring, for one thread.
pub struct Uring {
    state: Rc<RefCell<State>>,
    balancer: Option<Balancer>,
    clock: Clock,
    /// Whether accepted connections need their peer's address. Since the ring does not report it, this takes an extra system call.
    needs_peer_addresses: bool,
}

impl Uring {
    /// Creates a loop that watches its waker. Given a balancer, it will balance connections with other loops.
    ///
    /// # Errors
    /// Fails if the kernel forbids io_uring or lacks a feature that we need (Linux 6.1 has all of them).
    pub fn new(waker: Waker, balancer: Option<Balancer>) -> io::Result<Uring> {
        Ok(Uring {
            state: Rc::new(RefCell::new(State::new(waker)?)),
            balancer,
            clock: Clock::new(),
            needs_peer_addresses: true,
        })
    }

    /// Checks if we can create such a loop on this kernel.
    ///
    /// # Errors
    /// Fails if the kernel forbids io_uring or lacks a feature that we need.
    pub fn probe() -> io::Result<()> {
        Ring::probe()
    }

    /// Wraps a connection. Finds out the peer's address if necessary.
    fn wrap(&self, descriptor: OwnedFd) -> Accepted<UringSocket> {
        let peer = if self.needs_peer_addresses { syscalls::peer_address(&descriptor) } else { None };
        Accepted { socket: UringSocket::new(descriptor, Rc::clone(&self.state)), peer }
    }

    /// Returns `true` if the ring accepts connections from a listener.
    fn is_watched(&self, listener: &Listener) -> bool {
        let mut state = self.state.borrow_mut();
        state.queue(listener.as_fd().as_raw_fd()).is_some_and(|(queue, _)| !queue.is_closed())
    }
}

impl EventLoop for Uring {
    type Listener = Listener;
    type Socket = UringSocket;
    type Datagrams = UdpSocket;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.state.borrow_mut().wait(timeout)
    }

    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        self.state.borrow_mut().next_event()
    }

    #[inline]
    fn now(&mut self) -> Now {
        self.clock.read()
    }

    fn add_listener(&mut self, listener: &Listener, number: u32) -> io::Result<()> {
        self.state.borrow_mut().add_listener(listener.as_fd().as_raw_fd(), number)
    }

    fn add_socket(&mut self, socket: &UringSocket, token: Token) -> io::Result<()> {
        self.state.borrow_mut().add_connection(socket.descriptor(), token)?;
        socket.set_token(token);
        Ok(())
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<Option<Accepted<UringSocket>>> {
        let mut state = self.state.borrow_mut();
        let queued = match state.queue(listener.as_fd().as_raw_fd()) {
            Some((queue, ring)) => queue.pop(ring)?,
            None => None,
        };
        drop(state);
        if let Some(descriptor) = queued {
            return Ok(Some(self.wrap(descriptor)));
        }
        if self.is_watched(listener) {
            return Ok(None);
        }

        // The ring no longer accepts from this listener. However, there may still be pending connections.
        let accepted = syscalls::accept(listener.as_fd())?;
        Ok(accepted.map(|(descriptor, peer)| Accepted {
            socket: UringSocket::new(descriptor, Rc::clone(&self.state)),
            peer,
        }))
    }

    #[inline]
    fn kept_bytes(&self) -> usize {
        self.state.borrow().kept_bytes()
    }

    fn set_load(&mut self, connections: usize) {
        if let Some(balancer) = &self.balancer {
            balancer.set_load(connections);
        }
    }

    fn transfer(&mut self, accepted: Accepted<UringSocket>, tag: u32) -> Option<Accepted<UringSocket>> {
        match &self.balancer {
            Some(balancer) => balancer.transfer(accepted, tag),
            None => Some(accepted),
        }
    }

    fn next_transferred(&mut self) -> Option<(u32, Accepted<UringSocket>)> {
        let (tag, descriptor) = self.balancer.as_ref()?.next_transferred()?;
        Some((tag, self.wrap(descriptor)))
    }

    fn stop_balancing(&mut self) {
        if let Some(balancer) = &self.balancer {
            balancer.leave();
        }
    }

    fn set_peer_addresses_needed(&mut self, needed: bool) {
        self.needs_peer_addresses = needed;
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        self.state.borrow_mut().remove_listener(listener.as_fd().as_raw_fd())
    }

    fn close_listener(&mut self, listener: Listener) {
        listener.close();
    }

    fn add_datagrams(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        self.state.borrow_mut().add_datagrams(socket.as_fd().as_raw_fd(), number)
    }

    fn await_room(&mut self, _: &UdpSocket, number: u32) -> io::Result<()> {
        self.state.borrow_mut().poll_room(number)
    }

    fn remove_datagrams(&mut self, _: &UdpSocket, number: u32) -> io::Result<()> {
        self.state.borrow_mut().remove_datagrams(number)
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").finish_non_exhaustive()
    }
}
