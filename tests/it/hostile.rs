//! Peers that mean harm, or are merely broken, over real sockets: everybody else is served as ever, and what they
//! took comes back.
//!
//! What they do byte by byte is tried in the server's simulation; here are the crowds, the kernel and the clock.
//! With `CANNERY_SLOW` set attacks have their full size, and the longest patience is waited out. How long ordinary
//! requests take meanwhile is printed; `cargo xtask bench hostile` measures it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::site::{Server, compile, parse, server_command, skip_outside, write_folder};

/// Of the large file: more than the kernel keeps for a reader who does not read.
const LARGE_BYTES: usize = 16 << 20;

/// Longer than anything here takes, if the server does what it shall.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether attacks have their full size.
fn is_slow() -> bool {
    std::env::var_os("CANNERY_SLOW").is_some()
}

/// A server of a small and a large file, whose descriptors are counted before anybody comes.
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
        let descriptors_before = descriptors(server.pid());
        Target { server, descriptors_before, _folder: folder }
    }

    /// What somebody sees who has nothing to do with all this; tells how long it took.
    fn visit(&self) -> Duration {
        let began = Instant::now();
        let response = self.server.get("/small.txt");
        assert_eq!((response.status, response.body.as_slice()), (200, &b"small"[..]));
        began.elapsed()
    }

    /// Waits until no more descriptors are open than these above those of the beginning.
    fn await_descriptors(&self, above: usize) {
        let bound = self.descriptors_before + above;
        await_that("descriptors come back", || descriptors(self.server.pid()) <= bound);
    }
}

/// Open descriptors of the thread that has most: each worker may have a table of its own.
fn descriptors(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.filter_map(|task| Some(fs::read_dir(task.path().join("fd")).ok()?.count())).max().unwrap()
}

/// Processor time that all threads have used so far.
fn processor_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |path| fs::read_to_string(path).unwrap().split(' ').next().unwrap().parse().unwrap();
    tasks.map(|task| Duration::from_nanos(of(task.path().join("schedstat")))).sum()
}

