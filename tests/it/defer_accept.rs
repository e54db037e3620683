//! `--defer-accept`: who has connected and not asked is the kernel's matter, for a second.
//!
//! Never measures that second: where a machine is so slow that it passes meanwhile, the same is tried again.

#![cfg_attr(feature = "portable", allow(dead_code, reason = "only Linux has the option"))]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use cannery_testkit::http1;

use crate::site::{OVER_TLS, PATIENCE, Server, ask_at, await_that, server_command};
use crate::transports::connect_tls;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const BODY: &[u8] = b"hello world!\n";

/// What every server here is told. With one place, a connection that takes one is in the way of all others.
const OPTIONS: [&str; 8] =
    ["--dummy", "--defer-accept", "--threads", "1", "--limit-connections", "1", "--admin", "127.0.0.1:0"];

fn deferring(arguments: &[&str]) -> Server {
    let mut command = server_command();
    command.args(OPTIONS).args(["--bind", "127.0.0.1:0"]).args(arguments);
    Server::run(command)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks on a connection that is open, which ends with the answer.
fn ask_on(mut stream: impl Read + Write) -> Vec<u8> {
    stream.write_all(LAST_REQUEST).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// How many connections the server has accepted, but for those of operators.
fn accepted(admin: &str) -> u64 {
    let metrics = String::from_utf8(ask_at(admin, "GET", "/metrics", "").body).unwrap();
    let name = "cannery_connections_accepted_total ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// Connects to a server and says nothing, then has `ask` ask on another connection, and does so with new servers until the
/// one that was silent has not been accepted before the other. Gives the server, where operators ask, and who is silent.
///
/// Without the option connections are accepted in the order in which they came, so that this would never be.
fn pass_over_silence(
    start: impl Fn() -> Server,
    address: impl Fn(&Server) -> String,
    ask: impl Fn(&str),
) -> (Server, String, TcpStream) {
    for _ in 0..10 {
        let server = start();
        let address = address(&server);
        let admin = server.admin();
        let silent = connect(&address);
        ask(&address);
        if accepted(&admin) == 1 {
            return (server, admin, silent);
        }
    }
    panic!("who said nothing was accepted each time");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn who_has_not_asked_takes_no_place_and_is_answered_when_he_asks() {
    for processes in [&[][..], &["--processes", "1"]] {
        let ask = |address: &str| assert!(ask_on(connect(address)).ends_with(BODY));
        let plain = |server: &Server| server.address.clone();
        let (server, admin, silent) = pass_over_silence(|| deferring(processes), plain, ask);
        assert!(ask_on(silent).ends_with(BODY));
        await_that("both are counted", || accepted(&admin) == 2);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn who_has_not_asked_over_tls_takes_no_place_either() {
    let ask = |address: &str| {
        let answer = http1::Client::new(connect_tls(address, &["http/1.1"])).request(LAST_REQUEST, false);
        assert_eq!(answer.unwrap_or_else(|ended| panic!("{ended}")).body, BODY);
    };
    let (server, admin, silent) = pass_over_silence(|| deferring(&OVER_TLS), Server::secured, ask);
    drop(silent);
    // His end is something too: with it he comes through.
    await_that("he is let in to be let out", || accepted(&admin) == 2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn who_goes_on_saying_nothing_is_accepted_in_the_end() {
    let server = deferring(&[]);
    let admin = server.admin();
    let silent = server.connect();
    await_that("he has his place", || accepted(&admin) == 1);
    assert!(ask_on(silent).ends_with(BODY));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn sockets_of_a_service_manager_are_told_too() {
    let start = || {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new("sh");
        let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null";
        let server = server_command();
        command.args(["-c", script]).arg(server.get_program()).args(server.get_args()).args(OPTIONS);
        command.stdin(Stdio::from(OwnedFd::from(socket)));
        Server::run(command)
    };
    let ask = |address: &str| assert!(ask_on(connect(address)).ends_with(BODY));
    let (server, ..) = pass_over_silence(start, |server| server.address.clone(), ask);
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn a_server_that_ends_closes_its_connections_and_refuses_who_has_not_asked() {
    let mut server = deferring(&["--drain", "20"]);
    let mut kept = server.connect();
    kept.write_all(REQUEST).unwrap();
    let mut answer = vec![0; BODY.len()];
    while !answer.ends_with(BODY) {
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let mut silent = server.connect();
    server.signal("TERM");
    assert_eq!(kept.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(server.wait(), Some(0));
    let refused = silent.write_all(LAST_REQUEST).and_then(|()| silent.read(&mut [0; 1]));
    assert!(!refused.as_ref().is_ok_and(|bytes| *bytes > 0), "nobody is there to answer: {refused:?}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn a_local_socket_beside_it_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let server = deferring(&["--bind", &format!("unix:{}", path.display())]);
    assert!(ask_on(UnixStream::connect(&path).unwrap()).ends_with(BODY));
    assert!(ask_on(server.connect()).ends_with(BODY));
}

#[test]
#[cfg(feature = "portable")]
fn where_there_is_no_linux_nobody_starts_with_it() {
    let output = server_command().args(OPTIONS).args(["--bind", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("only Linux") && said.contains("leave `--defer-accept` out"), "{said}");
}
