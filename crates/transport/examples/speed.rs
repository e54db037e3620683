//! Benchmarks sessions: `cargo run --release -p cannery-transport --example speed`.
//!
//! This prints the time to open a request and seal its response, compared with both interfaces of `rustls`,
//! the time of handshakes, and the memory of idle sessions. Figures are medians of 15 runs on one thread.
//! Requests are sealed in advance and responses are not opened, so only the server's half is measured. No
//! threshold is checked.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::fs;
use std::io::{IoSlice, Read, Write};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cannery_transport::{
    Context, HandshakeKind, HandshakePermit, Seed, SelfSigned, Session, Settings, Version,
};
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig, ServerConnection};

#[path = "../tests/support/mod.rs"]
mod support;

const RUNS: usize = 15;
const REQUESTS: usize = 2000;
const REQUEST: [u8; 120] = [b'r'; 120];

fn main() {
    for suite in [CipherSuite::TLS13_AES_256_GCM_SHA384, CipherSuite::TLS13_AES_128_GCM_SHA256] {
        println!("{suite:?}: microseconds to open a request and seal its response");
        println!("  {:>9} {:>9} {:>11} {:>9}", "response", "ours", "unbuffered", "buffered");
        for length in [13, 500, 2_000, 16_000, 89_700, 262_144] {
            let body = vec![7; length];
            println!(
                "  {length:>9} {:>9.2} {:>11.2} {:>9.2}",
                median(|| ours(suite, &body)),
                median(|| unbuffered(suite, &body)),
                median(|| buffered(suite, &body)),
            );
        }
    }

    println!("handshakes: microseconds, the server's half");
    for kind in support::KINDS {
        for version in support::VERSIONS {
            let full = median(|| handshakes(kind, version, false));
            let resumed = median(|| handshakes(kind, version, true));
            println!("  {kind:?} {version:?}: full {full:.0}, resumed {resumed:.0}");
        }
    }

    for version in support::VERSIONS {
        println!(
            "memory of an idle session, {version:?}: {} bytes (and {} in its struct)",
            idle_bytes(version),
            size_of::<Session>()
        );
    }
}

/// Returns the median of [`RUNS`] runs.
fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn client_config(suite: CipherSuite) -> Arc<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|known| known.suite() == suite);
    Arc::new(support::client_options(Version::Tls13, &[]).provider(provider).build())
}

/// Returns the configuration of a server of `rustls`.
fn server_config() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap())
}

