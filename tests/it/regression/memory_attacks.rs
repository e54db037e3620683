//! Memory while clients attack in all ways at once, mostly over QUIC, and an HTTP/1.1 client is served.
//!
//! With `CANNERY_SLOW` set, the attack lasts a minute, and its clients vanish instead of closing their connections.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cannery_testkit::http1;
use cannery_testkit::http2::{END_STREAM, INITIAL_WINDOW_SIZE, PREFACE, field_block, headers, settings};
use cannery_testkit::http3::{
    Client, Dir, Forgery, HEADERS, Level, Options, field_section, forged_initial_datagrams, frame,
    initial_datagrams, varint,
};

use super::memory::{compile_pages, kibibytes, pin_with, shed, stream_frame};
use crate::harness::{QUIC_FLAGS, Server, TIMEOUT, TLS_FLAGS, is_slow, wait_until};
use crate::hostile::many_descriptors;

/// The limit of the server's private memory, in MiB.
const LIMIT_MIB: u64 = 64;

/// The limit of a program with routes, in MiB: the stacks of the threads for handlers, which are in no page yet, count against it.
const LIMIT_WITH_ROUTES_MIB: u64 = 128;

/// The pages of the program and of its archive that the kernel may keep in addition, in MiB. They don't count against the limit.
const FILES_MIB: u64 = 48;

/// Clients of a kind that are open at a time.
const HELD_MAX: usize = 100;

/// The content that an upload announces, in bytes: as much as a handler gets at most. The last part is never sent.
const CONTENT_BYTES: usize = 1 << 20;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/a.txt")];
const GET_FEED: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/feed")];
const POST: [(&str, &str); 5] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "h"),
    (":path", "/echo"),
    ("content-length", "1048576"),
];

/// The addresses of a server.
#[derive(Debug, Clone, Copy)]
struct Target {
    plain: SocketAddr,
    quic: SocketAddr,
}

/// A connection that an attacker leaves open.
#[allow(clippy::large_enum_variant, reason = "there are few")]
enum Held {
    Quic(Client),
    Tcp(#[allow(dead_code, reason = "it is open")] TcpStream),
}

type Attack = fn(Target) -> Option<Held>;

const ATTACKS: [(&str, Attack); 16] = [
    ("Initial packets", initials),
    ("forged Initial packets", forged_initials),
    ("handshakes without an end", unfinished_handshake),
    ("CRYPTO gaps in the handshake", handshake_gaps),
    ("CRYPTO gaps after it", crypto_gaps),
    ("stream gaps", stream_gaps),
    ("acknowledgment gaps", acknowledgment_gaps),
    ("QPACK instructions", qpack),
    ("half requests", half_requests),
    ("readers that take nothing", idle_readers),
    ("uploads", uploads),
    ("uploads over HTTP/1.1", plain_uploads),
    ("readers over HTTP/1.1 that take nothing", plain_idle_readers),
    ("closed windows over HTTP/3", closed_windows),
    ("closed windows over HTTP/2", closed_windows_over_http2),
    ("feeds over HTTP/1.1 that nobody reads", unread_feeds),
];

/// Options of clients that give up soon: while memory is scarce, they aren't answered.
fn hasty() -> Options {
    Options { timeout: Duration::from_millis(500), ..Options::default() }
}

fn connect(at: Target) -> Option<Client> {
    Client::connect_with(at.quic, &hasty()).ok()
}

fn send_all(at: Target, datagrams: &[Vec<u8>]) -> Option<Held> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    datagrams.iter().for_each(|datagram| drop(socket.send_to(datagram, at.quic)));
    None
}

fn initials(at: Target) -> Option<Held> {
    send_all(at, &initial_datagrams(at.quic, 16))
}

/// Returns a CRYPTO frame (RFC 9000 §19.6).
fn crypto_frame(offset: u64, data: &[u8]) -> Vec<u8> {
    [&[6][..], &varint(offset), &varint(data.len() as u64), data].concat()
}

