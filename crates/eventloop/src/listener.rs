//! Listening sockets: opened once at startup, one for each worker, or inherited from the parent process.
//!
//! Socket options are set on listeners, from which connections inherit them, and never per connection.

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

/// The length of the accept queue. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Bytes that the kernel buffers for a connection in addition to those in flight (`TCP_NOTSENT_LOWAT`). Without a limit it
/// buffers megabytes on a fast network, and a thousand peers that don't read exhaust the memory of all sockets of the
/// machine. Bytes in flight don't count, so this does not limit the throughput.
const NOTSENT_BYTES_MAX: u32 = 64 * 1024;

/// How long to retry while an address is in use, and the interval between tries. The kernel takes a moment to close the
/// sockets of a process that was killed, in particular those of a ring that was accepting.
const IN_USE_TIMEOUT: Duration = Duration::from_millis(500);
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Options of a listener. Each applies to one kind of address, and has no effect on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenOptions {
    /// The permissions of a local socket's path, as for `chmod`: users with write permission may connect. `None` leaves
    /// them to the process's file mode creation mask.
    pub mode: Option<u32>,
    /// Delays a TCP connection until its peer has sent data (`TCP_DEFER_ACCEPT`). Only Linux supports this: elsewhere,
    /// opening a listener with this option fails.
    pub defer_accept: bool,
}

/// The versions of IP over which a TCP socket accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersions {
    /// The version of its address.
    One,
    /// IPv6 and IPv4: the address is `[::]`.
    Both,
}

/// An address that is reserved until the workers listen at it.
///
/// Each worker has a listener of its own, so they share the address (`SO_REUSEPORT`). The reservation detects a second
/// server at the same address, which would otherwise get half of the connections unnoticed.
#[derive(Debug)]
pub enum Claim {
    /// A TCP address. The socket is bound and, if each worker has its own, does not listen: it receives no connection.
    Internet {
        /// The socket that reserves the address.
        socket: RawSocket,
        /// The address, with the port that the kernel chose.
        address: SocketAddr,
        /// The versions of IP that it accepts.
        versions: IpVersions,
        /// The options of all listeners at this address.
        options: ListenOptions,
    },
    /// A local socket, which all workers share. Its path is removed when this value is dropped.
    Local {
        /// The listening socket.
        socket: RawSocket,
        /// Its path.
        path: PathBuf,
    },
}

impl Claim {
    /// Reserves `address`. A local socket at which no process listens is replaced.
    ///
    /// # Errors
    /// Another process listens at the address, or the address cannot be used.
    pub fn new(address: &Address) -> io::Result<Claim> {
        Claim::with_options(address, ListenOptions::default())
    }

    /// Reserves `address` for listeners with these options.
    ///
    /// # Errors
    /// Another process listens at the address, the address cannot be used, or the system does not support an option.
    pub fn with_options(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        retry_while_in_use(|| Claim::try_once(address, options))
    }

    fn try_once(address: &Address, options: ListenOptions) -> io::Result<Claim> {
        match address {
            Address::Internet(address) => Claim::tcp(*address, IpVersions::One, options),
            Address::Every(port) => {
                let both = Claim::tcp((Ipv6Addr::UNSPECIFIED, *port).into(), IpVersions::Both, options);
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
                // Clients can't connect before the socket listens, whatever the permissions are until then.
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
        // The workers may share the address from here on: only the call above had to be exclusive.
        socket.set_reuse_port(syscalls::BALANCES_LISTENERS)?;
        let no_address = || io::Error::other("the kernel gave a socket no address");
        let address = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
        Ok(Claim::Internet { socket, address, versions, options })
    }

    /// Returns the address, with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> Address {
        match self {
            Claim::Internet { address, versions: IpVersions::Both, .. } => Address::Every(address.port()),
            Claim::Internet { address, .. } => Address::Internet(*address),
            Claim::Local { path, .. } => Address::Local(path.clone()),
        }
    }

    /// Opens a listener at this address for one more worker.
    ///
    /// # Errors
    /// A system call fails.
    pub fn listen(&self) -> io::Result<Listener> {
        match self {
            // One queue for all workers, because the system would not distribute connections among several.
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

    /// Leaves the address, and the path of a local socket, to another process.
    pub fn release(mut self) {
        if let Claim::Local { path, .. } = &mut self {
            // No file has an empty name, so `drop` removes none.
            path.clear();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Claim::Local { path, .. } = self {
            // Fails only if the path has been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Calls `claim` until the address is no longer in use, or for half a second.
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

/// Removes a local socket at which no process listens. Never removes another kind of file.
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
    /// It belongs to the parent process, which goes on listening when this process exits.
    inherited: bool,
}

impl Listener {
    /// Takes a listening socket that the parent process left open for this one. To be called once for each number.
    ///
    /// # Errors
    /// The descriptor is not open or no listening socket.
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

    /// Delays connections until their peers have sent data, as [`ListenOptions::defer_accept`] does for a listener that is
    /// opened here. Has no effect on a local socket.
    ///
    /// # Errors
    /// The system does not support this.
    pub fn defer_accept(&self) -> io::Result<()> {
        if self.is_tcp()? { syscalls::defer_accept(&self.socket) } else { Ok(()) }
    }

    fn is_tcp(&self) -> io::Result<bool> {
        let address = self.socket.local_addr()?;
        Ok(address.is_ipv4() || address.is_ipv6())
    }

    /// Opens another descriptor of the same socket, which shares its accept queue.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, inherited: self.inherited })
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// The socket is neither a TCP socket nor a local one with a path.
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

    /// Makes the socket this process's own, because the parent process gave it up: [`close`](Self::close) now ends it.
    pub fn take_ownership(&mut self) {
        self.inherited = false;
    }

    /// Returns the claim to the path of an inherited local socket. Returns `None` for TCP, because TCP addresses need none.
    ///
    /// # Errors
    /// The process has no descriptor left, or the socket is of an unsupported kind.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        match self.address()? {
            Address::Internet(_) | Address::Every(_) => Ok(None),
            Address::Local(path) => Ok(Some(Claim::Local { socket: self.socket.try_clone()?, path })),
        }
    }

    /// Accepts the next pending connection. Returns `None` if none is pending.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted<KernelSocket>>> {
        let accepted = syscalls::accept(self.socket.as_fd())?;
        Ok(accepted.map(|(socket, peer)| Accepted { socket: KernelSocket::new(socket), peer }))
    }

    /// Stops listening, in every thread and process that has this socket open. Only closes the descriptor of an inherited
    /// socket, because the parent process passes it to a successor, and no client should be refused meanwhile.
    pub fn close(self) {
        if !self.inherited {
            // Fails only if the socket no longer listens.
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
    // Connections of an earlier run in TIME_WAIT must not prevent a start.
    socket.set_reuse_address(true)?;
    // We send a response in as few calls as possible, so Nagle's algorithm would only delay it.
    socket.set_tcp_nodelay(true)?;
    syscalls::set_notsent_lowat(&socket, NOTSENT_BYTES_MAX)?;
    if options.defer_accept {
        syscalls::defer_accept(&socket)?;
    }
    if address.is_ipv6() {
        // `[::]` means IPv6 alone, so that a listener at `0.0.0.0` can coexist.
        socket.set_only_v6(versions == IpVersions::One)?;
    }
    Ok(socket)
}
