//! What can be done from inside the cage: nothing that leads out.
//!
//! A program of its own, for a process enters a cage once, for ever, and before it has a second thread. It
//! runs itself, builds the cage by the same function as the server, tries to get out of it, and says on a
//! line each how far it came.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cannery_server::cage::{Cage, Denied, Plan, Role, Sandbox, Wanted};
use rustix::process::Pid;
use socket2::{Domain, Socket, Type};

const ONLY_FILES: Sandbox = Sandbox { system_calls: Wanted::No, ..Sandbox::AUTO };
const ONLY_CALLS: Sandbox = Sandbox { filesystem: Wanted::No, ..Sandbox::AUTO };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "inside") {
        return inside(&arguments[2], &arguments[3], &arguments[4], Path::new(&arguments[5]));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("site.cdb"), "archive").unwrap();
    without_a_cage_everything_can_be_done(folder.path());
    what_leads_out_fails_in_every_thread(folder.path());
    each_half_of_the_cage_holds_alone(folder.path());
    who_opens_releases_can_and_who_serves_cannot(folder.path());
    a_forgotten_call_ends_a_process_under_test(folder.path());
    // Where there is no cage there is no outside.
    if cfg!(all(target_os = "linux", not(feature = "portable"))) {
        a_second_thread_would_stay_outside(folder.path());
    }
}

fn without_a_cage_everything_can_be_done(folder: &Path) {
    let tried = attempts(folder, "off", "main");
    for name in ["open /etc/passwd", "open the archive", "connect", "socket", "write beside the archive"] {
        assert_eq!(tried[name], "done", "{name}");
    }
}

fn what_leads_out_fails_in_every_thread(folder: &Path) {
    for thread in ["main", "worker", "releases", "log", "orders"] {
        let tried = attempts(folder, "auto", thread);
        if tried["system calls"] == "missing" {
            println!("skipped, for this kernel cannot refuse system calls: {tried:?}");
            continue;
        }
        for name in ["open /etc/passwd", "connect", "socket", "execve", "write beside the archive", "kill"] {
            assert!(["EPERM", "EACCES"].contains(&tried[name].as_str()), "{thread}: {name}: {}", tried[name]);
        }
    }
}

fn each_half_of_the_cage_holds_alone(folder: &Path) {
    let tried = attempts(folder, "files", "worker");
    if tried["files"] != "missing" {
        assert_eq!(tried["open /etc/passwd"], "EACCES");
        assert_eq!(tried["execve"], "EACCES");
        assert_eq!(tried["write beside the archive"], "EACCES");
        assert_eq!(tried["open the archive"], "done");
    }
    let tried = attempts(folder, "calls", "worker");
    if tried["system calls"] != "missing" {
        for name in ["open /etc/passwd", "connect", "socket", "execve", "kill", "executable memory"] {
            assert_eq!(tried[name], "EPERM", "{name}");
        }
    }
}

fn who_opens_releases_can_and_who_serves_cannot(folder: &Path) {
    assert_eq!(attempts(folder, "auto", "releases")["open the archive"], "done");
    let tried = attempts(folder, "auto", "worker");
    if tried["system calls"] != "missing" {
        assert_eq!(tried["open the archive"], "EPERM");
    }
}

fn a_forgotten_call_ends_a_process_under_test(folder: &Path) {
    let output = run(folder, "calls", "worker", "ends");
    if !String::from_utf8_lossy(&output.stdout).contains("system calls=missing") {
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
    }
}

fn a_second_thread_would_stay_outside(folder: &Path) {
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
fn inside(sandbox: &str, thread: &str, denied: &str, folder: &Path) {
    let sandbox = match sandbox {
        "off" => Sandbox::OFF,
        "files" => ONLY_FILES,
        "calls" => ONLY_CALLS,
        _ => Sandbox::AUTO,
    };
    let denied = if denied == "ends" { Denied::Ends } else { Denied::Fails };
    let archive = folder.join("site.cdb");
    let plan = Plan { sandbox, denied, read: vec![archive.clone()], ..Plan::default() };
    let outside = Outside::open(archive);
    if thread == "two" {
        std::thread::spawn(std::thread::park);
    }
    let (cage, held) = Cage::enter(&plan).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    });
    let missing: String = held.missing().collect();
    let is_there = |name| if missing.contains(name) { "missing" } else { "there" };
    println!("files={}", is_there("landlock"));
    println!("system calls={}", is_there("seccomp"));
    let role = match thread {
        "worker" => Role::Worker,
        "releases" => Role::Releases,
        "log" => Role::Log,
        "orders" => Role::Orders,
        _ => return outside.attempt_all(),
    };
    let life = move || {
        cage.enter_thread(role).unwrap();
        outside.attempt_all();
    };
    std::thread::spawn(life).join().unwrap();
}

/// What there is to reach outside.
struct Outside {
    archive: PathBuf,
    /// A socket from before, so that to connect it is all that is left to do.
    socket: Socket,
    listener: SocketAddr,
    _listening: TcpListener,
    /// Who started this process.
    parent: Pid,
}

impl Outside {
    fn open(archive: PathBuf) -> Outside {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = listening.local_addr().unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let parent = rustix::process::getppid().unwrap();
        Outside { archive, socket, listener, _listening: listening, parent }
    }

    fn attempt_all(&self) {
        tell("open the archive", File::open(&self.archive));
        tell("connect", self.socket.connect(&self.listener.into()));
        tell("open /etc/passwd", File::open("/etc/passwd"));
        tell("socket", Socket::new(Domain::IPV4, Type::STREAM, None));
        tell("write beside the archive", File::create(self.archive.with_extension("new")));
        let memory = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
        tell("executable memory", memory.make_exec());
        tell("kill", rustix::process::test_kill_process(self.parent).map_err(io::Error::from));
        // The last, for where it can be done it does not come back.
        if std::env::args().nth(2).is_some_and(|word| word != "off") {
            tell::<()>("execve", Err(Command::new("/bin/true").exec()));
        }
    }
}

fn tell<T>(name: &str, outcome: io::Result<T>) {
    let outcome = match outcome.map_err(|error| error.raw_os_error()) {
        Ok(_) => "done".to_owned(),
        Err(Some(libc::EPERM)) => "EPERM".to_owned(),
        Err(Some(libc::EACCES)) => "EACCES".to_owned(),
        Err(other) => format!("{other:?}"),
    };
    println!("{name}={outcome}");
}
