//! Lists the system calls that each role may make, and why. All others are denied.
//!
//! The list comes from tracing the server while running all tests, and each call has been justified. It
//! also includes equivalents that are used by other architectures. Calls that only musl makes are only
//! allowed with musl.
//!
//! The kernel caches which calls a filter allows with any arguments, and does not run the filter for these.
//! For this reason, the calls on the request path are allowed without conditions. The exceptions are
//! `sendto`, `sendmsg` and `sendmmsg` because a send can also open a connection: after `shutdown`, a
//! listening socket becomes an unconnected one, and a send with `MSG_FASTOPEN` would connect it to any
//! address, which no Landlock rule prevents. Running the filters adds about 30 ns to a send (it would be 90
//! ns if they did not compare its number first). `write` takes neither flags nor an address and would not
//! need a condition; however, it adds about 150 ns as it goes through the kernel's file layer.
//!
//! The address for `sendmsg` is in memory, where filters cannot read it. Since a worker's stream sockets are
//! connected, the kernel ignores addresses there, and the same is true for the `SOCK_SEQPACKET` pairs that
//! workers use to pass connections. Only its datagram sockets use an address; a worker can therefore send UDP
//! datagrams to anywhere, from the server's port. Once the server is running, no other thread may call
//! `sendmsg` because a process also has other sockets (such as the one to the service manager).
//!
//! Filters do not apply to the operations of an `io_uring`, which have to be restricted when it is
//! created (`IORING_REGISTER_RESTRICTIONS`). Workers can use their rings, but are not able to create or
//! change one.

#![allow(clippy::unnecessary_cast, reason = "the numbers of `ioctl` have another type in each C library")]

use libc::c_long;

use crate::sandbox::ThreadRole;

/// A system call that is allowed if all of these conditions are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) conditions: &'static [Condition],
}

/// A condition for an argument. Arguments are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// The argument has this value.
    Is(u8, u64),
    /// None of these bits is set.
    Without(u8, u64),
    /// All of these bits are set.
    With(u8, u64),
    /// Apart from these bits, the argument has the second value.
    IsApartFrom(u8, u64, u64),
    /// The first argument is the ID of this process.
    OwnProcess,
}

use Condition::{Is, IsApartFrom, OwnProcess, With, Without};

const fn any(number: c_long) -> Call {
    Call { number, conditions: &[] }
}

const fn only(number: c_long, conditions: &'static [Condition]) -> Call {
    Call { number, conditions }
}

/// Protection bit for executable memory. The server never generates any code.
const EXECUTABLE: u64 = libc::PROT_EXEC as u64;

/// A send with this flag opens a connection (TCP Fast Open).
const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;

/// Opening a file for anything but reading needs at least one of these flags, even with
/// `O_TMPFILE`.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Flags that can be added to a socket type.
const SOCKET_FLAGS: u64 = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;

/// With this file status flag, the kernel sends signals to the owner of a descriptor.
const SIGNALS_OWNER: u64 = libc::O_ASYNC as u64;

/// Calls that every thread may make: memory, synchronization, messages, exit.
const EVERY: &[Call] = &[
    any(libc::SYS_brk),
    any(libc::SYS_madvise),
    only(libc::SYS_mmap, &[Without(2, EXECUTABLE)]),
    only(libc::SYS_mprotect, &[Without(2, EXECUTABLE)]),
    any(libc::SYS_mremap),
    any(libc::SYS_munmap),
    any(libc::SYS_futex),
    any(libc::SYS_sched_yield),
    // Clocks, if the vDSO is not used.
    any(libc::SYS_clock_gettime),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_gettimeofday),
    any(libc::SYS_nanosleep),
    // Seeds for hash tables.
    any(libc::SYS_getrandom),
    // Messages to standard error. These can also come from the signal handler, which can run on any thread
    // except for workers. Sends do not have an address.
    any(libc::SYS_write),
    any(libc::SYS_writev),
    // Checks that writing to standard error will not block.
    any(libc::SYS_ppoll),
    only(libc::SYS_sendto, &[Without(3, FAST_OPEN), Is(4, 0)]),
    only(libc::SYS_ioctl, &[Is(1, libc::TCGETS as u64)]),
    // Whether standard error is a terminal, as musl finds out.
    #[cfg(target_env = "musl")]
    only(libc::SYS_ioctl, &[Is(1, libc::TIOCGWINSZ as u64)]),
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_sigaltstack),
    any(libc::SYS_restart_syscall),
    // In debug builds, the standard library checks that descriptors are open before closing them.
    any(libc::SYS_close),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFD as u64)]),
    // Exit of a thread or the process, and abort.
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
    // `tkill` should not be allowed as it can signal threads of other processes. Note that musl uses it to
    // abort, so it will abort with a trap instead.
    only(libc::SYS_tgkill, &[OwnProcess]),
];

