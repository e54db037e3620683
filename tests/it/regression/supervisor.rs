//! Services of several processes, which one process or another user could end or disable.

use std::fs;
#[cfg(not(feature = "portable"))]
use std::os::unix::fs::PermissionsExt;
#[cfg(not(feature = "portable"))]
use std::path::Path;
use std::process::Command;

use crate::harness::{Server, server_command, wait_until};
#[cfg(not(feature = "portable"))]
use crate::processes::replace_program;

fn supervised() -> Command {
    let mut command = server_command();
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "2", "--threads", "1"]);
    command
}

/// Returns the child processes of a process.
fn children(pid: u32) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Processes reported their readiness to a named socket, to which any user could send, or bind the name first.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn supervisor_has_no_named_socket() {
    let server = Server::run(supervised());
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let own = format!("cannery-supervisor-{}", server.pid());
    assert_eq!(sockets.lines().find(|line| line.contains(&own)), None);
    assert_eq!(server.get("/").body, b"hello world!\n");
}

/// If a process exited before all of them were ready, the whole service ended.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn process_killed_at_startup_is_restarted() {
    for _ in 0..3 {
        let mut command = supervised();
        let (sender, started) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
            sender.send(child.id()).unwrap();
            Server::follow(child)
        });
        let pid = started.recv().unwrap();
        wait_until("a process", || !children(pid).is_empty());
        // It is gone if the supervisor has reaped it already.
        let _ = Command::new("kill").args(["-KILL", &children(pid)[0]]).status().unwrap();
        let server = server.join().unwrap();
        wait_until("both run", || children(pid).len() == 2);
        for _ in 0..10 {
            assert_eq!(server.get("/").body, b"hello world!\n");
        }
        assert_eq!(server.stop(), Some(0));
    }
}

/// Connections that the kernel had assigned to the listening socket of an exited process waited for its restart, up to
/// half a minute.
#[test]
#[cfg(not(feature = "portable"))]
fn other_processes_serve_connections_of_an_exited_one() {
    for io in ["epoll", "io_uring"] {
        if io == "io_uring" && !super::sandbox::has_rings() {
            println!("skipped: this kernel has no io_uring");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        let bad = folder.path().join("bad");
        let good = Path::new(env!("CARGO_BIN_EXE_cannery-server"));
        replace_program(&program, good);
        let mut command = Command::new(&program);
        command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "2", "--threads", "2", "--io", io]);
        let server = Server::run(command);
        let before = children(server.pid());

        // From here on, no process can be started.
        fs::write(&bad, "#!/bin/sh\nexit 9\n").unwrap();
        fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).unwrap();
        replace_program(&program, &bad);
        assert!(Command::new("kill").args(["-KILL", &before[0]]).status().unwrap().success());
        server.await_line("exit status: 9");
        for _ in 0..60 {
            assert_eq!(server.get("/").body, b"hello world!\n", "{io}");
        }

        // The restarted process serves its own socket.
        replace_program(&program, good);
        let runs = |pid: &String| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&program))
        };
        wait_until("a new process", || {
            children(server.pid()).iter().any(|pid| *pid != before[1] && runs(pid))
        });
        for _ in 0..60 {
            assert_eq!(server.get("/").body, b"hello world!\n", "{io}");
        }
        assert_eq!(server.stop(), Some(0));
    }
}
