//! Several processes, socket activation, and takeover by a new program: no connection is refused.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cannery_testkit::http1;

use crate::harness::{
    Server, TLS_FLAGS, compile, pages, parse, request_at, run, server_command, wait_until, write_folder,
};
use crate::transports::connect_tls;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cannery-server");

fn dummy(arguments: &[&str]) -> Command {
    let mut command = server_command();
    command.arg("--dummy").args(arguments);
    command
}

/// Returns the child processes of a process.
fn children(pid: u32) -> HashSet<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn killed_process_is_restarted() {
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--processes", "2", "--threads", "1"]));
    let before = children(server.pid());
    assert_eq!(before.len(), 2);
    let victim = *before.iter().next().unwrap();
    kill(victim);
    let line = server.await_line("exited (");
    assert!(line.contains("restarting it") && line.contains("signal: 9"), "{line}");
    wait_until("a new process", || {
        let now = children(server.pid());
        now.len() == 2 && !now.contains(&victim)
    });
    // Connections that were queued at the killed process get a response too.
    for _ in 0..50 {
        assert_eq!(server.get("/").body, b"hello world!\n");
    }
    let left = children(server.pid());
    assert_eq!(server.stop(), Some(0));
    wait_until("all processes exit", || left.iter().all(|pid| !is_alive(*pid)));
}

/// Returns the value of a metric, which is the rest of its line.
fn metric(admin: &str, name: &str) -> f64 {
    let metrics = String::from_utf8(request_at(admin, "GET", "/metrics", "").body).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).parse().unwrap()
}

#[test]
fn metrics_sum_all_processes_and_survive_restarts() {
    let arguments = ["--bind", "127.0.0.1:0", "--processes", "3", "--threads", "1", "--admin", "127.0.0.1:0"];
    let server = Server::run(dummy(&arguments));
    let admin = server.read_admin_address();
    let facts = || -> serde_json::Value {
        serde_json::from_slice(&request_at(&admin, "GET", "/facts.json", "").body).unwrap()
    };
    wait_until("all processes report", || facts()["processes"].as_array().unwrap().len() == 3);
    let serving: HashSet<u64> =
        facts()["processes"].as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap()).collect();
    let started: HashSet<u64> = children(server.pid()).into_iter().map(u64::from).collect();
    // The process of the admin listener serves no site.
    assert!(serving.len() == 3 && started.len() == 4 && serving.is_subset(&started));
    assert_eq!(facts()["threads"], 3);
    assert_eq!(request_at(&admin, "GET", "/ready", "").status, 200);
    for _ in 0..50 {
        assert_eq!(server.get("/").status, 200);
    }
    let answered = "cannery_responses_total{status=\"200\"}";
    // A process that is too busy to report counts with its previous values.
    wait_until("all responses are counted", || metric(&admin, answered) == 50.0);
    wait_until("all processes have reported", || metric(&admin, "cannery_processes") == 3.0);

    let held = server.connect();
    wait_until("one connection remains", || {
        metric(&admin, "cannery_connections_accepted_total") >= 51.0
            && metric(&admin, "cannery_connections_open") == 1.0
    });
    for victim in &serving {
        kill(u32::try_from(*victim).unwrap());
        server.await_line("exited (");
    }
    wait_until("all processes are restarted", || metric(&admin, "cannery_processes") == 3.0);
    assert_eq!(metric(&admin, answered), 50.0, "a counter never decreases");
    assert_eq!(metric(&admin, "cannery_connections_open"), 0.0);
    assert_eq!(metric(&admin, "cannery_connections_ended_total{how=\"broken\"}"), 1.0);
    drop(held);
    for _ in 0..10 {
        assert_eq!(server.get("/").status, 200);
    }
    wait_until("all responses are counted", || metric(&admin, answered) == 60.0);
    // The process of the admin listener is restarted too.
    let operators = *started.difference(&serving).next().unwrap();
    kill(u32::try_from(operators).unwrap());
    server.await_line("exited (");
    wait_until("the new process collects the counters", || metric(&admin, answered) == 10.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn draining_processes_are_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let archive = large_site(folder.path());
    let archive = archive.to_str().unwrap();
    let arguments = ["--archive", archive, "--processes", "2", "--admin", "127.0.0.1:0", "--drain", "20"];
    let mut server = Server::start(&arguments);
    let admin = server.read_admin_address();
    let mut busy = server.connect();
    busy.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut received = vec![0; 1000];
    busy.read_exact(&mut received).unwrap();
    server.signal("TERM");
    wait_until("the server is not ready", || request_at(&admin, "GET", "/ready", "").status == 503);
    busy.read_to_end(&mut received).unwrap();
    assert_eq!(parse(&received, "GET").0.body.len(), LARGE_BYTES);
    assert_eq!(server.wait(), Some(0));
}

