//! What TLS adds: which certificate a client is shown, how certificates are replaced, sessions that go on, those who never
//! end their handshake, and the way from http to https. That the answers are the same is held by all other tests (`transports`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cannery_testkit::tls::{self, ClientOptions, TlsStream};
use rustls::HandshakeKind;

use crate::authority::{Authority, DAY, replace};
use crate::site::{OVER_TLS, Response, Server, parse, run, serve};
use crate::transports::{connect, connect_tls, connect_tls_with};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Sends a request, and reads its answer and the end of the connection, which is said and not only done.
fn ask(mut tls: TlsStream) -> Response {
    tls.write_all(REQUEST).unwrap();
    let mut answer = Vec::new();
    tls.read_to_end(&mut answer).unwrap();
    parse(&answer, false).0
}

/// The certificate that is shown to who asks for a name, or for none.
fn shown(server: &str, name: &str) -> Vec<u8> {
    let tls = connect_tls_with(server, name, ClientOptions::default());
    assert_eq!(tls.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    tls.conn.peer_certificates().unwrap()[0].to_vec()
}

/// A server without a site, of the certificates that these flags name.
fn certified(flags: &[&str]) -> (Server, String) {
    let server = Server::start(&[&["--dummy", "--bind-tls", "127.0.0.1:0"], flags].concat());
    let secured = server.secured();
    (server, secured)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn each_kind_of_key_is_spoken_with() {
    for flag in ["--tls-self-rsa", "--tls-self-ecdsa", "--tls-self-ed25519"] {
        let (_server, secured) = certified(&[flag]);
        assert_eq!(ask(connect_tls(&secured, &["http/1.1"])).status, 200, "{flag}");
        assert_eq!(
            ask(connect_tls_with(&secured, "localhost", ClientOptions::default().tls12())).status,
            200,
            "{flag} in TLS 1.2"
        );
    }
}

#[test]
fn the_certificate_is_that_of_the_name_exact_before_wildcard_before_the_first() {
    let (place, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let certificates = [&["first.example"][..], &["*.example.com", "example.com"], &["www.example.com"]];
    let certificates = certificates.map(|names| authority.certify(names));
    let [first, wildcard] = ["first.pem", "wildcard.pem"].map(|name| place.path().join(name));
    certificates[0].write_bundle(&first);
    certificates[1].write_bundle(&wildcard);
    let (public, private) = certificates[2].write_pair(place.path());
    let (_server, secured) = certified(&[
        "--tls-bundle",
        text(&first),
        "--tls-bundle",
        text(&wildcard),
        "--tls-public",
        text(&public),
        "--tls-private",
        text(&private),
    ]);
    for (name, expected) in [
        ("first.example", 0),
        ("www.example.com", 2),
        ("WWW.Example.com", 2),
        ("ftp.example.com", 1),
        ("example.com", 1),
        ("a.b.example.com", 0),
        ("localhost", 0),
        ("127.0.0.1", 0),
    ] {
        let place = certificates.iter().position(|known| known.octets == shown(&secured, name));
        assert_eq!(place, Some(expected), "{name}");
    }
}

#[test]
fn new_certificates_are_taken_up_and_bad_ones_are_not_while_connections_go_on() {
    let (place, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let bundle = place.path().join("bundle.pem");
    let [first, second, third] = [(); 3].map(|()| authority.certify(&["localhost"]));
    first.write_bundle(&bundle);
    let (server, secured) = certified(&["--tls-bundle", text(&bundle)]);
    let before = connect_tls(&secured, &["http/1.1"]);
    assert!(shown(&secured, "localhost") == first.octets);

    second.write_bundle(&bundle);
    server.await_line("new certificates are used");
    assert!(shown(&secured, "localhost") == second.octets);

    replace(&bundle, "no certificate at all\n");
    server.await_line("certificates before are still used");
    assert!(shown(&secured, "localhost") == second.octets);

    let expired = authority.certify_from(&["localhost"], SystemTime::now() - 301 * DAY);
    expired.write_bundle(&bundle);
    server.await_line("the new certificate has expired");
    assert!(shown(&secured, "localhost") == second.octets);

    third.write_bundle(&bundle);
    server.signal("HUP");
    server.await_line("new certificates are used");
    assert!(shown(&secured, "localhost") == third.octets);
    assert_eq!(ask(before).status, 200, "the connection of the first certificate");
}

#[test]
fn a_server_without_a_certificate_that_it_can_use_does_not_start() {
    let (place, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let (bundle, missing) = (place.path().join("bundle.pem"), place.path().join("missing.pem"));
    authority.certify(&["localhost"]).write_bundle(&bundle);
    let (public, _) = authority.certify(&["localhost"]).write_pair(place.path());
    let other = tempfile::tempdir().unwrap();
    let (_, private) = authority.certify(&["localhost"]).write_pair(other.path());
    let start = |flags: &[&str]| {
        let common = ["--dummy", "--bind", "127.0.0.1:0", "--bind-tls", "127.0.0.1:0"];
        run("cannery-server", &[&common, flags].concat())
    };
    let missing_said = start(&["--tls-bundle", text(&missing)]);
    assert!(!missing_said.status.success());
    assert!(String::from_utf8_lossy(&missing_said.stderr).contains(text(&missing)));
    let unfit = start(&["--tls-public", text(&public), "--tls-private", text(&private)]);
    assert!(!unfit.status.success(), "a key of another certificate");
    assert!(String::from_utf8_lossy(&unfit.stderr).contains(text(&private)));
    assert!(!start(&[]).status.success(), "no certificate");
    // Nothing that is said shows a key.
    fs::write(&bundle, fs::read_to_string(&bundle).unwrap().replace("BEGIN CERT", "BEGAN CERT")).unwrap();
    let said = start(&["--tls-bundle", text(&bundle)]);
    assert!(!said.status.success());
    assert!(!String::from_utf8_lossy(&said.stderr).contains("MI"), "{said:?}");
}

#[test]
fn a_session_goes_on_at_any_worker_and_process() {
    let (_server, secured) = certified(&["--tls-self-ecdsa", "--processes", "2"]);
    let config = Arc::new(ClientOptions::default().resumption(8).build());
    let mut kinds = Vec::new();
    for _ in 0..12 {
        let tls = tls::connect(connect(&secured), "localhost", Arc::clone(&config)).unwrap();
        kinds.push(tls.conn.handshake_kind());
        // The ticket for the next time comes with the answer.
        assert_eq!(ask(tls).status, 200);
    }
    assert!(kinds[0] != Some(HandshakeKind::Resumed));
    assert!(kinds[1..].iter().all(|kind| *kind == Some(HandshakeKind::Resumed)), "{kinds:?}");
}

#[test]
fn who_never_ends_a_handshake_is_ended_and_nobody_else_notices() {
    let server = Server::start(&[&["--dummy"], &OVER_TLS[..]].concat());
    let secured = server.secured();
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(&secured).unwrap()).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        // The beginning of a record, of a hello, or of nothing.
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..number % 12]).unwrap();
    }
    assert_eq!(ask(connect_tls(&secured, &["http/1.1"])).status, 200);
    for mut stream in silent {
        let mut said = Vec::new();
        // An alert at most, and the end: that it comes is what is awaited here.
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty() || said[0] == 21, "{said:?}");
    }
    assert_eq!(ask(connect_tls(&secured, &["http/1.1"])).status, 200);
}

