//! The cage, as the system shows it from outside: on each thread of the real server.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::site::{Server, compile, pages, run, write_folder};

/// The number of `nobody`, who owns nothing.
const NOBODY: &str = "65534";

/// What `/proc` tells of each thread of a server, by the thread's name.
fn threads(server: &Server) -> BTreeMap<String, BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let statuses = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let fields = |status: String| -> BTreeMap<String, String> {
        let pairs = status.lines().filter_map(|line| line.split_once(':'));
        pairs
            .map(|(name, value)| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect()
    };
    statuses.map(fields).map(|fields| (fields["Name"].clone(), fields)).collect()
}

/// A folder that anybody may look into, with an archive and a place for a log.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    fs::set_permissions(folder.path().join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
    publish(folder.path(), "one");
    folder
}

/// Puts an archive with this content into the folder, whole.
fn publish(folder: &Path, content: &'static str) {
    let source = tempfile::tempdir().unwrap();
    write_folder(source.path(), &pages(&[("a.txt", content)]));
    compile(source.path(), &folder.join("site.cdb"), &[]);
}

fn start(folder: &Path, flags: &[&str]) -> Server {
    let (archive, log) = (folder.join("site.cdb"), folder.join("logs/access.log"));
    let named = ["--archive", archive.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
    Server::start(&[&named, flags].concat())
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t")
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn each_thread_of_the_server_is_held() {
    let folder = folder();
    let server = start(folder.path(), &["--admin", "127.0.0.1:0", "--report", "--sandbox", "require"]);
    assert_eq!(server.get("/a.txt").body, b"one");
    let threads = threads(&server);
    for name in ["worker-0", "worker-1", "admin-0", "reload", "access-log", "report", "signals"] {
        assert!(threads.contains_key(name), "{name}: {:?}", threads.keys());
    }
    let process = &threads["cannery-server"];
    for (name, thread) in &threads {
        assert_eq!(thread["NoNewPrivs"], "1", "{name}");
        assert_eq!(thread["Seccomp"], "2", "{name}");
        assert_eq!(thread["CapEff"], thread["CapPrm"], "{name}");
        assert_eq!(thread["CapInh"], "0000000000000000", "{name}");
        assert_eq!(thread["CapAmb"], "0000000000000000", "{name}");
        let filters = |thread: &BTreeMap<String, String>| thread["Seccomp_filters"].parse::<u32>().unwrap();
        assert!(
            name == "cannery-server" || filters(thread) > filters(process),
            "{name}: no filter of its own"
        );
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let dumps = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(dumps.split_whitespace().nth(4), Some("0"), "{dumps}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn root_becomes_whom_it_is_told_and_goes_on_taking_up_releases_and_writing_its_log() {
    if !is_root() {
        println!("skipped: only root can become somebody else");
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
    // The archive is root's; whoever writes into it has to wait all the same.
    let archive = folder.path().join("site.cdb");
    fs::OpenOptions::new().write(true).open(&archive).unwrap().set_len(0).unwrap();
    server.await_line("copied");
    assert_eq!(server.get("/a.txt").body, b"two");
    // The log is opened anew before what comes after the signal is written.
    server.signal("USR1");
    server.get("/a.txt");
    assert_eq!(server.stop(), Some(0));
    let log = fs::metadata(folder.path().join("logs/access.log")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&log).to_string(), NOBODY);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn root_that_stays_root_keeps_nothing_but_the_opening_of_files_and_says_so() {
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
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn a_cage_that_is_off_leaves_the_process_as_it_is() {
    let folder = folder();
    let server = start(folder.path(), &["--sandbox", "off"]);
    assert!(threads(&server).values().all(|thread| thread["Seccomp"] == "0"));
    assert_eq!(server.get("/a.txt").body, b"one");
    let server = start(folder.path(), &["--sandbox", "off", "--seccomp-enable"]);
    assert!(threads(&server).values().all(|thread| thread["Seccomp"] == "2"));
    assert_eq!(server.get("/a.txt").body, b"one");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn what_is_in_force_is_said_when_asked() {
    let folder = folder();
    let server = start(folder.path(), &["--debug"]);
    let line = server.await_line("system calls");
    assert!(line.contains("landlock") && line.contains("seccomp"), "{line}");
}

#[test]
fn a_user_that_does_not_exist_is_wrong_usage() {
    let output = run("cannery-server", &["--dummy", "--user", "no such user"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no user `no such user`"), "{said}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the cage")]
fn who_is_not_root_cannot_become_somebody_else_and_is_told_so() {
    if !is_root() {
        println!("skipped: only root can begin as somebody else");
        return;
    }
    let server = env!("CARGO_BIN_EXE_cannery-server");
    let as_nobody = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", server];
    let flags = ["--dummy", "--bind", "127.0.0.1:0", "--user", "1:1"];
    let output = run("setpriv", &[&as_nobody[..], &flags].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot leave the other groups"), "{said}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "without leases an archive is not mapped")]
fn memory_has_a_limit_that_what_is_mapped_does_not_count_against() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    fs::create_dir(&source).unwrap();
    // Larger than the limit by itself.
    fs::write(source.join("large.bin"), vec![7; 160 << 20]).unwrap();
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &["--compress", "identity"]);
    let named = ["--archive", archive.to_str().unwrap(), "--limit-memory", "128"];

    let server = Server::start(&named);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max data size") && line.contains(" 134217728 ")));
    assert_eq!(server.ask("GET", "/large.bin", "Range: bytes=-2\r\n").body, [7, 7]);

    let output = run("cannery-server", &[&named[..], &["--archive-inmem", "--bind", "127.0.0.1:0"]].concat());
    assert!(output.status.code().is_some_and(|code| code > 0), "it ends in good order: {output:?}");
}
