//! Test harness: a folder literal, an archive of it, a running server, and requests over real sockets.
//!
//! We never sleep for a fixed time in a test: the harness waits for messages of the server and for the bytes of a response.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(crate) use cannery_testkit::Response;
pub(crate) use cannery_testkit::http1::parse;

use crate::transports::{Request, Transports};

/// Limit for each operation, far longer than any takes on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Flags for a TLS listener with a self-signed certificate.
pub(crate) const TLS_FLAGS: [&str; 3] = ["--bind-tls", "127.0.0.1:0", "--tls-self-ecdsa"];

/// Flags for an HTTP/3 listener, in addition to those of TLS.
pub(crate) const QUIC_FLAGS: [&str; 2] = ["--bind-quic", "127.0.0.1:0"];

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// The connections over all transports, for a server that listens with and without TLS.
    transports: Option<Transports>,
    /// Lines of the server's standard error, before the one with its address.
    before: Vec<String>,
    /// The lines after that.
    log: Receiver<String>,
    /// The address of the admin listener, once it was read from there.
    admin_address: OnceCell<String>,
    /// Removed when the server is dropped.
    _folder: Option<tempfile::TempDir>,
}

/// Runs one of the programs and waits until it exits.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    let program = match program {
        "cannery" => env!("CARGO_BIN_EXE_cannery"),
        "cannery-archiver" => env!("CARGO_BIN_EXE_cannery-archiver"),
        "cannery-server" => env!("CARGO_BIN_EXE_cannery-server"),
        other => other,
    };
    Command::new(program).args(arguments).output().unwrap()
}

/// Writes a folder literal below `root`. A path with a trailing slash is a folder; the content `-> x` makes a symbolic link
/// to `x`.
pub(crate) fn write_folder(root: &Path, files: &[(&[u8], &[u8])]) {
    for (name, content) in files {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.strip_prefix(b"-> ") {
            Some(target) => std::os::unix::fs::symlink(OsStr::from_bytes(target), path).unwrap(),
            None if name.ends_with(b"/") => fs::create_dir_all(path).unwrap(),
            None => fs::write(path, content).unwrap(),
        }
    }
}

