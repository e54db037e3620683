//! The loop over `mio`: waits by kqueue on BSD and macOS, and by epoll where it is tried out on Linux.
//!
//! For systems that have none of the loops of Linux, and slower there than it could be made: what it is for is that the
//! server runs. Edge-triggered, like the others. Never asks the system for anything but through a library.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

use super::waker::Waker;
use crate::balance::{Neighbourhood, Neighbours};
use crate::clock::{Clock, Now};
use crate::event::{Event, Readiness};
use crate::listener::Listener;
use crate::socket::KernelSocket;
use crate::token::{SLOT_MAX, Token};
use crate::{Accepted, EventLoop};

/// Events fetched by one call. More wait for the next one. Systems with kqueue tell of each direction on its own.
const EVENTS_MAX: usize = 256;

const WAKER_SLOT: u32 = u32::MAX;

/// A loop over what `mio` finds, for one thread.
pub struct Portable {
    poll: Poll,
    /// Where `mio` puts what it fetches, which can only be gone through in one go.
    events: Events,
    /// What was fetched and has not been handed out, the last one first.
    waiting: Vec<Event>,
    waker: Waker,
    neighbours: Neighbourhood,
    clock: Clock,
}

impl Portable {
    /// A loop that watches nothing but its waker, and shares connections with its neighbours, if it has some.
    pub fn new(waker: Waker, neighbours: Option<Neighbours>) -> io::Result<Portable> {
        let poll = Poll::new()?;
        let key = key(Token { slot: WAKER_SLOT, generation: 0 });
        poll.registry().register(&mut SourceFd(&waker.as_fd().as_raw_fd()), key, Interest::READABLE)?;
        let (events, waiting) = (Events::with_capacity(EVENTS_MAX), Vec::with_capacity(EVENTS_MAX));
        let neighbours = Neighbourhood::of(neighbours);
        Ok(Portable { poll, events, waiting, waker, neighbours, clock: Clock::new() })
    }
}

/// What `mio` hands back with each event of a token's. Does not compile where a machine's word has not its 64 bits.
fn key(token: Token) -> mio::Token {
    mio::Token(usize::from_ne_bytes(token.pack().to_ne_bytes()))
}

/// What an event of `mio` means here.
fn read(event: &mio::event::Event) -> Event {
    let token = Token::unpack(u64::from_ne_bytes(event.token().0.to_ne_bytes()));
    match token.slot {
        WAKER_SLOT => Event::Woken,
        slot if slot >= SLOT_MAX => Event::Acceptable(slot - SLOT_MAX),
        _ => {
            let readiness = Readiness {
                readable: event.is_readable() || event.is_read_closed(),
                ended: event.is_read_closed(),
                writable: event.is_writable(),
                broken: event.is_error(),
            };
            Event::Ready(token, readiness)
        }
    }
}

impl EventLoop for Portable {
    type Listener = Listener;
    type Socket = KernelSocket;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.waiting.clear();
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {
                self.waiting.extend(self.events.iter().map(read));
                self.waiting.reverse();
                Ok(())
            }
            // By a signal: nothing has come.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let event = self.waiting.pop()?;
        if event == Event::Woken {
            self.waker.clear();
        }
        Some(event)
    }

    fn now(&mut self) -> Now {
        self.clock.read()
    }

    fn add_listener(&mut self, listener: &Listener, number: u32) -> io::Result<()> {
        let key = key(Token { slot: SLOT_MAX + number, generation: 0 });
        let listener = listener.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&listener), key, Interest::READABLE)
    }

    fn add_socket(&mut self, socket: &KernelSocket, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let socket = socket.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&socket), key(token), both)
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<Option<Accepted<KernelSocket>>> {
        listener.accept()
    }

    fn leave_neighbours(&mut self) {
        self.neighbours.leave();
    }

    fn set_load(&mut self, connections: usize) {
        self.neighbours.set_held(connections);
    }

    fn hand_over(
        &mut self,
        accepted: Accepted<KernelSocket>,
        listener: u32,
    ) -> Option<Accepted<KernelSocket>> {
        self.neighbours.hand_over(accepted, listener)
    }

    fn take_over(&mut self) -> Option<(u32, Accepted<KernelSocket>)> {
        let (listener, descriptor) = self.neighbours.take_over()?;
        Some((listener, KernelSocket::handed_over(descriptor)))
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&listener.as_fd().as_raw_fd()))
    }

    fn end_listening(&mut self, listener: Listener) {
        listener.end();
    }
}

impl std::fmt::Debug for Portable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portable").field("poll", &self.poll).finish_non_exhaustive()
    }
}
