//! HTTP/3 under adverse conditions, by the name of the step: a path with loss, a flood of connection attempts, and clients that
//! change their ports.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use cannery_testkit::http3::{Client, Options, initial_datagrams};
use cannery_testkit::tls::{self, ClientOptions};
use cannery_testkit::{Ended, http1};

use super::{Context, Rows};
use crate::latency::Latencies;
use crate::load::{Timings, at_rate};
use crate::machine;
use crate::metric::{Metric, mebibytes};
use crate::process::Running;
use crate::project;
use crate::promise::OURS;
use crate::results::Sample;
use crate::scenario::Step;

/// Loss in each direction, in percent, and half of the round trip, in milliseconds.
const LOSS: [&str; 2] = ["2", "25"];

/// The server at the end of the path with loss. It is bound to 10.9.0.1 by flags of the scenario.
const LOSSY_SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), 4433);

/// Initial packets of the flood: in a millisecond, different ones, and source addresses.
const FLOOD_PER_MS: usize = 50;
const FLOOD_PACKETS: usize = 2000;
const FLOOD_SOURCES: u8 = 200;

/// Requests of the client during the flood, and of others that connect for each.
const REQUESTS_PER_S: u32 = 800;
const CONNECTIONS_PER_S: u32 = 50;

/// The window of clients that change their ports: less than a response, which is then incomplete.
const WINDOW: u32 = 16 * 1024;
const THREADS: u32 = 10;

pub(super) fn measure(context: &Context<'_>, step: &Step) -> Result<Rows> {
    match context.scenario.label(step).as_str() {
        "loss" => loss(context, step),
        "flood" => flood(context, step),
        "rebind" => rebind(context, step),
        other => bail!("no such conditions: {other}"),
    }
}

/// Receives a target over a path with loss.
type Transfer = fn(&str) -> Result<Vec<u8>>;

/// Measures the goodput of parallel transfers over a path with loss.
fn loss(context: &Context<'_>, step: &Step) -> Result<Rows> {
    let mut python = Command::new("python3");
    python.arg(project::folder().join("lossy_path.py")).args(LOSS).stdout(Stdio::piped());
    let mut path = Running::start(&mut python)?;
    let mut ready = String::new();
    BufReader::new(path.0.stdout.take().expect("a pipe")).read_line(&mut ready)?;
    let _server = context.start_cannery(step)?;
    let target = context.site().targets[0].as_str();
    let content = context.site().content(target)?;

    let transfers = [("HTTP/3", over_http3 as Transfer), ("HTTP/1.1 over TLS", over_tls)];
    let mut rows = Rows::new();
    for (series, transfer) in transfers {
        let started = Instant::now();
        let received = machine::in_threads(0..step.connections, |_| transfer(target))?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(received.iter().all(|body| *body == content), "{series}: a response differs from the file");
        let bytes: usize = received.iter().map(Vec::len).sum();
        let rate = bytes as f64 * 8.0 / 1e6 / seconds;
        let sample = vec![(Metric::GoodputMbit, rate), (Metric::Requests, received.len() as f64)];
        rows.push((series.to_owned(), sample));
    }
    Ok(rows)
}

fn over_http3(target: &str) -> Result<Vec<u8>> {
    let options = Options { timeout: Duration::from_secs(120), stream_window: 8 << 20, ..Options::default() };
    let mut client = Client::connect_with(LOSSY_SERVER, &options)?;
    Ok(client.request(&fields(target))?.body)
}

fn over_tls(target: &str) -> Result<Vec<u8>> {
    let config = ClientOptions::default().tls13().build();
    let stream = tls::connect(TcpStream::connect(LOSSY_SERVER)?, "localhost", Arc::new(config))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    Ok(http1::Client::new(stream).request(request.as_bytes(), "GET")?.body)
}

