//! An event loop based on `epoll(7)`.
//!
//! We register each descriptor only once, for both directions. This is enough because events are edge-triggered.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::syscalls;
use super::waker::Waker;
use crate::balance::Balancer;
use crate::clock::{Clock, Now};
use crate::datagram::UdpSocket;
use crate::event::{Event, Readiness};
use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::socket::{Accepted, KernelSocket};
use crate::token::{SLOT_MAX, Token};

/// Maximum number of events per call. The kernel will keep the rest for the next call.
const EVENTS_MAX: usize = 256;

const WAKER_SLOT: u32 = u32::MAX;

/// For slots from [`SLOT_MAX`] on, the generation tells the kind of numbered socket.
const LISTENER: u32 = 0;
const DATAGRAMS: u32 = 1;

/// Events we watch datagram sockets for.
const ARRIVALS: u32 = libc::EPOLLIN as u32 | libc::EPOLLET as u32;
const ARRIVALS_AND_ROOM: u32 = ARRIVALS | libc::EPOLLOUT as u32;

/// An event loop based on epoll, for one thread.
pub struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Number of events that were fetched.
    fetched: usize,
    /// Index of the next event to return.
    next: usize,
    waker: Waker,
    balancer: Option<Balancer>,
    clock: Clock,
    /// Sockets we are currently watching for room to send, with their numbers and descriptors.
    awaiting_room: Vec<(u32, RawFd)>,
}

impl Epoll {
    /// Creates a loop that watches its waker. Given a balancer, it will balance connections with other loops.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn new(waker: Waker, balancer: Option<Balancer>) -> io::Result<Epoll> {
        let epoll = syscalls::epoll_create()?;
        let token = Token { slot: WAKER_SLOT, generation: 0 };
        syscalls::epoll_add(&epoll, waker.as_fd(), libc::EPOLLIN as u32, token.pack())?;
        Ok(Epoll {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            fetched: 0,
            next: 0,
            waker,
            balancer,
            clock: Clock::new(),
            awaiting_room: Vec::new(),
        })
    }

    /// Returns the event for a datagram socket. If there is room now, we no longer need to watch for it.
    fn datagram_event(&mut self, number: u32, events: u32) -> Event {
        if events & libc::EPOLLOUT as u32 != 0
            && let Some(index) = self.awaiting_room.iter().position(|(awaiting, _)| *awaiting == number)
        {
            let (_, descriptor) = self.awaiting_room.swap_remove(index);
            // This can only fail if the socket was closed without removing it first.
            let _ = syscalls::epoll_modify(&self.epoll, descriptor, ARRIVALS, datagrams_token(number).pack());
        }
        Event::Datagrams(number)
    }
}

fn datagrams_token(number: u32) -> Token {
    Token { slot: SLOT_MAX + number, generation: DATAGRAMS }
}

impl EventLoop for Epoll {
    type Listener = Listener;
    type Socket = KernelSocket;
    type Datagrams = UdpSocket;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout_ms = timeout.map_or(-1, |timeout| {
            // Round up. If we wake up before a deadline, we would only have to wait again.
            let whole = timeout.as_secs().saturating_mul(1000);
            let milliseconds = whole.saturating_add(timeout.subsec_nanos().div_ceil(1_000_000).into());
            i32::try_from(milliseconds).unwrap_or(i32::MAX)
        });
        self.next = 0;
        self.fetched = 0;
        self.fetched = syscalls::epoll_wait(&self.epoll, &mut self.events, timeout_ms)?;
        Ok(())
    }

    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        let event = *self.events[..self.fetched].get(self.next)?;
        self.next += 1;
        let token = Token::unpack(event.u64);
        Some(match token.slot {
            WAKER_SLOT => {
                self.waker.clear();
                Event::Woken
            }
            slot if slot >= SLOT_MAX && token.generation == LISTENER => Event::Acceptable(slot - SLOT_MAX),
            slot if slot >= SLOT_MAX => self.datagram_event(slot - SLOT_MAX, event.events),
            _ => {
                let any = |flags: libc::c_int| event.events & flags as u32 != 0;
                let readiness = Readiness {
                    readable: any(libc::EPOLLIN | libc::EPOLLRDHUP),
                    read_closed: any(libc::EPOLLRDHUP | libc::EPOLLHUP),
                    writable: any(libc::EPOLLOUT),
                    // Note that EPOLLHUP isn't a failure, since it will be set once both sides have shut down their sending
                    // direction.
                    failed: any(libc::EPOLLERR),
                };
                Event::Ready(token, readiness)
            }
        })
    }

    #[inline]
    fn now(&mut self) -> Now {
        self.clock.read()
    }

    fn add_listener(&mut self, listener: &Listener, number: u32) -> io::Result<()> {
        let token = Token { slot: SLOT_MAX + number, generation: LISTENER };
        // When several loops share an accept queue, a connection should only wake up one of them.
        let events = libc::EPOLLIN as u32 | libc::EPOLLET as u32 | libc::EPOLLEXCLUSIVE as u32;
        syscalls::epoll_add(&self.epoll, listener.as_fd(), events, token.pack())
    }

    fn add_socket(&mut self, socket: &KernelSocket, token: Token) -> io::Result<()> {
        let both_directions = libc::EPOLLIN as u32 | libc::EPOLLOUT as u32;
        let events = both_directions | libc::EPOLLRDHUP as u32 | libc::EPOLLET as u32;
        syscalls::epoll_add(&self.epoll, socket.as_fd(), events, token.pack())
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<Option<Accepted<KernelSocket>>> {
        listener.accept()
    }

    fn set_load(&mut self, connections: usize) {
        if let Some(balancer) = &self.balancer {
            balancer.set_load(connections);
        }
    }

    fn transfer(&mut self, accepted: Accepted<KernelSocket>, tag: u32) -> Option<Accepted<KernelSocket>> {
        match &self.balancer {
            Some(balancer) => balancer.transfer(accepted, tag),
            None => Some(accepted),
        }
    }

    fn next_transferred(&mut self) -> Option<(u32, Accepted<KernelSocket>)> {
        let (tag, descriptor) = self.balancer.as_ref()?.next_transferred()?;
        Some((tag, KernelSocket::from_transfer(descriptor)))
    }

    fn stop_balancing(&mut self) {
        if let Some(balancer) = &self.balancer {
            balancer.leave();
        }
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        syscalls::epoll_remove(&self.epoll, listener.as_fd())
    }

    fn close_listener(&mut self, listener: Listener) {
        listener.close();
    }

    fn add_datagrams(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        syscalls::epoll_add(&self.epoll, socket.as_fd(), ARRIVALS, datagrams_token(number).pack())
    }

    fn await_room(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        let descriptor = socket.as_fd().as_raw_fd();
        if !self.awaiting_room.contains(&(number, descriptor)) {
            self.awaiting_room.push((number, descriptor));
        }
        // If there is room already, this will report it.
        let token = datagrams_token(number).pack();
        syscalls::epoll_modify(&self.epoll, descriptor, ARRIVALS_AND_ROOM, token)
    }

    fn remove_datagrams(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        self.awaiting_room.retain(|(awaiting, _)| *awaiting != number);
        syscalls::epoll_remove(&self.epoll, socket.as_fd())
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}
