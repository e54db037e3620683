//! Linux system calls, each in a safe function.
//!
//! Together with `uring/ring.rs`, this file contains all `unsafe` code for Linux. We do not interpret errors here, except for
//! "would block" and "interrupted".
//!
//! The C library's functions are cancellation points. In a multithreaded program, this means two atomic operations per call. We
//! never cancel threads, so we can use `syscall(2)` on the hot path.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::RecvFlags;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::datagram::batch::{BUFFER_BYTES, BUFFER_STRIDE, Envelope, MESSAGES_MAX};
use crate::datagram::outgoing::{OutgoingMessage, SENT_MAX};

/// The kernel distributes connections among sockets that listen on the same address (`SO_REUSEPORT`).
pub(crate) const BALANCES_LISTENERS: bool = true;

/// The kernel can split batches into datagrams.
pub(crate) const HAS_GSO: bool = true;

/// The kernel doubles the requested buffer size to account for overhead, and will report the doubled size.
pub(crate) const BUFFER_SIZE_FACTOR: usize = 2;

/// Flags for receiving descriptors: close-on-exec, set atomically.
pub(crate) const RECV_DESCRIPTORS: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Converts the result of a system call. If it is -1, the error is in `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Converts the result of a system call that returns a number of bytes. `None` means that the call would block.
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

/// Takes ownership of a descriptor.
///
/// # Safety
/// The descriptor is open, and no other value owns it.
unsafe fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: as the caller guarantees. There is no safe conversion from a number to an owned descriptor.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Creates an epoll instance.
pub(super) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: takes a flag and touches no memory of ours.
    let descriptor = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the call above has opened it.
    Ok(unsafe { own(descriptor) })
}

/// Watches a descriptor. `data` is returned with each event.
pub(super) fn epoll_add(epoll: &OwnedFd, watched: BorrowedFd<'_>, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    let epoll = epoll.as_raw_fd();
    let watched = watched.as_raw_fd();
    // SAFETY: `event` lives until the call returns, and the kernel only reads it.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, watched, &raw mut event) })?;
    Ok(())
}

/// Changes the events that a descriptor is watched for. Pending events will be reported again.
pub(super) fn epoll_modify(epoll: &OwnedFd, watched: RawFd, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: `event` lives until the call returns, and the kernel only reads it. A descriptor that is not watched is an
    // error.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_MOD, watched, &raw mut event) })?;
    Ok(())
}

/// Stops watching a descriptor. Just closing the descriptor would not be enough if another process has it open.
pub(super) fn epoll_remove(epoll: &OwnedFd, watched: BorrowedFd<'_>) -> io::Result<()> {
    let epoll = epoll.as_raw_fd();
    let watched = watched.as_raw_fd();
    let no_event = std::ptr::null_mut();
    // SAFETY: removing a descriptor takes no event, and touches no memory of ours.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, watched, no_event) })?;
    Ok(())
}

/// Waits for events, up to `timeout_ms` milliseconds (-1 for no limit). Returns the number of events, or 0 if a signal interrupts
/// the call.
pub(super) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    timeout_ms: i32,
) -> io::Result<usize> {
    let capacity = i32::try_from(events.len()).expect("the loop fetches a few hundred events");
    let epoll = epoll.as_raw_fd();
    let events = events.as_mut_ptr();
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: `events` is a unique borrow of `capacity` events, which the kernel may write. Without a
    // signal mask, its size is ignored. The arguments match `epoll_pwait(2)`.
    let count =
        unsafe { libc::syscall(libc::SYS_epoll_pwait, epoll, events, capacity, timeout_ms, no_mask, 0usize) };
    match check_bytes(count) {
        Ok(count) => Ok(count.unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// Accepts the next pending connection in non-blocking mode. Returns it with the peer's address, or `None` if nothing is pending.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Option<SocketAddr>)>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let listener = listener.as_raw_fd();
    // SAFETY: the kernel writes an address of at most `length` bytes, the size of `storage`, and sets `length` to that
    // of the address, as `try_init` requires. The descriptor was opened by the call.
    let accepted = unsafe {
        SockAddr::try_init(|storage, length| {
            check(libc::accept4(listener, storage.cast(), length, flags)).map(|descriptor| own(descriptor))
        })
    };
    match accepted {
        Ok((descriptor, address)) => Ok(Some((descriptor, address.as_socket()))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the number of bytes that were sent on a socket but have not been acknowledged by the peer.
pub(crate) fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one `int`, and only until the call returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).expect("a number of bytes"))
}

/// Returns free memory to the system, as far as this is supported by the C library.
pub(crate) fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and walks the allocator's own lists under the allocator's locks.
    unsafe {
        libc::malloc_trim(0)
    };
    // `malloc_trim` may merge free memory with the end of a thread's arena, where it would stay until a block of at least 64 KiB is
    // freed next to it. We do that here.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(96 << 10)));
}

/// Limits the number of bytes that the kernel buffers for a connection, in addition to those in flight.
pub(crate) fn set_notsent_lowat(listener: &Socket, bytes: u32) -> io::Result<()> {
    listener.set_tcp_notsent_lowat(bytes)
}

/// Delays connections on a listening socket until the peer has sent data. If nothing arrives for a second, the kernel will
/// retransmit the SYN-ACK and accept the connection anyway once the peer has acknowledged it.
pub(crate) fn defer_accept(listener: &Socket) -> io::Result<()> {
    // The unit is seconds, but the kernel converts them to a number of retransmissions. We can't go below one.
    set_option(listener.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1)
}

/// Sets a socket option whose value is an `int`.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).expect("the size of an `int`");
    let start = (&raw const value).cast();
    // SAFETY: `start` points to an `int` of `length` bytes, which the kernel only reads, and only until the call returns.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, start, length) })?;
    Ok(())
}

/// Makes the kernel use a program to select a socket among all those that share the address of this one.
pub(super) fn attach_reuseport_filter(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let length = libc::c_ushort::try_from(program.len()).expect("a short program");
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let length =
        libc::socklen_t::try_from(size_of_val(&program)).expect("the size of a pointer and a number");
    let name = libc::SO_ATTACH_REUSEPORT_CBPF;
    let start = (&raw const program).cast();
    // SAFETY: `start` points to a `sock_fprog` of `length` bytes, and that to `len` instructions. The kernel only reads both,
    // and only until the call returns.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, start, length) })?;
    Ok(())
}

/// Receives up to [`MESSAGES_MAX`] messages, each into its own buffer in `memory` and its own envelope. Returns the number of
/// messages, or 0 if the call would block.
pub(crate) fn receive_messages(
    socket: BorrowedFd<'_>,
    memory: &mut [u8],
    envelopes: &mut [Envelope],
) -> io::Result<usize> {
    // SAFETY: all-zero is a valid `iovec`: an empty one.
    let mut vectors: [libc::iovec; MESSAGES_MAX] = unsafe { std::mem::zeroed() };
    // SAFETY: all-zero is a valid `mmsghdr`: no address, no buffer, no control data.
    let mut headers: [libc::mmsghdr; MESSAGES_MAX] = unsafe { std::mem::zeroed() };
    let buffers = memory.chunks_exact_mut(BUFFER_STRIDE);
    let targets = headers.iter_mut().zip(&mut vectors).zip(envelopes.iter_mut().zip(buffers));
    let mut capacity: libc::c_uint = 0;
    for ((header, vector), (envelope, buffer)) in targets {
        *vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER_BYTES };
        let header = &mut header.msg_hdr;
        header.msg_name = envelope.name.as_mut_ptr().cast();
        header.msg_namelen = libc::socklen_t::try_from(envelope.name.len()).expect("the size of an address");
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_control = envelope.control.0.as_mut_ptr().cast();
        header.msg_controllen = envelope.control.0.len() as _;
        capacity += 1;
    }

    let socket = socket.as_raw_fd();
    let start = headers.as_mut_ptr();
    let no_timeout = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: `headers` are at least `capacity` headers. Each points to a vector and to an address and control data of an
    // envelope of its own, and its vector to a buffer of its own, with their lengths: a buffer has `BUFFER_STRIDE` bytes. The
    // kernel writes to them only until the call returns. The arguments match `recvmmsg(2)`.
    let received =
        unsafe { libc::syscall(libc::SYS_recvmmsg, socket, start, capacity, libc::MSG_DONTWAIT, no_timeout) };
    let count = check_bytes(received)?.unwrap_or(0);
    for (header, envelope) in headers.iter().zip(envelopes).take(count) {
        envelope.bytes = header.msg_len as usize;
        envelope.control_bytes = header.msg_hdr.msg_controllen as _;
        envelope.is_truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    }
    Ok(count)
}

/// Sends a message. Fails with [`io::ErrorKind::WouldBlock`] if there is not any room.
pub(crate) fn send_message(socket: BorrowedFd<'_>, message: &OutgoingMessage<'_>) -> io::Result<()> {
    let vector = IoSlice::new(message.bytes);
    let header = header_of(message, &vector);
    let socket = socket.as_raw_fd();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `header` points to `vector` and to parts of `message`, which live until the call returns. The kernel only
    // reads them. The arguments match `sendmsg(2)`.
    let sent = unsafe { libc::syscall(libc::SYS_sendmsg, socket, &raw const header, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends up to [`SENT_MAX`] messages in order until one fails. Returns the number of messages sent, or the error if it was the
/// first one that failed.
pub(crate) fn send_messages(socket: BorrowedFd<'_>, messages: &[OutgoingMessage<'_>]) -> io::Result<usize> {
    let mut vectors = [IoSlice::new(&[]); SENT_MAX];
    // SAFETY: all-zero is a valid `mmsghdr`: no address, no buffer, no control data.
    let mut headers: [libc::mmsghdr; SENT_MAX] = unsafe { std::mem::zeroed() };
    let mut count: libc::c_uint = 0;
    for ((header, vector), message) in headers.iter_mut().zip(&mut vectors).zip(messages) {
        *vector = IoSlice::new(message.bytes);
        header.msg_hdr = header_of(message, vector);
        count += 1;
    }

    let socket = socket.as_raw_fd();
    let start = headers.as_mut_ptr();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `headers` are at least `count` headers, each of which points to its vector and to parts of its message. All
    // live until the call returns. The kernel only reads them, except for the length in each header, which it writes. The
    // arguments match `sendmmsg(2)`.
    let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, socket, start, count, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Returns a header that points to the message, and to the vector with its bytes.
#[inline]
fn header_of(message: &OutgoingMessage<'_>, vector: &IoSlice<'_>) -> libc::msghdr {
    let control = message.control.as_bytes();
    // SAFETY: all-zero is a valid `msghdr`: no address, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = message.name.bytes.as_ptr().cast_mut().cast();
    header.msg_namelen = libc::socklen_t::try_from(message.name.length).expect("the size of an address");
    // `IoSlice` is documented to have the layout of `iovec` on Unix.
    header.msg_iov = (&raw const *vector).cast_mut().cast();
    header.msg_iovlen = 1;
    header.msg_control = control.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len() as _;
    header
}

/// Creates a pair of connected local sockets that preserve message boundaries. Unlike with datagram sockets, the kernel ignores an
/// address passed to a send, so neither end can reach any other socket.
pub(crate) fn message_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    let (first, second) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    Ok((OwnedFd::from(first).into(), OwnedFd::from(second).into()))
}

pub(crate) fn is_listener(socket: &Socket) -> io::Result<bool> {
    socket.is_listener()
}

/// Receives into `buffer`. `None` means that the call would block; 0 means that the peer has closed its sending direction.
pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let socket = socket.as_raw_fd();
    let bytes = buffer.as_mut_ptr();
    let length = buffer.len();
    let no_address = std::ptr::null_mut::<u8>();
    // SAFETY: `buffer` is a unique borrow of `length` bytes, which the kernel may write; null for address
    // and length omits the peer's address. The arguments match `recvfrom(2)`.
    check_bytes(unsafe {
        libc::syscall(libc::SYS_recvfrom, socket, bytes, length, 0, no_address, no_address)
    })
}

/// Sends one run of bytes. `None` means that the call would block.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    let socket = socket.as_raw_fd();
    let start = bytes.as_ptr();
    let length = bytes.len();
    let flags = libc::MSG_NOSIGNAL;
    let no_address = std::ptr::null::<u8>();
    // SAFETY: the kernel only reads `bytes`, and only until the call returns; null is the address for a connected
    // socket. The arguments match `sendto(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_sendto, socket, start, length, flags, no_address, 0usize) })
}

