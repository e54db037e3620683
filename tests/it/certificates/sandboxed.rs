//! The sandbox of the process that issues certificates for a server, and what happens if a folder or the kernel doesn't permit
//! something.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use super::supervised::{Machine, is_issuer};
use super::text;
use crate::harness::{Server, is_root, run, server_command, skip_outside, wait_until};

/// The user ID of `nobody`.
const NOBODY: u32 = 65_534;

/// Returns the fields of `/proc/PID/task/TID/status` for each thread of a process.
fn threads(process: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    statuses.map(|status| status.lines().filter_map(field).collect()).collect()
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn issuing_process_is_sandboxed() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let server = Server::run(machine.command(&[]));
    server.await_line("example.test: a new certificate is in");
    let issuer = machine.issuer().expect("a process holds the lock");
    let threads = threads(issuer);
    assert!(threads.len() >= 2, "{threads:#?}");
    for thread in threads {
        assert_eq!((thread["Seccomp"].as_str(), thread["NoNewPrivs"].as_str()), ("2", "1"), "{thread:#?}");
        assert_eq!(thread["CapAmb"], "0000000000000000", "{thread:#?}");
        // Of root's rights, only those to files of other users may remain (CAP_DAC_OVERRIDE is 1, CAP_LEASE is 28).
        let kept = u64::from_str_radix(&thread["CapPrm"], 16).unwrap();
        assert_eq!(kept & !(1 << 1 | 1 << 28), 0, "{kept:x}");
    }

    // Without a sandbox, it has none of this.
    let machine = Machine::new();
    let server = Server::run(machine.command(&["--sandbox", "off"]));
    server.await_line("example.test: a new certificate is in");
    let issuer = machine.issuer().expect("a process holds the lock");
    assert!(self::threads(issuer).iter().all(|thread| thread["Seccomp"] == "0"));
}

/// Landlock and seccomp deny what the process doesn't need. It needs connections and its own folder.
#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
#[cfg(target_arch = "x86_64")]
fn injected_calls_are_denied_in_the_issuing_process() {
    if !is_root() {
        println!("skipped: only root can trace a process that forbids it to its own user");
        return;
    }
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let mut command = machine.command(&[]);
    let server = Server::run({
        command.env("CANNERY_DENIED_CALLS_FAIL", "1");
        command
    });
    server.await_line("example.test: a new certificate is in");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("target"), "of attempts").unwrap();
    let issuer = machine.issuer().expect("a process holds the lock");
    crate::sandbox::assert_calls_are_denied_except(
        issuer,
        outside.path(),
        "process that issues",
        &["cannery", "server"],
        &[
            // The settings of the resolver, and its plugins, which are shared libraries.
            "read /etc/passwd",
            "map code",
            "map writable code",
            // Connections to an authority and to name servers.
            "make a TCP socket",
            "make a UDP socket",
            "make a Unix socket",
            "make a netlink socket",
            "bind",
            "connect",
            "connect by sendto",
            "attach a filter",
            "make TLS of a socket",
            "send to a named socket",
        ],
    );
    assert_eq!(fs::read(outside.path().join("target")).unwrap(), b"of attempts");
    // It has survived all attempts.
    assert!(is_issuer(issuer));
    assert_eq!(server.get("/").status, 200);
}

