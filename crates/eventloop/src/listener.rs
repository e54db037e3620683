//! A listening socket: opened once at start, one for each worker, or inherited from whoever started us.
//!
//! Options are set here and never per request: connections inherit them.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};

use crate::Accepted;
use crate::address::Address;
use crate::platform::syscalls as sys;
use crate::socket::KernelSocket;

/// Connections that may wait to be accepted. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Bytes that the kernel takes for a connection before their turn to be sent comes. Without a limit it takes
/// megabytes on a fast network, and a thousand peers that read nothing use up what it has for all sockets of the
/// machine. What is under way to a peer is not counted, so that no network is too fast for this.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: RawSocket,
    /// Whether it belongs to whoever started us, who goes on listening when we end.
    inherited: bool,
}

/// What a listener may be told beside its address. Each option is for one kind of address and passed over at the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenOptions {
    /// The permissions that the path of a local socket gets, as for `chmod`: who may write to it may connect. Without
    /// them the process's file mode mask decides.
    pub mode: Option<u32>,
    /// Whether the kernel keeps a TCP connection back until its peer has sent something (`TCP_DEFER_ACCEPT`). Only Linux
    /// can: elsewhere nobody listens with this option.
    pub defer_accept: bool,
}

/// An address that nobody else listens at, kept from others until the workers listen there.
///
/// Sharing an address is what lets workers have a listener each; without this it would let a second server
/// take half of the connections unnoticed.
#[derive(Debug)]
pub enum Claim {
    /// Bound, and not listening where each worker has a socket of its own: no connection comes to it.
    Internet {
        /// Keeps the address.
        socket: RawSocket,
        /// With the port that it has now.
        address: SocketAddr,
        /// What each socket of this address is told.
        options: ListenOptions,
    },
    /// The one listening socket of this path, which all workers share. The path is removed with it.
    Local {
        /// Listens already.
        socket: RawSocket,
        /// Where.
        path: PathBuf,
    },
}

/// How long to wait for an address that is taken, and how often to look. The kernel takes a moment to let go of the
/// sockets of a process that was killed, above all where it accepted on its own.
const TAKEN_PATIENCE: Duration = Duration::from_millis(500);
const TAKEN_LOOK: Duration = Duration::from_millis(20);

impl Claim {
    /// Claims `address`; fails if anybody listens there. The port is the kernel's choice if it is 0. A
    /// path at which a server listened that is gone is cleared away.
    pub fn new(address: &Address) -> io::Result<Claim> {
        Claim::with_options(address, ListenOptions::default())
    }

    /// The same, for listeners that are told more.
    pub fn with_options(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        let end = Instant::now() + TAKEN_PATIENCE;
        loop {
            match Claim::at_once(address, options) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                    std::thread::sleep(TAKEN_LOOK);
                }
                done => return done,
            }
        }
    }

    fn at_once(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        match address {
            Address::Internet(address) => {
                let socket = new_socket(*address, options)?;
                socket.bind(&SockAddr::from(*address))?;
                // From here on the workers may share it: only the binding above had to be alone.
                socket.set_reuse_port(sys::DEALS_OUT)?;
                let unexpected = || io::Error::other("the kernel gave a socket no address");
                let address = socket.local_addr()?.as_socket().ok_or_else(unexpected)?;
                Ok(Claim::Internet { socket, address, options })
            }
            Address::Local(path) => {
                clear_away(path)?;
                let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.set_nonblocking(true)?;
                socket.bind(&SockAddr::unix(path)?)?;
                // Nobody can connect before it listens, whatever its permissions are until here.
                let set =
                    options.mode.map_or(Ok(()), |mode| set_permissions(path, Permissions::from_mode(mode)));
                set.and_then(|()| socket.listen(BACKLOG))
                    .inspect_err(|_| drop(std::fs::remove_file(path)))?;
                Ok(Claim::Local { socket, path: path.clone() })
            }
        }
    }

    /// The address, with the port that it has now.
    #[must_use]
    pub fn address(&self) -> Address {
        match self {
            Claim::Internet { address, .. } => Address::Internet(*address),
            Claim::Local { path, .. } => Address::Local(path.clone()),
        }
    }

    /// A listener at this address, beside those of the other workers.
    pub fn listen(&self) -> io::Result<Listener> {
        match self {
            // One queue for all workers, where more would not share what comes.
            Claim::Internet { socket, .. } if !sys::DEALS_OUT => {
                socket.listen(BACKLOG)?;
                Ok(Listener { socket: socket.try_clone()?, inherited: false })
            }
            Claim::Internet { address, options, .. } => {
                let socket = new_socket(*address, *options)?;
                socket.set_reuse_port(true)?;
                socket.bind(&SockAddr::from(*address))?;
                socket.listen(BACKLOG)?;
                Ok(Listener { socket, inherited: false })
            }
            Claim::Local { socket, .. } => Ok(Listener { socket: socket.try_clone()?, inherited: false }),
        }
    }
}

