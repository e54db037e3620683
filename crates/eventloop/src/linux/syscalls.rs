//! The raw system calls, one small function each.
//!
//! The only `unsafe` of this crate stands here. Never called from outside it; never decides what an error
//! means beyond "would block" and "interrupted".
//!
//! The calls of the request path go past the C library's functions of their names: those are places
//! where a thread can be cancelled, and in a program with threads each guards itself with two atomic
//! operations. Nobody cancels threads here.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::RecvFlags;
use socket2::{Domain, SockAddr, Socket, Type};

/// Whether the kernel deals connections out among the sockets that listen at one address.
pub(crate) const DEALS_OUT: bool = true;

/// How descriptors are received: closed to other programs at once.
pub(crate) const RECEIVES_DESCRIPTORS: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Turns the result of a system call into ours: -1 means that `errno` says why.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that return a count of bytes; nothing where the call would block.
fn check_bytes(result: libc::c_long) -> io::Result<Option<usize>> {
    if let Ok(bytes) = usize::try_from(result) {
        return Ok(Some(bytes));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(None),
        _ => Err(error),
    }
}

/// Takes a descriptor that a system call has just given us.
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the callers below pass the result of a call that opens a descriptor, after `check`, or one that
    // they have just found open and that was meant for them: it is open, and nobody else owns it. There is no safe way from a number to an owned descriptor.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// An epoll instance.
pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: takes a flag and touches no memory of ours.
    let descriptor = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    Ok(own(descriptor))
}

/// Begins to watch a descriptor; `data` comes back with each event.
pub(crate) fn epoll_add(epoll: &OwnedFd, watched: BorrowedFd<'_>, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    let (epoll, watched) = (epoll.as_raw_fd(), watched.as_raw_fd());
    // SAFETY: `event` lives until the call returns, and the kernel only reads it.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, watched, &raw mut event) })?;
    Ok(())
}

/// Stops watching a descriptor. Needed where others have it open too: closing it here would not end that.
pub(crate) fn epoll_remove(epoll: &OwnedFd, watched: BorrowedFd<'_>) -> io::Result<()> {
    let (epoll, watched) = (epoll.as_raw_fd(), watched.as_raw_fd());
    let no_event = std::ptr::null_mut();
    // SAFETY: to remove a descriptor takes no event, and touches no memory of ours.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, watched, no_event) })?;
    Ok(())
}

/// Waits for events, at most so many milliseconds (-1: without end), and returns how many came.
///
/// An interruption by a signal counts as no events.
pub(crate) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    timeout_ms: i32,
) -> io::Result<usize> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let (epoll, events) = (epoll.as_raw_fd(), events.as_mut_ptr());
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: `events` is a unique borrow of at least `room` events, which the kernel may write. Without a
    // mask its size does not matter. The arguments are those of `epoll_pwait(2)`.
    let count =
        unsafe { libc::syscall(libc::SYS_epoll_pwait, epoll, events, room, timeout_ms, no_mask, 0usize) };
    match check_bytes(count) {
        Ok(count) => Ok(count.unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// The next connection that waits at a listener, not blocking, and where its peer is; nothing where none
/// waits.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Option<SocketAddr>)>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let listener = listener.as_raw_fd();
    // SAFETY: the kernel writes an address of at most `length` bytes into `storage`, whose size `length`
    // says, and its length into `length`: `try_init` asks for just that.
    let accepted = unsafe {
        SockAddr::try_init(|storage, length| {
            check(libc::accept4(listener, storage.cast(), length, flags)).map(own)
        })
    };
    match accepted {
        Ok((descriptor, address)) => Ok(Some((descriptor, address.as_socket()))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// How many bytes that were sent on a socket its peer has not confirmed yet.
pub(crate) fn unconfirmed(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one `int`, and only until the call returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Returns freed memory to the system, as far as the C library can.
pub(crate) fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and walks the allocator's own lists under the allocator's locks.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Has the kernel take no more than so many bytes for a connection before their turn to be sent comes.
pub(crate) fn limit_unsent(listener: &Socket, bytes: u32) -> io::Result<()> {
    listener.set_tcp_notsent_lowat(bytes)
}

/// Has the kernel keep connections back at a listening socket until their peers have sent something. Who has not within
/// a second is sent the kernel's part of the handshake again, and comes through with his answer to that.
pub(crate) fn defer_accept(listener: &Socket) -> io::Result<()> {
    // In seconds, which the kernel makes a number of attempts of: there is nothing shorter.
    let patience: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&patience)).map_err(io::Error::other)?;
    let (listener, value) = (listener.as_raw_fd(), (&raw const patience).cast());
    // SAFETY: `value` points to an `int` of `length` bytes, which the kernel only reads, and only until the call returns.
    check(unsafe { libc::setsockopt(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, value, length) })?;
    Ok(())
}

/// Two ends of a local connection that keeps messages apart. Other than on a datagram socket, the kernel ignores an
/// address that is sent to, so neither end reaches any other socket.
pub(crate) fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    Ok((OwnedFd::from(one).into(), OwnedFd::from(other).into()))
}

/// Whether a socket listens.
pub(crate) fn is_listener(socket: &Socket) -> io::Result<bool> {
    socket.is_listener()
}

/// Receives into `buffer`; nothing where the call would block, 0 where the peer has ended.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let (socket, bytes, length) = (socket.as_raw_fd(), buffer.as_mut_ptr(), buffer.len());
    let no_address = std::ptr::null_mut::<u8>();
    // SAFETY: `buffer` is a unique borrow of `length` bytes, which the kernel may write; null for address
    // and length says that the peer's address is not wanted. The arguments are those of `recvfrom(2)`.
    check_bytes(unsafe {
        libc::syscall(libc::SYS_recvfrom, socket, bytes, length, 0, no_address, no_address)
    })
}

/// Sends one run of bytes; nothing where the call would block.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    let (socket, start, length) = (socket.as_raw_fd(), bytes.as_ptr(), bytes.len());
    let (flags, no_address) = (libc::MSG_NOSIGNAL, std::ptr::null::<u8>());
    // SAFETY: the kernel only reads `bytes`, and only until the call returns; null says that the socket
    // is connected. The arguments are those of `sendto(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_sendto, socket, start, length, flags, no_address, 0usize) })
}