/// Measures latencies of a client and of new ones, and memory of the server: before a flood of Initial packets, while they go to
/// a socket that no server reads, which shows the cost of the flood to the machine, and while they go to the server.
fn flood(context: &Context<'_>, step: &Step) -> Result<Rows> {
    let placement = machine::placement(1)?;
    let server = context.start_cannery(step)?;
    let address = server.address().into();
    let target = context.site().targets[0].as_str();
    let samples = || {
        machine::pin_thread(&placement.generator)?;
        let mut kept = on_one_connection(address, target, context.duration())?;
        kept.push((Metric::PrivateMib, mebibytes(server.anonymous_bytes()?)));
        let new = on_new_connections(address, target, context.duration())?;
        anyhow::Ok([kept, new])
    };

    let before = samples()?;
    let unread = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let unread_address = unread.local_addr()?;
    let (elsewhere, _) = machine::during(|should_stop| send_initials(unread_address, should_stop), samples)?;
    let (during, sent) = machine::during(|should_stop| send_initials(address, should_stop), samples)?;

    let mut rows = Rows::new();
    for (when, [kept, new]) in [("before", before), ("elsewhere", elsewhere), ("during", during)] {
        rows.push((when.to_owned(), kept));
        rows.push((format!("new connections, {when}"), new));
    }
    rows.push(("flood".to_owned(), vec![(Metric::RequestsPerS, sent)]));
    Ok(rows)
}

/// Requests a target at a constant rate on one connection.
fn on_one_connection(address: SocketAddr, target: &str, duration: Duration) -> Result<Sample> {
    let mut client = Client::connect(address)?;
    let timings = at_rate(REQUESTS_PER_S, duration, || request(&mut client, target))?;
    Ok(latencies(timings))
}

/// Requests a target at a constant rate, each time on a new connection, without a token of an earlier one.
fn on_new_connections(address: SocketAddr, target: &str, duration: Duration) -> Result<Sample> {
    let timings = at_rate(CONNECTIONS_PER_S, duration, || {
        let mut client = Client::connect(address)?;
        request(&mut client, target)?;
        client.close();
        Ok(())
    })?;
    Ok(latencies(timings))
}

fn request(client: &mut Client, target: &str) -> Result<()> {
    let response = client.request(&fields(target))?;
    ensure!(response.status == 200, "status {}", response.status);
    Ok(())
}

fn latencies(timings: Timings) -> Sample {
    let latencies = Latencies::new(timings);
    let mut sample = latencies.sample();
    sample.push((Metric::SecondP99Us, latencies.p99_of_median_second()));
    sample
}

/// Sends Initial packets to a socket, from many addresses until the end. Returns their rate.
fn send_initials(target: SocketAddr, should_stop: &AtomicBool) -> Result<f64> {
    machine::pin_thread("1")?;
    // On two processors, the client has the same one, and must not wait for the flood.
    machine::lower_priority()?;
    let packets = initial_datagrams(target, FLOOD_PACKETS);
    let bind = |source| UdpSocket::bind((Ipv4Addr::new(127, 0, 2, source), 0));
    let sockets = (1..=FLOOD_SOURCES).map(bind).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let mut sent = 0;
    while !should_stop.load(Ordering::Relaxed) {
        let scheduled = usize::try_from(started.elapsed().as_millis())? * FLOOD_PER_MS;
        while sent < scheduled {
            // The receive buffer may be full.
            let _ = sockets[sent % sockets.len()].send_to(&packets[sent % packets.len()], target);
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(sent as f64 / started.elapsed().as_secs_f64())
}

/// Counts the transfers that are complete although the client's port has changed.
fn rebind(context: &Context<'_>, step: &Step) -> Result<Rows> {
    let server = context.start_cannery(step)?;
    let address = server.address().into();
    let target = context.site().targets[0].as_str();
    let content = context.site().content(target)?;
    let options = Options { timeout: Duration::from_secs(60), stream_window: WINDOW, ..Options::default() };

    let connections = context.connections(step) / THREADS;
    let complete = machine::in_threads(0..THREADS, |_| {
        let begin = |_| {
            let mut client = Client::connect_with(address, &options)?;
            let stream = client.send_request(&fields(target))?;
            client.receive_part(stream, 1000)?;
            assert!(!client.is_complete(stream), "the response exceeds the window");
            Ok((client, stream))
        };

        let transfers = (0..connections).map(begin).collect::<Result<Vec<_>, Ended>>()?;
        let mut complete = 0;
        for (mut client, stream) in transfers {
            client.rebind(Ipv4Addr::LOCALHOST.into())?;
            let is_complete = client.receive(stream, "GET").is_ok_and(|response| response.body == content);
            complete += usize::from(is_complete);
        }
        Ok(complete)
    })?;

    let opened = f64::from(connections * THREADS);
    let complete: usize = complete.into_iter().sum();
    Ok(vec![(OURS.into(), vec![(Metric::Opened, opened), (Metric::Requests, complete as f64)])])
}

fn fields(target: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", target)]
}
