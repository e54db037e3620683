//! The event loop: which sockets are ready, and the operations on them.
//!
//! One loop belongs to one thread. It knows no HTTP, no TLS and no archive. Everything above speaks of
//! [`Token`]s and [`Event`]s through the trait [`EventLoop`], whose implementations cannot be told apart:
//! [`Epoll`] and [`Uring`] ask the kernel, each in its way, `Portable` does where there is no Linux, and
//! [`simulated::Simulated`] makes network and time up from a seed. The system calls stand in
//! `linux/syscalls.rs`, each in a function of its own, and a ring's in `linux/uring/ring.rs`.

#![deny(unsafe_code)]

pub mod clock;
pub mod simulated;

mod address;
mod balance;
mod event;
mod header_arena;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod listener;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
mod socket;
#[cfg(test)]
mod tests;
mod token;
mod zero_copy;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;

pub use address::{Address, NoAddress};
pub use balance::Neighbours;
pub use clock::Now;
pub use event::{Event, Readiness};
pub use listener::{Claim, ListenOptions, Listener};
pub use platform::*;
pub use socket::{KernelSocket, Received, Socket};
pub use token::Token;
pub use zero_copy::PagePipe;

use platform::syscalls as sys;

/// A loop: waits, hands out events one at a time, and accepts connections.
///
/// Edge-triggered: an event says that something has changed. Whoever handles it goes on until the socket
/// has no more to give or to take; only then is there another event.
pub trait EventLoop {
    /// What connections come from.
    type Listener;
    /// A connection.
    type Socket: Socket;

    /// Waits until something happens, at most so long; without end if no time is given.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// The next of the events that the last wait fetched.
    fn next_event(&mut self) -> Option<Event>;

    /// Asks for the time.
    fn now(&mut self) -> Now;

    /// Watches a listener, under a number below 256.
    fn add_listener(&mut self, listener: &Self::Listener, number: u32) -> io::Result<()>;

    /// Watches a connection. Closing its socket ends that.
    fn add_socket(&mut self, socket: &Self::Socket, token: Token) -> io::Result<()>;

    /// The next connection that waits at a listener, or nothing.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<Option<Accepted<Self::Socket>>>;

    /// The sum of [`Socket::kept_bytes`] over all connections.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Says how many connections this loop has, for others to compare.
    fn set_load(&mut self, connections: usize) {
        let _ = connections;
    }

    /// Hands a connection that was just accepted at this listener to another loop, if there is one that has much fewer.
    /// Else it comes back.
    fn hand_over(
        &mut self,
        accepted: Accepted<Self::Socket>,
        listener: u32,
    ) -> Option<Accepted<Self::Socket>> {
        let _ = listener;
        Some(accepted)
    }

    /// The next connection that another loop has handed to this one, and the number of the listener that it was
    /// accepted at. To be asked for when the loop was woken.
    fn take_over(&mut self) -> Option<(u32, Accepted<Self::Socket>)> {
        None
    }

    /// Shares connections with no other loop from now on: hands none on, and is handed none beside those that wait.
    fn leave_neighbours(&mut self) {}

    /// Says whether connections shall come with their peer's address, which they do until this says otherwise: to ask
    /// for it takes some loops a call for each. Whoever does not want it may get it all the same.
    fn name_peers(&mut self, wanted: bool) {
        let _ = wanted;
    }

    /// Stops watching a listener. Who waits at it may still be accepted.
    fn remove_listener(&mut self, listener: &Self::Listener) -> io::Result<()>;

    /// Ends a listener: who comes from now on is refused, or is left to whoever else listens there.
    fn end_listening(&mut self, listener: Self::Listener);
}

/// A connection that was just accepted.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The connection.
    pub socket: S,
    /// Where the peer is; nothing where it has no address, as with local sockets, or where nobody wants it.
    pub peer: Option<SocketAddr>,
}

/// Two ends of a local connection that keeps messages apart. On Linux, neither end can send to any other socket: the
/// kernel ignores an address.
///
/// # Errors
/// There are no descriptors left.
pub fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    sys::message_pair()
}

/// Takes a descriptor that whoever started this process has left open for it. To be called once for each number.
///
/// # Errors
/// It is not open.
pub fn inherit(descriptor: i32) -> io::Result<OwnedFd> {
    sys::inherit(descriptor)
}

/// Returns memory that was freed, and that the allocator keeps, to the system. Takes milliseconds if there is much of it.
pub fn release_free_memory() {
    sys::release_free_memory();
}

/// Gives the calling thread a table of descriptors of its own, with nothing in it but the three standard ones,
/// and these.
///
/// While threads share a table the kernel counts references to a socket in each call, with two atomic
/// operations; a table of one thread needs none. Signals are blocked in the thread, because their handlers write to
/// descriptors of the shared table.
///
/// To be called before the thread opens anything, and by a thread that owns no other descriptor. What was open before
/// stays open for the other threads, and these must not be closed by others afterwards, for whom they would stay open.
pub fn own_descriptors<'a>(kept: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
    sys::unshare_files()?;
    let mut kept: Vec<i32> = kept.map(|descriptor| descriptor.as_raw_fd()).collect();
    kept.sort_unstable();
    let mut first = 3;
    kept.dedup();
    for descriptor in kept {
        if first < descriptor {
            sys::close_range(first, descriptor - 1)?;
        }
        first = first.max(descriptor + 1);
    }
    sys::close_range(first, i32::MAX)
}