/// Returns `true` if a process runs: a zombie doesn't.
pub(crate) fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn processes_exit_with_their_supervisor() {
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--processes", "3", "--threads", "1"]));
    let left = children(server.pid());
    assert_eq!(left.len(), 3);
    kill(server.pid());
    wait_until("all processes exit", || left.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn processes_that_fail_at_start_are_not_restarted() {
    let missing = ["--bind-tls", "127.0.0.1:0", "--tls-bundle", "/nonexistent/bundle.pem"];
    let own = ["--dummy", "--processes", "2", "--bind", "127.0.0.1:0"];
    let output = run("cannery-server", &[&own[..], &missing].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("/nonexistent/bundle.pem") && stderr.contains("ended at its start"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));

    // The supervisor has opened the archives before.
    let own = ["--archive", "/nonexistent/site.cdb", "--processes", "2", "--bind", "127.0.0.1:0"];
    let output = run("cannery-server", &own);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("/nonexistent/site.cdb") && !stderr.contains("at its start"), "{stderr}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn unix_socket_is_served_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cannery.sock");
    let bind = format!("unix:{}", path.display());
    let request = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer, "GET").0.body
    };
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--bind", &bind, "--threads", "2"]));
    server.await_line(&bind);
    assert_eq!(request(), b"hello world!\n");
    // A second server must not replace the socket of a running one.
    let second = run("cannery-server", &["--dummy", "--bind", &bind]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another program listens there"));
    assert_eq!(server.stop(), Some(0));
    assert!(!path.exists(), "the server removes its path");

    // A killed server leaves its path, and the next one replaces it.
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--bind", &bind, "--threads", "1"]));
    server.await_line(&bind);
    kill(server.pid());
    drop(server);
    assert!(path.exists());
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--bind", &bind, "--threads", "1"]));
    server.await_line(&bind);
    assert_eq!(request(), b"hello world!\n");
    drop(server);

    // A file that is no socket is never removed.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert_eq!(run("cannery-server", &["--dummy", "--bind", &bind]).status.code(), Some(1));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn bind_unix_mode_sets_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, expected) in [("600", 0o600), ("0660", 0o660), ("666", 0o666)] {
        let path = folder.path().join(mode);
        let bind = format!("unix:{}", path.display());
        let server = Server::run(dummy(&[
            "--bind",
            "127.0.0.1:0",
            "--bind",
            &bind,
            "--bind-unix-mode",
            mode,
            "--threads",
            "1",
        ]));
        server.await_line(&bind);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, expected);
    }
}

#[test]
fn ipv6_and_ipv4_are_served_together() {
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--bind", "[::1]:0", "--threads", "1"]));
    let line = server.await_line("http://[::1]:");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches('/');
    assert_eq!(request_at(address, "GET", "/", "").body, b"hello world!\n");
    assert_eq!(server.get("/").body, b"hello world!\n");
}

/// Starts a server as a service manager does: with a listening socket as descriptor 3.
fn activated(socket: &TcpListener, arguments: &[&str], notify: Option<&str>) -> std::process::Child {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null",
        PROGRAM,
        "--dummy",
    ]);
    command.args(arguments).stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())));
    command.stderr(Stdio::null());
    if let Some(name) = notify {
        command.env("NOTIFY_SOCKET", name);
    }
    command.spawn().unwrap()
}

