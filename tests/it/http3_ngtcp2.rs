//! `gtlsclient` of ngtcp2 as a client of HTTP/3, with the TLS of GnuTLS.
//!
//! Each test compares the files that the client saves, and finds in its log or in the metrics that a feature of QUIC was used.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use cannery_testkit::http3::initial_datagrams;

use crate::harness::skip_outside;
use crate::http3_suites::Site;

const SMALL: &str = "index.html";
const LARGE: &str = "large.bin";

/// The argument of `--ciphers` that offers a single cipher.
const SINGLE_CIPHER: &str = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+";

/// Lines of the log in a panic message.
const LOG_LINES: usize = 60;

/// The log of a run.
struct Log(String);

impl Log {
    /// Returns the number of lines that contain these words.
    fn count(&self, words: &str) -> usize {
        self.0.lines().filter(|line| line.contains(words)).count()
    }

    #[track_caller]
    fn assert_contains(&self, words: &str) {
        assert!(self.0.contains(words), "no {words:?}: {}", self.end());
    }

    /// Returns the last lines.
    fn end(&self) -> String {
        let mut lines: Vec<_> = self.0.lines().rev().take(LOG_LINES).collect();
        lines.reverse();
        lines.join("\n")
    }
}

/// Runs the client with these flags and a request for each of the files. It also succeeds if the server closes the connection.
#[track_caller]
fn run(site: &Site, flags: &[&str], files: &[&str], downloads: &Path) -> Log {
    // The client limits the silence of the server, but not its own run time.
    let mut command = Command::new("timeout");
    command.args(["60", "gtlsclient", "--timeout=20s", "--handshake-timeout=20s"]);
    command.args(["--exit-on-all-streams-close", "--no-quic-dump", "--no-http-dump"]);
    command.arg("--download").arg(downloads).args(flags);
    command.arg(site.address.ip().to_string()).arg(site.address.port().to_string());
    command.args(files.iter().map(|file| format!("https://localhost/{file}")));
    let output = command.output().unwrap();
    let log = Log(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned());
    assert!(output.status.success(), "{}: {}", output.status, log.end());
    log
}

/// Loads files over one connection, and compares them.
#[track_caller]
fn load(site: &Site, flags: &[&str], files: &[&str]) -> Log {
    let downloads = tempfile::tempdir().unwrap();
    let log = run(site, flags, files, downloads.path());
    for file in files {
        let received = fs::read(downloads.path().join(file)).unwrap_or_default();
        let content = fs::read(site.source.join(file)).unwrap();
        assert!(received == content, "{file}: {} bytes: {}", received.len(), log.end());
    }
    log
}

#[test]
fn ngtcp2_loads_files_over_one_connection() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let log = load(&site, &[], &[SMALL, LARGE]);
    assert_eq!(log.count("[:status: 200]"), 2);
    assert_eq!(site.metric("cannery_http3_connections_total"), 1);

    // More than the server allows at once.
    let log = load(&site, &["--nstreams=100"], &[SMALL]);
    assert_eq!(log.count("[:status: 200]"), 100);
    // H3_NO_ERROR.
    assert_eq!(log.count("closed with error code 256"), 100);
    assert_eq!(site.metric("cannery_http3_connections_total"), 2);
}

#[test]
fn ngtcp2_updates_the_keys_of_each_cipher() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    for cipher in ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"] {
        let ciphers = format!("{SINGLE_CIPHER}{cipher}");
        // The update comes before the transfer, because the client fails if the server has updated its keys first.
        let flags = ["--key-update=1us", "--delay-stream=500ms", "--ciphers", &ciphers];
        let log = load(&site, &flags, &[LARGE]);
        log.assert_contains(&format!("Negotiated cipher suite is {cipher}"));
        log.assert_contains("Initiate key update");
        log.assert_contains("key update confirmed");
    }
}

#[test]
fn ngtcp2_is_refused_without_a_common_cipher() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let downloads = tempfile::tempdir().unwrap();
    let ciphers = format!("{SINGLE_CIPHER}AES-128-CCM");
    let log = run(&site, &["--ciphers", &ciphers], &[SMALL], downloads.path());
    // The alert `handshake_failure`.
    log.assert_contains("error_code=CRYPTO_ERROR(0x128)");
}

#[test]
fn ngtcp2_negotiates_the_version() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let log = load(&site, &["--version=0x1a2a3a4a", "--preferred-versions=v1"], &[SMALL, LARGE]);
    assert_eq!(log.count("type=VN"), 1);
    log.assert_contains("Client selected version 0x1");
}

