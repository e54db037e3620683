//! Hostile and broken clients over real sockets: others are served meanwhile, and all resources are released afterwards.
//!
//! The server's simulation covers each sequence of bytes; these tests cover many connections, the kernel and real time. With
//! `CANNERY_SLOW` set, attacks have their full size and the tests wait for the longest timeouts. The tests print how long
//! ordinary requests take meanwhile; `cargo xtask bench hostile` measures it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::{Server, compile, is_slow, parse, server_command, skip_outside, write_folder};

/// Size of the large file: more than the kernel buffers for a client that doesn't read.
const LARGE_BYTES: usize = 16 << 20;

/// Longer than any step takes on a correct server.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A server of a small and a large file, and the number of its descriptors before the first connection.
struct Target {
    server: Server,
    descriptors_before: usize,
    _folder: tempfile::TempDir,
}

impl Target {
    fn start(threads: usize, flags: &[&str]) -> Target {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        fs::create_dir(&source).unwrap();
        let large = vec![b'x'; LARGE_BYTES];
        write_folder(&source, &[(b"small.txt", b"small"), (b"large.txt", &large)]);
        let archive = folder.path().join("site.cdb");
        compile(&source, &archive, &["--compress", "identity"]);
        let mut command = server_command();
        command.arg("--archive").arg(&archive).args(["--bind", "127.0.0.1:0", "--threads"]);
        command.arg(threads.to_string()).args(flags);
        let server = Server::run(command);
        // The thread that verifies a large archive takes processor time with it when it ends.
        wait_until("the archive is verified", || !has_thread(server.pid(), "verifier"));
        let descriptors_before = descriptors(server.pid());
        Target { server, descriptors_before, _folder: folder }
    }

    /// Sends an ordinary request and returns how long it took.
    fn request(&self) -> Duration {
        let began = Instant::now();
        let response = self.server.get("/small.txt");
        assert_eq!((response.status, response.body.as_slice()), (200, &b"small"[..]));
        began.elapsed()
    }

    /// Waits until at most `above` descriptors more than at the start are open.
    fn await_descriptors(&self, above: usize) {
        let bound = self.descriptors_before + above;
        wait_until("descriptors are released", || descriptors(self.server.pid()) <= bound);
    }
}

fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.into_iter().any(|comm| comm.trim_end() == name)
}

/// Returns the number of open descriptors of the thread that has most: workers may have separate tables.
fn descriptors(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.filter_map(|task| Some(fs::read_dir(task.path().join("fd")).ok()?.count())).max().unwrap()
}

/// Returns the processor time that all threads have used.
fn processor_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // A thread may have ended.
    let of = |path| Some(fs::read_to_string(path).ok()?.split(' ').next()?.parse().unwrap());
    tasks.filter_map(|task| of(task.path().join("schedstat"))).map(Duration::from_nanos).sum()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "timed out: {what}");
        // Leaves the processors to the server and the clients.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Raises the limit of descriptors for this process and the servers that it starts. We run tests that hold
/// thousands of them one at a time, because there are not enough for all.
pub(crate) fn many_descriptors() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that sends one byte at a time.
struct Trickle {
    stream: TcpStream,
    received: Vec<u8>,
    is_over: bool,
}

impl Trickle {
    /// Connects and sends the first bytes at once.
    fn begin(server: &Server, first: &[u8]) -> Trickle {
        let mut stream = server.connect();
        stream.write_all(first).unwrap();
        stream.set_nonblocking(true).unwrap();
        Trickle { stream, received: Vec::new(), is_over: false }
    }

    /// Sends a byte and reads the bytes that have arrived.
    fn step(&mut self) {
        let sent = self.stream.write(b"x");
        let received = self.stream.read_to_end(&mut self.received);
        let is_open = received.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.is_over = sent.is_err() || !is_open;
    }
}