/// Starts a server as a service manager does: with a listening socket of this name as descriptor 3.
fn activated_with_flags(socket: &TcpListener, name: &str, flags: &[&str]) -> Command {
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let server = server_command();
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(server.get_program())
        .args(server.get_args())
        .env("LISTEN_FDNAMES", name);
    command.args(["--threads", "1"]).args(flags);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())));
    command
}

/// `cannery.socket` has port 80, and the service's flags add HTTPS.
#[test]
fn addresses_for_tls_complete_passed_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let (source, archive) = (folder.path().join("site"), folder.path().join("site.cdb"));
    write_folder(&source, &pages(&[("index.html", "<title>page</title>")]));
    compile(&source, &archive, &[]);
    for processes in [&[][..], &["--processes", "2"]] {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let flags = [&[archive.to_str().unwrap(), "--https-redirect"], &TLS_FLAGS[..], processes].concat();
        let server = Server::run(activated_with_flags(&socket, "cannery.socket", &flags));
        assert_eq!(server.address, socket.local_addr().unwrap().to_string());
        let tls = server.read_tls_address();
        let mut client = http1::Client::new(connect_tls(&tls, &["http/1.1"]));
        let response = client.request(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").unwrap();
        assert_eq!(response.status, 200);
        // The redirect leads to the socket that the server has opened.
        let response = server.request("GET", "/", "");
        let location = response.field("Location").unwrap();
        assert!(location.ends_with(&format!(":{}/", tls.rsplit(':').next().unwrap())), "{location}");
    }
}

#[test]
fn passed_socket_for_tls_replaces_addresses() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    // The server would fail to open this address.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = other.local_addr().unwrap().to_string();
    let flags =
        ["--dummy", "--bind-tls", &used, "--bind", &used, "--tls-self-ecdsa", "--admin", "127.0.0.1:0"];
    let server = Server::run(activated_with_flags(&socket, "tls", &flags));
    let mut client =
        http1::Client::new(connect_tls(&socket.local_addr().unwrap().to_string(), &["http/1.1"]));
    let response = client.request(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").unwrap();
    assert_eq!(response.status, 200);
    drop(server);
}

#[test]
fn socket_activation_refuses_no_connection() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let responses = AtomicUsize::new(0);

    let folder = tempfile::tempdir().unwrap();
    let notify_path = folder.path().join("notify");
    let notify = UnixDatagram::bind(&notify_path).unwrap();
    notify.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let notify_name = notify_path.to_str().unwrap();
    let await_notification = |expected: &str| {
        let mut buffer = [0; 512];
        loop {
            let bytes = notify.recv(&mut buffer).unwrap_or_else(|error| panic!("{expected}: {error}"));
            if buffer[..bytes].starts_with(expected.as_bytes()) {
                return;
            }
        }
    };

    let mut last = None;
    std::thread::scope(|scope| {
        let mut old = activated(&socket, &["--threads", "2"], Some(notify_name));
        await_notification("READY=1");
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(address).expect("no connection is refused");
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).expect("no connection is reset");
                    assert!(answer.ends_with(b"hello world!\n"));
                    responses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }

        for _ in 0..3 {
            let before = responses.load(Ordering::Relaxed);
            wait_until("further responses", || responses.load(Ordering::Relaxed) > before + 100);
            let new = activated(&socket, &["--threads", "2"], Some(notify_name));
            await_notification("READY=1");
            let pid = old.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            await_notification("STOPPING=1");
            assert!(old.wait().unwrap().success());
            old = new;
        }

        stop.store(true, Ordering::Relaxed);
        last = Some(old);
    });

    let mut last = last.expect("the loop ran");
    last.kill().unwrap();
    last.wait().unwrap();
    assert!(responses.load(Ordering::Relaxed) > 300);
}

