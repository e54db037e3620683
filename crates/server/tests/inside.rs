//! Tests that a sandboxed process is denied everything that the table in `docs/security.md`
//! forbids.
//!
//! Each row of the table has attempts here, apart from those that `tests/it/sandbox.rs` checks in `/proc` of
//! the real server.
//!
//! A process can enter a sandbox only once, and only while it has a single thread, so the test harness cannot
//! be used here. Instead, the program runs itself, enters the sandbox by the same function as the server,
//! makes the attempts, and prints a line with the outcome of each.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use cannery_server::sandbox::{DenyAction, Plan, Requirement, Sandbox, SandboxPolicy, ThreadRole};
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketAddrUnix, sendmsg_addr, sendto};
use rustix::process::{Pid, PidfdFlags, getpgid, getpid};
use rustix::thread::set_thread_uid;
use socket2::{Domain, Socket, Type};

/// `MSG_FASTOPEN` of Linux, for which `rustix` has no constant.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

/// Attempts that fail in every thread, one element per row of the table.
const FORBIDDEN: [(&str, &[&str]); 7] = [
    ("rights", &["execve"]),
    ("root", &["become root", "give up capabilities"]),
    (
        "files",
        &[
            "open /etc/passwd",
            "write the archive",
            "create a file in the directory",
            "list",
            "remove",
            "rename",
            "link",
        ],
    ),
    (
        "network",
        &[
            "connect",
            "socket",
            "local socket",
            "bind",
            "listen",
            "fast open by sendto",
            "fast open by sendmsg",
            "datagram to a named socket",
        ],
    ),
    ("other processes", &["kill", "open a process", "start a process"]),
    ("system calls", &["an unused system call", "set another socket option", "attach a filter to a socket"]),
    ("memory", &["executable memory"]),
];

const ONLY_FILES: SandboxPolicy = SandboxPolicy { system_calls: Requirement::Off, ..SandboxPolicy::AUTO };
const ONLY_CALLS: SandboxPolicy = SandboxPolicy { filesystem: Requirement::Off, ..SandboxPolicy::AUTO };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "inside") {
        return inside(&arguments[2], &arguments[3], &arguments[4], Path::new(&arguments[5]));
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("site.cdb"), "archive").unwrap();
    attempts_succeed_without_a_sandbox(directory.path());
    forbidden_calls_fail_in_every_thread(directory.path());
    local_socket_can_be_removed(directory.path());
    worker_can_reset_a_connection(directory.path());
    landlock_and_seccomp_work_alone(directory.path());
    only_the_releases_thread_opens_archives(directory.path());
    denied_call_can_end_the_process(directory.path());
    // Other systems have no sandbox that a second thread could escape.
    if cfg!(all(target_os = "linux", not(feature = "portable"))) {
        second_thread_prevents_the_sandbox(directory.path());
    }
}

fn attempts_succeed_without_a_sandbox(directory: &Path) {
    let tried = attempts(directory, "off", "main");
    for name in
        ["open /etc/passwd", "open the archive", "connect", "socket", "create a file in the directory"]
    {
        assert_eq!(tried[name], "done", "{name}");
    }
}

fn forbidden_calls_fail_in_every_thread(directory: &Path) {
    for thread in ["main", "worker", "loader", "log", "coordinator"] {
        let tried = attempts(directory, "auto", thread);
        if tried["system calls"] == "missing" {
            println!("skipped, because this kernel has no seccomp filters: {tried:?}");
            continue;
        }
        for (row, names) in FORBIDDEN {
            for name in names {
                let outcome = tried[*name].as_str();
                assert!(["EPERM", "EACCES"].contains(&outcome), "{thread}: {row}: {name}: {outcome}");
            }
        }
        let ring = &tried["make a ring"];
        assert!(ring != "done", "{thread}: io_uring is available");
    }
}

fn local_socket_can_be_removed(directory: &Path) {
    for sandbox in ["unix", "unix, files"] {
        let tried = attempts(directory, sandbox, "main");
        if tried["files"] == "missing" {
            continue;
        }
        assert_eq!(tried["unreachable"], "");
        assert!(["EPERM", "EACCES"].contains(&tried["open /etc/passwd"].as_str()), "{sandbox}");
        assert_eq!(tried["remove the local socket"], "done", "{sandbox}");
    }
    // Without seccomp, these fail because of Landlock alone.
    let tried = attempts(directory, "unix, files", "worker");
    if tried["files"] != "missing" {
        for name in ["open /etc/passwd", "write the archive", "create a file in the directory"] {
            assert_eq!(tried[name], "EACCES", "{name}");
        }
    }
}

