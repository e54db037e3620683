//! Exchanges releases, certificates, processes and programs under load, and compares every byte of every response.
//!
//! Each response names its release, so a client computes what the response must hold: no response may mix two releases,
//! and none may be truncated. A few exchanges run by default; `CANNERY_SLOW` runs hundreds.

mod checker;
mod releases;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use checker::{Failures, Target, check_under_load};
use releases::{RELEASES, Site};

use crate::authority::Authority;
use crate::harness::{
    QUIC_FLAGS, Server, in_network_namespace, is_slow, server_command, skip_outside, wait_until,
};

/// The minimum number of responses that the clients check between two exchanges.
const RESPONSES_BETWEEN: u64 = 150;

/// Returns the number of exchanges of each kind.
fn rounds() -> u64 {
    if is_slow() { 300 } else { 6 }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts a server of `site` that listens with and without TLS, and for HTTP/3.
fn start(program: &Path, site: &Site, bundle: &Path, flags: &[&str]) -> (Server, Target) {
    let mut command = Command::new(program);
    command.args(server_command().get_args());
    command.args(["--archive", text(site.archive()), "--tls-bundle", text(bundle)]);
    command.args(["--bind", "127.0.0.1:0", "--bind-tls", "127.0.0.1:0"]).args(QUIC_FLAGS).args(flags);
    let server = Server::run(command);
    let plain = server.address.clone();
    let tls = server.read_tls_address();
    let target = Target { plain, tls, quic: server.read_quic_address() };
    (server, target)
}

#[test]
fn releases_and_certificates_change_under_load() {
    let site = Site::compile();
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = folder.path().join("bundle.pem");
    authority.certify(&["localhost"]).write_bundle(&bundle);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_cannery-server"));
    let (server, target) = start(&program, &site, &bundle, &["--threads", "2"]);

    check_under_load(&target, Failures::Forbidden, |progress| {
        for round in 1..=rounds() {
            let release = round % RELEASES;
            site.publish(release);
            // Every second release is detected without a signal.
            if round % 2 == 0 {
                authority.certify(&["localhost"]).write_bundle(&bundle);
                server.signal("HUP");
            }
            progress.await_release(release);
            progress.await_responses(RESPONSES_BETWEEN);
        }
    });
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux spreads connections over processes")]
fn processes_and_programs_change_under_load() {
    let site = Site::compile();
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle.pem");
    Authority::new().certify(&["localhost"]).write_bundle(&bundle);
    let program = folder.path().join("server");
    install(&program);
    let flags = ["--processes", "2", "--threads", "1"];
    let (mut server, target) = start(&program, &site, &bundle, &flags);
    let mut running = Running(server.pid());

    check_under_load(&target, Failures::Tolerated, |progress| {
        for round in 1..=rounds() {
            let release = round % RELEASES;
            site.publish(release);
            match round % 3 {
                0 => kill_one_worker(&running),
                1 => take_over(&program, &mut server, &mut running),
                _ => {}
            }
            progress.await_release(release);
            progress.await_responses(RESPONSES_BETWEEN);
        }
    });
}

/// The running supervisor. After a takeover, it is no child of this process.
struct Running(u32);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.to_string()]).status();
    }
}

/// Kills one of the worker processes by SIGKILL.
fn kill_one_worker(running: &Running) {
    let pid = running.0;
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let victim = children().split_whitespace().next().expect("a process that serves").to_owned();
    assert!(Command::new("kill").args(["-KILL", &victim]).status().unwrap().success());
    wait_until("another process to start", || {
        let now = children();
        let now: Vec<&str> = now.split_whitespace().collect();
        now.len() == 2 && !now.contains(&victim.as_str())
    });
}

/// Makes a new copy of the program take over from the running supervisor.
fn take_over(program: &Path, server: &mut Server, running: &mut Running) {
    install(program);
    let old = running.0;
    assert!(Command::new("kill").args(["-USR2", &old.to_string()]).status().unwrap().success());
    let line = server.await_line("to take over");
    running.0 = line.split(' ').find_map(|word| word.parse().ok()).expect("the number of a process");
    wait_until("the old supervisor to exit", || !is_running(old));
}

/// Returns `true` if a process exists and is no zombie.
fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Installs a copy of the server. We copy it with `cp`, because a program cannot be executed while this process, or a child
/// that another test has just forked, has it open for writing.
fn install(program: &Path) {
    let next = program.with_extension("next");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_cannery-server")).arg(&next).status().unwrap();
    assert!(copied.success());
    fs::rename(next, program).unwrap();
}

/// Drops three packets of a hundred, in both directions because loopback receives both.
const LOSE_PACKETS: &str = "ip link set lo up mtu 1500 && nft add table inet lossy && \
    nft 'add chain inet lossy input { type filter hook input priority 0; }' && \
    nft add rule inet lossy input numgen random mod 100 '<' 3 drop";

/// Clients over a network that loses packets, in a network namespace of their own.
#[test]
fn releases_change_over_a_lossy_network() {
    if skip_outside() {
        return;
    }
    in_network_namespace("exchange::releases_change_over_a_lossy_network", LOSE_PACKETS, || {
        let site = Site::compile();
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle.pem");
        Authority::new().certify(&["localhost"]).write_bundle(&bundle);
        let program = PathBuf::from(env!("CARGO_BIN_EXE_cannery-server"));
        let (_server, target) = start(&program, &site, &bundle, &["--threads", "2"]);
        check_under_load(&target, Failures::Forbidden, |progress| {
            for round in 1..=rounds().min(60) {
                let release = round % RELEASES;
                site.publish(release);
                progress.await_release(release);
                progress.await_responses(RESPONSES_BETWEEN / 5);
            }
        });
    });
}
