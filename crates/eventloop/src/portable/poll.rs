//! An event loop based on `mio`, using kqueue on BSD and macOS, and epoll on Linux.
//!
//! Makes the server work on systems for which we do not have a loop of our own; performance is *not* a goal. Like the other loops,
//! it is edge-triggered.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

use super::waker::Waker;
use crate::balance::Balancer;
use crate::clock::{Clock, Now};
use crate::datagram::UdpSocket;
use crate::event::{Event, Readiness};
use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::socket::{Accepted, KernelSocket};
use crate::token::{SLOT_MAX, Token};

/// Maximum number of events per call. The system will keep the rest for the next call. Note that kqueue reports each direction
/// separately.
const EVENTS_MAX: usize = 256;

const WAKER_SLOT: u32 = u32::MAX;

/// For slots from [`SLOT_MAX`] on, the generation tells the kind of numbered socket.
const LISTENER: u32 = 0;
const DATAGRAMS: u32 = 1;

/// An event loop based on `mio`, for one thread.
pub struct Portable {
    poll: Poll,
    /// Buffer for `mio`. We cannot keep its iterator between calls.
    events: Events,
    /// Events that were fetched but not returned yet, in reverse order.
    pending: Vec<Event>,
    waker: Waker,
    balancer: Option<Balancer>,
    clock: Clock,
}

impl Portable {
    /// Creates a loop that watches its waker. Given a balancer, it will balance connections with other loops.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn new(waker: Waker, balancer: Option<Balancer>) -> io::Result<Portable> {
        let poll = Poll::new()?;
        let key = mio_token(Token { slot: WAKER_SLOT, generation: 0 });
        poll.registry().register(&mut SourceFd(&waker.as_fd().as_raw_fd()), key, Interest::READABLE)?;
        Ok(Portable {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            pending: Vec::with_capacity(EVENTS_MAX),
            waker,
            balancer,
            clock: Clock::new(),
        })
    }
}

/// Converts a token for `mio`. This does not compile if `usize` has less than 64 bits.
fn mio_token(token: Token) -> mio::Token {
    mio::Token(usize::from_ne_bytes(token.pack().to_ne_bytes()))
}

fn datagrams_token(number: u32) -> mio::Token {
    mio_token(Token { slot: SLOT_MAX + number, generation: DATAGRAMS })
}

fn convert(event: &mio::event::Event) -> Event {
    let token = Token::unpack(u64::from_ne_bytes(event.token().0.to_ne_bytes()));
    match token.slot {
        WAKER_SLOT => Event::Woken,
        slot if slot >= SLOT_MAX && token.generation == LISTENER => Event::Acceptable(slot - SLOT_MAX),
        slot if slot >= SLOT_MAX => Event::Datagrams(slot - SLOT_MAX),
        _ => {
            let readiness = Readiness {
                readable: event.is_readable() || event.is_read_closed(),
                read_closed: event.is_read_closed(),
                writable: event.is_writable(),
                failed: event.is_error(),
            };
            Event::Ready(token, readiness)
        }
    }
}

impl EventLoop for Portable {
    type Listener = Listener;
    type Socket = KernelSocket;
    type Datagrams = UdpSocket;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.pending.clear();
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {
                self.pending.extend(self.events.iter().map(convert));
                self.pending.reverse();
                Ok(())
            }
            // A signal handler has run.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let event = self.pending.pop()?;
        if event == Event::Woken {
            self.waker.clear();
        }
        Some(event)
    }

    fn now(&mut self) -> Now {
        self.clock.read()
    }

    fn add_listener(&mut self, listener: &Listener, number: u32) -> io::Result<()> {
        let token = mio_token(Token { slot: SLOT_MAX + number, generation: LISTENER });
        let listener = listener.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&listener), token, Interest::READABLE)
    }

    fn add_socket(&mut self, socket: &KernelSocket, token: Token) -> io::Result<()> {
        let both_directions = Interest::READABLE | Interest::WRITABLE;
        let socket = socket.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&socket), mio_token(token), both_directions)
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
        self.poll.registry().deregister(&mut SourceFd(&listener.as_fd().as_raw_fd()))
    }

    fn close_listener(&mut self, listener: Listener) {
        listener.close();
    }

    fn add_datagrams(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        let socket = socket.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&socket), datagrams_token(number), Interest::READABLE)
    }

    fn await_room(&mut self, socket: &UdpSocket, number: u32) -> io::Result<()> {
        // From now on, watch for room all the time. The additional events are cheap here and do no harm.
        let both_directions = Interest::READABLE | Interest::WRITABLE;
        let socket = socket.as_fd().as_raw_fd();
        self.poll.registry().reregister(&mut SourceFd(&socket), datagrams_token(number), both_directions)
    }

    fn remove_datagrams(&mut self, socket: &UdpSocket, _: u32) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&socket.as_fd().as_raw_fd()))
    }
}

impl std::fmt::Debug for Portable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portable").field("poll", &self.poll).finish_non_exhaustive()
    }
}
