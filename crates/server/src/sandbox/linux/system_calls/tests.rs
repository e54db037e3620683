//! Unit tests of the table of system calls.

use super::*;

fn numbers(calls: impl Iterator<Item = Call>) -> Vec<c_long> {
    calls.map(|call| call.number).collect()
}

#[test]
fn dangerous_calls_are_never_allowed() {
    let all = numbers(process_calls(false, false));
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
        libc::SYS_setitimer,
        libc::SYS_setresuid,
        libc::SYS_unlinkat,
    ] {
        assert!(!all.contains(&number), "call {number}");
    }
}

#[test]
fn workers_open_and_start_nothing() {
    let worker = numbers(thread_calls(ThreadRole::Worker));
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
    let worker: Vec<Call> = thread_calls(ThreadRole::Worker).collect();
    for number in
        [libc::SYS_epoll_pwait, libc::SYS_recvfrom, libc::SYS_recvmmsg, libc::SYS_accept4, libc::SYS_splice]
    {
        assert!(worker.contains(&any(number)), "call {number}");
    }
}

#[test]
fn no_send_opens_a_connection() {
    let all: Vec<Call> = process_calls(true, true).collect();
    for (number, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        assert!(FREQUENT.contains(&number), "call {number}");
        let mut rows = all.iter().filter(|call| call.number == number);
        assert!(rows.all(|call| call.conditions.contains(&Without(flags, FAST_OPEN))), "call {number}");
    }
}

#[test]
fn arguments_reach_no_other_process_or_socket() {
    let all: Vec<Call> = process_calls(true, true).chain(compiler_calls()).collect();
    for (number, condition) in [
        (libc::SYS_getpriority, Is(1, 0)),
        (libc::SYS_setpriority, Is(1, 0)),
        (libc::SYS_prlimit64, Is(0, 0)),
        (libc::SYS_tgkill, OwnProcess),
        (libc::SYS_socketpair, IsApartFrom(1, SOCKET_FLAGS, libc::SOCK_STREAM as u64)),
    ] {
        let rows: Vec<&Call> = all.iter().filter(|call| call.number == number).collect();
        assert!(!rows.is_empty() && rows.iter().all(|call| call.conditions.contains(&condition)), "{number}");
    }
}

/// glibc uses the newer calls, and musl the older ones.
#[test]
#[cfg(target_arch = "x86_64")]
fn older_calls_are_allowed_where_the_newer_ones_are() {
    let roles = [
        ThreadRole::Worker,
        ThreadRole::Loader,
        ThreadRole::Log,
        ThreadRole::Coordinator,
        ThreadRole::Receiver,
        ThreadRole::Main,
    ];
    let of_threads = roles.map(|role| thread_calls(role).collect::<Vec<_>>());
    let of_processes = [
        process_calls(true, true).collect::<Vec<_>>(),
        compiler_calls().collect(),
        issuer_calls().collect(),
        follower_calls().collect(),
    ];
    for calls in of_threads.into_iter().chain(of_processes) {
        let with = |number| calls.iter().filter(move |call| call.number == number);
        for (newer, older) in [
            (libc::SYS_openat, libc::SYS_open),
            (libc::SYS_newfstatat, libc::SYS_stat),
            (libc::SYS_newfstatat, libc::SYS_lstat),
        ] {
            assert_eq!(with(newer).next().is_some(), with(older).next().is_some(), "{newer}, {older}");
        }
        // The flags are one argument further to the front.
        let only_reads =
            |number, flags: u8| with(number).all(|call| call.conditions == [Without(flags, WRITING)]);
        assert_eq!(only_reads(libc::SYS_openat, 2), only_reads(libc::SYS_open, 1));
    }
}

#[test]
fn main_thread_only_waits() {
    let main = numbers(thread_calls(ThreadRole::Main));
    for number in [libc::SYS_sendmsg, libc::SYS_socketpair, libc::SYS_openat, libc::SYS_clone, libc::SYS_read]
    {
        assert!(!main.contains(&number), "call {number}");
    }
}
