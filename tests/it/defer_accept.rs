//! `--defer-accept`: the kernel passes a connection to the server with its first request, or after one second.
//!
//! We don't measure that second, because it may pass on a slow machine; the tests then try again.

#![cfg_attr(feature = "portable", allow(dead_code, reason = "only Linux has the option"))]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use cannery_testkit::http1;

use crate::harness::{Server, TIMEOUT, TLS_FLAGS, request_at, server_command, wait_until};
use crate::transports::connect_tls;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const BODY: &[u8] = b"hello world!\n";

/// Flags of every server here. With a limit of one connection, an accepted idle connection blocks all others.
const OPTIONS: [&str; 8] =
    ["--dummy", "--defer-accept", "--threads", "1", "--limit-connections", "1", "--admin", "127.0.0.1:0"];

fn deferring(arguments: &[&str]) -> Server {
    let mut command = server_command();
    command.args(OPTIONS).args(["--bind", "127.0.0.1:0"]).args(arguments);
    Server::run(command)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends a request over an open connection and returns everything that the server sends.
fn request_on(mut stream: impl Read + Write) -> Vec<u8> {
    stream.write_all(LAST_REQUEST).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

/// Returns the number of connections that the server has accepted, without those of the admin listener.
fn accepted(admin: &str) -> u64 {
    let metrics = String::from_utf8(request_at(admin, "GET", "/metrics", "").body).unwrap();
    let name = "cannery_connections_accepted_total ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// Opens an idle connection to a server and calls `request` on another one. Repeats it with new servers until the idle
/// connection is not accepted before the other. Returns the server, its admin address, and the idle connection.
///
/// Without the option, the kernel would pass the connections in their order.
fn connect_idle(
    start: impl Fn() -> Server,
    address: impl Fn(&Server) -> String,
    request: impl Fn(&str),
) -> (Server, String, TcpStream) {
    for _ in 0..10 {
        let server = start();
        let address = address(&server);
        let admin = server.read_admin_address();
        let idle = connect(&address);
        request(&address);
        if accepted(&admin) == 1 {
            return (server, admin, idle);
        }
    }
    panic!("the idle connection was accepted each time");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn idle_connection_is_accepted_with_its_request() {
    for processes in [&[][..], &["--processes", "1"]] {
        let request = |address: &str| assert!(request_on(connect(address)).ends_with(BODY));
        let plain = |server: &Server| server.address.clone();
        let (server, admin, idle) = connect_idle(|| deferring(processes), plain, request);
        assert!(request_on(idle).ends_with(BODY));
        wait_until("both connections are counted", || accepted(&admin) == 2);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn idle_tls_connection_is_not_accepted() {
    let request = |address: &str| {
        let response = http1::Client::new(connect_tls(address, &["http/1.1"])).request(LAST_REQUEST, "GET");
        assert_eq!(response.unwrap_or_else(|ended| panic!("{ended}")).body, BODY);
    };
    let (server, admin, idle) = connect_idle(|| deferring(&TLS_FLAGS), Server::read_tls_address, request);
    drop(idle);
    // The kernel also passes a connection that the client closes.
    wait_until("the closed connection is accepted", || accepted(&admin) == 2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn idle_connection_is_accepted_after_a_second() {
    let server = deferring(&[]);
    let admin = server.read_admin_address();
    let idle = server.connect();
    wait_until("the idle connection is accepted", || accepted(&admin) == 1);
    assert!(request_on(idle).ends_with(BODY));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn inherited_sockets_defer_too() {
    let start = || {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new("sh");
        let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null";
        let server = server_command();
        command.args(["-c", script]).arg(server.get_program()).args(server.get_args()).args(OPTIONS);
        command.stdin(Stdio::from(OwnedFd::from(socket)));
        Server::run(command)
    };
    let request = |address: &str| assert!(request_on(connect(address)).ends_with(BODY));
    let (server, ..) = connect_idle(start, |server| server.address.clone(), request);
    assert_eq!(server.stop(), Some(0));
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn shutdown_resets_idle_connections() {
    let mut server = deferring(&["--drain", "20"]);
    let mut kept = server.connect();
    kept.write_all(REQUEST).unwrap();
    let mut received = vec![0; BODY.len()];
    while !received.ends_with(BODY) {
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    let mut idle = server.connect();
    server.signal("TERM");
    assert_eq!(kept.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(server.wait(), Some(0));
    let refused = idle.write_all(LAST_REQUEST).and_then(|()| idle.read(&mut [0; 1]));
    assert!(!refused.as_ref().is_ok_and(|bytes| *bytes > 0), "the server has exited: {refused:?}");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has the option")]
fn unix_sockets_are_not_affected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = deferring(&["--bind", &format!("unix:{}", path.display())]);
    assert!(request_on(UnixStream::connect(&path).unwrap()).ends_with(BODY));
    assert!(request_on(server.connect()).ends_with(BODY));
}

#[test]
#[cfg(feature = "portable")]
fn flag_is_an_error_without_linux() {
    let output = server_command().args(OPTIONS).args(["--bind", "127.0.0.1:0"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("only Linux") && stderr.contains("leave `--defer-accept` out"), "{stderr}");
}