/// Lets every user enter the place of a machine and read its site.
fn open_to_all(machine: &Machine) {
    fs::set_permissions(machine.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn folder_of_another_user_is_reported() {
    if !is_root() {
        println!("skipped: only root can change its user");
        return;
    }
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    open_to_all(&machine);
    // The operator has created it, and forgot `chown`.
    let folder = machine.folder();
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::run(machine.command(&["--user", &format!("{NOBODY}:{NOBODY}")]));
    let line = server.await_line_since_start("Permission denied");
    assert!(line.contains("error: cannot ") && line.contains(text(&folder)), "{line}");
    let hint = server.await_line_since_start("hint:");
    assert!(hint.contains("`chown`") && hint.contains("`--acme-folder DIR`"), "{hint}");
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/__/heartbeat?certificates").status, 503);
    assert_eq!(server.stop(), Some(0));

    // After the remedy, it works.
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let server = Server::run(machine.command(&["--user", &format!("{NOBODY}:{NOBODY}")]));
    server.await_line("example.test: a new certificate is in");
}

/// A unit with `ProtectSystem=strict` mounts the folder in this way, and so does a container.
#[test]
#[cfg(target_os = "linux")]
fn read_only_folder_is_reported() {
    if !is_root() {
        println!("skipped: only root can mount a folder");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tls");
    fs::create_dir(&folder).unwrap();
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    let inside = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{mount} && exec \"$@\"")]).arg(&folder).arg(program);
        command.args(arguments);
        command
    };
    if !inside("true", &[]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: this test needs the right to mount");
        return;
    }

    let cannery = env!("CARGO_BIN_EXE_cannery");
    let arguments = ["certificates", text(&folder), "example.test", "--once", "--agree"];
    let output = inside(cannery, &arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(errors.contains("Read-only file system") && errors.contains(text(&folder)), "{errors}");
    assert!(errors.contains("`ReadWritePaths=`"), "{errors}");

    let own = server_command();
    let mut command = inside(text(own.get_program().as_ref()), &[]);
    command.args(own.get_args()).args(["--dummy", "--bind", "127.0.0.1:0", "--bind-tls", "127.0.0.1:0"]);
    command.args(["--certificates", "example.test", "--acme-agree", "--acme-folder", text(&folder)]);
    let server = Server::run(command);
    server.await_line_since_start("Read-only file system");
    let hint = server.await_line_since_start("hint:");
    assert!(hint.contains("`ReadWritePaths=`") && hint.contains("`--acme-folder DIR`"), "{hint}");
    assert_eq!(server.get("/").status, 200);
}

/// Starts a thread in which these system calls don't exist, as on an old kernel. It waits for the thread.
#[cfg(target_os = "linux")]
fn on_old_kernel(missing: &'static [libc::c_long], check: impl FnOnce() + Send + 'static) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

    let thread = std::thread::spawn(move || {
        let filter = SeccompFilter::new(
            missing.iter().map(|number| (*number, Vec::new())).collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
            TargetArch::try_from(std::env::consts::ARCH).unwrap(),
        );
        apply_filter(&BpfProgram::try_from(filter.unwrap()).unwrap()).unwrap();
        check();
    });
    thread.join().unwrap();
}

/// With `--sandbox require`, the server exits; by default, it warns, and so do the processes that it starts.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn missing_layer_is_an_error_or_a_warning() {
    const LANDLOCK: &[libc::c_long] = &[libc::SYS_landlock_create_ruleset];
    const SECCOMP: &[libc::c_long] = &[libc::SYS_seccomp];
    for (missing, message) in [
        (LANDLOCK, "files are not restricted (landlock): "),
        (SECCOMP, "system calls are not restricted (seccomp): "),
    ] {
        on_old_kernel(missing, move || {
            let flags = ["--dummy", "--bind", "127.0.0.1:0", "--sandbox"];
            let output = run("cannery-server", &[&flags[..], &["require"]].concat());
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{errors}");
            assert!(errors.contains(message) && errors.contains("hint:"), "{errors}");
            assert!(errors.contains("`--sandbox require`"), "{errors}");

            let mut command = Command::new(env!("CARGO_BIN_EXE_cannery-server"));
            command.args(flags).arg("auto");
            let server = Server::run(command);
            let line = server.await_line_since_start(message);
            assert!(line.contains("warning:"), "{line}");
            assert_eq!(server.get("/").status, 200);
            assert_eq!(server.stop(), Some(0));
        });
    }

    if skip_outside() {
        return;
    }
    on_old_kernel(LANDLOCK, || {
        let machine = Machine::new();
        let server = Server::run(machine.command(&["--sandbox", "auto"]));
        server.await_line("example.test: a new certificate is in");
        let issuer = machine.issuer().expect("a process holds the lock");
        // That of the test, and its own.
        let has_own =
            |thread: &BTreeMap<String, String>| thread["Seccomp_filters"].parse::<u32>().unwrap() > 1;
        assert!(threads(issuer).iter().all(has_own));
        wait_until("the site is served", || server.get("/").status == 200);
    });
}
