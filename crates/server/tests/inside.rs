//! What can be done from inside the cage: nothing that leads out. Each row of the table in `docs/security.md` has its
//! attempts here, but for what `/proc` shows of the real server (`tests/it/cage.rs`).
//!
//! A program of its own, for a process enters a cage once, for ever, and before it has a second thread. It
//! runs itself, builds the cage by the same function as the server, tries to get out of it, and says on a
//! line each how far it came.

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

use cannery_server::sandbox::{Denied, Plan, Sandbox, SandboxPolicy, ThreadRole, Wanted};
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketAddrUnix, sendmsg_addr, sendto};
use rustix::process::{Pid, PidfdFlags, getpgid, getpid};
use rustix::thread::set_thread_uid;
use socket2::{Domain, Socket, Type};

/// `MSG_FASTOPEN`, which only Linux has, and `rustix` does not name.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

/// What fails in every thread, one line for each row of the table.
const FORBIDDEN: [(&str, &[&str]); 7] = [
    ("rights", &["execve"]),
    ("root", &["become root", "give up capabilities"]),
    (
        "files",
        &[
            "open /etc/passwd",
            "write the archive",
            "write beside the archive",
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
    (
        "system calls",
        &["a call that nobody needs", "another option of a socket", "what is sent to a socket's filter"],
    ),
    ("memory", &["executable memory"]),
];

const ONLY_FILES: SandboxPolicy = SandboxPolicy { system_calls: Wanted::No, ..SandboxPolicy::AUTO };
const ONLY_CALLS: SandboxPolicy = SandboxPolicy { filesystem: Wanted::No, ..SandboxPolicy::AUTO };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "inside") {
        return inside(&arguments[2], &arguments[3], &arguments[4], Path::new(&arguments[5]));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("site.cdb"), "archive").unwrap();
    attempts_succeed_without_a_sandbox(folder.path());
    forbidden_calls_fail_in_every_thread(folder.path());
    local_socket_can_be_removed(folder.path());
    worker_can_reset_a_connection(folder.path());
    landlock_and_seccomp_work_alone(folder.path());
    only_the_releases_thread_opens_archives(folder.path());
    denied_call_can_end_the_process(folder.path());
    // Where there is no cage there is no outside.
    if cfg!(all(target_os = "linux", not(feature = "portable"))) {
        second_thread_prevents_the_sandbox(folder.path());
    }
}

fn attempts_succeed_without_a_sandbox(folder: &Path) {
    let tried = attempts(folder, "off", "main");
    for name in ["open /etc/passwd", "open the archive", "connect", "socket", "write beside the archive"] {
        assert_eq!(tried[name], "done", "{name}");
    }
}

fn forbidden_calls_fail_in_every_thread(folder: &Path) {
    for thread in ["main", "worker", "releases", "log", "orders"] {
        let tried = attempts(folder, "auto", thread);
        if tried["system calls"] == "missing" {
            println!("skipped, for this kernel cannot refuse system calls: {tried:?}");
            continue;
        }
        for (row, names) in FORBIDDEN {
            for name in names {
                let outcome = tried[*name].as_str();
                assert!(["EPERM", "EACCES"].contains(&outcome), "{thread}: {row}: {name}: {outcome}");
            }
        }
        let ring = &tried["make a ring"];
        assert!(ring != "done", "{thread}: a ring can be made");
    }
}

fn local_socket_can_be_removed(folder: &Path) {
    for sandbox in ["unix", "unix, files"] {
        let tried = attempts(folder, sandbox, "main");
        if tried["files"] == "missing" {
            continue;
        }
        assert_eq!(tried["unreachable"], "");
        assert!(["EPERM", "EACCES"].contains(&tried["open /etc/passwd"].as_str()), "{sandbox}");
        assert_eq!(tried["remove the local socket"], "done", "{sandbox}");
    }
    // Without the filter of system calls, only Landlock stands in the way.
    let tried = attempts(folder, "unix, files", "worker");
    if tried["files"] != "missing" {
        for name in ["open /etc/passwd", "write the archive", "write beside the archive"] {
            assert_eq!(tried[name], "EACCES", "{name}");
        }
    }
}

