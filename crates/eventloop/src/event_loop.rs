//! The trait that all event loops implement.

use std::io;
use std::time::Duration;

use crate::clock::Now;
use crate::datagram::DatagramSocket;
use crate::event::Event;
use crate::socket::{Accepted, Socket};
use crate::token::Token;

/// An event loop: waits, returns events one at a time, and accepts connections.
///
/// Events are edge-triggered: an event reports a change. Its handler must go on until the socket has no more to receive or
/// no room to send; only then does another event follow.
pub trait EventLoop {
    /// A listening socket.
    type Listener;
    /// A connection.
    type Socket: Socket;
    /// A socket for datagrams.
    type Datagrams: DatagramSocket;

    /// Waits until something happens, or until the timeout if there is one.
    ///
    /// # Errors
    /// The system call fails for a reason other than a signal.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns the next of the events that the last wait fetched.
    fn next_event(&mut self) -> Option<Event>;

    /// Reads the clock.
    fn now(&mut self) -> Now;

    /// Watches a listener, under a number below 256.
    ///
    /// # Errors
    /// The system call fails.
    fn add_listener(&mut self, listener: &Self::Listener, number: u32) -> io::Result<()>;

    /// Watches a connection until its socket is closed.
    ///
    /// # Errors
    /// The system call fails.
    fn add_socket(&mut self, socket: &Self::Socket, token: Token) -> io::Result<()>;

    /// Accepts the next pending connection. Returns `None` if none is pending.
    ///
    /// # Errors
    /// The system call fails, for example because the process has no descriptor left.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<Option<Accepted<Self::Socket>>>;

    /// Returns the sum of [`Socket::kept_bytes`] over all connections.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Publishes the number of connections of this loop, for load balancing.
    fn set_load(&mut self, connections: usize) {
        let _ = connections;
    }

    /// Transfers a connection that was just accepted to the least loaded loop, if this one has notably more. Otherwise
    /// returns it. The other loop gets the connection with `tag`, which event loops don't interpret.
    fn transfer(&mut self, accepted: Accepted<Self::Socket>, tag: u32) -> Option<Accepted<Self::Socket>> {
        let _ = tag;
        Some(accepted)
    }

    /// Returns the next connection that another loop transferred to this one, and its tag. To be called on
    /// [`Event::Woken`].
    fn next_transferred(&mut self) -> Option<(u32, Accepted<Self::Socket>)> {
        None
    }

    /// Leaves load balancing: transfers no connection from now on, and receives none except those already queued.
    fn stop_balancing(&mut self) {}

    /// Sets whether accepted connections need their peer's address (the default). Some loops need a system call for each.
    /// Others may return the address anyway.
    fn set_peer_addresses_needed(&mut self, needed: bool) {
        let _ = needed;
    }

    /// Stops watching a listener. Pending connections can still be accepted.
    ///
    /// # Errors
    /// The system call fails.
    fn remove_listener(&mut self, listener: &Self::Listener) -> io::Result<()>;

    /// Closes a listener. New connections are refused, unless another process listens at the socket.
    fn close_listener(&mut self, listener: Self::Listener);

    /// Watches a socket for datagrams, under a number below 256, until it is removed. Datagrams that have arrived already
    /// cause an event.
    ///
    /// # Errors
    /// The system call fails.
    fn add_datagrams(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;

    /// Requests an event for when the socket of this number has room to send. To be called after
    /// [`SendOutcome::Blocked`](crate::SendOutcome::Blocked).
    ///
    /// Room is not watched otherwise: the kernel would report it after every send.
    ///
    /// # Errors
    /// The system call fails.
    fn await_room(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;

    /// Stops watching a socket for datagrams. To be called before it is closed.
    ///
    /// # Errors
    /// The system call fails.
    fn remove_datagrams(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;
}
