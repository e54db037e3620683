//! Listening sockets. We open them at startup (one per worker) or inherit them from the parent process.
//!
//! We set socket options on listeners only. Connections inherit them, and this saves the system calls.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};

use crate::address::Address;
use crate::platform::syscalls;
use crate::socket::{Accepted, KernelSocket};

/// Length of the accept queue. The kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Limit for the bytes that the kernel buffers for a connection in addition to those in flight (`TCP_NOTSENT_LOWAT`). By default,
/// this can be megabytes on a fast network. A thousand peers that do not read could then exhaust the machine's memory for sockets.
/// The limit does not reduce throughput because bytes in flight do not count.
const NOTSENT_BYTES_MAX: u32 = 64 * 1024;

/// Time and interval for retries if an address is in use. After a process was killed, it takes the kernel a moment to close its
/// sockets, in particular if a ring was accepting on them.
const IN_USE_TIMEOUT: Duration = Duration::from_millis(500);
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Listener options. Each of them is only used for one kind of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenOptions {
    /// Permissions for a local socket's path, as for `chmod`. Users need write permission in order to connect. If this is `None`,
    /// the file mode creation mask decides.
    pub mode: Option<u32>,
    /// Delays a TCP connection until the peer has sent data (`TCP_DEFER_ACCEPT`). Currently, only Linux supports this; on other
    /// systems, opening the listener will fail.
    pub defer_accept: bool,
}

/// Versions of IP over which a TCP socket accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersions {
    /// Only the version of the address.
    One,
    /// Both IPv6 and IPv4. The address is `[::]`.
    Both,
}

/// An address we have reserved, so that the workers can listen on it.
///
/// Each worker has a listener of its own, and all of them share the address (`SO_REUSEPORT`). Without a reservation, a second server on
/// the same address could go unnoticed, since it would just get half of the connections.
#[derive(Debug)]
pub enum Claim {
    /// A TCP address. The socket is bound, but when workers have their own, it does not listen and will not get any connections.
    Internet {
        /// The socket that holds the reservation.
        socket: RawSocket,
        /// The address with the actual port.
        address: SocketAddr,
        /// Versions of IP to accept.
        versions: IpVersions,
        /// Options for all listeners on this address.
        options: ListenOptions,
    },
    /// A local socket, shared by all workers. Dropping this removes the path.
    Local {
        /// The listening socket.
        socket: RawSocket,
        /// Its path.
        path: PathBuf,
    },
}

impl Claim {
    /// Reserves `address`. If it is a local socket that no process is listening on, it will be replaced.
    ///
    /// # Errors
    /// Fails if another process is listening on the address, or if the address cannot be used.
    pub fn new(address: &Address) -> io::Result<Claim> {
        Claim::with_options(address, ListenOptions::default())
    }

    /// Reserves `address` for listeners with these options.
    ///
    /// # Errors
    /// Fails if another process is listening on the address, the address cannot be used, or the system does not support an option.
    pub fn with_options(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        retry_while_in_use(|| Claim::try_once(address, options))
    }