/// Compiles `folder` into `archive`. Panics if the archiver fails.
pub(crate) fn compile(folder: &Path, archive: &Path, flags: &[&str]) -> Output {
    let mut arguments = vec!["--sources", folder.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    // Most tests have no page for `/`.
    arguments.push("--allow-empty");
    arguments.extend(flags);
    let output = run("cannery-archiver", &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Compiles a folder literal with these flags, and serves it on all transports.
pub(crate) fn serve(files: &[(&[u8], &[u8])], flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    fs::create_dir(&source).unwrap();
    write_folder(&source, files);
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, flags);
    let mut server = Server::start_on_all_transports(&["--archive", archive.to_str().unwrap()]);
    server._folder = Some(folder);
    server
}

/// Converts a folder literal of text files.
pub(crate) fn pages(files: &[(&'static str, &'static str)]) -> Vec<(&'static [u8], &'static [u8])> {
    files.iter().map(|(name, content)| (name.as_bytes(), content.as_bytes())).collect()
}

/// Names another server: a program that contains the library, takes an archive as its only argument, and prints the addresses of
/// all transports like `cannery-server`.
pub(crate) const OTHER_SERVER: &str = "CANNERY_TEST_PROGRAM";

/// If set, the other server has no other transport than HTTP/1.1 over TCP.
pub(crate) const ONE_TRANSPORT: &str = "CANNERY_TEST_ONE_TRANSPORT";

/// Seconds instead of [`TIMEOUT`] for which a test waits for bytes of a response.
pub(crate) const TIMEOUT_S: &str = "CANNERY_TEST_TIMEOUT_S";

/// Returns the command of another server, if the environment names one.
fn other_server(arguments: &[&str]) -> Option<Command> {
    let mut command = Command::new(std::env::var_os(OTHER_SERVER)?);
    let archive = arguments.iter().skip_while(|flag| **flag != "--archive").nth(1);
    command.arg(archive.expect("tests that run with another server serve an archive"));
    Some(command)
}

/// Returns the command of the server in its complete sandbox, in which a debug build is killed by a forbidden system call.
/// `CANNERY_TEST_SANDBOX` and `CANNERY_TEST_IO` set other values for `--sandbox` and `--io`; a machine without Landlock
/// needs `CANNERY_TEST_SANDBOX=auto`.
pub(crate) fn server_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery-server"));
    let sandbox = if cfg!(feature = "portable") { "auto" } else { "require" };
    let sandbox = std::env::var_os("CANNERY_TEST_SANDBOX").unwrap_or_else(|| sandbox.into());
    command.arg("--sandbox").arg(sandbox);
    if let Some(io) = std::env::var_os("CANNERY_TEST_IO") {
        command.arg("--io").arg(io);
    }
    command
}

impl Server {
    /// Starts `cannery-server` on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        Server::run(other_server(arguments).unwrap_or_else(|| {
            let mut command = server_command();
            command.args(arguments).args(["--bind", "127.0.0.1:0", "--threads", "2"]);
            command
        }))
    }

    /// Starts `cannery-server` on three free ports, one of them for TLS and one for HTTP/3. `request` and `get` then send
    /// each request over all transports and compare the responses.
    pub(crate) fn start_on_all_transports(arguments: &[&str]) -> Server {
        let mut server = Server::start(&[arguments, &TLS_FLAGS, &QUIC_FLAGS].concat());
        if std::env::var_os(ONE_TRANSPORT).is_some() {
            return server;
        }
        let tls = server.read_tls_address();
        let quic = server.read_quic_address();
        server.transports = Some(Transports::new(&server.address, &tls, quic));
        server
    }

    /// Returns the address of the TLS listener of a server that was started on all transports.
    pub(crate) fn tls_address(&self) -> &str {
        self.transports.as_ref().expect("started on all transports").tls_address()
    }

    /// Reads the address of the TLS listener from the server's messages.
    pub(crate) fn read_tls_address(&self) -> String {
        self.await_line("https://").split("https://").nth(1).unwrap().trim_end_matches('/').to_owned()
    }

    /// Reads the address of the HTTP/3 listener from the server's messages.
    pub(crate) fn read_quic_address(&self) -> SocketAddr {
        let line = self.await_line("(HTTP/3)");
        let address = line.split("https://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        address.parse().unwrap()
    }

    /// Starts a command that serves, and waits until it reports its address.
    pub(crate) fn run(mut command: Command) -> Server {
        Server::follow(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts a command that serves, and waits until it reports its address. Returns `None` if it exits instead.
    pub(crate) fn try_run(mut command: Command) -> Option<Server> {
        Server::try_follow(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until a process reports its address on standard error, which must be piped.
    pub(crate) fn follow(child: Child) -> Server {
        Server::try_follow(child).expect("it listens")
    }

    /// Like [`Server::follow`], but returns `None` if the process exits instead.
    fn try_follow(mut child: Child) -> Option<Server> {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut before = Vec::new();
        let address = lines.by_ref().map_while(Result::ok).find(|line| {
            let is_address = line.contains("http://");
            if !is_address {
                before.push(line.clone());
            }
            is_address
        });
        let Some(line) = address else {
            let code = child.wait().unwrap().code();
            assert!(matches!(code, Some(1 | 3)), "the server exited with {code:?}");
            return None;
        };
        let address = line.split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();

        // A thread reads what the server prints, so that the server never waits for a reader.
        let (sender, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Some(Server {
            child,
            address,
            transports: None,
            before,
            log,
            admin_address: OnceCell::new(),
            _folder: None,
        })
    }

    /// Waits for a line of the server's standard error that contains these words, and returns it.
    pub(crate) fn await_line(&self, words: &str) -> String {
        let mut lines = Vec::new();
        loop {
            match self.log.recv_timeout(TIMEOUT) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => lines.push(line),
                Err(error) => panic!("{error}: no line with {words:?} in {lines:#?}"),
            }
        }
    }

    /// Like [`Server::await_line`], for a line that may be printed before the address.
    pub(crate) fn await_line_since_start(&self, words: &str) -> String {
        let before = self.before.iter().find(|line| line.contains(words));
        before.cloned().unwrap_or_else(|| self.await_line(words))
    }

    /// Returns the remaining lines of standard error, up to the exit of the server.
    #[cfg(not(feature = "portable"))]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.iter().collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let timeout = std::env::var(TIMEOUT_S);
        let timeout = timeout.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.parse().unwrap()));
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(timeout)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Returns the address of the admin listener, which the first call reads from the server's messages.
    pub(crate) fn read_admin_address(&self) -> String {
        let read = || {
            self.await_line("admin page").split("http://").nth(1).unwrap().trim_end_matches('/').to_owned()
        };
        self.admin_address.get_or_init(read).clone()
    }

    /// Sends bytes and returns everything that the server sends until it closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    }

    /// Sends a request with these further header lines, each with CRLF.
    pub(crate) fn request(&self, method: &str, target: &str, lines: &str) -> Response {
        self.request_host("localhost", method, target, lines)
    }

    /// Sends a request to a host with these further header lines, each with CRLF.
    pub(crate) fn request_host(&self, host: &str, method: &str, target: &str, lines: &str) -> Response {
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
        let received = self.raw(request.as_bytes());
        let (response, rest) = parse(&received, method);
        assert!(rest.is_empty(), "bytes after the response: {rest:?}");
        if let Some(transports) = &self.transports {
            transports.assert_equal(&Request { host, method, target, lines }, &response);
        }
        response
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    pub(crate) fn get_with_coding(&self, target: &str, accept_encoding: &str) -> Response {
        self.request("GET", target, &format!("Accept-Encoding: {accept_encoding}\r\n"))
    }

    /// Waits until the server exits, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until the server exits, at most [`TIMEOUT`], and returns its exit code.
    pub(crate) fn await_end(&mut self) -> Option<i32> {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the server doesn't exit");
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Stops the server by SIGTERM and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        if let Some(transports) = self.transports.take() {
            transports.close();
        }
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }
}

/// Sends a signal, by its name without `SIG`, to a process.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.log.try_iter().for_each(|line| println!("server: {line}"));
        }
    }
}

