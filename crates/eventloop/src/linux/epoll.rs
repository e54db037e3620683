//! The loop over epoll: waits, and hands out events one at a time.
//!
//! Edge-triggered: a descriptor is registered once, for both directions, and never again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::syscalls as sys;
use super::waker::Waker;
use crate::balance::{Neighbourhood, Neighbours};
use crate::clock::{Clock, Now};
use crate::event::{Event, Readiness};
use crate::listener::Listener;
use crate::socket::KernelSocket;
use crate::token::{SLOT_MAX, Token};
use crate::{Accepted, EventLoop};

/// Events fetched by one call. More wait for the next one.
const EVENTS_MAX: usize = 256;

const WAKER_SLOT: u32 = u32::MAX;

/// A loop over epoll, for one thread.
pub struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    fetched: usize,
    next: usize,
    waker: Waker,
    neighbours: Neighbourhood,
    clock: Clock,
}

impl Epoll {
    /// A loop that watches nothing but its waker, and shares connections with its neighbours, if it has some.
    pub fn new(waker: Waker, neighbours: Option<Neighbours>) -> io::Result<Epoll> {
        let epoll = sys::epoll_create()?;
        let token = Token { slot: WAKER_SLOT, generation: 0 };
        sys::epoll_add(&epoll, waker.as_fd(), libc::EPOLLIN as u32, token.pack())?;
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let neighbours = Neighbourhood::of(neighbours);
        Ok(Epoll { epoll, events, fetched: 0, next: 0, waker, neighbours, clock: Clock::new() })
    }
}

impl EventLoop for Epoll {
    type Listener = Listener;
    type Socket = KernelSocket;

    fn add_listener(&mut self, listener: &Listener, number: u32) -> io::Result<()> {
        let token = Token { slot: SLOT_MAX + number, generation: 0 };
        // Where several loops watch one queue, a connection wakes one of them and not all.
        let events = libc::EPOLLIN as u32 | libc::EPOLLET as u32 | libc::EPOLLEXCLUSIVE as u32;
        sys::epoll_add(&self.epoll, listener.as_fd(), events, token.pack())
    }

    fn add_socket(&mut self, socket: &KernelSocket, token: Token) -> io::Result<()> {
        let both = libc::EPOLLIN as u32 | libc::EPOLLOUT as u32;
        let events = both | libc::EPOLLRDHUP as u32 | libc::EPOLLET as u32;
        sys::epoll_add(&self.epoll, socket.as_fd(), events, token.pack())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout_ms = timeout.map_or(-1, |timeout| {
            // Rounded up: waking before a deadline would only mean waiting again.
            let whole = timeout.as_secs().saturating_mul(1000);
            let milliseconds = whole.saturating_add(timeout.subsec_nanos().div_ceil(1_000_000).into());
            i32::try_from(milliseconds).unwrap_or(i32::MAX)
        });
        self.next = 0;
        self.fetched = 0;
        self.fetched = sys::epoll_wait(&self.epoll, &mut self.events, timeout_ms)?;
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
            slot if slot >= SLOT_MAX => Event::Acceptable(slot - SLOT_MAX),
            _ => {
                let any = |flags: libc::c_int| event.events & flags as u32 != 0;
                let readiness = Readiness {
                    readable: any(libc::EPOLLIN | libc::EPOLLRDHUP),
                    ended: any(libc::EPOLLRDHUP | libc::EPOLLHUP),
                    writable: any(libc::EPOLLOUT),
                    // Not where both sides have only said that they send no more.
                    broken: any(libc::EPOLLERR),
                };
                Event::Ready(token, readiness)
            }
        })
    }

    #[inline]
    fn now(&mut self) -> Now {
        self.clock.read()
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
        sys::epoll_remove(&self.epoll, listener.as_fd())
    }

    fn end_listening(&mut self, listener: Listener) {
        listener.end();
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}