impl Claim {
    /// Leaves the address to another process, and with it the path.
    pub fn leave(mut self) {
        if let Claim::Local { path, .. } = &mut self {
            // There is nothing of this name to be removed.
            path.clear();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Claim::Local { path, .. } = self {
            // It fails only where somebody else has removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket that nobody listens at any more. Never removes anything else.
fn clear_away(path: &Path) -> io::Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is there, and is no socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => std::fs::remove_file(path),
    }
}

impl Listener {
    /// The listening socket of this number, which whoever started this process has left open for it. To be
    /// called once for each number.
    pub fn inherit(descriptor: i32) -> io::Result<Listener> {
        let socket = RawSocket::from(sys::inherit(descriptor)?);
        if !sys::is_listener(&socket)? {
            return Err(io::Error::other(format!("descriptor {descriptor} does not listen")));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let listener = Listener { socket, inherited: true };
        if listener.speaks_tcp()? {
            listener.socket.set_tcp_nodelay(true)?;
            sys::limit_unsent(&listener.socket, UNSENT_BYTES_MAX)?;
        }
        Ok(listener)
    }

    /// Has the kernel keep connections back until their peers have sent something, as [`ListenOptions::defer_accept`] does
    /// for a socket that is opened here. A local socket stays as it is.
    ///
    /// # Errors
    /// The system cannot.
    pub fn defer_accept(&self) -> io::Result<()> {
        if self.speaks_tcp()? { sys::defer_accept(&self.socket) } else { Ok(()) }
    }

    fn speaks_tcp(&self) -> io::Result<bool> {
        let address = self.socket.local_addr()?;
        Ok(address.is_ipv4() || address.is_ipv6())
    }

    /// Another one of the same queue of connections.
    pub fn share(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, inherited: self.inherited })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<Address> {
        let address = self.socket.local_addr()?;
        let local = || address.as_pathname().map(|path| Address::Local(path.to_owned()));
        let found = address.as_socket().map(Address::Internet).or_else(local);
        found.ok_or_else(|| io::Error::other("a listening socket of a kind that is not served"))
    }

    /// Whether it belongs to whoever started this process.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Whoever opened it leaves it to us: when it ends, nobody listens any more.
    pub fn keep(&mut self) {
        self.inherited = false;
    }

    /// What keeps the path of a local socket that was left to us; nothing for other addresses, which need no keeping.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        match self.address()? {
            Address::Internet(_) => Ok(None),
            Address::Local(path) => Ok(Some(Claim::Local { socket: self.socket.try_clone()?, path })),
        }
    }

    /// The next connection that waits, or nothing.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted<KernelSocket>>> {
        let accepted = sys::accept(self.socket.as_fd())?;
        Ok(accepted.map(|(socket, peer)| Accepted { socket: KernelSocket::new(socket), peer }))
    }

    /// Stops listening, in every thread and process that has this socket open; but not where it was
    /// inherited: then whoever owns it hands it to the next, and nobody is refused meanwhile.
    pub fn end(self) {
        if !self.inherited {
            // It fails only where the socket does not listen any more.
            let _ = self.socket.shutdown(Shutdown::Read);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn new_socket(address: SocketAddr, options: ListenOptions) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Connections of an earlier run that are still winding down must not keep us from starting.
    socket.set_reuse_address(true)?;
    // Answers are sent in as few calls as can be: there is nothing for the kernel to wait and gather for.
    socket.set_tcp_nodelay(true)?;
    sys::limit_unsent(&socket, UNSENT_BYTES_MAX)?;
    if options.defer_accept {
        sys::defer_accept(&socket)?;
    }
    if address.is_ipv6() {
        // `[::]` means IPv6 alone, so that it can stand beside `0.0.0.0`.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