/// Sends several runs of bytes in order; nothing where the call would block. `more` says that more follows at once,
/// and is worth waiting for to fill a segment.
pub(crate) fn send_runs(
    socket: BorrowedFd<'_>,
    runs: &[IoSlice<'_>],
    more: bool,
) -> io::Result<Option<usize>> {
    // SAFETY: all-zero is a valid `msghdr`: no address, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is documented to have the layout of `iovec` on Unix; the kernel only reads them.
    message.msg_iov = runs.as_ptr().cast_mut().cast();
    message.msg_iovlen = runs.len();
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: `message` and the runs that it points to live until the call returns. The arguments are those of
    // `sendmsg(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, flags) })
}

/// A pipe that never blocks: the end to read from, and the one to write to.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors into `ends`, and only until the call returns.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    Ok((own(ends[0]), own(ends[1])))
}

/// Gives a pipe room for so many bytes in whole pages, if the system lets it.
pub(crate) fn set_pipe_bytes(pipe: &OwnedFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: takes numbers and touches no memory of ours.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) })?;
    Ok(())
}

/// Puts the pages that hold several runs into a pipe, which refers to them and copies nothing; nothing where it is full.
///
/// The caller says that the runs do not change as long as anybody may read from the pipe, or from where they went.
pub(crate) fn lend_pages(pipe: &OwnedFd, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    let flags = libc::SPLICE_F_NONBLOCK;
    let (pipe, start, count) = (pipe.as_raw_fd(), runs.as_ptr(), runs.len());
    // SAFETY: `IoSlice` is documented to have the layout of `iovec` on Unix. The kernel only reads what it refers to,
    // and holds the pages themselves from here on: they outlive their mapping, if need be. The arguments are those of
    // `vmsplice(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_vmsplice, pipe, start, count, flags) })
}

/// Moves bytes from a pipe into a socket or a file; nothing where there is no room.
pub(crate) fn splice(pipe: &OwnedFd, into: BorrowedFd<'_>, bytes: usize) -> io::Result<Option<usize>> {
    let no_offset = std::ptr::null_mut::<libc::loff_t>();
    let flags = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    let (pipe, into) = (pipe.as_raw_fd(), into.as_raw_fd());
    // SAFETY: null says that neither end has a position; takes numbers besides, and touches no memory of ours. The
    // arguments are those of `splice(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_splice, pipe, no_offset, into, no_offset, bytes, flags) })
}

/// Takes a descriptor that whoever started this process has left open for it. Fails if it is not open.
pub(crate) fn inherit(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    check(unsafe { libc::fcntl(descriptor, libc::F_GETFD) })?;
    // The descriptor is open, and was handed to this process by its environment for just this purpose: no
    // other value owns it.
    Ok(own(descriptor))
}

/// Gives the calling thread a descriptor table of its own, with copies of all that are open, and leaves signals to the
/// other threads.
///
/// A signal handler usually wakes another thread by writing to a descriptor. In another table that number belongs to no
/// file, or to another one, such as the connection of a client.
pub(crate) fn unshare_files() -> io::Result<()> {
    block_signals()?;

    // SAFETY: takes a flag and touches no memory of ours. Descriptors that this thread closes afterwards
    // stay open for the others and the other way round: none is closed under its owner.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    Ok(())
}

/// Signals that report a fault of the thread that executes: the kernel kills the process if they are blocked then.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP];

/// Blocks all signals in the calling thread, except those that report a fault.
fn block_signals() -> io::Result<()> {
    let no_former_mask = std::ptr::null_mut();
    // SAFETY: all-zero is a valid `sigset_t`, which only these calls read and write; `FAULTS` are valid numbers.
    let error = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut signals);
        for fault in FAULTS {
            libc::sigdelset(&raw mut signals, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, no_former_mask)
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Closes all descriptors from `first` to `last` in the calling thread's table.
///
/// The caller says that no value of the calling thread owns one of them.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    let bound = |descriptor| libc::c_uint::try_from(descriptor).unwrap_or(libc::c_uint::MAX);
    // SAFETY: takes numbers and touches no memory of ours. In a table that is shared this would close
    // descriptors under their owners; the only caller has just made the table this thread's own, and leaves
    // out what the thread owns.
    check(unsafe { libc::close_range(bound(first), bound(last), 0) })?;
    Ok(())
}

/// A counter that makes a descriptor readable.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    let descriptor = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    Ok(own(descriptor))
}

/// Where the peer of a connection is; nothing where it has no address, or is gone.
pub(crate) fn peer(socket: &OwnedFd) -> Option<SocketAddr> {
    socket2::SockRef::from(socket).peer_addr().ok()?.as_socket()
}