/// Without a reset, the kernel would keep unsent bytes of a stalled reader for minutes.
fn worker_can_reset_a_connection(directory: &Path) {
    assert_eq!(attempts(directory, "auto", "worker")["reset"], "done");
}

fn landlock_and_seccomp_work_alone(directory: &Path) {
    let tried = attempts(directory, "files", "worker");
    if tried["files"] != "missing" {
        assert_eq!(tried["open /etc/passwd"], "EACCES");
        assert_eq!(tried["execve"], "EACCES");
        assert_eq!(tried["create a file in the directory"], "EACCES");
        assert_eq!(tried["open the archive"], "done");
    }
    let tried = attempts(directory, "calls", "worker");
    if tried["system calls"] != "missing" {
        for name in FORBIDDEN.iter().flat_map(|(_, names)| *names) {
            assert_eq!(tried[*name], "EPERM", "{name}");
        }
    }
}

fn only_the_releases_thread_opens_archives(directory: &Path) {
    assert_eq!(attempts(directory, "auto", "loader")["open the archive"], "done");
    let tried = attempts(directory, "auto", "worker");
    if tried["system calls"] != "missing" {
        assert_eq!(tried["open the archive"], "EPERM");
    }
}

fn denied_call_can_end_the_process(directory: &Path) {
    let output = run(directory, "calls", "worker", "kill");
    if !String::from_utf8_lossy(&output.stdout).contains("system calls=missing") {
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
    }
}

fn second_thread_prevents_the_sandbox(directory: &Path) {
    let output = run(directory, "auto", "two", "fail");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("has 2 threads"), "{printed}");
}

/// Returns the outcome of each attempt, by name.
fn attempts(directory: &Path, sandbox: &str, thread: &str) -> BTreeMap<String, String> {
    let output = run(directory, sandbox, thread, "fail");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let pair = |line: &str| line.split_once('=').map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    printed.lines().filter_map(pair).collect()
}

fn run(directory: &Path, sandbox: &str, thread: &str, denied: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["inside", sandbox, thread, denied]).arg(directory).output().unwrap()
}

/// Runs the attempts in a sandboxed process.
fn inside(sandbox_name: &str, thread: &str, denied: &str, directory: &Path) {
    let sandbox = match sandbox_name {
        "off" => SandboxPolicy::OFF,
        "files" => ONLY_FILES,
        "calls" => ONLY_CALLS,
        "unix, files" => ONLY_FILES,
        _ => SandboxPolicy::AUTO,
    };

    let local = sandbox_name.starts_with("unix").then(|| directory.join("local.sock"));
    let deny_action = if denied == "kill" { DenyAction::Kill } else { DenyAction::Fail };
    let archive = directory.join("site.cdb");
    let remove = local.iter().cloned().collect();
    let plan = Plan { sandbox, deny_action, read: vec![archive.clone()], remove, ..Plan::default() };

    let outside = Outside::open(archive);
    let _bound = local.as_ref().map(|path| UnixListener::bind(path).unwrap());
    if thread == "two" {
        std::thread::spawn(std::thread::park);
    }

    let (sandbox, report) = Sandbox::enter(&plan).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    });

    let missing: String = report.missing().collect();
    let is_there = |name| if missing.contains(name) { "missing" } else { "there" };
    println!("files={}", is_there("landlock"));
    println!("system calls={}", is_there("seccomp"));
    println!("unreachable={}", report.unreachable.concat());

    let role = match thread {
        "worker" => ThreadRole::Worker,
        "loader" => ThreadRole::Loader,
        "log" => ThreadRole::Log,
        "coordinator" => ThreadRole::Coordinator,
        _ => {
            local.iter().for_each(|path| print_outcome("remove the local socket", fs::remove_file(path)));
            return outside.attempt_all();
        }
    };

    let attempt = move || {
        sandbox.enter_thread(role).unwrap();
        outside.attempt_all();
    };
    std::thread::spawn(attempt).join().unwrap();
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
fn make_ring() -> io::Result<()> {
    cannery_eventloop::Uring::probe()
}

