//! The sandbox of a running server, as `/proc` shows it for each thread.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use crate::harness::{
    QUIC_FLAGS, Server, TLS_FLAGS, compile, is_root, pages, python, run, server_command, skip_outside,
    wait_until, write_folder,
};
use crate::served_folder::{children, compiler};

/// The user ID of `nobody`.
const NOBODY: &str = "65534";

/// The number of filters that a process installs before it starts threads.
const FILTERS_OF_A_PROCESS: u32 = 2;

/// Returns the fields of `/proc/PID/task/TID/status` for each thread of a server, by the thread's name.
fn threads(server: &Server) -> BTreeMap<String, BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    // A thread may end before its status is read.
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    let fields = |status: String| -> BTreeMap<String, String> {
        let pairs = status.lines().filter_map(|line| line.split_once(':'));
        pairs
            .map(|(name, value)| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect()
    };
    statuses.map(fields).map(|fields| (fields["Name"].clone(), fields)).collect()
}

/// Creates a directory that every user can read, with an archive and a writable directory for a log.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    fs::set_permissions(folder.path().join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
    publish(folder.path(), "one");
    folder
}

/// Publishes an archive with this content.
fn publish(folder: &Path, content: &'static str) {
    let source = tempfile::tempdir().unwrap();
    write_folder(source.path(), &pages(&[("a.txt", content)]));
    compile(source.path(), &folder.join("site.cdb"), &[]);
}

