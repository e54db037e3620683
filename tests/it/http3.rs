//! HTTP/3: where the server announces it, and how it logs, reloads and stops. The responses themselves are compared with those
//! of the other protocols in all tests (`transports`).

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cannery_testkit::http3::{Client, Options, StreamId, frame, varint};
use cannery_testkit::{http1, http2};

use crate::authority::Authority;
use crate::fixture_site::noise;
use crate::harness::{
    QUIC_FLAGS, Response, Server, TIMEOUT, TLS_FLAGS, compile, free_address, server_command, signal,
    wait_until, write_folder,
};
use crate::transports::connect_tls;

/// Longer than the window of the client, so that a response remains incomplete while the client doesn't read.
const LARGE_BYTES: usize = 3_000_000;

// Error codes (RFC 9114, section 8.1).
const H3_NO_ERROR: u64 = 0x100;
const H3_FRAME_UNEXPECTED: u64 = 0x105;
const H3_EXCESSIVE_LOAD: u64 = 0x107;
const H3_ID_ERROR: u64 = 0x108;
const H3_REQUEST_CANCELLED: u32 = 0x10c;

// Types of frames (RFC 9218, section 7.2).
const PRIORITY_UPDATE: u64 = 0xf_0700;
const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

/// The fields of a request.
fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Starts a server without a site with these flags and a certificate.
fn start_dummy(flags: &[&str]) -> Server {
    Server::start(&[&["--dummy"], &TLS_FLAGS[..], flags].concat())
}

/// Compiles a site with a small and a large file, the content of which depends on the release.
fn compile_release(folder: &Path, release: usize) -> Vec<u8> {
    let source = tempfile::tempdir().unwrap();
    let large = noise(LARGE_BYTES + release);
    let small = format!("release {release}");
    write_folder(source.path(), &[(b"large.bin", &large), (b"small.txt", small.as_bytes())]);
    compile(source.path(), &folder.join("site.cdb"), &["--compress", "identity"]);
    large
}

/// Starts a server of the archive in `folder` with these flags.
fn start_site(folder: &Path, flags: &[&str]) -> Server {
    let archive = folder.join("site.cdb");
    let archive = ["--archive", archive.to_str().unwrap()];
    Server::start(&[&archive, &TLS_FLAGS[..], &QUIC_FLAGS, flags].concat())
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address).unwrap_or_else(|ended| panic!("no connection: {ended}"))
}

