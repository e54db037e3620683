//! A listening socket: bound once at start, one for each worker.
//!
//! Options are set here and never per request: connections inherit them.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};

use crate::Accepted;
use crate::socket::KernelSocket;
use crate::sys;

/// Connections that may wait to be accepted. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Bytes that the kernel takes for a connection before their turn to be sent comes. Without a limit it takes
/// megabytes on a fast network, and a thousand peers that read nothing use up what it has for all sockets of the
/// machine. What is under way to a peer is not counted, so that no network is too fast for this.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A listening socket that shares its address with those of the other workers.
#[derive(Debug)]
pub struct Listener(RawSocket);

/// An address that nobody else listens at, kept from others until the workers listen there.
///
/// Sharing an address is what lets workers have a listener each; without this it would let a second server
/// take half of the connections unnoticed.
#[derive(Debug)]
pub struct Claim {
    /// Bound, but not listening: no connection comes to it.
    _socket: RawSocket,
    address: SocketAddr,
}

impl Claim {
    /// Claims `address`; fails if anybody listens there. The port is the kernel's choice if it is 0.
    pub fn new(address: SocketAddr) -> io::Result<Claim> {
        let socket = new_socket(address)?;
        socket.bind(&SockAddr::from(address))?;
        // From here on the workers may share it: only the binding above had to be alone.
        socket.set_reuse_port(true)?;
        let unexpected = || io::Error::other("the kernel gave a socket no address");
        let address = socket.local_addr()?.as_socket().ok_or_else(unexpected)?;
        Ok(Claim { _socket: socket, address })
    }

    /// The address, with the port that it has now.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener {
    /// Listens at an address that was claimed, beside the other workers.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = new_socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG)?;
        Ok(Listener(socket))
    }

    /// The next connection that waits, or nothing.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted<KernelSocket>>> {
        let accepted = sys::accept(self.0.as_fd())?;
        Ok(accepted.map(|(socket, peer)| Accepted { socket: KernelSocket::new(socket), peer }))
    }

    /// Stops listening, in every thread and process that has this socket open.
    pub(crate) fn end(self) {
        // It fails only where the socket does not listen any more.
        let _ = self.0.shutdown(Shutdown::Read);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn new_socket(address: SocketAddr) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Connections of an earlier run that are still winding down must not keep us from starting.
    socket.set_reuse_address(true)?;
    // Answers are sent in as few calls as can be: there is nothing for the kernel to wait and gather for.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    if address.is_ipv6() {
        // `[::]` means IPv6 alone, so that it can stand beside `0.0.0.0`.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