/// Without it the kernel keeps for minutes what a stalled reader doesn't take.
fn worker_can_reset_a_connection(folder: &Path) {
    assert_eq!(attempts(folder, "auto", "worker")["reset"], "done");
}

fn landlock_and_seccomp_work_alone(folder: &Path) {
    let tried = attempts(folder, "files", "worker");
    if tried["files"] != "missing" {
        assert_eq!(tried["open /etc/passwd"], "EACCES");
        assert_eq!(tried["execve"], "EACCES");
        assert_eq!(tried["write beside the archive"], "EACCES");
        assert_eq!(tried["open the archive"], "done");
    }
    let tried = attempts(folder, "calls", "worker");
    if tried["system calls"] != "missing" {
        for name in FORBIDDEN.iter().flat_map(|(_, names)| *names) {
            assert_eq!(tried[*name], "EPERM", "{name}");
        }
    }
}

fn only_the_releases_thread_opens_archives(folder: &Path) {
    assert_eq!(attempts(folder, "auto", "releases")["open the archive"], "done");
    let tried = attempts(folder, "auto", "worker");
    if tried["system calls"] != "missing" {
        assert_eq!(tried["open the archive"], "EPERM");
    }
}

fn denied_call_can_end_the_process(folder: &Path) {
    let output = run(folder, "calls", "worker", "ends");
    if !String::from_utf8_lossy(&output.stdout).contains("system calls=missing") {
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
    }
}

fn second_thread_prevents_the_sandbox(folder: &Path) {
    let output = run(folder, "auto", "two", "fails");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("2 threads already"), "{said}");
}

/// What came of each attempt, by its name.
fn attempts(folder: &Path, sandbox: &str, thread: &str) -> BTreeMap<String, String> {
    let output = run(folder, sandbox, thread, "fails");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let pair = |line: &str| line.split_once('=').map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    said.lines().filter_map(pair).collect()
}

fn run(folder: &Path, sandbox: &str, thread: &str, denied: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["inside", sandbox, thread, denied]).arg(folder).output().unwrap()
}

/// The process that is caged.
fn inside(sandbox_name: &str, thread: &str, denied: &str, folder: &Path) {
    let sandbox = match sandbox_name {
        "off" => SandboxPolicy::OFF,
        "files" => ONLY_FILES,
        "calls" => ONLY_CALLS,
        "unix, files" => ONLY_FILES,
        _ => SandboxPolicy::AUTO,
    };
    let local = sandbox_name.starts_with("unix").then(|| folder.join("local.sock"));
    let denied = if denied == "ends" { Denied::Ends } else { Denied::Fails };
    let archive = folder.join("site.cdb");
    let remove = local.iter().cloned().collect();
    let plan = Plan { sandbox, denied, read: vec![archive.clone()], remove, ..Plan::default() };
    let outside = Outside::open(archive);
    let _bound = local.as_ref().map(|path| UnixListener::bind(path).unwrap());
    if thread == "two" {
        std::thread::spawn(std::thread::park);
    }
    let (sandbox, held) = Sandbox::enter(&plan).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    });
    let missing: String = held.missing().collect();
    let is_there = |name| if missing.contains(name) { "missing" } else { "there" };
    println!("files={}", is_there("landlock"));
    println!("system calls={}", is_there("seccomp"));
    println!("unreachable={}", held.unreachable.concat());
    let role = match thread {
        "worker" => ThreadRole::Worker,
        "releases" => ThreadRole::Releases,
        "log" => ThreadRole::Log,
        "orders" => ThreadRole::Orders,
        _ => {
            local.iter().for_each(|path| tell("remove the local socket", fs::remove_file(path)));
            return outside.attempt_all();
        }
    };
    let life = move || {
        sandbox.enter_thread(role).unwrap();
        outside.attempt_all();
    };
    std::thread::spawn(life).join().unwrap();
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
fn make_ring() -> io::Result<()> {
    cannery_eventloop::Uring::probe()
}

