//! TLS: certificate selection and reload, session resumption, handshake timeouts, and the redirect from HTTP to HTTPS.
//!
//! All other tests compare the responses over TLS with those over TCP (`transports`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cannery_testkit::tls::{self, ClientOptions, TlsStream};
use rustls::HandshakeKind;

use crate::authority::{Authority, DAY, replace};
use crate::harness::{
    Response, Server, TLS_FLAGS, compile, pages, parse, run, serve, wait_until, write_folder,
};
use crate::transports::{connect, connect_tls, connect_tls_with};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Sends a request and reads its response and `close_notify`.
fn request(mut tls: TlsStream) -> Response {
    tls.write_all(REQUEST).unwrap();
    let mut received = Vec::new();
    tls.read_to_end(&mut received).unwrap();
    parse(&received, "GET").0
}

/// Returns the certificate that the server presents for a name or an address.
fn presented(server: &str, name: &str) -> Vec<u8> {
    let tls = connect_tls_with(server, name, ClientOptions::default());
    assert_eq!(tls.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    tls.conn.peer_certificates().unwrap()[0].to_vec()
}

/// Starts a server without a site with these flags. Returns it and the address of its TLS listener.
fn start(flags: &[&str]) -> (Server, String) {
    let server = Server::start(&[&["--dummy", "--bind-tls", "127.0.0.1:0"], flags].concat());
    let address = server.read_tls_address();
    (server, address)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn each_kind_of_key_works() {
    for flag in ["--tls-self-rsa", "--tls-self-ecdsa", "--tls-self-ed25519"] {
        let (_server, address) = start(&[flag]);
        assert_eq!(request(connect_tls(&address, &["http/1.1"])).status, 200, "{flag}");
        assert_eq!(
            request(connect_tls_with(&address, "localhost", ClientOptions::default().tls12())).status,
            200,
            "{flag} in TLS 1.2"
        );
    }
}

#[test]
fn certificate_is_selected_by_name() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let certificates = [&["first.example"][..], &["*.example.com", "example.com"], &["www.example.com"]];
    let certificates = certificates.map(|names| authority.certify(names));

    let [first, wildcard] = ["first.pem", "wildcard.pem"].map(|name| place.path().join(name));
    certificates[0].write_bundle(&first);
    certificates[1].write_bundle(&wildcard);
    let (public, private) = certificates[2].write_pair(place.path());
    let (_server, address) = start(&[
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
        let place = certificates.iter().position(|known| known.der == presented(&address, name));
        assert_eq!(place, Some(expected), "{name}");
    }
}

#[test]
fn certificates_are_reloaded_if_valid() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = place.path().join("bundle.pem");
    let [first, second, third] = [(); 3].map(|()| authority.certify(&["localhost"]));
    first.write_bundle(&bundle);
    let (server, address) = start(&["--tls-bundle", text(&bundle)]);
    let before = connect_tls(&address, &["http/1.1"]);
    assert!(presented(&address, "localhost") == first.der);

    second.write_bundle(&bundle);
    server.await_line("new certificates are used");
    assert!(presented(&address, "localhost") == second.der);

    replace(&bundle, "no certificate at all\n");
    server.await_line("previous certificates are still used");
    assert!(presented(&address, "localhost") == second.der);

    let expired = authority.certify_from(&["localhost"], SystemTime::now() - 301 * DAY);
    expired.write_bundle(&bundle);
    server.await_line("the new certificate has expired");
    assert!(presented(&address, "localhost") == second.der);

    third.write_bundle(&bundle);
    server.signal("HUP");
    server.await_line("new certificates are used");
    assert!(presented(&address, "localhost") == third.der);
    assert_eq!(request(before).status, 200, "the connection of the first certificate");
}

#[test]
fn refused_certificate_holds_up_no_other_and_is_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let [one, two] = ["one", "two"].map(|name| place.path().join(format!("{name}.pem")));
    let names = ["one.example", "two.example"];
    let [old, other, new] = [names[0], names[1], names[1]].map(|name| authority.certify(&[name]));
    old.write_bundle(&one);
    other.write_bundle(&two);
    let (site, archive) = (place.path().join("site"), place.path().join("site.cdb"));
    write_folder(&site, &pages(&[("index.html", "home")]));
    compile(&site, &archive, &[]);
    let bundles = ["--tls-bundle", text(&one), "--tls-bundle", text(&two)];
    let own = ["--archive", text(&archive), "--bind-tls", "127.0.0.1:0"];
    let server = Server::start(&[&own[..], &bundles].concat());
    let address = server.read_tls_address();
    let heartbeat = || server.get("/__/heartbeat?certificates").status;
    assert_eq!(heartbeat(), 200);

    fs::remove_file(&one).unwrap();
    new.write_bundle(&two);
    server.await_line("previous certificates are still used");
    wait_until("the other one is served", || presented(&address, names[1]) == new.der);
    assert!(presented(&address, names[0]) == old.der);
    assert_eq!(heartbeat(), 503);

    // It becomes valid, which changes no file.
    let early = authority.certify_from(&names[..1], SystemTime::now() + Duration::from_secs(8));
    early.write_bundle(&one);
    server.await_line("has expired or is not valid yet");
    assert!(presented(&address, names[0]) == old.der);
    wait_until("the certificate is valid", || {
        server.signal("HUP");
        presented(&address, names[0]) == early.der
    });
    wait_until("all is well", || heartbeat() == 200);
}

