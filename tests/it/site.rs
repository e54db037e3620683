//! The only harness: a folder literal, an archive of it, a running server, a raw socket.
//!
//! Never sleeps: it waits for the server's word that it listens, and for the bytes of an answer.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(crate) use cannery_testkit::Response;
pub(crate) use cannery_testkit::http1::{is_complete as is_whole, parse};

use crate::transports::Transports;

/// No answer takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What makes a server listen over TLS too, with a key and a certificate that it makes itself.
pub(crate) const OVER_TLS: [&str; 3] = ["--bind-tls", "127.0.0.1:0", "--tls-self-ecdsa"];

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// How else it can be asked, if it listens over TLS as well.
    transports: Option<Transports>,
    /// What the server says, line by line.
    log: Receiver<String>,
    /// Keeps the folder as long as the server runs.
    _folder: Option<tempfile::TempDir>,
}

/// Runs one of the commands to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    let program = match program {
        "cannery" => env!("CARGO_BIN_EXE_cannery"),
        "cannery-archiver" => env!("CARGO_BIN_EXE_cannery-archiver"),
        "cannery-server" => env!("CARGO_BIN_EXE_cannery-server"),
        other => other,
    };
    Command::new(program).args(arguments).output().unwrap()
}

/// Writes a folder literal below `root`: paths that end with `/` are folders, `-> x` as content is a link.
pub(crate) fn write_folder(root: &Path, files: &[(&[u8], &[u8])]) {
    for (name, content) in files {
        let path = root.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.strip_prefix(b"-> ") {
            Some(target) => std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), path).unwrap(),
            None if name.ends_with(b"/") => fs::create_dir_all(path).unwrap(),
            None => fs::write(path, content).unwrap(),
        }
    }
}