#[test]
fn start_messages_name_the_address() {
    check_start_messages(&[]);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux spreads connections over processes")]
fn start_messages_of_a_supervisor_name_the_address() {
    check_start_messages(&["--processes", "2"]);
}

/// Starts a server with these flags, and connects to the address that it prints.
fn check_start_messages(flags: &[&str]) {
    let server = start_dummy(&[&QUIC_FLAGS, flags].concat());
    assert!(server.read_tls_address().starts_with("127.0.0.1:"));
    let line = server.await_line("HTTP/3");
    let address = line.strip_prefix("listening at https://").and_then(|rest| rest.strip_suffix("/ (HTTP/3)"));
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    assert_eq!(connect(address).request(&get("/")).unwrap().status, 200);
}

#[test]
fn quiet_server_prints_no_address() {
    // A quiet server does not announce that it is ready, so the test chooses the ports.
    let tcp = free_address().to_string();
    let quic = SocketAddr::from(free_address());
    let mut command = server_command();
    command.args(["--dummy", "--quiet", "--tls-self-ecdsa", "--bind-tls", &tcp]);
    command.args(["--bind-quic", &quic.to_string()]).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();

    let end = Instant::now() + TIMEOUT;
    let options = Options { timeout: Duration::from_secs(1), ..Options::default() };
    while Client::connect_with(quic, &options).is_err() {
        assert!(Instant::now() < end, "the server doesn't start");
    }
    signal(&server, "TERM");
    let mut printed = String::new();
    server.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(!printed.contains("listening"), "{printed}");
}

#[test]
fn alternative_service_is_named_where_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let archive = folder.path().join("site.cdb");
    let archive = ["--archive", archive.to_str().unwrap()];
    let alternative = |flags: &[&str]| {
        let server = Server::start(&[&archive, &TLS_FLAGS[..], flags].concat());
        let mut client = http1::Client::new(connect_tls(&server.read_tls_address(), &["http/1.1"]));
        let response = client.request(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET").unwrap();
        assert_eq!(server.get("/small.txt").field("Alt-Svc"), None, "without TLS: {flags:?}");
        response.field("Alt-Svc").map(str::to_owned)
    };
    assert_eq!(alternative(&[]), None);
    assert_eq!(alternative(&["--bind-quic", "127.0.0.1:0", "--http3-disable"]), None);
    for own in ["cdn.example:8443", ":443"] {
        let named = alternative(&["--bind-quic", "127.0.0.1:0", "--http3-alt-svc", own]);
        assert_eq!(named, Some(format!("h3=\"{own}\"; ma=86400")));
    }
}

#[test]
fn dummy_names_the_alternative_service() {
    let own = ["--http3-alt-svc", ":8443"];
    let server = start_dummy(&[&QUIC_FLAGS, &own[..]].concat());
    let named = |response: &Response| response.field("Alt-Svc").map(str::to_owned);
    let expected = Some("h3=\":8443\"; ma=86400".to_owned());

    let tls = server.read_tls_address();
    let mut client = http1::Client::new(connect_tls(&tls, &["http/1.1"]));
    for method in ["GET", "HEAD"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = client.request(request.as_bytes(), method).unwrap();
        assert_eq!(named(&response), expected);
        assert_eq!(response.body, if method == "GET" { &b"hello world!\n"[..] } else { b"" });
    }
    let mut client = http2::Client::new(connect_tls(&tls, &["h2"]));
    assert_eq!(named(&client.request(&get("/")).unwrap()), expected);
    // It is for other protocols, and only where TLS proves the origin.
    assert_eq!(named(&connect(server.read_quic_address()).request(&get("/")).unwrap()), None);
    assert_eq!(named(&server.get("/")), None);
}

#[test]
fn access_log_names_the_version() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let log = folder.path().join("access.log");
    let server = start_site(folder.path(), &["--access-log", log.to_str().unwrap()]);
    let mut client = connect(server.read_quic_address());
    assert_eq!(client.request(&get("/small.txt?q=1")).unwrap().body, b"release 1");
    assert_eq!(client.request(&get("/nothing")).unwrap().status, 404);
    client.close();
    assert_eq!(server.stop(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(
        lines[0].starts_with("127.0.0.1 - - [")
            && lines[0].contains("] \"GET /small.txt?q=1 HTTP/3.0\" 200 9 ")
    );
    assert!(lines[1].contains("\"GET /nothing HTTP/3.0\" 404 "), "{log}");
}

/// A log that bans clients by address must not ban others.
#[test]
fn access_log_has_no_forged_address() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let log = folder.path().join("access.log");
    let server = start_site(folder.path(), &["--access-log", log.to_str().unwrap()]);
    let mut client = connect(server.read_quic_address());
    assert_eq!(client.request(&get("/small.txt")).unwrap().status, 200);
    client.forge_request("127.0.9.9".parse().unwrap(), &get("/forged")).unwrap();
    let lines = || fs::read_to_string(&log).unwrap();
    wait_until("the request is logged", || lines().contains("/forged"));
    assert!(lines().lines().all(|line| line.starts_with("127.0.0.1 - - [")), "{}", lines());
    assert_eq!(server.stop(), Some(0));
}

/// A client may name another one only from an address that it has proved to have.
#[test]
fn forged_address_is_no_trusted_proxy() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let log = folder.path().join("access.log");
    let flags = ["--access-log", log.to_str().unwrap(), "--trusted-proxy", "127.0.9.0/24"];
    let server = start_site(folder.path(), &[&flags[..], &["--trusted-proxy", "unix"]].concat());
    let fields = |path| [&get(path)[..], &[("x-forwarded-for", "203.0.113.9")]].concat();
    let lines = || fs::read_to_string(&log).unwrap();

    let mut client = connect(server.read_quic_address());
    assert_eq!(client.request(&fields("/small.txt")).unwrap().status, 200);
    client.forge_request("127.0.9.9".parse().unwrap(), &fields("/forged")).unwrap();
    wait_until("the request is logged", || lines().contains("/forged"));
    assert!(lines().lines().all(|line| line.starts_with("127.0.0.1 - - [")), "{}", lines());

    // Once the client has answered at that address, it is a proxy.
    client.rebind("127.0.9.9".parse().unwrap()).unwrap();
    let end = Instant::now() + TIMEOUT;
    while !lines().contains("203.0.113.9 - - [") {
        assert!(Instant::now() < end, "the new address isn't trusted: {}", lines());
        assert_eq!(client.request(&fields("/moved")).unwrap().status, 404);
    }
    // Only now is the last line complete.
    assert_eq!(server.stop(), Some(0));
    let log = lines();
    let is_of_proxy = |line: &&str| line.starts_with("203.0.113.9 - - [");
    assert_eq!(log.lines().filter(is_of_proxy).find(|line| !line.contains("/moved")), None);
}