#[cfg(any(feature = "portable", not(target_os = "linux")))]
fn make_ring() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What there is to reach outside.
struct Outside {
    archive: PathBuf,
    /// Sockets from before, so that to use them is all that is left to do.
    socket: Socket,
    unbound: Socket,
    datagrams: UnixDatagram,
    /// As a worker has one.
    own_listener: TcpListener,
    target: SocketAddr,
    _listening: TcpListener,
    /// A local socket with a name.
    named: PathBuf,
    _named: UnixDatagram,
    /// Who started this process.
    parent: Pid,
}

impl Outside {
    fn open(archive: PathBuf) -> Outside {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listening = listen();
        let named = archive.with_extension("named");
        // From the run before.
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
        tell("open the archive", File::open(&self.archive));
        self.attempt_files();
        self.attempt_network();
        self.attempt_rights();
        tell("kill", rustix::process::test_kill_process(self.parent));
        tell("open a process", rustix::process::pidfd_open(self.parent, PidfdFlags::empty()));
        tell("start a process", Command::new("/bin/true").spawn().map(|mut child| child.wait()));
        // The last, for where it can be done it does not come back.
        if std::env::args().nth(2).is_some_and(|word| word != "off") {
            tell::<(), io::Error>("execve", Err(Command::new("/bin/true").exec()));
        }
    }

    fn attempt_files(&self) {
        tell("open /etc/passwd", File::open("/etc/passwd"));
        tell("write the archive", File::options().append(true).open(&self.archive));
        let beside = self.archive.with_extension("new");
        tell("write beside the archive", File::create(&beside));
        tell("list", fs::read_dir(self.archive.parent().unwrap()));
        tell("remove", fs::remove_file(&beside));
        tell("rename", fs::rename(&self.named, &beside));
        tell("link", fs::hard_link(&self.archive, &beside));
    }

    fn attempt_network(&self) {
        let target = self.target;
        tell("reset", self.socket.set_linger(Some(Duration::ZERO)));
        tell("another option of a socket", self.socket.set_reuse_address(true));
        tell("what is sent to a socket's filter", self.socket.attach_filter(&[]));
        tell("connect", self.socket.connect(&target.into()));
        tell("bind", self.unbound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()));
        tell("listen", self.unbound.listen(1));
        tell("socket", Socket::new(Domain::IPV4, Type::STREAM, None));
        tell("local socket", UnixDatagram::unbound());
        // What was a listener is no connection now, and could become one.
        let _ = rustix::net::shutdown(&self.own_listener, rustix::net::Shutdown::Both);
        let flags = FAST_OPEN | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        tell("fast open by sendto", sendto(&self.own_listener, b"out", flags, &target));
        let message = [IoSlice::new(b"out")];
        let mut nothing = SendAncillaryBuffer::default();
        let sent = sendmsg_addr(&self.own_listener, &target, &message, &mut nothing, flags);
        tell("fast open by sendmsg", sent);
        let named = SocketAddrUnix::new(&self.named).unwrap();
        tell("datagram to a named socket", sendto(&self.datagrams, b"out", SendFlags::NOSIGNAL, &named));
    }

    fn attempt_rights(&self) {
        tell("become root", set_thread_uid(rustix::fs::Uid::ROOT));
        let none = rustix::thread::CapabilitySet::empty();
        let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        tell("give up capabilities", rustix::thread::set_capabilities(None, sets));
        tell("a call that nobody needs", getpgid(Some(getpid())));
        let memory = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
        tell("executable memory", memory.make_exec());
        tell("make a ring", make_ring());
    }
}

fn tell<T, E: Into<io::Error>>(name: &str, outcome: Result<T, E>) {
    let outcome = match outcome.map_err(|error| error.into().raw_os_error()) {
        Ok(_) => "done".to_owned(),
        Err(Some(libc::EPERM)) => "EPERM".to_owned(),
        Err(Some(libc::EACCES)) => "EACCES".to_owned(),
        Err(other) => format!("{other:?}"),
    };
    println!("{name}={outcome}");
}