#[test]
fn start_needs_a_usable_certificate() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = place.path().join("bundle.pem");
    let missing = place.path().join("missing.pem");
    authority.certify(&["localhost"]).write_bundle(&bundle);
    let (public, _) = authority.certify(&["localhost"]).write_pair(place.path());
    let other = tempfile::tempdir().unwrap();
    let (_, private) = authority.certify(&["localhost"]).write_pair(other.path());

    let run_with = |flags: &[&str]| {
        let common = ["--dummy", "--bind", "127.0.0.1:0", "--bind-tls", "127.0.0.1:0"];
        run("cannery-server", &[&common, flags].concat())
    };

    let missing_file = run_with(&["--tls-bundle", text(&missing)]);
    assert!(!missing_file.status.success());
    assert!(String::from_utf8_lossy(&missing_file.stderr).contains(text(&missing)));
    let mismatched = run_with(&["--tls-public", text(&public), "--tls-private", text(&private)]);
    assert!(!mismatched.status.success(), "the key of another certificate");
    assert!(String::from_utf8_lossy(&mismatched.stderr).contains(text(&private)));
    assert!(!run_with(&[]).status.success(), "no certificate");

    // No message contains a line of the bundle, which might be of the key.
    let changed = fs::read_to_string(&bundle).unwrap().replace("BEGIN CERT", "BEGAN CERT");
    fs::write(&bundle, &changed).unwrap();
    let output = run_with(&["--tls-bundle", text(&bundle)]);
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    let is_base64 = |line: &&str| !line.starts_with("-----") && !line.is_empty();
    assert!(changed.lines().filter(is_base64).all(|line| !message.contains(line)), "{output:?}");
}

#[test]
fn any_worker_and_process_resumes_a_session() {
    let (_server, address) = start(&["--tls-self-ecdsa", "--processes", "2"]);
    let config = Arc::new(ClientOptions::default().resumption(8).build());
    let mut kinds = Vec::new();
    for _ in 0..12 {
        let tls = tls::connect(connect(&address), "localhost", Arc::clone(&config)).unwrap();
        kinds.push(tls.conn.handshake_kind());
        // The ticket arrives with the response.
        assert_eq!(request(tls).status, 200);
    }
    assert!(kinds[0] != Some(HandshakeKind::Resumed));
    assert!(kinds[1..].iter().all(|kind| *kind == Some(HandshakeKind::Resumed)), "{kinds:?}");
}

#[test]
fn incomplete_handshakes_time_out() {
    let server = Server::start(&[&["--dummy"], &TLS_FLAGS[..]].concat());
    let address = server.read_tls_address();
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        // The start of a record or of a ClientHello, or nothing.
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..number % 12]).unwrap();
    }
    assert_eq!(request(connect_tls(&address, &["http/1.1"])).status, 200);
    for mut stream in silent {
        let mut received = Vec::new();
        // The server closes the connection, perhaps after an alert.
        let _ = stream.read_to_end(&mut received);
        assert!(received.is_empty() || received[0] == 21, "{received:?}");
    }
    assert_eq!(request(connect_tls(&address, &["http/1.1"])).status, 200);
}

#[test]
fn https_redirect_redirects_http() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let files: [(&[u8], &[u8]); 2] =
        [(b"a.txt", b"content"), (b".well-known/acme-challenge/token", b"proof")];
    write_folder(&source, &files);
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &[]);
    let flags = ["--archive", text(&archive), "--https-redirect=8443"];
    let server = Server::start(&[&flags[..], &TLS_FLAGS].concat());
    let address = server.read_tls_address();
    let redirect = server.request_host("example.com:80", "GET", "/a.txt?x=y", "");
    assert!(matches!(redirect.status, 301 | 308), "{redirect:?}");
    assert_eq!(redirect.field("Location"), Some("https://example.com:8443/a.txt?x=y"));
    // The client may have forged the host, so no shared cache may keep the redirect.
    assert_eq!(redirect.field("Cache-Control"), Some("private, max-age=3600"));
    assert_eq!(server.get("/.well-known/acme-challenge/token").body, b"proof");
    assert_eq!(request(connect_tls(&address, &["http/1.1"])).body, b"content");
}

#[test]
fn pipelining_and_slow_readers_work_over_tls() {
    let content = crate::fixture_site::noise(2_000_000);
    let server = serve(&[(b"a.txt", b"content"), (b"large.bin", &content)], &["--compress", "identity"]);
    let mut tls = connect_tls(server.tls_address(), &["http/1.1"]);
    let small = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200);
    let last = "GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    tls.write_all(format!("{small}{last}").as_bytes()).unwrap();

    let mut received = Vec::new();
    let mut chunk = [0; 3001];
    loop {
        match tls.read(&mut chunk).unwrap() {
            0 => break,
            bytes => received.extend_from_slice(&chunk[..bytes]),
        }
    }

    let mut rest = received.as_slice();
    for _ in 0..200 {
        let (response, others) = parse(rest, "GET");
        assert_eq!(response.body, b"content");
        rest = others;
    }

    assert!(parse(rest, "GET").0.body == content);
}