/// Replaces a program file by another one. We copy it in a separate process, because processes that other tests start would
/// inherit a file that this process has open for writing, and then it could not be executed (`ETXTBSY`).
pub(crate) fn replace_program(program: &Path, by: &Path) {
    let next = program.with_extension("next");
    assert!(Command::new("cp").arg(by).arg(&next).status().unwrap().success());
    fs::rename(next, program).unwrap();
}

/// A supervisor that has lost its parent.
pub(crate) struct Orphan(u32);

impl Orphan {
    /// Waits until a program has started to take over from a server.
    pub(crate) fn await_takeover(old: &Server) -> Orphan {
        let line = old.await_line("to take over");
        Orphan(line.split(' ').find_map(|word| word.parse().ok()).unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0
    }

    /// Stops the process and waits until it has exited.
    pub(crate) fn stop(self) {
        send(self.0, "TERM");
        wait_until("the supervisor exits", || !is_alive(self.0));
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if self.0 > 0 && is_alive(self.0) {
            send(self.0, "KILL");
        }
    }
}

fn send(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn sigusr2_takeover_refuses_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let path = folder.path().join("s");
    let replace = || {
        replace_program(&program, Path::new(PROGRAM));
        fs::metadata(&program).unwrap().ino()
    };
    replace();

    let local = format!("unix:{}", path.display());
    let mut command = Command::new(&program);
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--bind", &local, "--admin", "127.0.0.1:0"]);
    let mut old = Server::run({
        command.args(["--processes", "2", "--threads", "1"]);
        command
    });

    let address = old.address.clone();
    let admin = old.read_admin_address();
    let stop = AtomicBool::new(false);
    let responses = AtomicUsize::new(0);

    let mut new = Orphan(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(request_at(&address, "GET", "/", "").body, b"hello world!\n");
                    responses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }

        let number = replace();
        old.signal("USR2");
        new = Orphan::await_takeover(&old);
        assert_eq!(old.wait(), Some(0), "the old supervisor exits");

        assert_eq!(fs::metadata(format!("/proc/{}/exe", new.0)).unwrap().ino(), number);
        let before = responses.load(Ordering::Relaxed);
        wait_until("further responses", || responses.load(Ordering::Relaxed) > before + 100);
        stop.store(true, Ordering::Relaxed);
    });

    // The new supervisor has all addresses: the admin listener, and the path of the Unix socket, which it removes.
    wait_until("both processes serve", || metric(&admin, "cannery_processes") == 2.0);
    assert!(UnixStream::connect(&path).is_ok());
    new.stop();
    assert!(TcpStream::connect(&address).is_err() && !path.exists());
}

#[test]
fn failed_takeover_keeps_the_old_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    replace_program(&program, Path::new(PROGRAM));

    let path = folder.path().join("s");
    let mut command = Command::new(&program);
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--bind", &format!("unix:{}", path.display())]);
    command.args(["--processes", "1", "--threads", "1"]);
    let server = Server::run(command);

    let bad = folder.path().join("bad");
    fs::write(&bad, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).unwrap();
    for _ in 0..2 {
        replace_program(&program, &bad);
        server.signal("USR2");
        let line = server.await_line("does not take over");
        assert!(line.contains("exit status: 9"), "{line}");
        assert_eq!(server.get("/").body, b"hello world!\n");
    }

    assert!(UnixStream::connect(&path).is_ok());
    let address = server.address.clone();
    assert_eq!(server.stop(), Some(0));
    assert!(TcpStream::connect(address).is_err() && !path.exists());
}

