//! Load balancing: connections are distributed evenly over the workers, even if there are few.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::{Server, pages, serve, wait_until};

/// Returns the number of open sockets of each worker, including its listener.
fn sockets(server: &Server) -> Vec<usize> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let workers = tasks.filter_map(|task| {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).ok()?;
        name.starts_with("worker").then_some(task)
    });
    let is_socket = |target: &str| target.starts_with("socket:");
    let sockets = workers.map(|task| {
        let open = fs::read_dir(task.join("fd")).unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| is_socket(&target.to_string_lossy())).count()
    });
    sockets.collect()
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