fn await_that(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it never came to that: {what}");
        // So that those who shall bring it about have a processor.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets this process, and servers that it starts from now on, have as many descriptors as it may. Whoever holds
/// thousands of them takes turns with others like him, since there are not enough for all at once.
fn crowd() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that sends a byte now and then.
struct Trickle {
    stream: TcpStream,
    received: Vec<u8>,
    is_over: bool,
}

impl Trickle {
    /// Begins with some bytes at once.
    fn begin(server: &Server, first: &[u8]) -> Trickle {
        let mut stream = server.connect();
        stream.write_all(first).unwrap();
        stream.set_nonblocking(true).unwrap();
        Trickle { stream, received: Vec::new(), is_over: false }
    }

    /// Sends a byte, and takes what has come.
    fn turn(&mut self) {
        let sent = self.stream.write(b"x");
        let received = self.stream.read_to_end(&mut self.received);
        let goes_on = received.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.is_over = sent.is_err() || !goes_on;
    }
}

#[test]
fn heads_and_contents_that_trickle_in_are_ended_and_nobody_else_notices() {
    let count = if is_slow() { 10_000 } else { 300 };
    let _turn = crowd();
    let target = Target::start(2, &["--limit-descriptors", "12000"]);
    let alone = (0..100).map(|_| target.visit()).max().unwrap();
    let begins: [&[u8]; 2] = [
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\nX: ",
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n",
    ];
    let mut all: Vec<_> = (0..count)
        .map(|number| Trickle::begin(&target.server, begins[usize::from(number % 2 == 1)]))
        .collect();
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while all.iter().any(|trickle| !trickle.is_over) {
        assert!(began.elapsed() < PATIENCE, "they are never ended");
        all.iter_mut().filter(|trickle| !trickle.is_over).for_each(Trickle::turn);
        longest = longest.max(target.visit());
        // Not to wait for anything, but to send at the rate that the test is about.
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("an ordinary request took {alone:?} at most before, {longest:?} with {count} slow ones");
    for (number, trickle) in all.iter().enumerate() {
        let expected = if number % 2 == 1 { 200 } else { 408 };
        assert_eq!(parse(&trickle.received, false).0.status, expected, "{number}");
    }
    drop(all);
    target.await_descriptors(0);
}

#[test]
fn a_peer_that_says_it_sends_no_more_gets_its_answers() {
    let target = Target::start(1, &[]);
    let mut stream = target.server.connect();
    stream.write_all("GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3).as_bytes()).unwrap();
    stream.write_all(b"GET /small.txt HTTP/1.1\r\nHost: h").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let mut rest = received.as_slice();
    for _ in 0..3 {
        let (response, others) = parse(rest, false);
        assert_eq!((response.status, response.body.len()), (200, LARGE_BYTES));
        rest = others;
    }
    assert!(rest.is_empty(), "half a head is no request");
    drop(stream);
    target.await_descriptors(0);
}

#[test]
fn connections_that_are_reset_at_any_moment_leave_nothing_behind() {
    let target = Target::start(2, &[]);
    let resets: [&[u8]; 5] = [
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // In the middle of the next head.
        b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /small.txt HT",
        // In the middle of the answer.
        b"GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // With requests behind it that wait.
        b"GET /large.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n",
        // While the server lingers over what it refused.
        b"NONSENSE\r\n\r\n",
    ];
    for number in 0..if is_slow() { 20_000 } else { 1000 } {
        let mut stream = target.server.connect();
        stream.write_all(resets[number % resets.len()]).unwrap();
        if number % 7 > 0 {
            // Closed with bytes that nobody has read, a connection is reset.
            stream.peek(&mut [0; 1]).unwrap();
        }
        drop(stream);
        if number % 100 == 0 {
            target.visit();
        }
    }
    target.visit();
    target.await_descriptors(0);
}

#[test]
fn who_comes_above_the_limit_waits_and_is_served() {
    const LIMIT: usize = 32;
    let target = Target::start(1, &["--limit-connections", &LIMIT.to_string()]);
    let idle: Vec<_> = (0..LIMIT + LIMIT / 2).map(|_| target.server.connect()).collect();
    // Idle ones make room after some seconds, since others wait.
    println!("served after {:?}", target.visit());
    assert!(descriptors(target.server.pid()) <= target.descriptors_before + LIMIT);
    let is_ended = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0; 1]).is_ok_and(|bytes| bytes == 0)
    };
    await_that("idle ones are ended", || idle.iter().any(is_ended));
    drop(idle);
    target.visit();
    target.await_descriptors(0);
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on_later() {
    const LIMIT: usize = 64;
    let target = Target::start(1, &["--limit-descriptors", &LIMIT.to_string()]);
    let pid = target.server.pid();
    let idle: Vec<_> = (0..2 * LIMIT).map(|_| target.server.connect()).collect();
    // More than may be opened are those that the server was started with.
    await_that("no descriptor is left", || descriptors(pid) >= LIMIT);
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
    target.visit();
    target.await_descriptors(0);
}

#[test]
fn a_reader_that_takes_nothing_is_ended_and_one_that_goes_on_is_not() {
    if !is_slow() {
        println!("skipped: it takes a minute, and CANNERY_SLOW is not set");
        return;
    }
    let target = Target::start(1, &[]);
    let request = b"GET /large.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let ask = || {
        let mut stream = target.server.connect();
        stream.write_all(request).unwrap();
        stream
    };
    let idlers: Vec<_> = (0..100).map(|_| ask()).collect();
    let mut goes_on = ask();
    let (mut received, mut piece) = (Vec::new(), vec![0; 8192]);
    let began = Instant::now();
    // The server looks every half minute: twice, to be sure.
    while began.elapsed() < Duration::from_secs(70) {
        goes_on.read_exact(&mut piece).unwrap();
        received.extend_from_slice(&piece);
        target.visit();
        // Not to wait for anything, but to take as little as the test is about.
        std::thread::sleep(Duration::from_secs(1));
    }
    target.await_descriptors(1);
    for mut idler in idlers {
        let end = idler.read_to_end(&mut Vec::new());
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    goes_on.read_to_end(&mut received).unwrap();
    let (response, rest) = parse(&received, false);
    assert_eq!((response.status, response.body.len(), rest.len()), (200, LARGE_BYTES, 0));
    target.await_descriptors(0);
}

#[test]
fn idle_connections_are_ended_after_their_time_and_nobody_else_notices() {
    if !is_slow() {
        println!("skipped: it takes a minute and a half, and CANNERY_SLOW is not set");
        return;
    }
    const COUNT: usize = 10_000;
    let _turn = crowd();
    let target = Target::start(2, &["--limit-descriptors", "12000"]);
    let mut idle: Vec<_> = (0..COUNT).map(|_| target.server.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    }
    let mut longest = Duration::ZERO;
    for mut stream in idle {
        // Many times shorter than the server's patience, so that ordinary requests go on.
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (mut received, began) = (Vec::new(), Instant::now());
        while let Err(error) = stream.read_to_end(&mut received) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() < PATIENCE, "it is never ended");
            longest = longest.max(target.visit());
        }
        assert_eq!(parse(&received, false).0.body, b"small");
    }
    println!("an ordinary request took {longest:?} at most");
    target.await_descriptors(0);
}

/// The modes of `slowhttptest`, each with what is slow or evil in it.
const MODES: [(&str, &str); 4] = [("-H", "heads"), ("-B", "bodies"), ("-R", "ranges"), ("-X", "reads")];

#[test]
fn slowhttptest_finds_the_server_available_throughout() {
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
    target.visit();
    target.await_descriptors(0);
}

/// Reads what `slowhttptest` saw: the columns are the second, connections closed, pending and connected, and
/// whether a probe was answered.
fn check_seconds(text: &str, connections: usize) -> Result<(), String> {
    let rows = text.lines().skip(1).map(|line| line.split(',').map(|field| field.parse().ok()).collect());
    let rows: Option<Vec<Vec<usize>>> = rows.map(|row: Option<Vec<_>>| row).collect();
    let rows = rows.ok_or("no table of numbers")?;
    if rows.iter().any(|row| row.len() != 5 || row[4] == 0) {
        return Err("it was unavailable".into());
    }
    let all = rows.last().map_or(0, |row| row[1] + row[2] + row[3]);
    if all < connections * 9 / 10 { Err("the attack did not come about".into()) } else { Ok(()) }
}