/// Compiles `folder` into `archive` with these flags, which must succeed.
pub(crate) fn compile(folder: &Path, archive: &Path, flags: &[&str]) -> Output {
    let mut arguments = vec!["--sources", folder.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    // Most tests need no start page.
    arguments.push("--allow-empty");
    arguments.extend(flags);
    let output = run("cannery-archiver", &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A server of a folder literal, compiled with these flags, that listens in every way.
pub(crate) fn serve(files: &[(&[u8], &[u8])], flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    fs::create_dir(&source).unwrap();
    write_folder(&source, files);
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, flags);
    let mut server = Server::start_everywhere(&["--archive", archive.to_str().unwrap()]);
    server._folder = Some(folder);
    server
}

/// The files of text, for short literals.
pub(crate) fn pages(files: &[(&'static str, &'static str)]) -> Vec<(&'static [u8], &'static [u8])> {
    files.iter().map(|(name, content)| (name.as_bytes(), content.as_bytes())).collect()
}

/// The server in its whole sandbox, where a debug build ends at a refused system call, over the interface of the kernel
/// that the whole suite is run on. `CANNERY_TEST_SANDBOX` and `CANNERY_TEST_IO` give other values for `--sandbox` and
/// `--io`: `auto` is for a machine without Landlock.
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
        let mut command = server_command();
        command.args(arguments).args(["--bind", "127.0.0.1:0", "--threads", "2"]);
        Server::run(command)
    }

    /// Starts `cannery-server` on two free ports, one of them for TLS. Whatever it is asked for by `ask` and its
    /// relatives, it is asked for in every way, and all must give the same answer.
    pub(crate) fn start_everywhere(arguments: &[&str]) -> Server {
        let mut server = Server::start(&[arguments, &OVER_TLS].concat());
        server.transports = Some(Transports::new(&server.address, &server.secured()));
        server
    }

    /// Where a server that was started everywhere listens over TLS.
    pub(crate) fn secured_address(&self) -> &str {
        self.transports.as_ref().expect("it was started everywhere").tls_address()
    }

    /// Where a server that was started with `OVER_TLS` does it, from what it says.
    pub(crate) fn secured(&self) -> String {
        self.await_line("https://").split("https://").nth(1).unwrap().trim_end_matches('/').to_owned()
    }

    /// Starts a command that serves, and waits until it reports its address.
    pub(crate) fn run(mut command: Command) -> Server {
        Server::follow(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts a command that serves, and waits until it reports its address. Returns `None` if it exits instead.
    pub(crate) fn try_run(mut command: Command) -> Option<Server> {
        Server::try_follow(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until a process, whose standard error is piped, reports the address at which it serves.
    pub(crate) fn follow(child: Child) -> Server {
        Server::try_follow(child).expect("it listens")
    }

    /// The same as [`Server::follow`], but returns `None` if the process exits instead.
    fn try_follow(mut child: Child) -> Option<Server> {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let Some(line) = lines.find_map(|line| line.ok().filter(|line| line.contains("http://"))) else {
            let code = child.wait().unwrap().code();
            assert!(matches!(code, Some(1 | 3)), "the server exited with {code:?}");
            return None;
        };
        let address = line.split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();

        // A thread reads what the server prints, so that the server never waits for a reader.
        let (sender, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Some(Server { child, address, transports: None, log, _folder: None })
    }

    /// Waits until the server says something with these words in it, and gives the line.
    pub(crate) fn await_line(&self, words: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("{error}: the server never said {words:?}, but {heard:#?}"),
            }
        }
    }

    /// Everything that the server says until it has ended.
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
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The same server's listener for operators, to be asked like a server.
    pub(crate) fn admin(&self) -> String {
        self.await_line("admin page").split("http://").nth(1).unwrap().trim_end_matches('/').to_owned()
    }

    /// Sends bytes as they are and reads everything until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Asks for a target with these further lines of the head.
    pub(crate) fn ask(&self, method: &str, target: &str, lines: &str) -> Response {
        self.ask_host("localhost", method, target, lines)
    }

    /// Asks a host for a target with these further lines of the head.
    pub(crate) fn ask_host(&self, host: &str, method: &str, target: &str, lines: &str) -> Response {
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
        let answer = self.raw(request.as_bytes());
        let (response, rest) = parse(&answer, method == "HEAD");
        assert!(rest.is_empty(), "bytes behind the answer: {rest:?}");
        if let Some(transports) = &self.transports {
            transports.assert_equal(host, method, target, lines, &response);
        }
        response
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    pub(crate) fn get_coded(&self, target: &str, accept_encoding: &str) -> Response {
        self.ask("GET", target, &format!("Accept-Encoding: {accept_encoding}\r\n"))
    }

    /// Waits until the server has ended, and gives its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until the server has ended, for as long as anything is waited for, and returns its exit code.
    pub(crate) fn await_end(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the server never ended");
            std::thread::yield_now();
        }
    }

    /// Orders the server to stop, and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }
}

/// Sends a process a signal, by its name without `SIG`.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks whoever listens at an address, on a connection of its own.
pub(crate) fn ask_at(address: &str, method: &str, target: &str, lines: &str) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = if lines.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    write!(stream, "{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{lines}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    parse(&answer, method == "HEAD").0
}

/// Waits until something is so.
pub(crate) fn await_that(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "it never came to that: {what}");
        std::thread::yield_now();
    }
}

/// The content that a coded body stands for.
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
        Some(other) => panic!("an unknown coding {other}"),
    }
    content
}

/// The path as a URL spells it: everything but letters, digits and `/-._~` escaped.
pub(crate) fn spell(path: &[u8]) -> String {
    path.iter()
        .map(|byte| match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Every file below a folder, links followed, by its path within.
pub(crate) fn files_below(folder: &Path) -> Vec<(Vec<u8>, PathBuf)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
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

/// The Python that has the packages that the tests need.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("CANNERY_PYTHON")
        .map_or_else(|| "target/outside/python/bin/python".into(), PathBuf::from)
}

/// Whether outside programs are to be left out, which is said.
pub(crate) fn skip_outside() -> bool {
    let skip = std::env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip");
    if skip {
        println!("skipped: CANNERY_OUTSIDE=skip");
    }
    skip
}