/// Sends several runs of bytes in order. `None` means that the call would block.
#[inline]
pub(crate) fn send_vectored(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    sendmsg(socket, runs, libc::MSG_NOSIGNAL)
}

/// Sends several runs of bytes in order. The kernel should not send a partial segment yet because more data is about to follow.
/// `None` means that the call would block.
#[inline]
pub(super) fn send_vectored_more(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    sendmsg(socket, runs, libc::MSG_NOSIGNAL | libc::MSG_MORE)
}

fn sendmsg(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>], flags: libc::c_int) -> io::Result<Option<usize>> {
    // SAFETY: all-zero is a valid `msghdr`: no address, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is documented to have the layout of `iovec` on Unix; the kernel only reads them.
    message.msg_iov = runs.as_ptr().cast_mut().cast();
    message.msg_iovlen = runs.len() as _;
    // SAFETY: `message` and the runs that it points to live until the call returns. The arguments match `sendmsg(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, flags) })
}

/// Creates a non-blocking pipe. Returns its reading end and its writing end.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors into `ends`, and only until the call returns.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    // SAFETY: the call above has opened both.
    Ok(unsafe { (own(ends[0]), own(ends[1])) })
}

/// Sets the capacity of a pipe, which the kernel will round up to a power of two in pages.
pub(super) fn set_pipe_capacity(pipe: &OwnedFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).expect("less than 2 GiB");
    // SAFETY: takes numbers and touches no memory of ours.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) })?;
    Ok(())
}

