//! The interface of event loops.

use std::io;
use std::time::Duration;

use crate::clock::Now;
use crate::datagram::DatagramSocket;
use crate::event::Event;
use crate::socket::{Accepted, Socket};
use crate::token::Token;

/// An event loop. It waits, returns events one at a time and accepts connections.
///
/// Events are edge-triggered: they report *changes*. Callers that handle an event need to go on until the socket has nothing more
/// to receive or no more room to send. Otherwise there will not be another event.
pub trait EventLoop {
    /// A listening socket.
    type Listener;
    /// A connection.
    type Socket: Socket;
    /// A socket for datagrams.
    type Datagrams: DatagramSocket;

    /// Blocks until something happens, or until the timeout (if any).
    ///
    /// # Errors
    /// Returns the error of the system call, unless it was just interrupted by a signal.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns the next event that the last wait has fetched.
    fn next_event(&mut self) -> Option<Event>;

    /// Reads the clock.
    fn now(&mut self) -> Now;

    /// Starts watching a listener. `number` must be below 256.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn add_listener(&mut self, listener: &Self::Listener, number: u32) -> io::Result<()>;

    /// Starts watching a connection. This ends when the socket is closed.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn add_socket(&mut self, socket: &Self::Socket, token: Token) -> io::Result<()>;

    /// Accepts the next pending connection, if any.
    ///
    /// # Errors
    /// Returns the error of the system call. Typically, the process has run out of descriptors.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<Option<Accepted<Self::Socket>>>;

    /// Returns the sum of [`Socket::kept_bytes`] over all connections.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Tells other loops the number of connections of this loop, for load balancing.
    fn set_load(&mut self, connections: usize) {
        let _ = connections;
    }

    /// Transfers a connection that was just accepted to the least loaded loop, along with `tag` (event loops do not interpret
    /// this). If this loop does not have notably more connections, the connection is returned instead.
    fn transfer(&mut self, accepted: Accepted<Self::Socket>, tag: u32) -> Option<Accepted<Self::Socket>> {
        let _ = tag;
        Some(accepted)
    }

    /// Returns the next connection that another loop has transferred to this one, with its tag. Callers should do this on
    /// [`Event::Woken`].
    fn next_transferred(&mut self) -> Option<(u32, Accepted<Self::Socket>)> {
        None
    }

    /// Leaves load balancing. From now on, connections are no longer transferred, and we will only receive those that are already
    /// queued.
    fn stop_balancing(&mut self) {}

    /// Sets whether accepted connections need their peer's address (by default, they do). Some loops have to make an extra system
    /// call to find out, while others may return the address anyway.
    fn set_peer_addresses_needed(&mut self, needed: bool) {
        let _ = needed;
    }

    /// Stops watching a listener. You can still accept pending connections.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn remove_listener(&mut self, listener: &Self::Listener) -> io::Result<()>;

    /// Closes a listener. New connections will be refused unless another process is listening on the same socket.
    fn close_listener(&mut self, listener: Self::Listener);

    /// Starts watching a socket for datagrams until it is removed. `number` must be below 256. Note that there will also be an
    /// event for datagrams that have arrived before.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn add_datagrams(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;

    /// Requests an event for when the socket with this number has room to send, as callers should do after
    /// [`SendOutcome::Blocked`](crate::SendOutcome::Blocked).
    ///
    /// If we watched for room all the time, the kernel would report it after every send.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn await_room(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;

    /// Stops watching a socket for datagrams. Callers must do this before closing the socket.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn remove_datagrams(&mut self, socket: &Self::Datagrams, number: u32) -> io::Result<()>;
}