/// Writes an executable script.
fn write_script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the ID of the process that a server reports as its possible successor.
fn await_successor(server: &Server) -> u32 {
    let line = server.await_line("is starting, to take over");
    line.split("process ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
}

/// A program that hung before it was ready made every further SIGUSR2 useless until it ended.
#[test]
fn hanging_takeover_is_replaced_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    replace_program(&program, Path::new(PROGRAM));
    let mut command = Command::new(&program);
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "1", "--threads", "1"]);
    let mut old = Server::run(command);
    let bad = folder.path().join("bad");
    let mut hanging = None;
    for body in ["exec sleep 600", "kill -STOP $$", "trap '' TERM; exec sleep 600"] {
        write_script(&bad, body);
        replace_program(&program, &bad);
        old.signal("USR2");
        if let Some(before) = hanging {
            let line = old.await_line("is killed, and the program is started again");
            assert!(
                line.contains(&format!("process {before}")) && line.contains("is not ready after"),
                "{line}"
            );
        }
        let now = await_successor(&old);
        assert!(hanging.is_none_or(|before| !is_alive(before)), "the one before has ended");
        assert_eq!(old.get("/").body, b"hello world!\n");
        hanging = Some(now);
    }

    // A file that can't be run ends the attempt.
    fs::write(&bad, "no program").unwrap();
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o644)).unwrap();
    replace_program(&program, &bad);
    old.signal("USR2");
    old.await_line("does not take over");
    assert!(!is_alive(hanging.unwrap()));
    assert_eq!(old.get("/").body, b"hello world!\n");

    replace_program(&program, Path::new(PROGRAM));
    let address = old.address.clone();
    old.signal("USR2");
    let new = Orphan::await_takeover(&old);
    assert_eq!(old.wait(), Some(0));
    assert_eq!(request_at(&address, "GET", "/", "").body, b"hello world!\n");
    new.stop();
}

#[test]
fn hanging_takeover_is_killed_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let bad = folder.path().join("bad");
    write_script(&bad, "trap '' TERM; exec sleep 600");
    for within_ms in ["200", "600000"] {
        replace_program(&program, Path::new(PROGRAM));

        let mut command = Command::new(&program);
        command.args(["--dummy", "--bind", "127.0.0.1:0", "--drain", "0"]);
        command.args(["--processes", "1", "--threads", "1"]);
        let server = Server::run({
            command.env("CANNERY_READY_WITHIN_MS", within_ms);
            command
        });

        replace_program(&program, &bad);
        server.signal("USR2");
        let hanging = await_successor(&server);
        if within_ms == "200" && cfg!(debug_assertions) {
            let line = server.await_line("is not ready after");
            assert!(line.contains("this one continues"), "{line}");
            wait_until("the hanging program has ended", || !is_alive(hanging));
            assert_eq!(server.get("/").body, b"hello world!\n");
        }

        // A server that is stopped leaves no such program behind.
        assert_eq!(server.stop(), Some(0));
        wait_until("the hanging program has ended", || !is_alive(hanging));
    }
}

/// It counted as the message of the new program that it was ready, and the old one left all connections to a program that didn't
/// serve.
#[test]
fn sigquit_of_an_operator_stops_a_takeover() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let bad = folder.path().join("bad");
    for (processes, body) in [("1", "exec sleep 600"), ("2", "trap '' TERM QUIT; exec sleep 600")] {
        replace_program(&program, Path::new(PROGRAM));
        let mut command = Command::new(&program);
        command.args(["--dummy", "--bind", "127.0.0.1:0", "--drain", "0"]);
        command.args(["--processes", processes, "--threads", "1"]);
        let mut server = Server::run(command);

        let serving = children(server.pid());
        write_script(&bad, body);
        replace_program(&program, &bad);
        server.signal("USR2");
        let starting = await_successor(&server);

        server.signal("QUIT");
        assert_eq!(server.await_end(), Some(0));
        let ended = || serving.iter().chain([&starting]).all(|process| !is_alive(*process));
        wait_until("no process is left", ended);
        assert!(TcpStream::connect(&server.address).is_err(), "the service is stopped");
    }
}