    fn try_once(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        match address {
            Address::Internet(address) => Claim::tcp(*address, IpVersions::One, options),
            Address::Every(port) => {
                let both = Claim::tcp((Ipv6Addr::UNSPECIFIED, *port).into(), IpVersions::Both, options);
                // Without IPv6 in the kernel, listen on IPv4 alone.
                match both.map_err(|error| (error.raw_os_error(), error)) {
                    Err((Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL), _)) => {
                        Claim::tcp((Ipv4Addr::UNSPECIFIED, *port).into(), IpVersions::One, options)
                    }
                    both => both.map_err(|(_, error)| error),
                }
            }
            Address::Local(path) => {
                remove_stale_socket(path)?;
                let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.set_nonblocking(true)?;
                socket.bind(&SockAddr::unix(path)?)?;
                // The permissions before this do not matter, since clients can't connect until the socket listens.
                let permitted = match options.mode {
                    Some(mode) => set_permissions(path, Permissions::from_mode(mode)),
                    None => Ok(()),
                };
                permitted
                    .and_then(|()| socket.listen(BACKLOG))
                    .inspect_err(|_| drop(std::fs::remove_file(path)))?;
                Ok(Claim::Local { socket, path: path.clone() })
            }
        }
    }

    fn tcp(address: SocketAddr, versions: IpVersions, options: ListenOptions) -> io::Result<Claim> {
        let socket = new_tcp_socket(address, versions, options)?;
        socket.bind(&SockAddr::from(address))?;
        // From now on, workers can share the address. Only `bind` had to be exclusive.
        socket.set_reuse_port(syscalls::BALANCES_LISTENERS)?;
        let no_address = || io::Error::other("the kernel gave a socket no address");
        let address = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
        Ok(Claim::Internet { socket, address, versions, options })
    }

    /// Returns the address with the actual port.
    #[must_use]
    pub fn address(&self) -> Address {
        match self {
            Claim::Internet { address, versions: IpVersions::Both, .. } => Address::Every(address.port()),
            Claim::Internet { address, .. } => Address::Internet(*address),
            Claim::Local { path, .. } => Address::Local(path.clone()),
        }
    }

    /// Opens one more listener on this address, for another worker.
    ///
    /// # Errors
    /// Returns the error of a failed system call.
    pub fn listen(&self) -> io::Result<Listener> {
        match self {
            // These systems don't distribute connections among several sockets. Use one queue for all workers.
            Claim::Internet { socket, .. } if !syscalls::BALANCES_LISTENERS => {
                socket.listen(BACKLOG)?;
                Ok(Listener { socket: socket.try_clone()?, inherited: false })
            }
            Claim::Internet { address, versions, options, .. } => {
                let socket = new_tcp_socket(*address, *versions, *options)?;
                socket.set_reuse_port(true)?;
                socket.bind(&SockAddr::from(*address))?;
                socket.listen(BACKLOG)?;
                Ok(Listener { socket, inherited: false })
            }
            Claim::Local { socket, .. } => Ok(Listener { socket: socket.try_clone()?, inherited: false }),
        }
    }

    /// Gives up the address, but does not remove a local socket's path, because another process will use it.
    pub fn release(mut self) {
        if let Claim::Local { path, .. } = &mut self {
            // Files can't have an empty name, so `drop` will not remove anything.
            path.clear();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Claim::Local { path, .. } = self {
            // This only fails if the path is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Keeps calling `claim` while the address is in use, for up to half a second.
pub(crate) fn retry_while_in_use<T>(claim: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + IN_USE_TIMEOUT;
    loop {
        match claim() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(IN_USE_RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

/// Removes a local socket if no process is listening on it. Other kinds of files are *never* removed.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => std::fs::remove_file(path),
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: RawSocket,
    /// Whether the socket belongs to the parent process, which will then go on listening when we exit.
    inherited: bool,
}

impl Listener {
    /// Takes over a listening socket that the parent process has left open for us. Callers MUST NOT do this twice with the same
    /// descriptor.
    ///
    /// # Errors
    /// Fails if the descriptor is not open or is not a listening socket.
    pub fn inherit(descriptor: i32) -> io::Result<Listener> {
        let socket = RawSocket::from(syscalls::inherit(descriptor)?);
        if !syscalls::is_listener(&socket)? {
            return Err(io::Error::other(format!("descriptor {descriptor} does not listen")));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let listener = Listener { socket, inherited: true };
        if listener.is_tcp()? {
            listener.socket.set_tcp_nodelay(true)?;
            syscalls::set_notsent_lowat(&listener.socket, NOTSENT_BYTES_MAX)?;
        }
        Ok(listener)
    }

    /// Delays connections until the peer has sent data. You only need this for inherited listeners, see
    /// [`ListenOptions::defer_accept`] for others. Local sockets are not affected.
    ///
    /// # Errors
    /// Fails if the system does not support this.
    pub fn defer_accept(&self) -> io::Result<()> {
        if self.is_tcp()? { syscalls::defer_accept(&self.socket) } else { Ok(()) }
    }

    fn is_tcp(&self) -> io::Result<bool> {
        let address = self.socket.local_addr()?;
        Ok(address.is_ipv4() || address.is_ipv6())
    }

    /// Opens another descriptor for the same socket. The two will share the accept queue.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, inherited: self.inherited })
    }

    /// Returns the address that this socket listens on.
    ///
    /// # Errors
    /// Fails if this is neither a TCP socket nor a local socket with a path.
    pub fn address(&self) -> io::Result<Address> {
        let address = self.socket.local_addr()?;
        let internet = |address: SocketAddr| {
            let is_every = address.is_ipv6() && address.ip().is_unspecified();
            let has_both = is_every && matches!(self.socket.only_v6(), Ok(false));
            if has_both { Address::Every(address.port()) } else { Address::Internet(address) }
        };
        let local = || address.as_pathname().map(|path| Address::Local(path.to_owned()));
        let found = address.as_socket().map(internet).or_else(local);
        found.ok_or_else(|| io::Error::other("a listening socket of a kind that is not supported"))
    }

    /// Returns `true` if the socket belongs to the parent process.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Makes the socket our own after the parent process has given it up. From now on, [`close`](Self::close) will really close it.
    pub fn take_ownership(&mut self) {
        self.inherited = false;
    }

    /// Returns a claim on the path of an inherited local socket, or `None` for TCP, where there is nothing to claim.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors, or if this kind of socket is not supported.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        match self.address()? {
            Address::Internet(_) | Address::Every(_) => Ok(None),
            Address::Local(path) => Ok(Some(Claim::Local { socket: self.socket.try_clone()?, path })),
        }
    }

    /// Accepts the next pending connection, if any.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted<KernelSocket>>> {
        let accepted = syscalls::accept(self.socket.as_fd())?;
        Ok(accepted.map(|(socket, peer)| Accepted { socket: KernelSocket::new(socket), peer }))
    }

    /// Stops listening in every thread and process that has this socket open. An inherited socket is different: we only close our
    /// descriptor because the parent process is going to pass the socket to a successor and clients should not be refused in
    /// between.
    pub fn close(self) {
        if !self.inherited {
            // This can only fail when the socket is no longer listening.
            let _ = self.socket.shutdown(Shutdown::Read);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn new_tcp_socket(
    address: SocketAddr,
    versions: IpVersions,
    options: ListenOptions,
) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // If we have been restarted, old connections might still be in TIME_WAIT.
    socket.set_reuse_address(true)?;
    // Nagle's algorithm would only add a delay, since we send responses with as few calls as possible.
    socket.set_tcp_nodelay(true)?;
    syscalls::set_notsent_lowat(&socket, NOTSENT_BYTES_MAX)?;
    if options.defer_accept {
        syscalls::defer_accept(&socket)?;
    }
    if address.is_ipv6() {
        // `[::]` should only mean IPv6, so that there can be another listener on `0.0.0.0`.
        socket.set_only_v6(versions == IpVersions::One)?;
    }
    Ok(socket)
}
