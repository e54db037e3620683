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
        libc::SYS_sched_setattr,
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

/// The calls of each role, with their conditions, as they were reviewed last. musl needs more.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn lists_are_those_that_were_reviewed() {
    let thread = |role| thread_calls(role).collect::<Vec<_>>();
    let roles = [
        ("every thread", EVERY.to_vec()),
        ("worker", thread(ThreadRole::Worker)),
        ("loader", thread(ThreadRole::Loader)),
        ("log", thread(ThreadRole::Log)),
        ("coordinator", thread(ThreadRole::Coordinator)),
        ("receiver", thread(ThreadRole::Receiver)),
        ("main thread", thread(ThreadRole::Main)),
        ("server process", process_calls(false, false).collect()),
        ("server process that removes sockets and creates rings", process_calls(true, true).collect()),
        ("process that compiles", compiler_calls().collect()),
        ("process that issues", issuer_calls().collect()),
        ("process that follows", follower_calls().collect()),
        ("profiler", profiler_calls(true).collect()),
    ];
    let mut found = String::new();
    for (role, calls) in roles {
        let is_new = |call: &&Call| role == "every thread" || !EVERY.contains(call);
        let mut lines: Vec<_> =
            calls.iter().filter(is_new).map(|call| format!("  {}\n", describe(call))).collect();
        lines.sort();
        lines.dedup();
        found.push_str(&format!("{role}\n{}", lines.concat()));
        // Each list but the last one begins with those of every thread.
        let has_every = EVERY.iter().all(|call| calls.contains(call));
        assert_eq!(has_every, role != "profiler", "{role}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sandbox/linux/system_calls/reviewed.txt");
    if std::env::var_os("CANNERY_WRITE_CALLS").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        found, reviewed,
        "if this is intended, set CANNERY_WRITE_CALLS=1 and review the change of {path}"
    );
}

/// Returns a call as a line of the list.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn describe(call: &Call) -> String {
    let name = NAMES.iter().find(|(number, _)| *number == call.number);
    let mut line = name.unwrap_or_else(|| panic!("add call {} to the names", call.number)).1.to_owned();
    for condition in call.conditions {
        line.push_str(&match condition {
            Is(argument, value) => format!(" arg{argument}={value:#x}"),
            Without(argument, bits) => format!(" arg{argument}&{bits:#x}=0"),
            With(argument, bits) => format!(" arg{argument}&{bits:#x}={bits:#x}"),
            IsApartFrom(argument, bits, value) => format!(" arg{argument}&!{bits:#x}={value:#x}"),
            OwnProcess => " arg0=getpid()".to_owned(),
        });
    }
    line
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name).split_at(4).1)),*] };
}

/// The names of all calls in the lists.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
const NAMES: &[(c_long, &str)] = names! {
    SYS_accept4 SYS_access SYS_bind SYS_brk SYS_clock_gettime SYS_clock_nanosleep SYS_clone SYS_clone3
    SYS_close SYS_close_range SYS_connect SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_wait
    SYS_eventfd2 SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fchmod SYS_fcntl
    SYS_fdatasync SYS_flock SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_getcwd
    SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getpeername SYS_getpid SYS_getppid SYS_getpriority
    SYS_getrandom SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_uring_enter SYS_io_uring_register
    SYS_io_uring_setup SYS_ioctl SYS_lseek SYS_lstat SYS_madvise SYS_memfd_create SYS_mkdir SYS_mkdirat
    SYS_mmap SYS_mprotect SYS_mremap SYS_munmap SYS_nanosleep SYS_newfstatat SYS_open SYS_openat SYS_pipe2
    SYS_poll SYS_ppoll SYS_prctl SYS_pread64 SYS_prlimit64 SYS_pwrite64 SYS_read SYS_readlink SYS_readlinkat
    SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_rename SYS_renameat SYS_renameat2
    SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sched_getaffinity
    SYS_sched_getattr SYS_sched_setattr SYS_sched_yield SYS_seccomp SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_setitimer
    SYS_setpriority SYS_setsockopt SYS_shutdown SYS_sigaltstack SYS_socket SYS_socketpair SYS_splice
    SYS_stat SYS_statfs SYS_statx SYS_symlink SYS_symlinkat SYS_sysinfo SYS_tgkill SYS_uname SYS_unlink
    SYS_unlinkat SYS_unshare SYS_vmsplice SYS_write SYS_writev
};

/// glibc uses the newer calls, and musl the older ones.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
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
        receiving_calls().collect(),
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

#[test]
fn only_processes_that_pull_or_order_certificates_connect() {
    let connects = |calls: Vec<Call>| calls.iter().any(|call| call.number == libc::SYS_connect);
    assert!(connects(follower_calls().collect()) && connects(issuer_calls().collect()));
    assert!(!connects(receiving_calls().collect()) && !connects(compiler_calls().collect()));
    let creates_sockets = |call: Call| call.number == libc::SYS_socket;
    assert!(!receiving_calls().any(creates_sockets));
}