#[test]
fn certificate_is_selected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let names = ["first.example", "second.example"];
    let certificates = names.map(|name| authority.certify(&[name]));
    let [first, second] = ["first.pem", "second.pem"].map(|name| folder.path().join(name));
    certificates[0].write_bundle(&first);
    certificates[1].write_bundle(&second);
    let bundles = ["--tls-bundle", first.to_str().unwrap(), "--tls-bundle", second.to_str().unwrap()];
    let own = ["--dummy", "--bind-tls", "127.0.0.1:0"];
    let server = Server::start(&[&own[..], &bundles, &QUIC_FLAGS].concat());
    let address = server.read_quic_address();
    for (name, expected) in [("first.example", 0), ("second.example", 1), ("other.example", 0)] {
        let options = Options { server_name: name.to_owned(), ..Options::default() };
        let client = Client::connect_with(address, &options).unwrap();
        assert_eq!(client.certificate().as_ref(), certificates[expected].der, "{name}");
    }
}

#[test]
fn new_connections_get_the_new_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = folder.path().join("bundle.pem");
    let [first, second] = [(); 2].map(|()| authority.certify(&["localhost"]));
    first.write_bundle(&bundle);
    let own = ["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", bundle.to_str().unwrap()];
    let server = Server::start(&[&own[..], &QUIC_FLAGS].concat());
    let address = server.read_quic_address();
    let mut before = connect(address);
    assert_eq!(before.certificate().as_ref(), first.der);

    second.write_bundle(&bundle);
    server.await_line("new certificates are used");
    // Each worker has a socket, and a client reaches any of them.
    for _ in 0..8 {
        assert_eq!(connect(address).certificate().as_ref(), second.der);
    }
    assert_eq!(before.request(&get("/")).unwrap().status, 200, "the connection of the first certificate");
}

#[test]
fn response_stays_that_of_its_release() {
    let folder = tempfile::tempdir().unwrap();
    let old = compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let address = server.read_quic_address();
    let mut slow = connect(address);
    let mut other = connect(address);
    let stream = slow.send_request(&get("/large.bin")).unwrap();
    slow.receive_part(stream, 100_000).unwrap();
    assert!(!slow.is_complete(stream));

    let new = compile_release(folder.path(), 2);
    server.await_line("serves a new release");
    assert!(other.request(&get("/large.bin")).unwrap().body == new);
    assert!(slow.receive(stream, "GET").unwrap().body == old);
    assert_eq!(slow.request(&get("/small.txt")).unwrap().body, b"release 2");
}