/// Sends the later part of a ClientHello only.
fn forged_initials(at: Target) -> Option<Held> {
    send_all(at, &forged_initial_datagrams(at.quic, 16, &crypto_frame(900, &[b'x'; 900])))
}

/// Sends these frames instead of the last message of the handshake.
fn handshake_with(at: Target, frames: impl Iterator<Item = Vec<u8>>) -> Option<Held> {
    let forgery = Forgery::default();
    frames.for_each(|frame| forgery.push(Level::Handshake, frame));
    let options =
        Options { forgery: Some(forgery.clone()), timeout: Duration::from_millis(50), ..Options::default() };
    // The client can't tell that the server is still waiting.
    let mut client = Client::handshake(at.quic, &options).ok()?;
    let _ = client.send_forged(&forgery);
    None
}

fn unfinished_handshake(at: Target) -> Option<Held> {
    // PING frames.
    handshake_with(at, std::iter::repeat_n(vec![1], 32))
}

fn handshake_gaps(at: Target) -> Option<Held> {
    handshake_with(at, (0..32).map(|number| crypto_frame(1000 + 900 * (number % 16), &[b'x'; 450])))
}

fn crypto_gaps(at: Target) -> Option<Held> {
    pin_with(at.quic, hasty(), (0..32).map(|number| crypto_frame(1000 + 400 * number, &[b'x'; 300])))
        .map(Held::Quic)
}

fn stream_gaps(at: Target) -> Option<Held> {
    let numbers = |stream| (0..12).map(move |number| stream_frame(stream, number, &[b'x'; 1300]));
    pin_with(at.quic, hasty(), [0, 4, 8, 12, 16, 20, 24, 28].into_iter().flat_map(numbers)).map(Held::Quic)
}

/// Requests pages and loses every other packet of the responses.
fn acknowledgment_gaps(at: Target) -> Option<Held> {
    let forgery = Forgery::default();
    let mut client =
        Client::connect_with(at.quic, &Options { forgery: Some(forgery.clone()), ..hasty() }).ok()?;
    forgery.lose(|number| number % 2 == 1);
    let streams: Option<Vec<_>> = (0..10).map(|_| client.send_request(&GET).ok()).collect();
    let _ = client.receive_part(streams?[9], 1);
    Some(Held::Quic(client))
}

/// Fills the dynamic table (RFC 9204 §4.3), and begins another instruction.
fn qpack(at: Target) -> Option<Held> {
    let mut client = connect(at)?;
    let stream = client.try_open_stream(Dir::Uni)?;
    // An encoder stream, whose table has 4,096 bytes.
    let mut bytes = vec![2, 0x3f, 0xe1, 0x1f];
    for number in 0..30_u8 {
        bytes.extend([0x43, b'x', b'0' + number / 10, b'0' + number % 10, 90]);
        bytes.extend([b'v'; 90]);
    }
    bytes.extend([0x43, b'a', b'b', b'c', 0x7f, 0x81, 0x10]);
    bytes.extend([b'v'; 1000]);
    client.send(stream, &bytes);
    Some(Held::Quic(client))
}

/// Begins requests with HEADERS frames that are almost complete.
fn half_requests(at: Target) -> Option<Held> {
    let mut client = connect(at)?;
    for _ in 0..7 {
        let stream = client.try_open_stream(Dir::Bi)?;
        let head = [varint(HEADERS), varint(15_000), vec![0; 14_990]].concat();
        client.send(stream, &head);
    }
    Some(Held::Quic(client))
}

fn idle_readers(at: Target) -> Option<Held> {
    let options = Options { stream_window: 100, ..hasty() };
    let mut client = Client::connect_with(at.quic, &options).ok()?;
    for _ in 0..40 {
        client.send_request(&GET).ok()?;
    }
    Some(Held::Quic(client))
}

fn uploads(at: Target) -> Option<Held> {
    let mut client = connect(at)?;
    for _ in 0..2 {
        let stream = client.try_open_stream(Dir::Bi)?;
        client.send(stream, &frame(HEADERS, &field_section(&POST)));
        client.send_content(stream, &vec![b'x'; CONTENT_BYTES - 1000]).ok()?;
    }
    Some(Held::Quic(client))
}

