//! Threads that serve: connections are spread over them evenly, also where they are few.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::site::{Server, await_that, pages, serve};

/// Sockets of the peers that each thread which serves has: all that it has open but its door, which stays.
fn sockets(server: &Server) -> Vec<usize> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let workers = tasks.filter_map(|task| {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap();
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
    ignore = "threads that share their descriptors cannot be told apart from outside"
)]
fn few_connections_are_spread_evenly() {
    let server = serve(&pages(&[("a.txt", "here")]), &[]);
    let before = sockets(&server);
    assert!(before.len() > 1, "nothing to spread over");
    let mut peers: Vec<TcpStream> = Vec::new();
    for number in 1..=12 {
        let mut peer = server.connect();
        peer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        peers.push(peer);
        let of_peers = || -> Vec<usize> {
            sockets(&server).iter().zip(&before).map(|(now, before)| now - before).collect()
        };
        // Who hands a connection on has it open for a moment longer: meanwhile its new owner may have answered.
        await_that("each connection to be in one table", || of_peers().iter().sum::<usize>() == number);
        let of_peers = of_peers();
        let (least, most) = (of_peers.iter().min().unwrap(), of_peers.iter().max().unwrap());
        let tolerated = if *least < 4 { 1 } else { 2 };
        assert!(most - least <= tolerated, "{of_peers:?}");
    }
}