#[test]
fn shutdown_completes_responses() {
    let folder = tempfile::tempdir().unwrap();
    let large = compile_release(folder.path(), 1);
    let mut server = start_site(folder.path(), &["--drain", "60"]);
    let address = server.read_quic_address();
    let mut client = connect(address);
    let mut idle = connect(address);
    assert_eq!(idle.request(&get("/small.txt")).unwrap().status, 200);
    let stream = client.send_request(&get("/large.bin")).unwrap();
    client.receive_part(stream, 100_000).unwrap();

    server.signal("TERM");
    client.await_goaway().unwrap();
    assert_eq!(idle.await_close(), H3_NO_ERROR, "an idle connection");
    assert!(client.receive(stream, "GET").unwrap().body == large);
    assert_eq!(client.await_close(), H3_NO_ERROR, "a connection without further requests");
    assert_eq!(server.await_end(), Some(0));
}

#[test]
fn shutdown_does_not_wait_for_vanished_clients() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let mut server = start_site(folder.path(), &["--drain", "60"]);
    let address = server.read_quic_address();
    // One leaves with a part of a response, the other one with a response that it has not acknowledged.
    let mut client = connect(address);
    let stream = client.send_request(&get("/large.bin")).unwrap();
    client.receive_part(stream, 100_000).unwrap();
    let mut other = connect(address);
    other.send_request(&get("/small.txt")).unwrap();
    drop((client, other));
    // The server is done before the idle timeout of QUIC, which is 30 seconds.
    server.signal("TERM");
    assert_eq!(server.await_end(), Some(0));
}

#[test]
fn responses_of_many_streams_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let large = compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let mut client = connect(server.read_quic_address());
    let request = |client: &mut Client, number: usize| {
        let first = number * 10_000;
        let range = format!("bytes={first}-{}", first + 9_999);
        let fields = [&get("/large.bin")[..], &[("range", range.as_str())]].concat();
        client.send_request(&fields).unwrap()
    };
    // More than the server allows at once.
    let streams: Vec<_> = (0..300).map(|number| request(&mut client, number)).collect();
    for (number, stream) in streams.into_iter().enumerate() {
        let Response { status, body, .. } = client.receive(stream, "GET").unwrap();
        assert_eq!(status, 206);
        assert!(body == large[number * 10_000..][..10_000], "range {number}");
    }
}

/// The window of the whole connection, for tests of priorities: it has room for a part of a response, so that the server also orders
/// what it writes next. With more than a socket has room for, the server would send later responses while it waits for the
/// acknowledgment of lost packets.
const SMALL_WINDOW: u32 = 64 << 10;

/// Opens a connection with this window, and without a limit for streams, so that only the priorities decide.
fn connect_with_small_window(server: SocketAddr) -> Client {
    let options = Options { stream_window: 8 << 20, window: SMALL_WINDOW, ..Options::default() };
    Client::connect_with(server, &options).unwrap()
}

fn request_large(client: &mut Client, priority: &str) -> StreamId {
    let fields = [&get("/large.bin")[..], &[("priority", priority)]].concat();
    client.send_request(&fields).unwrap()
}

#[test]
fn urgent_responses_are_sent_first() {
    let folder = tempfile::tempdir().unwrap();
    let large = compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let mut client = connect_with_small_window(server.read_quic_address());
    let later = request_large(&mut client, "u=7");
    let first = request_large(&mut client, "u=0");
    assert!(client.receive(first, "GET").unwrap().body == large);
    let received_bytes = client.received_bytes(later);
    assert!(received_bytes < LARGE_BYTES / 2, "{received_bytes} bytes of the less urgent response");
    assert!(client.receive(later, "GET").unwrap().body == large);
}

