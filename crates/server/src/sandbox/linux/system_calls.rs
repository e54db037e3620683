//! Which system calls each kind of thread may make: the tables, with the reason of each row.
//!
//! The tables come from tracing the server through the whole test suite and asking of each call why it is
//! made; calls that only another C library or another architecture makes in its place stand beside it. What
//! is not here is refused. Never installs anything.
//!
//! The kernel remembers for each call whether a filter lets it pass whatever its arguments are, and then doesn't run
//! the filter again. The calls of the request path are therefore allowed without conditions, with one exception:
//! `sendto` and `sendmsg`, because a send may also open a connection. After `shutdown`, a listening socket is an
//! unconnected one, and a send with `MSG_FASTOPEN` connects it to any address, which no Landlock rule prevents. Running
//! the filters adds about 100 ns to a send; `write`, which takes neither flags nor an address and would need no
//! condition, adds about 150 ns, since it takes the longer way through the kernel's file layer.
//!
//! The address of `sendmsg` is in memory, where no filter sees it. So a worker has no socket that would use one: its
//! connections are connected, and the kernel ignores an address there, as it does for the `SOCK_SEQPACKET` pairs over
//! which workers pass connections on.
//!
//! Operations in a ring pass no filter: so a ring is restricted by the kernel when it is made, and a thread that
//! serves may use the one it has, but neither make nor change one.

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
    /// The first argument is the ID of this process.
    OwnProcess,
}

use Condition::{Is, OwnProcess, With, Without};

const fn any(number: c_long) -> Call {
    Call { number, conditions: &[] }
}

const fn only(number: c_long, conditions: &'static [Condition]) -> Call {
    Call { number, conditions }
}

/// The bit that makes memory executable: our code is there from the start.
const EXECUTABLE: u64 = libc::PROT_EXEC as u64;

/// The flag that makes a send open a connection.
const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;

/// What each thread does to live, to take memory, to wait for another one, to say something and to end.
const EVERY: &[Call] = &[
    any(libc::SYS_brk),
    any(libc::SYS_madvise),
    only(libc::SYS_mmap, &[Without(2, EXECUTABLE)]),
    only(libc::SYS_mprotect, &[Without(2, EXECUTABLE)]),
    any(libc::SYS_mremap),
    any(libc::SYS_munmap),
    any(libc::SYS_futex),
    any(libc::SYS_sched_yield),
    // The clocks: calls only where the kernel offers no faster way.
    any(libc::SYS_clock_gettime),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_gettimeofday),
    any(libc::SYS_nanosleep),
    // Seeds of hash tables.
    any(libc::SYS_getrandom),
    // Words to standard error, and the handler of a signal, which runs on any thread but a worker. Sends name no address.
    any(libc::SYS_write),
    any(libc::SYS_writev),
    // Whether there is room for words: a reader that does not read must not hold up a thread.
    any(libc::SYS_ppoll),
    only(libc::SYS_sendto, &[Without(3, FAST_OPEN), Is(4, 0)]),
    only(libc::SYS_ioctl, &[Is(1, libc::TCGETS as u64)]),
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_sigaltstack),
    any(libc::SYS_restart_syscall),
    // The standard library looks whether what it closes was open, in debug builds.
    any(libc::SYS_close),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFD as u64)]),
    // The end: of a thread, of the process, and of one that cannot go on.
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
    // Not `tkill`, whose thread may be any process's. A C library that aborts by it (musl) then aborts by a trap.
    only(libc::SYS_tgkill, &[OwnProcess]),
];

/// What serving needs.
const WORKER: &[Call] = &[
    any(libc::SYS_accept4),
    any(libc::SYS_epoll_ctl),
    any(libc::SYS_epoll_pwait),
    any(libc::SYS_recvfrom),
    any(libc::SYS_recvmsg),
    only(libc::SYS_sendmsg, &[Without(2, FAST_OPEN)]),
    any(libc::SYS_shutdown),
    // Large bodies: lent to a pipe, moved into the socket, and the pipe made anew where there was no room.
    any(libc::SYS_vmsplice),
    any(libc::SYS_splice),
    any(libc::SYS_pipe2),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETPIPE_SZ as u64)]),
    // The waker.
    any(libc::SYS_read),
    // The loop over a ring, and where a connection comes from that it has accepted.
    any(libc::SYS_io_uring_enter),
    any(libc::SYS_getpeername),
    // How much of an answer the peer has not confirmed.
    only(libc::SYS_ioctl, &[Is(1, libc::TIOCOUTQ as u64)]),
    // Resets a connection whose peer takes nothing, which frees what the kernel holds for it.
    only(libc::SYS_setsockopt, &[Is(1, libc::SOL_SOCKET as u64), Is(2, libc::SO_LINGER as u64)]),
];

