//! HTTP/3 at UDP sockets that a service manager passes, without `--bind-quic`.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use cannery_testkit::http1;
use cannery_testkit::http3::{Client, Options, initial_datagrams};
use cannery_testkit::tls::ClientOptions;

use crate::harness::{Server, TIMEOUT, TLS_FLAGS, request_at, server_command, wait_until};
use crate::transports::connect_tls;

const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];

/// Returns the command of a server to which a service manager passes a UDP socket, and the address of that socket.
fn activated(flags: &[&str]) -> (Command, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=quic exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let server = server_command();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(server.get_program()).args(server.get_args());
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(flags);
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    (command, address)
}

fn start(flags: &[&str]) -> (Server, SocketAddr) {
    let (command, address) = activated(&[&TLS_FLAGS[..], flags].concat());
    (Server::run(command), address)
}

/// Returns the source connection ID of the first packet with which the server responds to a new client.
fn connection_id(server: SocketAddr) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.send_to(&initial_datagrams(server, 1)[0], server).unwrap();
    let mut datagram = [0; 1500];
    let length = socket.recv(&mut datagram).unwrap();
    // A flag byte and the version precede both IDs, each with its length (RFC 9000, section 17.2).
    let (destination_length, rest) = datagram[5..length].split_first().unwrap();
    let (source_length, rest) = rest[usize::from(*destination_length)..].split_first().unwrap();
    rest[..usize::from(*source_length)].to_vec()
}

/// Returns `Alt-Svc` of a response over TLS.
fn alternative(server: &Server) -> Option<String> {
    let mut client = http1::Client::new(connect_tls(&server.read_tls_address(), &["http/1.1"]));
    let response = client.request(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").unwrap();
    response.field("Alt-Svc").map(str::to_owned)
}

#[test]
fn passed_socket_serves_without_settings() {
    for processes in ["1", "2"] {
        let (server, address) = start(&["--threads", "1", "--processes", processes]);
        assert_eq!(Client::connect(address).unwrap().request(&REQUEST).unwrap().status, 200);
        assert_eq!(alternative(&server), Some(format!("h3=\":{}\"; ma=86400", address.port())));
    }
}

#[test]
fn flags_apply_to_a_passed_socket() {
    let settings = ["--early-data", "--quic-server-id", "0123456789abcdef", "--http3-alt-svc", ":8443"];
    let (server, address) = start(&[&settings[..], &["--threads", "1"]].concat());
    assert_eq!(alternative(&server).as_deref(), Some("h3=\":8443\"; ma=86400"));
    assert_eq!(connection_id(address)[1..9], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);

    let tls = ClientOptions::default().tls13().protocols(&["h3"]).resumption(8).early_data().build();
    let options = Options { tls: Arc::new(tls), ..Options::default() };
    // The session arrives before the response.
    assert_eq!(Client::connect_with(address, &options).unwrap().request(&REQUEST).unwrap().status, 200);
    let admin = server.read_admin_address();
    // On a busy machine, the server may receive a request together with the end of the handshake.
    wait_until("a request is answered before the handshake is done", || {
        let mut client = Client::connect_early(address, &options).unwrap();
        assert_eq!(client.request(&REQUEST).unwrap().status, 200);
        assert!(client.is_early_data_accepted());
        let metrics = request_at(&admin, "GET", "/metrics", "").body;
        !String::from_utf8(metrics).unwrap().contains("cannery_http3_early_requests_total 0\n")
    });
}

#[test]
fn disabled_http3_leaves_a_passed_socket_unused() {
    let (server, _) = start(&["--early-data", "--http3-disable"]);
    assert_eq!(alternative(&server), None);

    // Without a certificate, only HTTP/3 would fail.
    let (command, _) = activated(&["--http3-disable"]);
    assert_eq!(Server::run(command).get("/").status, 200);
}

/// Panics unless a command exits with this code and these words, before a deadline.
#[track_caller]
fn assert_fails(command: &mut Command, code: i32, words: &str) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("the server has started");
        }
        std::thread::yield_now();
    }

    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && stderr.contains(words), "{}: {stderr}", output.status);
}

#[test]
fn passed_socket_needs_a_certificate() {
    for processes in ["1", "2"] {
        let (mut command, _) = activated(&["--processes", processes]);
        assert_fails(&mut command, 1, "a listener for TLS or HTTP/3, but no certificate");
    }
}

#[test]
fn settings_need_a_socket() {
    for setting in ["--early-data", "--quic-server-id=0123456789abcdef", "--http3-alt-svc=:443"] {
        let mut command = server_command();
        command.args(["--dummy", "--bind", "127.0.0.1:0", setting]);
        let flag = setting.split('=').next().unwrap();
        assert_fails(&mut command, 2, &format!("`{flag}` needs a socket for HTTP/3"));
    }
}