/// Calls that workers may make.
const WORKER: &[Call] = &[
    any(libc::SYS_accept4),
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    any(libc::SYS_recvfrom),
    any(libc::SYS_recvmsg),
    only(libc::SYS_sendmsg, &[Without(2, FAST_OPEN)]),
    // Datagrams of several peers.
    any(libc::SYS_recvmmsg),
    only(libc::SYS_sendmmsg, &[Without(3, FAST_OPEN)]),
    any(libc::SYS_shutdown),
    // Zero-copy sends of large bodies. They use a pipe, which is replaced if it was full.
    any(libc::SYS_vmsplice),
    any(libc::SYS_splice),
    any(libc::SYS_pipe2),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETPIPE_SZ as u64)]),
    // The waker.
    any(libc::SYS_read),
    // The event loop with io_uring, and the address of an accepted client.
    any(libc::SYS_io_uring_enter),
    any(libc::SYS_getpeername),
    // Unacknowledged bytes in a socket.
    only(libc::SYS_ioctl, &[Is(1, libc::TIOCOUTQ as u64)]),
    // Resets a stalled connection, so that the kernel frees its buffers.
    only(libc::SYS_setsockopt, &[Is(1, libc::SOL_SOCKET as u64), Is(2, libc::SO_LINGER as u64)]),
];

/// Calls for files: inspect, open, verify, map, lease.
const LOADER: &[Call] = &[
    only(libc::SYS_openat, &[Without(2, WRITING)]),
    // On this architecture, musl prefers the older calls. Its `open` sets close-on-exec a second time, for old kernels.
    #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
    only(libc::SYS_open, &[Without(1, WRITING)]),
    #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
    any(libc::SYS_stat),
    #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
    any(libc::SYS_lstat),
    #[cfg(target_env = "musl")]
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFD as u64)]),
    // Lists a release directory.
    any(libc::SYS_getdents64),
    any(libc::SYS_read),
    any(libc::SYS_pread64),
    any(libc::SYS_lseek),
    any(libc::SYS_fstat),
    any(libc::SYS_newfstatat),
    any(libc::SYS_statx),
    any(libc::SYS_fadvise64),
    only(libc::SYS_fcntl, &[Is(1, libc::F_DUPFD_CLOEXEC as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETLEASE as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETLEASE as u64)]),
    // F_SETSIG, the signal for a lease. It is missing in `libc`.
    only(libc::SYS_fcntl, &[Is(1, 10)]),
];

/// Calls for the log: reopen, and truncate if the disk is full and has cut a line.
const LOG: &[Call] = &[
    any(libc::SYS_openat),
    #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
    any(libc::SYS_open),
    #[cfg(target_env = "musl")]
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFD as u64)]),
    any(libc::SYS_fstat),
    any(libc::SYS_statx),
    any(libc::SYS_lseek),
    any(libc::SYS_ftruncate),
];

/// Calls to wait for signals and orders, and to send replies.
const COORDINATOR: &[Call] = &[
    any(libc::SYS_read),
    any(libc::SYS_recvfrom),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_poll),
];

/// Calls to receive releases from another process, which are sent as descriptors.
const RECEIVER: &[Call] = &[any(libc::SYS_recvmsg)];

/// Calls to follow and compile a folder. A process that makes them does not serve any clients.
const COMPILER: &[Call] = &[
    // Events of the folder.
    any(libc::SYS_inotify_init1),
    any(libc::SYS_inotify_add_watch),
    any(libc::SYS_inotify_rm_watch),
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_epoll_wait),
    // Symlinks, the file system, and the current directory.
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    any(libc::SYS_readlinkat),
    any(libc::SYS_statfs),
    any(libc::SYS_fstatfs),
    any(libc::SYS_getcwd),
    // The archive, which is a sealed file in memory.
    any(libc::SYS_memfd_create),
    only(libc::SYS_fcntl, &[Is(1, libc::F_ADD_SEALS as u64)]),
    // A large archive is a file on disk, created by the process's keeper, and cannot be sealed. If this
    // process could truncate it, a read by the server would raise SIGBUS; however, `ftruncate` is not allowed
    // here.
    any(libc::SYS_recvmsg),
    // Sends the archive, and receives the acknowledgement. All sockets of this process are connected streams.
    only(libc::SYS_sendmsg, &[Without(2, FAST_OPEN)]),
    any(libc::SYS_recvfrom),
    // Low priority for compression, for the calling thread. Other IDs might belong to another process.
    only(libc::SYS_getpriority, &[Is(0, libc::PRIO_PROCESS as u64), Is(1, 0)]),
    only(libc::SYS_setpriority, &[Is(0, libc::PRIO_PROCESS as u64), Is(1, 0)]),
];