/// Starts a server whose processes don't run any more, so that they don't stop by themselves.
fn start_with_suspended_processes(processes: &str, drain: &str) -> (Server, HashSet<u32>) {
    let flags = ["--bind", "127.0.0.1:0", "--threads", "1", "--processes", processes, "--drain", drain];
    let server = Server::run(dummy(&flags));
    let all = children(server.pid());
    assert_eq!(all.len(), processes.parse::<usize>().unwrap());
    all.iter().for_each(|process| send(*process, "STOP"));
    // Until then, a process takes other signals first.
    let is_suspended = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/status")).unwrap().contains("State:\tT (stopped)")
    };
    wait_until("all are suspended", || all.iter().all(is_suspended));
    (server, all)
}

/// Each would take two seconds if the deadline weren't the same for all: together longer than this test waits.
#[test]
fn suspended_processes_are_killed_at_one_deadline() {
    let (mut server, all) = start_with_suspended_processes("12", "0");
    server.signal("TERM");
    assert_eq!(server.await_end(), Some(0));
    wait_until("no process is left", || all.iter().all(|process| !is_alive(*process)));
}

#[test]
fn second_signal_stops_all_processes_before_the_deadline() {
    for second in ["TERM", "INT"] {
        let (mut server, all) = start_with_suspended_processes("3", "600");
        server.signal("TERM");
        let is_stopping = |process: &u32| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
            // The bit of SIGTERM.
            u64::from_str_radix(pending.trim(), 16).unwrap() & (1 << 14) != 0
        };
        wait_until("all have been told to stop", || all.iter().all(is_stopping));
        server.signal(second);
        assert_eq!(server.await_end(), Some(0));
        wait_until("no process is left", || all.iter().all(|process| !is_alive(*process)));
    }
}

#[test]
fn sigusr2_without_supervisor_is_reported() {
    let server = Server::run(dummy(&["--bind", "127.0.0.1:0", "--threads", "1"]));
    server.signal("USR2");
    server.await_line("SIGUSR2");
    assert_eq!(server.get("/").body, b"hello world!\n");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn processes_share_an_inherited_socket() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let mut server = activated(&socket, &["--processes", "2", "--threads", "2"], None);
    for _ in 0..20 {
        assert_eq!(request_at(&address, "GET", "/", "").body, b"hello world!\n");
    }
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
}

/// More than the kernel buffers for a client that doesn't read.
const LARGE_BYTES: usize = 8 << 20;

/// Returns the archive of a site with a large file.
fn large_site(folder: &Path) -> PathBuf {
    let source = folder.join("site");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large.bin"), vec![b'x'; LARGE_BYTES]).unwrap();
    let archive = folder.join("site.cdb");
    compile(&source, &archive, &["--compress", "identity"]);
    archive
}

#[test]
fn shutdown_completes_responses_and_stops_listening() {
    let folder = tempfile::tempdir().unwrap();
    let archive = large_site(folder.path());
    let mut server = Server::start(&["--archive", archive.to_str().unwrap(), "--drain", "20"]);
    let mut idle = server.connect();
    let mut busy = server.connect();
    busy.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut received = vec![0; 1000];
    busy.read_exact(&mut received).unwrap();
    server.signal("TERM");
    // An idle connection is closed at once.
    assert_eq!(idle.read_to_end(&mut Vec::new()).unwrap(), 0);
    wait_until("the listener is closed", || TcpStream::connect(&server.address).is_err());
    busy.read_to_end(&mut received).unwrap();
    assert_eq!(parse(&received, "GET").0.body.len(), LARGE_BYTES);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn systemd_accepts_the_units() {
    if crate::harness::skip_outside() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The check requires that the program exists.
    for unit in ["cannery.service", "cannery.socket"] {
        let text = fs::read_to_string(format!("contrib/systemd/{unit}")).unwrap();
        fs::write(folder.path().join(unit), text.replace("/usr/local/bin/cannery-server", PROGRAM)).unwrap();
    }
    let units = ["cannery.service", "cannery.socket"].map(|unit| folder.path().join(unit));
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(units).output();
    let output = output.expect("systemd-analyze: `cargo xtask test` installs it");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.lines().any(|line| line.contains("cannery")), "{stderr}");
}