fn plain_send(at: Target, request: &[u8]) -> Option<Held> {
    let mut stream = TcpStream::connect(at.plain).ok()?;
    stream.set_nonblocking(true).ok()?;
    // Stops when the socket buffers are full.
    let _ = stream.write(request);
    Some(Held::Tcp(stream))
}

fn plain_uploads(at: Target) -> Option<Held> {
    let head = format!("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n");
    plain_send(at, &[head.as_bytes(), &vec![b'x'; CONTENT_BYTES - 1000]].concat())
}

fn plain_idle_readers(at: Target) -> Option<Held> {
    plain_send(at, "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4000).as_bytes())
}

/// Requests bodies that a handler goes on writing, and opens no windows.
fn closed_windows(at: Target) -> Option<Held> {
    let options = Options { stream_window: 100, ..hasty() };
    let mut client = Client::connect_with(at.quic, &options).ok()?;
    for _ in 0..100 {
        client.send_request(&GET_FEED).ok()?;
    }
    Some(Held::Quic(client))
}

fn closed_windows_over_http2(at: Target) -> Option<Held> {
    let mut bytes = [PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, 0)])].concat();
    bytes.extend((0..128).flat_map(|number| headers(2 * number + 1, END_STREAM, &field_block(&GET_FEED))));
    plain_send(at, &bytes)
}