/// Calls to connect to an authority of certificates or to a store. A process that makes them does not serve any clients.
const CONNECTIONS: &[Call] = &[
    // Name servers by UDP, the authority and our own server by TCP; netlink tells the C library which addresses the
    // machine has, and plugins of the resolver have local sockets.
    only(libc::SYS_socket, &[Is(0, libc::AF_INET as u64)]),
    only(libc::SYS_socket, &[Is(0, libc::AF_INET6 as u64)]),
    only(libc::SYS_socket, &[Is(0, libc::AF_NETLINK as u64)]),
    only(libc::SYS_socket, &[Is(0, libc::AF_UNIX as u64)]),
    any(libc::SYS_connect),
    any(libc::SYS_bind),
    any(libc::SYS_getsockname),
    any(libc::SYS_getpeername),
    any(libc::SYS_setsockopt),
    any(libc::SYS_getsockopt),
    any(libc::SYS_sendto),
    any(libc::SYS_sendmsg),
    any(libc::SYS_sendmmsg),
    any(libc::SYS_recvfrom),
    any(libc::SYS_recvmsg),
    any(libc::SYS_shutdown),
    only(libc::SYS_ioctl, &[Is(1, libc::FIONREAD as u64)]),
    only(libc::SYS_ioctl, &[Is(1, libc::FIONBIO as u64)]),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_poll),
    // Timers of the asynchronous ACME library.
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_epoll_wait),
];

/// Calls to replace files. A process that makes them does not serve any clients.
const FILES: &[Call] = &[
    // Files that are written, synced and renamed, and the lock of the folder.
    any(libc::SYS_openat),
    any(libc::SYS_ftruncate),
    any(libc::SYS_fchmod),
    any(libc::SYS_fsync),
    any(libc::SYS_flock),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_rename),
    any(libc::SYS_renameat),
    any(libc::SYS_renameat2),
    // The folder already exists, so this fails.
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_mkdir),
    any(libc::SYS_mkdirat),
    // The resolver: its settings, plugins (shared libraries), and the limits of sorting addresses.
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_stat),
    // `realpath` before glibc 2.33.
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_access),
    any(libc::SYS_faccessat),
    any(libc::SYS_faccessat2),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    any(libc::SYS_readlinkat),
    any(libc::SYS_mmap),
    // Streams of musl.
    #[cfg(target_env = "musl")]
    any(libc::SYS_readv),
    any(libc::SYS_sysinfo),
    any(libc::SYS_uname),
    any(libc::SYS_getcwd),
    any(libc::SYS_getuid),
    any(libc::SYS_geteuid),
    any(libc::SYS_getgid),
    any(libc::SYS_getegid),
    any(libc::SYS_getppid),
];

/// Calls to write releases into a directory, beside [`FILES`].
const RELEASES: &[Call] = &[
    any(libc::SYS_pwrite64),
    any(libc::SYS_fdatasync),
    any(libc::SYS_unlinkat),
    any(libc::SYS_symlinkat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_symlink),
];

/// Calls to remove the directory of a preview.
const PREVIEWS: &[Call] = &[
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_rmdir),
    // To read a directory by its descriptor, glibc sets close-on-exec a second time.
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFD as u64)]),
];

