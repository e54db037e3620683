//! Load balancing: connections are distributed evenly over the workers, even if there are few. Also the scheduling of workers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use crate::harness::{Server, pages, serve, wait_until};

/// Returns the directories in `/proc` of threads of the server, those of the workers or all others.
fn threads(server: &Server, is_worker: bool) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let threads = tasks.filter_map(|task| {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).ok()?;
        (name.starts_with("worker") == is_worker).then_some(task)
    });
    threads.collect()
}

/// Returns the number of open sockets of each worker, including its listener.
fn sockets(server: &Server) -> Vec<usize> {
    let is_socket = |target: &str| target.starts_with("socket:");
    let sockets = threads(server, true).into_iter().map(|task| {
        let open = fs::read_dir(task.join("fd")).unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| is_socket(&target.to_string_lossy())).count()
    });
    sockets.collect()
}

/// Returns the time slice of a thread in nanoseconds, or `None` if the kernel doesn't tell.
fn time_slice(task: &Path) -> Option<u64> {
    let state = fs::read_to_string(task.join("sched")).ok()?;
    let line = state.lines().find_map(|line| line.strip_prefix("se.slice")?.split_once(':'));
    line?.1.trim().parse().ok()
}

/// Returns `true` if threads have slices of their own: on Linux 6.12 and later.
fn has_own_slices() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers =
        release.split(|character: char| !character.is_ascii_digit()).map(|number| number.parse().ok());
    let version: (Option<u32>, Option<u32>) = (numbers.next().flatten(), numbers.next().flatten());
    version >= (Some(6), Some(12))
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has time slices of a thread")]
fn workers_have_short_time_slices() {
    let server = serve(&pages(&[("a.txt", "here")]), &[]);

    let workers: Vec<_> = threads(&server, true).iter().map(|task| time_slice(task)).collect();
    let others: Vec<_> = threads(&server, false).iter().filter_map(|task| time_slice(task)).collect();

    assert!(!workers.is_empty());
    if has_own_slices() && !others.is_empty() {
        assert!(workers.iter().all(|slice| *slice == Some(100_000)), "{workers:?}");
        assert!(others.iter().all(|slice| *slice > 100_000), "{others:?}");
    }
}

#[test]
#[cfg_attr(
    feature = "portable",
    ignore = "threads with shared descriptors cannot be distinguished from outside"
)]
fn few_connections_are_balanced() {
    let server = serve(&pages(&[("a.txt", "here")]), &[]);

    let before = sockets(&server);
    assert!(before.len() > 1, "only one worker");
    let mut peers: Vec<TcpStream> = Vec::new();

    for number in 1..=12 {
        let mut peer = server.connect();
        peer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"here") {
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            received.push(byte[0]);
        }

        peers.push(peer);
        let connections = || -> Vec<usize> {
            sockets(&server).iter().zip(&before).map(|(now, before)| now - before).collect()
        };

        // A worker that passes a connection to another has it open for a moment longer.
        wait_until("each connection is open once", || connections().iter().sum::<usize>() == number);
        let connections = connections();
        let least = connections.iter().min().unwrap();
        let most = connections.iter().max().unwrap();
        let tolerated = if *least < 4 { 1 } else { 2 };
        assert!(most - least <= tolerated, "{connections:?}");
    }
}