fn start(folder: &Path, flags: &[&str]) -> Server {
    let archive = folder.join("site.cdb");
    let log = folder.join("logs/access.log");
    let named = ["--archive", archive.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
    Server::start(&[&named, flags].concat())
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn each_thread_is_sandboxed() {
    let folder = folder();
    let server = start(folder.path(), &["--admin", "127.0.0.1:0", "--report", "--sandbox", "require"]);
    assert_eq!(server.get("/a.txt").body, b"one");

    // Those of the process, and its own.
    let has_filter = |thread: &BTreeMap<String, String>| {
        thread["Seccomp_filters"].parse::<u32>().unwrap() > FILTERS_OF_A_PROCESS
    };
    // The first thread enters its filter after the workers have begun to serve.
    wait_until("each thread has a filter of its own", || threads(&server).values().all(has_filter));
    let threads = threads(&server);
    for name in ["worker-0", "worker-1", "admin-0", "housekeeper", "access-log", "report", "signals"] {
        assert!(threads.contains_key(name), "{name}: {:?}", threads.keys());
    }

    for (name, thread) in &threads {
        assert_eq!(thread["NoNewPrivs"], "1", "{name}");
        assert_eq!(thread["Seccomp"], "2", "{name}");
        assert_eq!(thread["CapEff"], thread["CapPrm"], "{name}");
        assert_eq!(thread["CapInh"], "0000000000000000", "{name}");
        assert_eq!(thread["CapAmb"], "0000000000000000", "{name}");
    }

    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let dumps = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(dumps.split_whitespace().nth(4), Some("0"), "{dumps}");
    assert_eq!(server.stop(), Some(0));
}

/// Starts a server that a forbidden system call doesn't end, so that more than one can be tried.
#[cfg(target_arch = "x86_64")]
fn start_for_injection(manager: &Path, flags: &[&str]) -> Server {
    let mut command = server_command();
    command.args(flags).args(["--bind", "127.0.0.1:0", "--threads", "1"]);
    command
        .env("CANNERY_DENIED_CALLS_FAIL", "1")
        .env("NOTIFY_SOCKET", manager)
        .env("WATCHDOG_USEC", "60000000");
    Server::run(command)
}

/// Returns the threads of a process by their IDs, with their names.
#[cfg(target_arch = "x86_64")]
fn thread_names(process: u32) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    // A thread may end before its name is read.
    let named = |id: String| {
        let name = fs::read_to_string(format!("/proc/{process}/task/{id}/comm")).ok()?;
        Some((id, name.trim_end().to_owned()))
    };
    ids.filter_map(named).collect()
}

/// Makes system calls in each thread of a process, and asserts that those which docs/security.md excludes are denied.
#[cfg(target_arch = "x86_64")]
fn assert_calls_are_denied(process: u32, folder: &Path, role: &str, expected_threads: &[&str]) {
    assert_calls_are_denied_except(process, folder, role, expected_threads, &[]);
}

/// Like [`assert_calls_are_denied`], for a process that may make some of these calls.
#[cfg(target_arch = "x86_64")]
pub(crate) fn assert_calls_are_denied_except(
    process: u32,
    folder: &Path,
    role: &str,
    expected_threads: &[&str],
    exceptions: &[&str],
) {
    let threads = thread_names(process);
    let mut command = Command::new(python());
    command.arg("tests/outside/inject.py").arg(folder).arg(folder.join("target")).args(threads.keys());
    let output =
        command.output().unwrap_or_else(|error| panic!("{error}: `cargo xtask test` installs Python"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut allowed = Vec::new();
    let mut tried = threads.clone();
    for line in stdout.lines() {
        let [thread, attempt, outcome] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        // A thread that compresses ends once it is done.
        if attempt == "ended" {
            tried.remove(thread);
            continue;
        }
        // Landlock denies with `EACCES`, and `clone3` appears not to exist.
        if !["EPERM", "EACCES", "ENOSYS"].contains(&outcome) && !exceptions.contains(&attempt) {
            allowed.push(format!("{}: {attempt}: {outcome}", threads[thread]));
        }
    }
    assert!(allowed.is_empty(), "{role}: {allowed:#?}");
    for name in expected_threads {
        assert!(
            tried.values().any(|tried| tried == name),
            "{role}: no thread {name} among {:?}",
            threads.values()
        );
    }
    assert!(stdout.lines().count() >= 100 * tried.len(), "{role}: attempts are missing");
}

/// The tables of system calls allow some whose arguments decide what they do. So we make them in every thread of a running
/// server, and not only in a thread of a test that has entered the same sandbox.
#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
#[cfg(target_arch = "x86_64")]
fn injected_calls_are_denied_in_every_thread() {
    if !is_root() {
        println!("skipped: only root can trace a server, which forbids it to its own user");
        return;
    }
    if skip_outside() {
        return;
    }
    let folder = folder();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("target"), "of attempts").unwrap();
    let manager = outside.path().join("notify.sock");
    let _manager = UnixDatagram::bind(&manager).unwrap();
    let source = folder.path().join("source");
    write_folder(&source, &pages(&[("index.html", "a page")]));
    let sockets = folder.path().join("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::create_dir(folder.path().join("challenges")).unwrap();
    let text = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, challenges) = (text("logs/access.log"), text("challenges"));
    let named = format!("localhost={}", text("site.cdb"));
    let local = format!("unix:{}", text("sockets/server"));
    let common = [&TLS_FLAGS[..], &QUIC_FLAGS, &["--access-log", &log, "--admin", "127.0.0.1:0"]].concat();

    let compiled = text("source");
    let flags = ["--folder", &compiled, "--bind", &local, "--acme-webroot", &challenges, "--report"];
    let server = start_for_injection(&manager, &[&common[..], &[&named], &flags].concat());
    let names = [
        "cannery-server",
        "worker-0",
        "admin-0",
        "housekeeper",
        "releases",
        "signals",
        "access-log",
        "report",
        "watchdog",
    ];
    assert_calls_are_denied(server.pid(), outside.path(), "server", &names);
    let (compiler, _) = compiler(&server);
    assert_calls_are_denied(
        compiler,
        outside.path(),
        "process that compiles",
        &["cannery-archive", "server"],
    );
    assert_eq!(server.request("GET", "/a.txt", "").body, b"one");
    assert_eq!(server.stop(), Some(0));

    let server = start_for_injection(&manager, &[&common[..], &[&named, "--processes", "2"]].concat());
    let admin = server.read_admin_address();
    assert_eq!(crate::harness::request_at(&admin, "GET", "/ready", "").status, 200);
    let processes = children(server.pid());
    assert_eq!(processes.len(), 3);
    for process in processes {
        let is_admin = thread_names(process).values().any(|name| name == "admin-0");
        let names: &[&str] = if is_admin {
            &["signals"]
        } else {
            &["worker-0", "housekeeper", "stats", "signals", "access-log"]
        };
        let role = if is_admin { "admin process" } else { "serving process" };
        assert_calls_are_denied(process, outside.path(), role, names);
    }
    assert_eq!(server.get("/a.txt").body, b"one");
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn unprivileged_user_can_reload_and_reopen_the_log() {
    if !is_root() {
        println!("skipped: only root can change its user");
        return;
    }
    let folder = folder();

    let server = start(folder.path(), &["--user", "65534:65534", "--sandbox", "require", "--archive-mmap"]);
    for (name, thread) in threads(&server) {
        assert_eq!(thread["Uid"], [NOBODY; 4].join(" "), "{name}");
        assert_eq!(thread["Gid"], [NOBODY; 4].join(" "), "{name}");
        assert_eq!(thread["Groups"], "", "{name}");
        for set in ["CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(thread[set], "0000000000000000", "{name}: {set}");
        }
        // CAP_LEASE is 28.
        for set in ["CapPrm", "CapEff"] {
            assert_eq!(thread[set], format!("{:016x}", 1 << 28), "{name}: {set}");
        }
    }

    assert_eq!(server.get("/a.txt").body, b"one");
    publish(folder.path(), "two");
    server.await_line("serves a new release");
    assert_eq!(server.get("/a.txt").body, b"two");

    fs::remove_file(folder.path().join("logs/access.log")).unwrap();
    // Although root owns the archive, the lease delays processes that write to it.
    let archive = folder.path().join("site.cdb");
    fs::OpenOptions::new().write(true).open(&archive).unwrap().set_len(0).unwrap();
    server.await_line("copied");
    assert_eq!(server.get("/a.txt").body, b"two");

    server.signal("USR1");
    // A server that is stopped at once may end before it acts on the signal.
    let log = folder.path().join("logs/access.log");
    wait_until("the log is open again", || log.exists());
    assert_eq!(server.stop(), Some(0));
    let log = fs::metadata(log).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&log).to_string(), NOBODY);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn root_keeps_two_capabilities_and_is_reported() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = folder();
    let server = start(folder.path(), &[]);
    server.await_line("--user");
    for (name, thread) in threads(&server) {
        // CAP_DAC_OVERRIDE is 1, CAP_LEASE is 28.
        let kept = u64::from_str_radix(&thread["CapPrm"], 16).unwrap();
        assert_eq!(kept & !(1 << 1 | 1 << 28), 0, "{name}: {kept:x}");
    }
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn sandbox_off_changes_nothing() {
    let folder = folder();
    let server = start(folder.path(), &["--sandbox", "off"]);
    assert!(threads(&server).values().all(|thread| thread["Seccomp"] == "0"));
    assert_eq!(server.get("/a.txt").body, b"one");
    let server = start(folder.path(), &["--sandbox", "off", "--seccomp-enable"]);
    assert!(threads(&server).values().all(|thread| thread["Seccomp"] == "2"));
    assert_eq!(server.get("/a.txt").body, b"one");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn debug_output_names_the_layers() {
    let folder = folder();
    let server = start(folder.path(), &["--debug"]);
    let line = server.await_line("system calls");
    assert!(line.contains("landlock") && line.contains("seccomp"), "{line}");
}

#[test]
fn unknown_user_is_a_usage_error() {
    let output = run("cannery-server", &["--dummy", "--user", "no such user"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("there is no user `no such user`"), "{stderr}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn changing_the_user_needs_root() {
    if !is_root() {
        println!("skipped: only root can start a program as another user");
        return;
    }
    let server = env!("CARGO_BIN_EXE_cannery-server");
    let as_nobody = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", server];
    let flags = ["--dummy", "--bind", "127.0.0.1:0", "--user", "1:1"];
    let output = run("setpriv", &[&as_nobody[..], &flags].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot leave the other groups"), "{stderr}");
    assert!(stderr.contains("only a server that root starts"), "{stderr}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "without leases an archive is not mapped")]
fn memory_limit_excludes_mapped_archives() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    fs::create_dir(&source).unwrap();
    // Larger than the limit.
    fs::write(source.join("large.bin"), vec![7; 160 << 20]).unwrap();
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &["--compress", "identity"]);
    let named = ["--archive", archive.to_str().unwrap(), "--limit-memory", "128"];

    let server = Server::start(&named);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max data size") && line.contains(" 134217728 ")));
    assert_eq!(server.request("GET", "/large.bin", "Range: bytes=-2\r\n").body, [7, 7]);

    let output = run("cannery-server", &[&named[..], &["--archive-inmem", "--bind", "127.0.0.1:0"]].concat());
    assert!(output.status.code().is_some_and(|code| code > 0), "not an ordered exit: {output:?}");
}
