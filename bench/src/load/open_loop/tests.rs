//! Tests of the open-loop load.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::thread;

use super::*;
use crate::scenario::Wire;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Starts a server that pauses before the first response of each connection.
fn serve(pause: Duration, response: &'static [u8]) -> SocketAddrV4 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!("IPv4") };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut pause = Some(pause);
                for _ in lines.map_while(Result::ok).filter(String::is_empty) {
                    thread::sleep(pause.take().unwrap_or_default());
                    (&stream).write_all(response).unwrap();
                }
            });
        }
    });
    address
}

fn run_against(address: SocketAddrV4) -> Result<Report> {
    let job = Job {
        address,
        connections: 2,
        duration: Duration::from_secs(1),
        processors: "0",
        wire: Wire::Clear,
        targets: &[],
        headers: &[],
        status: 200,
    };
    let exchange = Exchange { request: b"GET / HTTP/1.1\r\n\r\n".to_vec(), response: RESPONSE.to_vec() };
    run(&job, &exchange, 500.0)
}

#[test]
fn every_scheduled_request_is_sent() {
    let report = run_against(serve(Duration::ZERO, RESPONSE)).unwrap();
    assert!((report.requests - 500.0).abs() < 1.5, "{}", report.requests);
}

#[test]
fn a_stall_delays_all_requests_scheduled_meanwhile() {
    let report = run_against(serve(Duration::from_millis(400), RESPONSE)).unwrap();
    // Both connections wait for 400 ms, in which 200 of the 500 requests are scheduled.
    let [_, p90, .., longest] = report.percentiles_us.unwrap();
    assert!(longest >= 400_000.0 && p90 >= 250_000.0, "{p90} {longest}");
}

#[test]
fn another_status_or_length_is_an_error() {
    assert!(run_against(serve(Duration::ZERO, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")).is_err());
    assert!(run_against(serve(Duration::ZERO, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!!")).is_err());
}