#[test]
fn ngtcp2_changes_its_address() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let log = load(&site, &["--change-local-addr=1us"], &[LARGE]);
    log.assert_contains("Changing local address");
    log.assert_contains("path has been validated");
    // Counted at the end of the connection, which may follow that of the client.
    site.await_metric("cannery_quic_migrations_total", 1);
    assert_eq!(site.metric("cannery_http3_connections_total"), 1);
}

#[test]
fn ngtcp2_is_followed_to_another_port() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    // The client doesn't read what arrives at its old port. So it sends the request from the new one.
    let flags = ["--nat-rebinding", "--change-local-addr=1us", "--delay-stream=500ms"];
    let log = load(&site, &flags, &[LARGE]);
    log.assert_contains("Changing local address");
    log.assert_contains("1RTT PATH_RESPONSE");
    // Counted at the end of the connection, which may follow that of the client.
    site.await_metric("cannery_quic_migrations_total", 1);
    assert_eq!(site.metric("cannery_http3_connections_total"), 1);
}

/// Flags that store a session in a directory, or resume the one that is there.
fn session_flags(directory: &Path) -> [String; 2] {
    ["session", "tp"].map(|file| format!("--{file}-file={}", directory.join(file).display()))
}

#[test]
fn ngtcp2_resumes_sessions() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let sessions = tempfile::tempdir().unwrap();
    let flags = session_flags(sessions.path());
    let flags = flags.each_ref().map(String::as_str);
    let resumed = "cannery_tls_handshakes_total{kind=\"resumed\"}";
    load(&site, &[flags[0], flags[1], "--disable-early-data"], &[LARGE]);
    assert_eq!(site.metric(resumed), 0);

    let log = load(&site, &[flags[0], flags[1], "--disable-early-data"], &[LARGE]);
    assert_eq!(log.count("type=0RTT"), 0);
    assert_eq!(site.metric(resumed), 1);

    // The client sends early data, although the ticket allows none.
    let log = load(&site, &flags, &[LARGE]);
    log.assert_contains("tx 0 0RTT STREAM");
    log.assert_contains("Early data was rejected");
    assert_eq!(site.metric(resumed), 2);
    assert_eq!(site.metric("cannery_http3_early_requests_total"), 0);
}

#[test]
fn ngtcp2_sends_early_data() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&["--early-data"]);
    let first = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let flags = session_flags(first.path());
    let flags = flags.each_ref().map(String::as_str);
    load(&site, &flags, &[LARGE]);
    for file in ["session", "tp"] {
        fs::copy(first.path().join(file), copy.path().join(file)).unwrap();
    }

    let log = load(&site, &flags, &[SMALL, LARGE]);
    assert!(log.count("tx 0 0RTT STREAM") > 0, "{}", log.end());
    assert_eq!(log.count("Early data was rejected"), 0);
    assert_eq!(site.metric("cannery_tls_handshakes_total{kind=\"resumed\"}"), 1);
    // On a busy machine, the server may receive them together with the end of the handshake.
    let answered = site.metric("cannery_http3_early_requests_total");

    // A session that was already used gives a full handshake, after which the client sends the request again.
    let flags = session_flags(copy.path());
    let log = load(&site, &flags.each_ref().map(String::as_str), &[SMALL]);
    log.assert_contains("Early data was rejected");
    assert_eq!(site.metric("cannery_http3_early_requests_total"), answered);
    assert_eq!(site.metric("cannery_tls_handshakes_total{kind=\"resumed\"}"), 1);
}

#[test]
fn ngtcp2_proves_its_address_during_a_flood() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in initial_datagrams(site.address, 1000) {
        socket.send_to(&datagram, site.address).unwrap();
    }
    let log = load(&site, &[], &[SMALL, LARGE]);
    assert_eq!(log.count("type=Retry"), 1, "{}", log.end());
    assert!(site.metric("cannery_quic_retries_total") > 0);
}

#[test]
fn ngtcp2_recovers_from_loss() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let log = load(&site, &["--rx-loss=0.05", "--tx-loss=0.05"], &[SMALL, LARGE]);
    // Of the 1,400 packets or more that it receives. It sends only a few, and may lose none of them.
    log.assert_contains("Simulated incoming packet loss");
}

#[test]
fn ngtcp2_limits_the_data_that_it_receives() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&[]);
    let windows = ["--max-data=20K", "--max-stream-data-bidi-local=10K"];
    let fixed = ["--max-window=0", "--max-stream-window=0"];
    let log = load(&site, &[windows, fixed].concat(), &[SMALL, LARGE]);
    // Each frame allows at most as much as the window.
    assert!(log.count("1RTT MAX_DATA") >= 2_000_000 / 20_480 - 1, "{}", log.end());
}
