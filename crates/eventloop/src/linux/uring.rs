//! The loop over a ring (`io_uring(7)`): the kernel accepts and receives on its own, and one call fetches all that
//! has come.
//!
//! Cannot be told from the loop over epoll by who uses it. The ring is made in the thread that serves, can do
//! nothing but what serving needs, and can be changed by nobody afterwards, since filters of system calls do not
//! see what goes through it.

mod data;
mod queue;
mod ring;
mod socket;
mod state;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

pub use socket::UringSocket;

use super::syscalls as sys;
use super::waker::Waker;
use crate::balance::{Neighbourhood, Neighbours};
use crate::clock::{Clock, Now};
use crate::event::Event;
use crate::listener::Listener;
use crate::token::Token;
use crate::{Accepted, EventLoop};
use ring::Ring;
use state::State;

/// A loop over a ring, for one thread.
pub struct Uring {
    state: Rc<RefCell<State>>,
    neighbours: Neighbourhood,
    clock: Clock,
    /// Whether anybody wants to know who has connected. The ring does not tell: that takes a call.
    names_peers: bool,
}

impl Uring {
    /// A loop that watches nothing but its waker, and shares connections with its neighbours, if it has some. Fails where the kernel does not have what it needs (Linux 6.1),
    /// or does not let us.
    pub fn new(waker: Waker, neighbours: Option<Neighbours>) -> io::Result<Uring> {
        let state = Rc::new(RefCell::new(State::new(waker)?));
        let neighbours = Neighbourhood::of(neighbours);
        Ok(Uring { state, neighbours, clock: Clock::new(), names_peers: true })
    }

    /// A connection that the kernel has accepted without saying from where.
    fn accepted(&self, descriptor: OwnedFd) -> Accepted<UringSocket> {
        let peer = if self.names_peers { sys::peer(&descriptor) } else { None };
        Accepted { socket: UringSocket::new(descriptor, Rc::clone(&self.state)), peer }
    }

    /// Whether the ring accepts at a listener.
    fn is_watched(&self, listener: &Listener) -> bool {
        let mut state = self.state.borrow_mut();
        state.queue(listener.as_fd().as_raw_fd()).is_some_and(|(queue, _)| !queue.is_closed())
    }

    /// Whether the kernel would give us such a loop; else why not.
    pub fn probe() -> io::Result<()> {
        Ring::probe()
    }
}

impl EventLoop for Uring {
    type Listener = Listener;
    type Socket = UringSocket;

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
        self.state.borrow_mut().begin(socket.descriptor(), token)?;
        socket.set_token(token);
        Ok(())
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<Option<Accepted<UringSocket>>> {
        let mut state = self.state.borrow_mut();
        let taken = match state.queue(listener.as_fd().as_raw_fd()) {
            Some((queue, ring)) => queue.take(ring)?,
            None => None,
        };
        drop(state);
        if let Some(descriptor) = taken {
            return Ok(Some(self.accepted(descriptor)));
        }
        if self.is_watched(listener) {
            return Ok(None);
        }
        let socket = |descriptor| UringSocket::new(descriptor, Rc::clone(&self.state));
        let accepted = sys::accept(listener.as_fd())?;
        Ok(accepted.map(|(descriptor, peer)| Accepted { socket: socket(descriptor), peer }))
    }

    #[inline]
    fn kept_bytes(&self) -> usize {
        self.state.borrow().kept_bytes()
    }

    fn leave_neighbours(&mut self) {
        self.neighbours.leave();
    }

    fn set_load(&mut self, connections: usize) {
        self.neighbours.set_held(connections);
    }

    fn hand_over(&mut self, accepted: Accepted<UringSocket>, listener: u32) -> Option<Accepted<UringSocket>> {
        self.neighbours.hand_over(accepted, listener)
    }

    fn take_over(&mut self) -> Option<(u32, Accepted<UringSocket>)> {
        let (listener, descriptor) = self.neighbours.take_over()?;
        Some((listener, self.accepted(descriptor)))
    }

    fn name_peers(&mut self, wanted: bool) {
        self.names_peers = wanted;
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        self.state.borrow_mut().remove_listener(listener.as_fd().as_raw_fd())
    }

    fn end_listening(&mut self, listener: Listener) {
        listener.end();
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").finish_non_exhaustive()
    }
}