#[cfg(any(feature = "portable", not(target_os = "linux")))]
fn make_ring() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Targets of the attempts, outside the sandbox.
struct Outside {
    archive: PathBuf,
    /// Sockets from before the sandbox, so that the attempts only use them.
    socket: Socket,
    unbound: Socket,
    datagrams: UnixDatagram,
    /// A listener such as a worker has.
    own_listener: TcpListener,
    target: SocketAddr,
    _listening: TcpListener,
    /// Path of a local socket.
    named: PathBuf,
    _named: UnixDatagram,
    /// The process that started this one.
    parent: Pid,
}

impl Outside {
    fn open(archive: PathBuf) -> Outside {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listening = listen();
        let named = archive.with_extension("named");
        // The previous run might have left it.
        let _ = fs::remove_file(&named);
        Outside {
            socket: tcp(),
            unbound: tcp(),
            datagrams: UnixDatagram::unbound().unwrap(),
            own_listener: listen(),
            target: listening.local_addr().unwrap(),
            _listening: listening,
            _named: UnixDatagram::bind(&named).unwrap(),
            named,
            parent: rustix::process::getppid().unwrap(),
            archive,
        }
    }

    fn attempt_all(&self) {
        print_outcome("open the archive", File::open(&self.archive));
        self.attempt_files();
        self.attempt_network();
        self.attempt_rights();
        print_outcome("kill", rustix::process::test_kill_process(self.parent));
        print_outcome("open a process", rustix::process::pidfd_open(self.parent, PidfdFlags::empty()));
        print_outcome("start a process", Command::new("/bin/true").spawn().map(|mut child| child.wait()));
        // This needs to be last because it does not return if it succeeds.
        if std::env::args().nth(2).is_some_and(|word| word != "off") {
            print_outcome::<(), io::Error>("execve", Err(Command::new("/bin/true").exec()));
        }
    }

    fn attempt_files(&self) {
        print_outcome("open /etc/passwd", File::open("/etc/passwd"));
        print_outcome("write the archive", File::options().append(true).open(&self.archive));
        let new = self.archive.with_extension("new");
        print_outcome("create a file in the directory", File::create(&new));
        print_outcome("list", fs::read_dir(self.archive.parent().unwrap()));
        print_outcome("remove", fs::remove_file(&new));
        print_outcome("rename", fs::rename(&self.named, &new));
        print_outcome("link", fs::hard_link(&self.archive, &new));
    }

    fn attempt_network(&self) {
        let target = self.target;
        print_outcome("reset", self.socket.set_linger(Some(Duration::ZERO)));
        print_outcome("set another socket option", self.socket.set_reuse_address(true));
        print_outcome("attach a filter to a socket", self.socket.attach_filter(&[]));
        print_outcome("connect", self.socket.connect(&target.into()));
        print_outcome("bind", self.unbound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()));
        print_outcome("listen", self.unbound.listen(1));
        print_outcome("socket", Socket::new(Domain::IPV4, Type::STREAM, None));
        print_outcome("local socket", UnixDatagram::unbound());

        // After this, the socket is no listener anymore, and could be connected.
        let _ = rustix::net::shutdown(&self.own_listener, rustix::net::Shutdown::Both);
        let flags = FAST_OPEN | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        print_outcome("fast open by sendto", sendto(&self.own_listener, b"out", flags, &target));

        let message = [IoSlice::new(b"out")];
        let mut nothing = SendAncillaryBuffer::default();
        let sent = sendmsg_addr(&self.own_listener, &target, &message, &mut nothing, flags);
        print_outcome("fast open by sendmsg", sent);

        let named = SocketAddrUnix::new(&self.named).unwrap();
        print_outcome(
            "datagram to a named socket",
            sendto(&self.datagrams, b"out", SendFlags::NOSIGNAL, &named),
        );
    }

    fn attempt_rights(&self) {
        print_outcome("become root", set_thread_uid(rustix::fs::Uid::ROOT));
        let none = rustix::thread::CapabilitySet::empty();
        let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        print_outcome("give up capabilities", rustix::thread::set_capabilities(None, sets));
        print_outcome("an unused system call", getpgid(Some(getpid())));
        let memory = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
        print_outcome("executable memory", memory.make_exec());
        print_outcome("make a ring", make_ring());
    }
}

fn print_outcome<T, E: Into<io::Error>>(name: &str, outcome: Result<T, E>) {
    let outcome = match outcome.map_err(|error| error.into().raw_os_error()) {
        Ok(_) => "done".to_owned(),
        Err(Some(libc::EPERM)) => "EPERM".to_owned(),
        Err(Some(libc::EACCES)) => "EACCES".to_owned(),
        Err(other) => format!("{other:?}"),
    };
    println!("{name}={outcome}");
}
