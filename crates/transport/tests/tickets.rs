//! Tests session resumption between contexts with the same seed, as well as the cases in which it must
//! not happen.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cannery_transport::{Context, HandshakeKind, Seed, SelfSigned, Settings, Version};
use rustls::ClientConfig;
use support::{Pair, VERSIONS, client_options, settings};

const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);

fn context(seed: Option<&Seed>) -> Context {
    support::context(Settings { seed: seed.cloned(), ..settings(SelfSigned::Ecdsa) })
}

/// Sessions that a client stores.
const SESSIONS: usize = 8;

fn client(version: Version) -> Arc<ClientConfig> {
    Arc::new(client_options(version, &["h2", "http/1.1"]).resumption(SESSIONS).build())
}

#[test]
fn session_resumes_in_another_process_with_the_seed() {
    let seed = Seed::generate(SystemTime::now()).unwrap();
    for version in VERSIONS {
        let config = client(version);
        let first = Pair::connected(&context(Some(&seed)), &config);
        assert_eq!(first.session.handshake_kind(), HandshakeKind::Full);
        let received = Seed::from_bytes(&seed.to_bytes());
        let mut second = Pair::connected(&context(Some(&received)), &config);
        assert_eq!(second.session.handshake_kind(), HandshakeKind::Resumed, "{version:?}");
        second.send_from_client(b"again").unwrap();
        assert_eq!(second.plain, b"again");
        assert_eq!(second.send_from_session(&[b"welcome"]), b"welcome");
    }
}

#[test]
fn other_seed_or_none_means_a_full_handshake() {
    let now = SystemTime::now();
    for version in VERSIONS {
        let config = client(version);
        let seeds = [Seed::generate(now).unwrap(), Seed::generate(now).unwrap()];
        Pair::connected(&context(Some(&seeds[0])), &config);
        assert_eq!(
            Pair::connected(&context(Some(&seeds[1])), &config).session.handshake_kind(),
            HandshakeKind::Full,
            "{version:?}"
        );
        let config = client(version);
        Pair::connected(&context(None), &config);
        assert_eq!(
            Pair::connected(&context(None), &config).session.handshake_kind(),
            HandshakeKind::Full,
            "{version:?}"
        );
    }
}

#[test]
fn ticket_is_valid_for_its_period_and_the_next() {
    let now = SystemTime::now();
    for version in VERSIONS {
        let context = context(Some(&Seed::generate(now).unwrap()));
        let config = client(version);
        Pair::connected(&context, &config);
        context.advance(now + PERIOD);
        assert_eq!(
            Pair::connected(&context, &config).session.handshake_kind(),
            HandshakeKind::Resumed,
            "{version:?}"
        );
        context.advance(now + 3 * PERIOD);
        assert_eq!(
            Pair::connected(&context, &config).session.handshake_kind(),
            HandshakeKind::Full,
            "{version:?}"
        );
    }
}

#[test]
fn ticket_does_not_resume_under_another_name() {
    let context = context(Some(&Seed::generate(SystemTime::now()).unwrap()));
    for version in VERSIONS {
        let config = client(version);
        Pair::connected(&context, &config);
        let mut other = Pair::new(&context, &config, "other.example");
        other.handshake().unwrap();
        assert_eq!(other.session.handshake_kind(), HandshakeKind::Full, "{version:?}");
    }
}

#[test]
fn one_ticket_is_sent() {
    let context = context(Some(&Seed::generate(SystemTime::now()).unwrap()));
    let pair = Pair::connected(&context, &client(Version::Tls13));
    assert_eq!(pair.client.tls13_tickets_received(), 1);
}

#[test]
fn early_data_is_not_accepted() {
    let context = context(Some(&Seed::generate(SystemTime::now()).unwrap()));
    let mut config = client_options(Version::Tls13, &["h2"]).resumption(SESSIONS).build();
    config.enable_early_data = true;
    let config = Arc::new(config);
    Pair::connected(&context, &config);
    let mut pair = Pair::new(&context, &config, "localhost");
    assert!(pair.client.early_data().is_none(), "the ticket allows none");
    pair.handshake().unwrap();
    assert_eq!(pair.session.handshake_kind(), HandshakeKind::Resumed);
    assert!(!pair.client.is_early_data_accepted());
}

#[test]
fn early_data_for_a_previous_server_is_skipped() {
    // A server of the same name accepted early data, and issued a ticket that allows it.
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let mut before =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .unwrap();
    before.max_early_data_size = 16384;

    let mut config = client_options(Version::Tls13, &[]).resumption(SESSIONS).build();
    config.enable_early_data = true;
    let config = Arc::new(config);

    let mut server = rustls::ServerConnection::new(Arc::new(before)).unwrap();
    let mut client = rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
    for _ in 0..4 {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        sent.clear();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        client.read_tls(&mut sent.as_slice()).unwrap();
        client.process_new_packets().unwrap();
    }

    // Our server can decrypt neither that ticket nor the early data.
    let context = context(Some(&Seed::generate(SystemTime::now()).unwrap()));
    let mut pair = Pair::new(&context, &config, "localhost");
    // This is the size of a few requests. Note that `rustls` counts a record again with each one that
    // follows, and skips up to 16 KiB.
    for _ in 0..4 {
        pair.client.early_data().expect("the ticket allows some").write_all(&[b'x'; 500]).unwrap();
        pair.flush_client();
    }

    pair.handshake().unwrap();
    assert!(!pair.client.is_early_data_accepted());
    assert_eq!(pair.session.handshake_kind(), HandshakeKind::Full);
    assert_eq!(pair.plain, b"", "early data is discarded");
    pair.send_from_client(b"sent again").unwrap();
    assert_eq!(pair.plain, b"sent again");
}