fn requests(client: &mut ClientConnection) -> Vec<Vec<u8>> {
    (0..REQUESTS)
        .map(|_| {
            let mut request = Vec::new();
            client.writer().write_all(&REQUEST).unwrap();
            client.write_tls(&mut request).unwrap();
            request
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn microseconds(start: Instant, count: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}

fn ours(suite: CipherSuite, body: &[u8]) -> f64 {
    let context = support::context(support::settings(SelfSigned::Ecdsa));
    let mut pair = support::Pair::connected(&context, &client_config(suite));
    let mut requests = requests(&mut pair.client);
    let mut plain = Vec::new();
    let mut sealed = Vec::new();
    let head = [b'h'; 200];
    let start = Instant::now();
    for request in &mut requests {
        plain.clear();
        sealed.clear();
        pair.session.open(request, &mut plain, &mut sealed, HandshakePermit::Granted).unwrap();
        assert_eq!(plain.len(), REQUEST.len());
        pair.session.seal(&[IoSlice::new(&head), IoSlice::new(body)], &mut sealed).unwrap();
    }
    microseconds(start, REQUESTS)
}

fn unbuffered(suite: CipherSuite, body: &[u8]) -> f64 {
    let mut server = UnbufferedServerConnection::new(server_config()).unwrap();
    let mut client =
        ClientConnection::new(client_config(suite), ServerName::try_from("localhost").unwrap()).unwrap();

    for _ in 0..4 {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        let (_, sealed) = process(&mut server, &mut sent);
        client.read_tls(&mut sealed.as_slice()).unwrap();
        client.process_new_packets().unwrap();
    }

    let mut requests = requests(&mut client);
    let head = [b'h'; 200];
    let mut response = Vec::new();
    let mut sealed = vec![0; body.len() + 20_000];

    let start = Instant::now();
    for request in &mut requests {
        let (plain, _) = process(&mut server, request);
        assert_eq!(plain, REQUEST.len());
        response.clear();
        response.extend_from_slice(&head);
        response.extend_from_slice(body);
        if let ConnectionState::WriteTraffic(mut traffic) = server.process_tls_records(&mut []).state.unwrap()
        {
            traffic.encrypt(&response, &mut sealed).unwrap();
        }
    }

    microseconds(start, REQUESTS)
}

/// Passes records to `rustls`. Returns the length of their content, and the records to send.
fn process(server: &mut UnbufferedServerConnection, input: &mut [u8]) -> (usize, Vec<u8>) {
    let mut consumed = 0;
    let mut plain = 0;
    let mut sealed = Vec::new();

    loop {
        let UnbufferedStatus { discard, state } = server.process_tls_records(&mut input[consumed..]);
        consumed += discard;

        match state.unwrap() {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    plain += record.unwrap().payload.len();
                }
            }
            ConnectionState::EncodeTlsData(mut data) => {
                let start = sealed.len();
                sealed.resize(start + 20_000, 0);
                let written = data.encode(&mut sealed[start..]).unwrap();
                sealed.truncate(start + written);
            }
            ConnectionState::TransmitTlsData(data) => data.done(),
            _ => return (plain, sealed),
        }
    }
}

fn buffered(suite: CipherSuite, body: &[u8]) -> f64 {
    let mut server = ServerConnection::new(server_config()).unwrap();
    server.set_buffer_limit(None);
    let mut client =
        ClientConnection::new(client_config(suite), ServerName::try_from("localhost").unwrap()).unwrap();

    for _ in 0..4 {
        let mut sent = Vec::new();
        let mut sealed = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut sealed).unwrap();
        }
        client.read_tls(&mut sealed.as_slice()).unwrap();
        client.process_new_packets().unwrap();
    }

    let requests = requests(&mut client);
    let head = [b'h'; 200];
    let mut plain = [0; 200];
    let mut sealed = Vec::new();

    let start = Instant::now();
    for request in &requests {
        server.read_tls(&mut request.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        assert_eq!(server.reader().read(&mut plain).unwrap(), REQUEST.len());
        sealed.clear();
        let runs = [IoSlice::new(&head), IoSlice::new(body)];
        assert_eq!(server.writer().write_vectored(&runs).unwrap(), head.len() + body.len());
        while server.wants_write() {
            server.write_tls(&mut sealed).unwrap();
        }
    }

    microseconds(start, REQUESTS)
}

/// Returns the mean time of a handshake in [`Session::open`], in microseconds.
fn handshakes(kind: SelfSigned, version: Version, is_resumed: bool) -> f64 {
    let now = SystemTime::now();
    let context =
        Context::new(Settings { seed: Some(Seed::generate(now).unwrap()), ..support::settings(kind) })
            .unwrap();
    let sessions = if is_resumed { 8 } else { 0 };
    let config = Arc::new(support::client_options(version, &["h2"]).resumption(sessions).build());

    // The first connection fills the client's ticket store.
    support::Pair::connected(&context, &config);

    let count = 20;
    let mut spent = 0.0;
    for _ in 0..count {
        let mut pair = support::Pair::new(&context, &config, "localhost");
        while pair.client.is_handshaking() || pair.session.is_handshaking() || pair.client.wants_write() {
            pair.flush_client();
            let start = Instant::now();
            pair.open_in_session().unwrap();
            spent += microseconds(start, 1);
            pair.read_in_client().unwrap();
        }
        assert_eq!(pair.session.handshake_kind() == HandshakeKind::Resumed, is_resumed);
    }

    spent / f64::from(count)
}

/// Returns the resident memory of the process per idle session, in bytes.
fn idle_bytes(version: Version) -> usize {
    let context = support::context(support::settings(SelfSigned::Ecdsa));
    let config = Arc::new(support::client_config(version, &["h2"]));
    let session = || support::Pair::connected(&context, &config).session;
    let warm: Vec<_> = (0..10).map(|_| session()).collect();
    drop(warm);
    let before = resident();
    let sessions: Vec<_> = (0..4000).map(|_| session()).collect();
    let after = resident();
    (after.saturating_sub(before)) / sessions.len()
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