/// Makes a pipe refer to the pages of several runs without copying them. Returns the number of bytes, or `None` when the pipe is
/// full.
///
/// The runs MUST NOT change until the data has been read from the pipe and also from the socket that it is spliced to.
pub(super) fn vmsplice(pipe: &OwnedFd, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    let flags = libc::SPLICE_F_NONBLOCK;
    let pipe = pipe.as_raw_fd();
    let start = runs.as_ptr();
    let count = runs.len();
    // SAFETY: `IoSlice` is documented to have the layout of `iovec` on Unix. The kernel only reads the runs, and holds
    // references to their pages, which therefore outlive their mapping if necessary. The arguments match `vmsplice(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_vmsplice, pipe, start, count, flags) })
}

/// Moves bytes from a pipe to a socket or file. `None` means that there is no room.
pub(super) fn splice(pipe: &OwnedFd, into: BorrowedFd<'_>, bytes: usize) -> io::Result<Option<usize>> {
    let no_offset = std::ptr::null_mut::<libc::loff_t>();
    let flags = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    let pipe = pipe.as_raw_fd();
    let into = into.as_raw_fd();
    // SAFETY: null means that neither end has an offset; the call takes numbers and touches no memory of ours. The
    // arguments match `splice(2)`.
    check_bytes(unsafe { libc::syscall(libc::SYS_splice, pipe, no_offset, into, no_offset, bytes, flags) })
}