#[test]
fn what_is_asked_in_the_clear_is_sent_to_https() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let files: [(&[u8], &[u8]); 2] =
        [(b"a.txt", b"content"), (b".well-known/acme-challenge/token", b"proof")];
    crate::site::write_folder(&source, &files);
    let archive = folder.path().join("site.cdb");
    crate::site::compile(&source, &archive, &[]);
    let flags = ["--archive", text(&archive), "--https-redirect=8443"];
    let server = Server::start(&[&flags[..], &OVER_TLS].concat());
    let secured = server.secured();
    let moved = server.ask_host("example.com:80", "GET", "/a.txt?x=y", "");
    assert!(matches!(moved.status, 301 | 308), "{moved:?}");
    assert_eq!(moved.field("Location"), Some("https://example.com:8443/a.txt?x=y"));
    assert_eq!(server.get("/.well-known/acme-challenge/token").body, b"proof");
    assert_eq!(ask(connect_tls(&secured, &["http/1.1"])).body, b"content");
}

#[test]
fn pipelined_requests_and_a_slow_reader_are_served_as_in_the_clear() {
    let content = crate::gallery::noise(2_000_000);
    let server = serve(&[(b"a.txt", b"content"), (b"large.bin", &content)], &["--compress", "identity"]);
    let mut tls = connect_tls(server.secured_address(), &["http/1.1"]);
    let small = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200);
    let last = "GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    tls.write_all(format!("{small}{last}").as_bytes()).unwrap();
    let (mut answer, mut chunk) = (Vec::new(), [0; 3001]);
    loop {
        match tls.read(&mut chunk).unwrap() {
            0 => break,
            bytes => answer.extend_from_slice(&chunk[..bytes]),
        }
    }
    let mut rest = answer.as_slice();
    for _ in 0..200 {
        let (response, others) = parse(rest, false);
        assert_eq!(response.body, b"content");
        rest = others;
    }
    assert!(parse(rest, false).0.body == content);
}
