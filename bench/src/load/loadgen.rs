//! `loadgen.c`: a generator that never sleeps and needs less CPU time for a request than a server. It compares every byte
//! of every response except the date, or, for responses that differ in length, status and length.
//!
//! We wrote it because no packaged tool serves, for two loads:
//!
//! - Several busy server threads. wrk needs 4.2 µs for a request where Cannery needs 3.4, and leaves two server threads
//!   idle for a fifth of the time on a machine with two processors for each.
//! - An open loop: requests at a constant rate, in which a slow server can't slow down its clients. Latency counts from the
//!   scheduled time of a request, so a server that stalls delays all requests of that time (the opposite is known as
//!   coordinated omission). We need 100,000 requests per second: wrk2 isn't packaged by Debian, oha needs more CPU time
//!   for a request than a server, and h2load's `--rps` counts from the time of sending.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Job, Report, number};
use crate::http;
use crate::latency::Latencies;
use crate::project;
use crate::scenario::Distribution;

const PROGRAM: &str = "loadgen";

pub(crate) fn build() -> Result<()> {
    let program = project::scratch(PROGRAM)?;
    let source = project::folder().join("loadgen.c");
    project::run(Command::new("gcc").args(["-O2", "-Wall", "-Wextra", "-o"]).arg(program).arg(source))
}

/// Sends the request for the job's first target on every connection, with a process on each processor. With a rate, also
/// measures latency. Fails if a response differs from the first one (unless the job allows that), if a connection ends, or if
/// the server doesn't keep up with the rate.
pub(crate) fn run(job: &Job<'_>, distribution: Distribution, requests_per_s: Option<f64>) -> Result<Report> {
    let request = http::request("1.1", job.address, &job.targets[0], job.headers);
    let response = match job.lengths_vary {
        true => None,
        false => Some(http::get(job.address, &job.targets[0], job.headers)?.bytes),
    };
    run_exchange(job, &request, response.as_deref(), distribution, requests_per_s)
}

fn run_exchange(
    job: &Job<'_>,
    request: &[u8],
    response: Option<&[u8]>,
    distribution: Distribution,
    requests_per_s: Option<f64>,
) -> Result<Report> {
    let mut command = project::pinned(job.processors, project::scratch(PROGRAM)?);
    command.arg(job.address.port().to_string()).arg(job.connections.to_string());
    command.arg(job.duration.as_millis().to_string());
    for (name, bytes) in [("request", Some(request)), ("response", response)] {
        let Some(bytes) = bytes else {
            command.arg("-");
            continue;
        };
        let path = project::scratch(&format!("running/{name}"))?;
        fs::write(&path, bytes)?;
        command.arg(path);
    }
    command.arg(match distribution {
        Distribution::Apart => "apart",
        Distribution::Across => "across",
    });
    let Some(rate) = requests_per_s else {
        let report = project::output(&mut command)?;
        let requests = number(&report, "requests:")?;
        ensure!(requests > 0.0, "loadgen: no responses");
        let requests_per_s = requests / number(&report, "seconds:")?;
        return Ok(Report { requests, requests_per_s, ..Report::default() });
    };

    let latencies = project::scratch("running/latencies")?;
    fs::write(&latencies, [])?;
    project::output(command.arg(rate.to_string()).arg(&latencies))?;
    let bytes = fs::read(latencies)?;
    let nanoseconds = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    let latencies =
        Latencies::new(nanoseconds.map(|latency| (Duration::ZERO, Duration::from_nanos(latency))));
    let requests = latencies.len() as f64;
    Ok(Report {
        requests,
        requests_per_s: requests / job.duration.as_secs_f64(),
        percentiles: latencies.sample(),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::scenario::Wire;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

    /// Starts a server that pauses before the first response of each connection, and sends these responses in turn.
    fn serve(pause: Duration, responses: &'static [&'static [u8]]) -> SocketAddrV4 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!("IPv4") };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let mut pause = Some(pause);
                    let requests = lines.map_while(Result::ok).filter(String::is_empty);
                    for (_, response) in requests.zip(responses.iter().cycle()) {
                        thread::sleep(pause.take().unwrap_or_default());
                        (&stream).write_all(response).unwrap();
                    }
                });
            }
        });
        address
    }

    /// Sends 500 requests in a second. Without a response, responses may differ.
    fn at_rate(address: SocketAddrV4, response: Option<&[u8]>) -> Result<Report> {
        // The tests write the same files.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap();
        build()?;
        let job = Job {
            address,
            connections: 2,
            duration: Duration::from_secs(1),
            processors: "0",
            wire: Wire::Clear,
            key_exchange: None,
            targets: &[],
            headers: &[],
            status: 200,
            lengths_vary: response.is_none(),
        };
        run_exchange(&job, b"GET / HTTP/1.1\r\n\r\n", response, Distribution::Across, Some(500.0))
    }

    #[test]
    fn a_stall_delays_all_requests_scheduled_meanwhile() {
        let report = at_rate(serve(Duration::from_millis(400), &[RESPONSE]), Some(RESPONSE)).unwrap();
        assert!((report.requests - 500.0).abs() < 1.5, "{}", report.requests);
        // Both connections wait for 400 ms, in which 200 of the 500 requests are scheduled.
        let [_, (_, p90), .., (_, longest)] = report.percentiles[..] else { unreachable!("five") };
        assert!(longest >= 400_000.0 && p90 >= 250_000.0, "{p90} {longest}");
    }

    #[test]
    fn another_response_is_an_error() {
        at_rate(serve(Duration::ZERO, &[UNAVAILABLE]), Some(RESPONSE)).unwrap_err();
    }

    #[test]
    fn responses_may_differ_in_length() {
        const LONGER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nX: y\r\n\r\nhello\r\n\r\nyou";
        let report = at_rate(serve(Duration::ZERO, &[RESPONSE, LONGER]), None).unwrap();
        assert!((report.requests - 500.0).abs() < 1.5, "{}", report.requests);
    }

    #[test]
    fn differing_responses_need_status_and_length() {
        const TOO_LONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
        const NO_LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n";
        for wrong in [&[UNAVAILABLE], &[TOO_LONG], &[NO_LENGTH]] {
            at_rate(serve(Duration::ZERO, wrong), None).unwrap_err();
        }
    }
}