/// Takes over a descriptor that the parent process has left open for us, or fails if it is not open.
pub(crate) fn inherit(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    check(unsafe { libc::fcntl(descriptor, libc::F_GETFD) })?;
    // SAFETY: the descriptor is open, and the parent process passed it to us: no other value owns it.
    Ok(unsafe { own(descriptor) })
}

/// Gives the calling thread its own descriptor table with copies of all open descriptors and leaves signals to other threads.
///
/// Signal handlers typically write to a descriptor to wake up another thread. In this thread's table, however, the same number may
/// not exist or may be something else, e.g. a client's connection.
pub(crate) fn unshare_descriptor_table() -> io::Result<()> {
    block_signals()?;

    // SAFETY: takes a flag and touches no memory of ours. Descriptors that this thread closes afterwards
    // stay open for the others and the other way round: none is closed under its owner.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    Ok(())
}

/// Asks the scheduler for time slices of this length for the calling thread, and keeps its policy and priority.
///
/// A thread with a real-time policy has no time slices, and stays as it is.
pub(crate) fn set_time_slice(slice: Duration) -> io::Result<()> {
    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    /// Bytes of the structure in its first version.
    const SIZE: libc::c_uint = 48;
    const { assert!(size_of::<libc::sched_attr>() == SIZE as usize) };

    // SAFETY: all numbers are zero, which is valid. The kernel writes at most `SIZE` bytes of them.
    let mut attributes = unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let number = libc::SYS_sched_getattr;
        check_bytes(libc::syscall(number, THIS_THREAD, &raw mut attributes, SIZE, NO_FLAGS))?;
        attributes
    };
    let policy = attributes.sched_policy.cast_signed();
    if policy != libc::SCHED_OTHER && policy != libc::SCHED_BATCH {
        return Ok(());
    }

    attributes.size = SIZE;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads `size` bytes of our value, which is alive.
    check_bytes(unsafe {
        libc::syscall(libc::SYS_sched_setattr, THIS_THREAD, &raw const attributes, NO_FLAGS)
    })?;
    Ok(())
}

/// Signals for a fault of the current thread. If we blocked them, the kernel would kill the process.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP];

/// Blocks all signals in the calling thread, except those for faults.
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
/// Note that the thread must not own any of them.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    let bound = |descriptor| libc::c_uint::try_from(descriptor).expect("descriptors are not negative");
    // SAFETY: takes numbers and touches no memory of ours. In a shared table it would close descriptors
    // that other threads own. Our only caller has just given this thread a table of its own, and excludes the
    // descriptors that the thread owns.
    check_bytes(unsafe { libc::syscall(libc::SYS_close_range, bound(first), bound(last), 0) })?;
    Ok(())
}

/// Lets the system close all descriptors from `first` on when this process starts a program. The descriptors stay open here.
pub(crate) fn close_on_exec(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).expect("descriptors are not negative");
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: takes numbers and touches no memory of ours. With this flag, it sets a flag of each descriptor and closes none.
    check_bytes(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) })?;
    Ok(())
}

/// Creates an event counter, which is readable unless it is zero.
pub(super) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and touches no memory of ours.
    let descriptor = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the call above has opened it.
    Ok(unsafe { own(descriptor) })
}

/// Returns the address of a connection's peer, or `None` if the peer does not have one or the connection has failed.
pub(crate) fn peer_address(socket: &OwnedFd) -> Option<SocketAddr> {
    socket2::SockRef::from(socket).peer_addr().ok()?.as_socket()
}
