//! The system calls that each role may make, with reasons. All others are denied.
//!
//! We traced the server through the whole test suite and justified each call. Equivalents that other C libraries or
//! architectures use are listed too.
//!
//! The kernel caches which calls a filter allows with any arguments, and doesn't run the filter for them. The calls of the
//! request path are therefore allowed without conditions, except `sendto`, `sendmsg` and `sendmmsg`, because a send may also
//! open a connection. After `shutdown`, a listening socket is an unconnected one, and a send with `MSG_FASTOPEN` connects it
//! to any address, which no Landlock rule prevents. Running the filters adds about 30 ns to a send, because they compare its
//! number first, and otherwise 90; `write`, which takes neither flags nor an address and would need no
//! condition, adds about 150 ns, because it passes through the kernel's file layer.
//!
//! The address of `sendmsg` is in memory, which filters cannot read. A worker's sockets for streams are connected, and the
//! kernel ignores addresses there, as it does for the `SOCK_SEQPACKET` pairs over which workers pass connections. Only its
//! sockets for datagrams use one: with them, it can send UDP datagrams anywhere, from the server's port. No other thread may
//! call `sendmsg` once the server runs, because a process has other sockets, such as the one to the service manager.
//!
//! Filters don't apply to operations of an `io_uring`. Its operations are restricted when it is created
//! (`IORING_REGISTER_RESTRICTIONS`), and a worker can use its ring but neither create nor change one.

#![allow(clippy::unnecessary_cast, reason = "the numbers of `ioctl` have another type in each C library")]

use libc::c_long;

use crate::sandbox::ThreadRole;

/// A system call that is allowed if all of these conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) conditions: &'static [Condition],
}

/// A condition on an argument of a call. Arguments are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// The argument has this value.
    Is(u8, u64),
    /// None of these bits of the argument is set.
    Without(u8, u64),
    /// All of these bits of the argument are set.
    With(u8, u64),
    /// The argument has the second value, apart from these bits.
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

/// Protection bit of executable memory. The server never creates code at run time.
const EXECUTABLE: u64 = libc::PROT_EXEC as u64;

/// The flag with which a send opens a connection (TCP Fast Open).
const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;

/// The flags with which a file is opened for anything but reading. `O_TMPFILE` needs one of them.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// The flags that may be added to the type of a socket.
const SOCKET_FLAGS: u64 = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;

/// A file status flag that makes the kernel send signals to the owner of a descriptor.
const SIGNALS_OWNER: u64 = libc::O_ASYNC as u64;

/// Calls of every thread: memory, synchronization, messages, exit.
const EVERY: &[Call] = &[
    any(libc::SYS_brk),
    any(libc::SYS_madvise),
    only(libc::SYS_mmap, &[Without(2, EXECUTABLE)]),
    only(libc::SYS_mprotect, &[Without(2, EXECUTABLE)]),
    any(libc::SYS_mremap),
    any(libc::SYS_munmap),
    any(libc::SYS_futex),
    any(libc::SYS_sched_yield),
    // Clocks, where the vDSO is not used.
    any(libc::SYS_clock_gettime),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_gettimeofday),
    any(libc::SYS_nanosleep),
    // Seeds of hash tables.
    any(libc::SYS_getrandom),
    // Messages to standard error, and the signal handler, which runs on any thread except workers. Sends have no address.
    any(libc::SYS_write),
    any(libc::SYS_writev),
    // Checks that a write to standard error doesn't block.
    any(libc::SYS_ppoll),
    only(libc::SYS_sendto, &[Without(3, FAST_OPEN), Is(4, 0)]),
    only(libc::SYS_ioctl, &[Is(1, libc::TCGETS as u64)]),
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_sigaltstack),
    any(libc::SYS_restart_syscall),
    // In debug builds, the standard library checks that descriptors are open before it closes them.
    any(libc::SYS_close),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFD as u64)]),
    // Exit of a thread or the process, and abort.
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
    // Not `tkill`, which can signal threads of other processes. musl, which aborts by it, then aborts by a trap.
    only(libc::SYS_tgkill, &[OwnProcess]),
];

/// Calls of workers.
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
    // Zero-copy sends of large bodies through a pipe, which is replaced if it was full.
    any(libc::SYS_vmsplice),
    any(libc::SYS_splice),
    any(libc::SYS_pipe2),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETPIPE_SZ as u64)]),
    // The waker.
    any(libc::SYS_read),
    // The event loop with io_uring, and the address of an accepted client.
    any(libc::SYS_io_uring_enter),
    any(libc::SYS_getpeername),
    // The number of unacknowledged bytes.
    only(libc::SYS_ioctl, &[Is(1, libc::TIOCOUTQ as u64)]),
    // Resets a stalled connection, which frees its buffers in the kernel.
    only(libc::SYS_setsockopt, &[Is(1, libc::SOL_SOCKET as u64), Is(2, libc::SO_LINGER as u64)]),
];

/// Calls that open files: inspect, open, verify, map, lease.
const LOADER: &[Call] = &[
    only(libc::SYS_openat, &[Without(2, WRITING)]),
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
    // F_SETSIG: the signal of a lease. Not in `libc`.
    only(libc::SYS_fcntl, &[Is(1, 10)]),
];