#[test]
fn slow_heads_and_contents_time_out() {
    let count = if is_slow() { 10_000 } else { 300 };
    let _exclusive = many_descriptors();
    let target = Target::start(2, &["--limit-descriptors", "12000"]);
    let alone = (0..100).map(|_| target.request()).max().unwrap();
    let begins: [&[u8]; 2] = [
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\nX: ",
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n",
    ];

    let mut all: Vec<_> = (0..count)
        .map(|number| Trickle::begin(&target.server, begins[usize::from(number % 2 == 1)]))
        .collect();

    let began = Instant::now();
    let mut longest = Duration::ZERO;
    while all.iter().any(|trickle| !trickle.is_over) {
        assert!(began.elapsed() < TIMEOUT, "some are never closed");
        all.iter_mut().filter(|trickle| !trickle.is_over).for_each(Trickle::step);
        longest = longest.max(target.request());
        // The pause is the rate of the bytes, and no condition is awaited.
        std::thread::sleep(Duration::from_millis(20));
    }

    println!("an ordinary request took {alone:?} at most before, {longest:?} with {count} slow ones");
    for (number, trickle) in all.iter().enumerate() {
        let expected = if number % 2 == 1 { 200 } else { 408 };
        assert_eq!(parse(&trickle.received, "GET").0.status, expected, "{number}");
    }

    drop(all);
    target.await_descriptors(0);
}

#[test]
fn half_closed_connection_gets_its_responses() {
    let target = Target::start(1, &[]);
    let mut stream = target.server.connect();
    stream.write_all("GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3).as_bytes()).unwrap();
    stream.write_all(b"GET /small.txt HTTP/1.1\r\nHost: h").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let mut rest = received.as_slice();
    for _ in 0..3 {
        let (response, others) = parse(rest, "GET");
        assert_eq!((response.status, response.body.len()), (200, LARGE_BYTES));
        rest = others;
    }
    assert!(rest.is_empty(), "an incomplete head is no request");
    drop(stream);
    target.await_descriptors(0);
}

#[test]
fn reset_connections_release_their_resources() {
    let target = Target::start(2, &[]);
    let resets: [&[u8]; 5] = [
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // During the next head.
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /small.txt HT",
        // During the response.
        b"GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // During a response, with pipelined requests.
        b"GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // During lingering close.
        b"NONSENSE\r\n\r\n",
    ];

    for number in 0..if is_slow() { 20_000 } else { 1000 } {
        let mut stream = target.server.connect();
        stream.write_all(resets[number % resets.len()]).unwrap();
        if number % 7 > 0 {
            // The kernel resets a connection that is closed with unread bytes.
            stream.peek(&mut [0; 1]).unwrap();
        }
        drop(stream);
        if number % 100 == 0 {
            target.request();
        }
    }

    target.request();
    target.await_descriptors(0);
}

#[test]
fn connections_above_the_limit_wait_and_are_served() {
    const LIMIT: usize = 32;
    let target = Target::start(1, &["--limit-connections", &LIMIT.to_string()]);
    let idle: Vec<_> = (0..LIMIT + LIMIT / 2).map(|_| target.server.connect()).collect();
    // While others wait, idle connections are closed after some seconds.
    println!("served after {:?}", target.request());
    assert!(descriptors(target.server.pid()) <= target.descriptors_before + LIMIT);
    let is_closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0; 1]).is_ok_and(|bytes| bytes == 0)
    };
    wait_until("idle connections are closed", || idle.iter().any(is_closed));
    drop(idle);
    target.request();
    target.await_descriptors(0);
}

#[test]
fn accepting_pauses_without_descriptors() {
    const LIMIT: usize = 64;
    let target = Target::start(1, &["--limit-descriptors", &LIMIT.to_string()]);
    let pid = target.server.pid();
    let idle: Vec<_> = (0..2 * LIMIT).map(|_| target.server.connect()).collect();
    // The server may have inherited more descriptors than the limit.
    wait_until("no descriptor is left", || descriptors(pid) >= LIMIT);
    let before = processor_time(pid);
    let waiting = idle.last().unwrap();
    let window = Duration::from_secs(2);
    waiting.set_read_timeout(Some(window)).unwrap();
    let mut waiting: &TcpStream = waiting;
    assert_eq!(waiting.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let used = processor_time(pid) - before;
    println!("{used:?} of processor time in {window:?}");
    assert!(used < window / 4, "it spins: {used:?} in {window:?}");
    drop(idle);
    target.request();
    target.await_descriptors(0);
}

#[test]
fn stalled_readers_are_reset_and_slow_ones_are_not() {
    if !is_slow() {
        println!("skipped: it takes a minute, and CANNERY_SLOW is not set");
        return;
    }

    let target = Target::start(1, &[]);
    let request = b"GET /large.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let send = || {
        let mut stream = target.server.connect();
        stream.write_all(request).unwrap();
        stream
    };

    let stalled: Vec<_> = (0..100).map(|_| send()).collect();
    let mut slow = send();
    let mut received = Vec::new();
    let mut piece = vec![0; 8192];
    let began = Instant::now();

    // The server checks every half minute; this covers two checks.
    while began.elapsed() < Duration::from_secs(70) {
        slow.read_exact(&mut piece).unwrap();
        received.extend_from_slice(&piece);
        target.request();
        // The pause is the rate of the slow reader, and no condition is awaited.
        std::thread::sleep(Duration::from_secs(1));
    }

    target.await_descriptors(1);
    for mut stream in stalled {
        let end = stream.read_to_end(&mut Vec::new());
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    slow.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, "GET");
    assert_eq!((response.status, response.body.len(), rest.len()), (200, LARGE_BYTES, 0));
    target.await_descriptors(0);
}