fn unread_feeds(at: Target) -> Option<Held> {
    plain_send(at, b"GET /feed HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Attacks until `is_over`, with several clients at a time.
fn attack(attack: Attack, at: Target, is_over: &AtomicBool, rounds: &AtomicUsize) {
    let mut held = VecDeque::new();
    let close = |held| match held {
        // Others vanish, as attackers do.
        Held::Quic(client) if !is_slow() => client.close(),
        Held::Quic(_) | Held::Tcp(_) => {}
    };
    while !is_over.load(Ordering::Relaxed) {
        held.extend(attack(at));
        if held.len() > HELD_MAX {
            held.pop_front().map(close);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
        // The rate of the attack, which leaves the processors to the server and other tests. No condition is awaited.
        std::thread::sleep(Duration::from_millis(5));
    }
    held.into_iter().for_each(close);
}

/// Sends requests of a client that is served meanwhile, until all attackers have done enough and `is_enough`.
fn request_while_attacked(
    server: &Server,
    rounds: &[AtomicUsize],
    is_enough: &dyn Fn() -> bool,
    check: &dyn Fn(),
) {
    let began = Instant::now();
    let (at_least, rounds_min) =
        if is_slow() { (Duration::from_secs(60), 1000) } else { (Duration::ZERO, 100) };
    let mut kept_open = http1::Client::new(server.connect());
    let mut longest = Duration::ZERO;
    let mut requests = 0;
    loop {
        let before = Instant::now();
        // While memory is scarce, a new connection waits until others were closed, and is served then.
        assert_eq!(server.get("/a.txt").body.len(), 4000);
        // A connection that keeps little isn't closed.
        let response = kept_open.request(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "GET");
        assert_eq!(response.unwrap().body.len(), 4000);
        longest = longest.max(before.elapsed());
        requests += 2;
        check();
        let is_enough = is_enough();

        let is_done = rounds.iter().all(|rounds| rounds.load(Ordering::Relaxed) >= rounds_min);
        if is_done && began.elapsed() >= at_least && is_enough {
            break;
        }
        let counts =
            || ATTACKS.iter().zip(rounds).map(|((name, _), rounds)| (*name, rounds)).collect::<Vec<_>>();
        assert!(began.elapsed() < at_least + 3 * TIMEOUT, "too slow: {:?}", counts());
    }
    println!("{requests} requests in {:?}; two took {longest:?} at most", began.elapsed());
}

/// Attacks a server in all ways until `is_enough`, which is called between requests. Returns the memory that was resident before,
/// in KiB.
fn check(server: &Server, quic: SocketAddr, limit_mib: u64, is_enough: &dyn Fn() -> bool) -> u64 {
    let at = Target { plain: server.address.parse().unwrap(), quic };
    assert_eq!(server.get("/a.txt").body.len(), 4000);
    let before = kibibytes(server, "VmRSS");
    let is_over = AtomicBool::new(false);
    let rounds = [const { AtomicUsize::new(0) }; ATTACKS.len()];
    let peak = AtomicUsize::new(0);
    let check_memory = || {
        let resident = kibibytes(server, "VmRSS");
        assert!(resident < (limit_mib + FILES_MIB) << 10, "{resident} KiB are resident");
        peak.fetch_max(usize::try_from(resident).unwrap(), Ordering::Relaxed);
    };

    std::thread::scope(|scope| {
        for ((_, kind), rounds) in ATTACKS.iter().zip(&rounds) {
            scope.spawn(|| attack(*kind, at, &is_over, rounds));
        }
        // Ends the attackers also if an assertion fails.
        let requests = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            request_while_attacked(server, &rounds, is_enough, &check_memory);
        }));
        is_over.store(true, Ordering::Relaxed);
        requests.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    println!("{before} KiB were resident before, {} KiB at most", peak.load(Ordering::Relaxed));

    before
}

/// Waits until a server has returned the memory to the system.
fn await_return(server: &Server, before: u64) {
    // Handshakes that don't end are given up after 10 seconds, silent clients after 30, and memory is returned 10 seconds later.
    // The rest is code that has run for the first time, and up to 4 MiB for each worker.
    let began = Instant::now();
    while kibibytes(server, "VmRSS") > before + 16 * 1024 {
        assert!(began.elapsed() < 4 * TIMEOUT, "{} KiB are resident", kibibytes(server, "VmRSS"));
        // Leaves the processors to the server and other tests.
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{} KiB after {:?}", kibibytes(server, "VmRSS"), began.elapsed());
    assert_eq!(server.get("/a.txt").body.len(), 4000);
}

#[test]
fn attacks_of_all_kinds_stay_within_the_memory_limit() {
    let _exclusive = many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let archive = compile_pages(folder.path());
    let limit = LIMIT_MIB.to_string();
    let flags = ["--archive", archive.to_str().unwrap(), "--limit-memory", &limit, "--admin", "127.0.0.1:0"];
    let server = Server::start(&[&flags[..], &TLS_FLAGS, &QUIC_FLAGS].concat());
    let quic = server.read_quic_address();
    let admin = server.read_admin_address();
    let before = check(&server, quic, LIMIT_MIB, &|| shed(&admin) > 0);
    await_return(&server, before);
    assert_eq!(server.stop(), Some(0));
}

/// Returns the program of the library that has routes, if it is built: `cargo test` builds it for all packages.
fn program_with_routes() -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap().ancestors().nth(2)?.join("examples/site_and_routes");
    program.exists().then_some(program)
}

/// The same with a handler that gets the uploads and sends them back, and one whose bodies never end.
#[test]
fn attacks_on_handlers_stay_within_the_memory_limit() {
    let Some(program) = program_with_routes() else {
        println!("skipped: the example `site_and_routes` isn't built");
        return;
    };

    let _exclusive = many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let archive = compile_pages(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -d \"$0\" && exec \"$@\""]).arg((LIMIT_WITH_ROUTES_MIB << 10).to_string());
    let server = Server::run({
        command.arg(program).arg(archive);
        command
    });
    let quic = server.read_quic_address();
    let echo = || server.request("POST", "/echo", "Content-Length: 0\r\n").status;

    let refused = Cell::new(0);
    let before = check(&server, quic, LIMIT_WITH_ROUTES_MIB, &|| {
        let status = echo();
        assert!(matches!(status, 200 | 503), "{status}");
        refused.set(refused.get() + u32::from(status == 503));
        true
    });

    println!("the handler refused {} requests", refused.get());
    if is_slow() {
        await_return(&server, before);
    }
    wait_until("memory is free", || echo() == 200);
    assert_eq!(server.stop(), Some(0));
}