#[test]
fn incremental_responses_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let large = compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let address = server.read_quic_address();
    for (priority, takes_turns) in [("u=3", false), ("u=3, i", true)] {
        let mut client = connect_with_small_window(address);
        let [first, others @ ..] = [(); 4].map(|()| request_large(&mut client, priority));
        assert!(client.receive(first, "GET").unwrap().body == large);
        for other in others {
            let received_bytes = client.received_bytes(other);
            assert_eq!(received_bytes > LARGE_BYTES / 2, takes_turns, "{priority}: {received_bytes} bytes");
        }
        for other in others {
            assert!(client.receive(other, "GET").unwrap().body == large);
        }
    }
}

/// New requests arrive while a more urgent response waits for room.
#[test]
fn new_requests_do_not_delay_urgent_responses() {
    let folder = tempfile::tempdir().unwrap();
    let large = compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let mut client = connect_with_small_window(server.read_quic_address());
    let first = request_large(&mut client, "u=0");
    let mut others = Vec::new();
    for step in 1..=8 {
        client.receive_part(first, step * LARGE_BYTES / 16).unwrap();
        others.push(request_large(&mut client, "u=7"));
    }
    assert!(client.receive(first, "GET").unwrap().body == large);
    let received_bytes: usize = others.iter().map(|other| client.received_bytes(*other)).sum();
    // The window that the last bytes of the urgent response don't fill.
    assert!(received_bytes < 2 * SMALL_WINDOW as usize, "{received_bytes} bytes of less urgent responses");
    for other in others {
        assert!(client.receive(other, "GET").unwrap().body == large);
    }
}

#[test]
fn cancelled_requests_end_only_their_connection() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let address = server.read_quic_address();
    let (mut hostile, mut other) = (connect(address), connect(address));
    assert_eq!(other.request(&get("/small.txt")).unwrap().status, 200);
    // Each request makes the server begin a response. It ends the connection long before this number.
    for _ in 0..100_000 {
        let Ok(stream) = hostile.send_request(&get("/large.bin")) else { break };
        hostile.stop(stream, H3_REQUEST_CANCELLED);
    }
    // The notice may be lost among the responses that the client does not read.
    let code = hostile.await_close_or_reset();
    assert!(matches!(code, Some(H3_EXCESSIVE_LOAD) | None), "{code:?}");
    assert_eq!(other.request(&get("/small.txt")).unwrap().status, 200);
}

/// RFC 9218 §7.2: a client may send the priority of a request before the request, but not of one that it may not send.
#[test]
fn priorities_beyond_the_stream_limit_end_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    compile_release(folder.path(), 1);
    let server = start_site(folder.path(), &[]);
    let address = server.read_quic_address();
    let update = |stream: u64| frame(PRIORITY_UPDATE, &[&varint(stream)[..], b"u=1"].concat());

    let mut client = connect(address);
    // The last stream of the first ten.
    client.send_on_control_stream(&update(4 * 9));
    for _ in 0..20 {
        assert_eq!(client.request(&get("/small.txt")).unwrap().status, 200);
    }
    // Each of those that have ended has made room for another one.
    client.send_on_control_stream(&update(4 * 29));
    assert_eq!(client.request(&get("/small.txt")).unwrap().status, 200);
    client.send_on_control_stream(&update(4 * 1000));
    assert_eq!(client.await_close(), H3_ID_ERROR);

    let mut client = connect(address);
    client.send_on_control_stream(&update(4 * 10));
    assert_eq!(client.await_close(), H3_ID_ERROR);

    // Of a push, of a stream of another kind, and on a request stream.
    for wrong in [frame(PRIORITY_UPDATE_PUSH, &varint(0)), update(1), update(2), update(3)] {
        let mut client = connect(address);
        client.send_on_control_stream(&wrong);
        assert_eq!(client.await_close(), H3_ID_ERROR, "{wrong:?}");
    }
    let mut client = connect(address);
    let stream = client.begin_request(&get("/small.txt"));
    client.send(stream, &update(0));
    assert_eq!(client.await_close(), H3_FRAME_UNEXPECTED);
}