#[test]
fn idle_connections_time_out() {
    if !is_slow() {
        println!("skipped: it takes a minute and a half, and CANNERY_SLOW is not set");
        return;
    }
    const COUNT: usize = 10_000;

    let _exclusive = many_descriptors();
    let target = Target::start(2, &["--limit-descriptors", "12000"]);

    let mut idle: Vec<_> = (0..COUNT).map(|_| target.server.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    }

    let mut longest = Duration::ZERO;
    for mut stream in idle {
        // Much shorter than the server's timeout, so that ordinary requests continue.
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut received = Vec::new();
        let began = Instant::now();
        while let Err(error) = stream.read_to_end(&mut received) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() < TIMEOUT, "it is never closed");
            longest = longest.max(target.request());
        }
        assert_eq!(parse(&received, "GET").0.body, b"small");
    }

    println!("an ordinary request took {longest:?} at most");
    target.await_descriptors(0);
}

/// The modes of `slowhttptest`, each with the part that is slow or hostile.
const MODES: [(&str, &str); 4] = [("-H", "heads"), ("-B", "bodies"), ("-R", "ranges"), ("-X", "reads")];

#[test]
fn slowhttptest_finds_the_server_available() {
    if skip_outside() {
        return;
    }
    let (connections, seconds) = if is_slow() { (1000, 60) } else { (200, 14) };

    let target = Target::start(2, &[]);
    let folder = tempfile::tempdir().unwrap();
    let attacks = MODES.map(|(mode, name)| {
        let mut command = Command::new("slowhttptest");
        command.args([mode, "-g", "-o", name, "-i", "1", "-p", "3", "-r", "100"]);
        command.args(["-c", &connections.to_string(), "-l", &seconds.to_string()]);
        command.args(["-u", &format!("http://{}/large.txt", target.server.address)]);
        command.current_dir(folder.path()).stdout(Stdio::null());
        (name, command.spawn().unwrap())
    });

    for (name, mut attack) in attacks {
        assert!(attack.wait().unwrap().success(), "{name}");
        let seconds = fs::read_to_string(folder.path().join(name).with_extension("csv")).unwrap();
        check_seconds(&seconds, connections).unwrap_or_else(|fault| panic!("{name}: {fault}:\n{seconds}"));
    }

    target.request();
    target.await_descriptors(0);
}

/// Checks the report of `slowhttptest`. Its columns are the second, closed, pending and open connections, and 1 if a probe
/// got a response.
fn check_seconds(text: &str, connections: usize) -> Result<(), String> {
    let rows = text.lines().skip(1).map(|line| line.split(',').map(|field| field.parse().ok()).collect());
    let rows: Option<Vec<Vec<usize>>> = rows.map(|row: Option<Vec<_>>| row).collect();
    let rows = rows.ok_or("no table of numbers")?;
    if rows.iter().any(|row| row.len() != 5 || row[4] == 0) {
        return Err("it was unavailable".into());
    }
    let all = rows.last().map_or(0, |row| row[1] + row[2] + row[3]);
    // The report lacks the connections of its last, incomplete second.
    if all < connections / 2 { Err("the attack opened too few connections".into()) } else { Ok(()) }
}