/// Calls that the process may make between entering its own sandbox and those of its threads.
const START: &[Call] = &[
    // Starts threads, but no processes. Since filters cannot read the flags of `clone3`, it fails as it would
    // on a kernel without it.
    only(libc::SYS_clone, &[With(0, libc::CLONE_THREAD as u64)]),
    any(libc::SYS_clone3),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rseq),
    any(libc::SYS_sched_getaffinity),
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NAME as u64)]),
    // Reads the stack limit of this process. Cannot set any limits.
    only(libc::SYS_prlimit64, &[Is(0, 0), Is(2, 0)]),
    // The narrower sandbox of a thread.
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NO_NEW_PRIVS as u64)]),
    only(libc::SYS_seccomp, &[Is(0, libc::SECCOMP_SET_MODE_FILTER as u64)]),
    // The worker's own descriptor table, and its event loop.
    only(libc::SYS_unshare, &[Is(0, libc::CLONE_FILES as u64)]),
    any(libc::SYS_close_range),
    any(libc::SYS_epoll_create1),
    any(libc::SYS_eventfd2),
    // The signal handler's socket pair. It must not be a datagram pair: filters cannot read the address for a
    // `sendmsg`, so it could send to any named socket.
    only(
        libc::SYS_socketpair,
        &[Is(0, libc::AF_UNIX as u64), IsApartFrom(1, SOCKET_FLAGS, libc::SOCK_STREAM as u64)],
    ),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFL as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFL as u64), Without(2, SIGNALS_OWNER)]),
];

/// Calls by which a worker sets its own time slice, before it enters its own sandbox.
const SLICES: &[Call] =
    &[only(libc::SYS_sched_getattr, &[Is(0, 0)]), only(libc::SYS_sched_setattr, &[Is(0, 0)])];

/// Calls to create a worker's ring, before it enters its own sandbox.
const RINGS: &[Call] = &[any(libc::SYS_io_uring_setup), any(libc::SYS_io_uring_register)];

/// Calls that the main thread may make at exit, if there are Unix sockets.
const END: &[Call] = &[
    any(libc::SYS_unlinkat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
];

/// Calls of a profiler. In order to take samples, it interrupts every thread, reads the thread's name, and
/// stops its timer.
const PROFILER: &[Call] = &[
    only(libc::SYS_prctl, &[Is(0, libc::PR_GET_NAME as u64)]),
    only(libc::SYS_setitimer, &[Is(0, libc::ITIMER_PROF as u64)]),
];

/// Calls that a C library can try in any thread and that is allowed to fail, e.g. glibc reads the overcommit setting
/// before it frees memory. Such a call fails instead of killing the process.
pub(super) const DISPENSABLE: &[c_long] = &[libc::SYS_openat];

/// Calls on the request path that have conditions. The kernel runs the filters for them each time.
pub(super) const FREQUENT: &[c_long] = &[libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Returns the calls that threads with this role may make.
pub(super) fn thread_calls(role: ThreadRole) -> impl Iterator<Item = Call> {
    let own = match role {
        ThreadRole::Worker => WORKER,
        ThreadRole::Loader => LOADER,
        ThreadRole::Log => LOG,
        ThreadRole::Coordinator => COORDINATOR,
        ThreadRole::Receiver => RECEIVER,
        ThreadRole::Main => END,
    };
    EVERY.iter().chain(own).copied()
}

/// Lists the calls that the process may make. These are the calls of all roles and those for
/// starting threads; removing Unix sockets and creating rings are included on request.
pub(super) fn process_calls(removes: bool, rings: bool) -> impl Iterator<Item = Call> {
    let end = if removes { END } else { &[] };
    let rings = if rings { RINGS } else { &[] };
    [EVERY, WORKER, LOADER, LOG, COORDINATOR, RECEIVER, START, SLICES, rings, end]
        .into_iter()
        .flatten()
        .copied()
}

/// Returns the calls of a profiler, which are allowed in any thread.
pub(super) fn profiler_calls(is_profiled: bool) -> impl Iterator<Item = Call> {
    let calls = if is_profiled { PROFILER } else { &[] };
    calls.iter().copied()
}

/// Returns the calls of a process that compiles folders.
pub(super) fn compiler_calls() -> impl Iterator<Item = Call> {
    [EVERY, LOADER, START, COMPILER].into_iter().flatten().copied()
}

/// Returns the calls of a process that follows a store of releases.
pub(super) fn follower_calls() -> impl Iterator<Item = Call> {
    [EVERY, LOADER, START, CONNECTIONS, FILES, RELEASES].into_iter().flatten().copied()
}

/// Returns the calls of a process that receives releases through standard input. It opens no connections.
pub(super) fn receiving_calls() -> impl Iterator<Item = Call> {
    [EVERY, LOADER, START, FILES, RELEASES, PREVIEWS].into_iter().flatten().copied()
}

/// Returns the calls of a process that issues certificates.
pub(super) fn issuer_calls() -> impl Iterator<Item = Call> {
    [EVERY, LOADER, START, CONNECTIONS, FILES].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests;