/// Sends a request to an address over a new connection.
pub(crate) fn request_at(address: &str, method: &str, target: &str, lines: &str) -> Response {
    send_at(address, method, target, lines, "")
}

/// Sends a request with content over a new connection, in one piece and without a byte after it: a server that closes the connection
/// before it has read everything resets it.
pub(crate) fn send_at(address: &str, method: &str, target: &str, lines: &str, content: &str) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let host = if lines.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let request = format!("{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{lines}\r\n{content}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    parse(&received, method).0
}

/// Returns an address with a port that is free for TCP and UDP, for a program that can't take a port of the system's choice.
///
/// If the system chose it, it could give the same port to another test before the program listens. So these are below the
/// ports that Linux gives out.
pub(crate) fn free_address() -> SocketAddrV4 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    loop {
        // Another process of tests begins elsewhere.
        let number = std::process::id().wrapping_mul(64) + CALLS.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + number % 20_000).unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Time between two looks at a condition, so that tests that wait leave the processors to others.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition is met, which `description` names in the panic message.
pub(crate) fn wait_until(description: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "timed out: {description}");
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Returns `true` if the long tests run, too.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("CANNERY_SLOW").is_some()
}

/// Returns `true` if the tests run as root.
pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t")
}

/// Decodes a body with this content coding.
pub(crate) fn decode(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        None => content.extend_from_slice(body),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut content).unwrap()),
        Some("gzip") => {
            let length = u32::from_le_bytes(*body.last_chunk().unwrap()) as usize;
            content.resize(length, 0);
            libdeflater::Decompressor::new().gzip_decompress(body, &mut content).unwrap();
        }
        Some("zstd") => {
            let length = zstd_safe::get_frame_content_size(body).unwrap().unwrap();
            content.reserve(usize::try_from(length).unwrap());
            zstd_safe::decompress(&mut content, body).unwrap();
        }
        Some(other) => panic!("unknown coding {other}"),
    }
    content
}

/// Percent-encodes a path: all bytes except ASCII letters, digits and `/-._~` (RFC 3986, section 2).
pub(crate) fn percent_encode(path: &[u8]) -> String {
    path.iter()
        .map(|byte| match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Returns all files below a folder by their relative paths, sorted. Follows symbolic links.
pub(crate) fn files_below(folder: &Path) -> Vec<(Vec<u8>, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                found.push((path.strip_prefix(folder).unwrap().as_os_str().as_bytes().to_vec(), path));
            }
        }
    }
    found.sort();
    found
}

/// Runs `check` in a network namespace of its own, after a shell script that prepares the namespace. Skips the test, and
/// prints a note, if this user may not create the namespace or the script fails.
///
/// A process enters a namespace when it starts, so this program runs the test of this name again in another process.
pub(crate) fn in_network_namespace(test: &str, script: &str, check: impl FnOnce()) {
    const INSIDE: &str = "CANNERY_NETWORK_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return check();
    }

    let unshare = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user"]).arg(program);
        command
    };
    let trial = unshare("sh".as_ref()).args(["-c", script]).output();
    if !trial.is_ok_and(|output| output.status.success()) {
        println!("skipped: this test needs the right to create a network namespace, and in it: {script}");
        return;
    }

    let mut again = unshare(std::env::current_exe().unwrap().as_os_str());
    let output = again.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}

/// Returns the Python interpreter that has the packages of the tests.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("CANNERY_PYTHON")
        .map_or_else(|| "target/outside/python/bin/python".into(), PathBuf::from)
}

/// Returns `true`, and prints a note, if tests with outside programs must be skipped.
pub(crate) fn skip_outside() -> bool {
    let skip = std::env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip");
    if skip {
        println!("skipped: CANNERY_OUTSIDE=skip");
    }
    skip
}
