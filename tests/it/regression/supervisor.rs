//! One process, or another user, could end or disable a whole service of several processes.

use std::fs;
use std::process::Command;

use crate::site::{Server, await_that, server_command};

fn supervised() -> Command {
    let mut command = server_command();
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "2", "--threads", "1"]);
    command
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Processes said that they serve at a socket with a name: any user could say so too, or take the name first.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn a_supervisor_has_no_socket_with_a_name() {
    let server = Server::run(supervised());
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let own = format!("cannery-supervisor-{}", server.pid());
    assert_eq!(sockets.lines().find(|line| line.contains(&own)), None);
    assert_eq!(server.get("/").body, b"hello world!\n");
}

/// A process that ended before all of them served ended the service.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads /proc")]
fn a_process_killed_at_startup_is_started_again() {
    for _ in 0..3 {
        let mut command = supervised();
        let (sender, started) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
            sender.send(child.id()).unwrap();
            Server::follow(child)
        });
        let pid = started.recv().unwrap();
        await_that("a process", || !children(pid).is_empty());
        // It is there no more if the supervisor has noticed already.
        let _ = Command::new("kill").args(["-KILL", &children(pid)[0]]).status().unwrap();
        let server = server.join().unwrap();
        await_that("both run", || children(pid).len() == 2);
        for _ in 0..10 {
            assert_eq!(server.get("/").body, b"hello world!\n");
        }
        assert_eq!(server.stop(), Some(0));
    }
}
