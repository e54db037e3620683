//! Tests interoperability with the command `openssl` over a socket. It shares no code with our
//! implementation.
//!
//! Note that each test prints a message and passes if the command is not installed.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use cannery_transport::{Certificates, Context, HandshakePermit, Seed, Settings, Version};
use support::certs::{bundle, issued, write};
use support::{KINDS, VERSIONS, settings};

/// The read timeout, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The response to every request.
const RESPONSE: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nanswered\n";

fn is_installed() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let is_installed = version.is_ok_and(|output| output.status.success());
    if !is_installed {
        eprintln!("openssl is not installed: not tested");
    }
    is_installed
}

/// Serves `connections` on a free port, one after the other, by either responding to a request or closing
/// when the peer does. Returns the port.
fn serve(context: Context, connections: usize) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            respond(&context, stream);
        }
    });
    (port, server)
}

fn respond(context: &Context, mut stream: TcpStream) {
    let mut session = context.session().unwrap();
    let mut input = Vec::new();
    let mut plain = Vec::new();
    let mut sealed = Vec::new();
    let mut buffer = [0; 4096];

    loop {
        let Ok(received @ 1..) = stream.read(&mut buffer) else { return };
        input.extend_from_slice(&buffer[..received]);
        let opened = session.open(&mut input, &mut plain, &mut sealed, HandshakePermit::Granted);
        let has_closed = opened.as_ref().map_or(true, |opened| opened.peer_has_closed);
        input.drain(..opened.map_or(0, |opened| opened.consumed));

        // A request ends with an empty line.
        let is_complete = plain.windows(2).any(|two| two == b"\n\n" || two == b"\n\r");
        if is_complete {
            session.seal(&[IoSlice::new(RESPONSE)], &mut sealed).unwrap();
        }
        if is_complete || has_closed {
            session.close(&mut sealed);
        }

        if stream.write_all(&sealed).is_err() || is_complete || has_closed {
            return;
        }
        sealed.clear();
    }
}

/// Runs `openssl s_client` with these arguments and this input.
fn s_client(port: u16, arguments: &[&str], input: &str) -> (Output, String) {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", "localhost", "-ign_eof"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Fails if the client has exited already.
    let _ = client.stdin.take().unwrap().write_all(input.as_bytes());
    let output = client.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

fn context(settings: Settings) -> Context {
    let seed = Some(Seed::generate(SystemTime::now()).unwrap());
    support::context(Settings { seed, ..settings })
}

fn flag(version: Version) -> &'static str {
    match version {
        Version::Tls12 => "-tls1_2",
        Version::Tls13 => "-tls1_3",
    }
}

#[test]
fn openssl_connects_by_every_version_and_key() {
    if !is_installed() {
        return;
    }
    for kind in KINDS {
        for version in VERSIONS {
            let (port, server) = serve(context(settings(kind)), 1);
            let (_, text) = s_client(port, &[flag(version), "-alpn", "http/1.1"], "GET / HTTP/1.0\n\n");
            server.join().unwrap();
            assert!(text.contains("answered"), "{kind:?} {version:?}: {text}");
            assert!(text.contains("ALPN protocol: http/1.1"), "{kind:?} {version:?}: {text}");
        }
    }
}

#[test]
fn openssl_connects_by_every_suite() {
    if !is_installed() {
        return;
    }
    let tls13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
    let tls12 =
        ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"];
    let all = tls13.map(|suite| ["-tls1_3", "-ciphersuites", suite]);
    for arguments in all.into_iter().chain(tls12.map(|suite| ["-tls1_2", "-cipher", suite])) {
        let (port, server) = serve(context(settings(cannery_transport::SelfSigned::Ecdsa)), 1);
        let (_, text) = s_client(port, &arguments, "GET / HTTP/1.0\n\n");
        server.join().unwrap();
        assert!(text.contains("answered") && text.contains(arguments[2]), "{arguments:?}: {text}");
    }
}

#[test]
fn openssl_resumes_in_every_version() {
    if !is_installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        let file = directory.path().join(flag(version));
        let file = file.to_str().unwrap();
        let (port, server) = serve(context(settings(cannery_transport::SelfSigned::Ecdsa)), 2);
        let (_, first) = s_client(port, &[flag(version), "-sess_out", file], "GET / HTTP/1.0\n\n");
        assert!(first.contains("New, TLS"), "{version:?}: {first}");
        let (_, second) = s_client(port, &[flag(version), "-sess_in", file], "GET / HTTP/1.0\n\n");
        server.join().unwrap();
        assert!(second.contains("Reused, TLS") && second.contains("answered"), "{version:?}: {second}");
    }
}

#[test]
fn old_versions_and_suites_get_an_alert() {
    if !is_installed() {
        return;
    }
    for arguments in [
        &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..],
        &["-tls1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "AES128-SHA"],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"],
        &["-tls1_3", "-groups", "ffdhe2048"],
    ] {
        let (port, server) = serve(context(settings(cannery_transport::SelfSigned::Ecdsa)), 1);
        let (output, text) = s_client(port, arguments, "");
        server.join().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {text}");
        assert!(text.contains("alert"), "{arguments:?}: {text}");
    }
}

#[test]
fn openssl_accepts_the_response_of_its_responder() {
    if !is_installed() {
        return;
    }
    let directory = tempfile::TempDir::new().unwrap();
    let (made, issuer) = issued(&["localhost"]);
    let source = bundle(&directory, "made.pem", &made);
    let ca = write(&directory, "ca.pem", issuer.certificate);
    let key = write(&directory, "ca.key", issuer.key);

    let der = made.der.as_slice().into();
    let serial = webpki::EndEntityCert::try_from(&der).unwrap().serial().to_vec();
    let serial: String = serial.iter().map(|byte| format!("{byte:02X}")).collect();
    let index =
        write(&directory, "index.txt", format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=localhost\n"));

    let staple = directory.path().join("staple.der");
    let responder = Command::new("openssl")
        .args(["ocsp", "-index"])
        .arg(index)
        .arg("-CA")
        .arg(&ca)
        .arg("-rsigner")
        .arg(&ca)
        .arg("-rkey")
        .arg(key)
        .arg("-issuer")
        .arg(&ca)
        .arg("-cert")
        .arg(&source.chain)
        .args(["-ndays", "1", "-noverify", "-respout"])
        .arg(&staple)
        .output()
        .unwrap();

    assert!(responder.status.success(), "{}", String::from_utf8_lossy(&responder.stderr));
    let source = source.with_staple(staple);
    let certificates = Certificates::load(&[source], SystemTime::now()).unwrap();
    assert_eq!(certificates.warnings(), []);

    let context = support::context(Settings { certificates, ..settings(KINDS[1]) });
    let (port, server) = serve(context, 1);
    let (_, text) = s_client(port, &["-status", "-CAfile", ca.to_str().unwrap()], "GET / HTTP/1.0\n\n");

    server.join().unwrap();
    assert!(
        text.contains("OCSP Response Status: successful") && text.contains("Cert Status: good"),
        "{text}"
    );
}