/// What a new release needs: to be looked at, opened, checked, mapped and guarded.
const RELEASES: &[Call] = &[
    any(libc::SYS_openat),
    // The names in a release directory.
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

/// What a log needs: to be opened anew, and to lose the beginning of a line for which the disk had no room.
const LOG: &[Call] = &[
    any(libc::SYS_openat),
    any(libc::SYS_fstat),
    any(libc::SYS_statx),
    any(libc::SYS_lseek),
    any(libc::SYS_ftruncate),
];

/// What waiting for signals needs.
const ORDERS: &[Call] = &[
    any(libc::SYS_read),
    any(libc::SYS_recvfrom),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_poll),
];

/// What the process does after it has entered and before its threads have: it starts them.
const START: &[Call] = &[
    // A thread, and never a process. `clone3`, whose flags no filter can see, is answered as by a kernel that
    // does not have it.
    only(libc::SYS_clone, &[With(0, libc::CLONE_THREAD as u64)]),
    any(libc::SYS_clone3),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rseq),
    any(libc::SYS_sched_getaffinity),
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NAME as u64)]),
    // Only to ask for a limit, not to set one: of the stack.
    only(libc::SYS_prlimit64, &[Is(2, 0)]),
    // A thread's own narrower cage.
    only(libc::SYS_prctl, &[Is(0, libc::PR_SET_NO_NEW_PRIVS as u64)]),
    only(libc::SYS_seccomp, &[Is(0, libc::SECCOMP_SET_MODE_FILTER as u64)]),
    // A worker's own table of descriptors, and its loop.
    only(libc::SYS_unshare, &[Is(0, libc::CLONE_FILES as u64)]),
    any(libc::SYS_close_range),
    any(libc::SYS_epoll_create1),
    any(libc::SYS_eventfd2),
    // What tells the thread that waits for signals.
    only(libc::SYS_socketpair, &[Is(0, libc::AF_UNIX as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_GETFL as u64)]),
    only(libc::SYS_fcntl, &[Is(1, libc::F_SETFL as u64)]),
];

/// What makes the ring of a worker, before it enters its own narrower cage.
const RINGS: &[Call] = &[any(libc::SYS_io_uring_setup), any(libc::SYS_io_uring_register)];

/// What the first thread does at the end, where there are local sockets.
const END: &[Call] = &[
    any(libc::SYS_unlinkat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
];

/// What a C library may try in any thread, and does without: glibc asks how memory may be overcommitted before
/// it gives some back. Refused where it is not on a list, and never worth the end of the process.
pub(super) const DISPENSABLE: &[c_long] = &[libc::SYS_openat];

/// What threads of this role may do.
pub(super) fn of_thread(role: ThreadRole) -> impl Iterator<Item = Call> {
    let own = match role {
        ThreadRole::Worker => WORKER,
        ThreadRole::Releases => RELEASES,
        ThreadRole::Log => LOG,
        ThreadRole::Orders => ORDERS,
    };
    EVERY.iter().chain(own).copied()
}

/// What all threads together may do, and what it takes to start them; with the removal of local sockets, which is
/// the first thread's, and the making of rings, if there are any.
pub(super) fn of_process(removes: bool, rings: bool) -> impl Iterator<Item = Call> {
    let end = if removes { END } else { &[] };
    let rings = if rings { RINGS } else { &[] };
    [EVERY, WORKER, RELEASES, LOG, ORDERS, START, rings, end].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(calls: impl Iterator<Item = Call>) -> Vec<c_long> {
        calls.map(|call| call.number).collect()
    }

    #[test]
    fn nothing_that_leads_out_is_on_any_list() {
        let all = numbers(of_process(false, false));
        for number in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_writev,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_setns,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_socket,
            libc::SYS_pidfd_open,
            libc::SYS_memfd_create,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_register,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_setresuid,
            libc::SYS_unlinkat,
        ] {
            assert!(!all.contains(&number), "call {number}");
        }
    }

    #[test]
    fn who_sees_a_peer_opens_nothing_and_starts_nothing() {
        let worker = numbers(of_thread(ThreadRole::Worker));
        for number in [
            libc::SYS_openat,
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_unshare,
            libc::SYS_prctl,
            libc::SYS_unlinkat,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_register,
        ] {
            assert!(!worker.contains(&number), "call {number}");
        }
    }

    #[test]
    fn calls_of_the_request_path_run_no_filter() {
        let worker: Vec<Call> = of_thread(ThreadRole::Worker).collect();
        for number in [libc::SYS_epoll_pwait, libc::SYS_recvfrom, libc::SYS_accept4, libc::SYS_splice] {
            assert!(worker.contains(&any(number)), "call {number}");
        }
    }

    #[test]
    fn no_send_opens_a_connection() {
        let all: Vec<Call> = of_process(true, true).collect();
        for (number, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2)] {
            let mut rows = all.iter().filter(|call| call.number == number);
            assert!(rows.all(|call| call.conditions.contains(&Without(flags, FAST_OPEN))), "call {number}");
        }
        assert!(!numbers(all.into_iter()).contains(&libc::SYS_sendmmsg));
    }
}