/// Calls for the log: reopen, and truncate a line that was cut by a full disk.
const LOG: &[Call] = &[
    any(libc::SYS_openat),
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

/// Calls that receive releases from another process, which are sent as descriptors.
const RECEIVER: &[Call] = &[any(libc::SYS_recvmsg)];

/// Calls that follow a folder and compile it. A process that makes them serves no clients.
const COMPILER: &[Call] = &[
    // Events of the folder.
    any(libc::SYS_inotify_init1),
    any(libc::SYS_inotify_add_watch),
    any(libc::SYS_inotify_rm_watch),
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_epoll_wait),
    // Symbolic links, the file system, and the current directory.
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    any(libc::SYS_readlinkat),
    any(libc::SYS_statfs),
    any(libc::SYS_fstatfs),
    any(libc::SYS_getcwd),
    // The archive: a file in memory, which is sealed.
    any(libc::SYS_memfd_create),
    only(libc::SYS_fcntl, &[Is(1, libc::F_ADD_SEALS as u64)]),
    // A large archive: a file on disk, which the keeper of the process creates. It can't be sealed, but nor can this process
    // truncate it, after which a read of the server would raise SIGBUS: `ftruncate` is not allowed.
    any(libc::SYS_recvmsg),
    // Sends it, and receives the acknowledgement. All sockets of the process are connected streams.
    only(libc::SYS_sendmsg, &[Without(2, FAST_OPEN)]),
    any(libc::SYS_recvfrom),
    // The low priority of compression, of the calling thread. Any other ID could be that of another process.
    only(libc::SYS_getpriority, &[Is(0, libc::PRIO_PROCESS as u64), Is(1, 0)]),
    only(libc::SYS_setpriority, &[Is(0, libc::PRIO_PROCESS as u64), Is(1, 0)]),
];

/// Calls of the process between its own sandbox and those of its threads.
const START: &[Call] = &[
    // Starts threads but no processes. `clone3`, whose flags filters cannot read, fails as on a kernel without it.
    only(libc::SYS_clone, &[With(0, libc::CLONE_THREAD as u64)]),
    any(libc::SYS_clone3),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rseq),
    any(libc::SYS_sched_getaffinity),
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NAME as u64)]),
    // Reads the stack limit of this process; cannot set limits.
    only(libc::SYS_prlimit64, &[Is(0, 0), Is(2, 0)]),
    // The narrower sandbox of a thread.
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NO_NEW_PRIVS as u64)]),
    only(libc::SYS_seccomp, &[Is(0, libc::SECCOMP_SET_MODE_FILTER as u64)]),
    // A worker's own descriptor table and its event loop.
    only(libc::SYS_unshare, &[Is(0, libc::CLONE_FILES as u64)]),
    any(libc::SYS_close_range),
    any(libc::SYS_epoll_create1),
    any(libc::SYS_eventfd2),
    // The socket pair of the signal handler. A pair for datagrams could send to any named socket, because filters can't read the
    // address of a `sendmsg`.
    only(
        libc::SYS_socketpair,
        &[Is(0, libc::AF_UNIX as u64), IsApartFrom(1, SOCKET_FLAGS, libc::SOCK_STREAM as u64)],
    ),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFL as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFL as u64), Without(2, SIGNALS_OWNER)]),
];

/// Calls that create the ring of a worker before it enters its own sandbox.
const RINGS: &[Call] = &[any(libc::SYS_io_uring_setup), any(libc::SYS_io_uring_register)];

/// Calls of the main thread at exit, if there are Unix sockets.
const END: &[Call] = &[
    any(libc::SYS_unlinkat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
];

/// Calls of a profiler, which interrupts every thread to take samples: it reads the name of the thread, and stops its timer.
const PROFILER: &[Call] = &[
    only(libc::SYS_prctl, &[Is(0, libc::PR_GET_NAME as u64)]),
    only(libc::SYS_setitimer, &[Is(0, libc::ITIMER_PROF as u64)]),
];

/// Calls that a C library may try in any thread, and whose failure is harmless: glibc reads the overcommit setting before it
/// frees memory. They fail instead of killing the process.
pub(super) const DISPENSABLE: &[c_long] = &[libc::SYS_openat];

/// The calls of the request path that have conditions, for which the kernel runs the filters each time.
pub(super) const FREQUENT: &[c_long] = &[libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Returns the calls that threads of this role may make.
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

/// Returns the calls that the process may make: those of all roles, those that start threads, and on request the removal of
/// Unix sockets and the creation of rings.
pub(super) fn process_calls(removes: bool, rings: bool) -> impl Iterator<Item = Call> {
    let end = if removes { END } else { &[] };
    let rings = if rings { RINGS } else { &[] };
    [EVERY, WORKER, LOADER, LOG, COORDINATOR, RECEIVER, START, rings, end].into_iter().flatten().copied()
}

/// Returns the calls of a profiler, in addition to those of any thread.
pub(super) fn profiler_calls(is_profiled: bool) -> impl Iterator<Item = Call> {
    let calls = if is_profiled { PROFILER } else { &[] };
    calls.iter().copied()
}

/// Returns the calls of a process that compiles folders.
pub(super) fn compiler_calls() -> impl Iterator<Item = Call> {
    [EVERY, LOADER, START, COMPILER].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests;
