//! Resumption: over contexts of one seed, and where it must not happen.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cannery_secure::{Context, Seed, SelfSigned, Settings, Version};
use rustls::ClientConfig;
use support::{Pair, VERSIONS, client_config, settings};

const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);

fn context(seed: Option<&Seed>) -> Context {
    support::context(Settings { seed: seed.cloned(), ..settings(SelfSigned::Ecdsa) })
}

fn client(version: Version) -> Arc<ClientConfig> {
    Arc::new(client_config(version, &["h2", "http/1.1"]))
}

#[test]
fn a_session_goes_on_in_another_process_of_the_same_seed() {
    let seed = Seed::fresh(SystemTime::now()).unwrap();
    for version in VERSIONS {
        let config = client(version);
        let first = Pair::connected(&context(Some(&seed)), &config);
        assert!(!first.session.is_resumed());
        let handed_over = Seed::from_bytes(&seed.to_bytes());
        let mut second = Pair::connected(&context(Some(&handed_over)), &config);
        assert!(second.session.is_resumed(), "{version:?}");
        second.client_says(b"again").unwrap();
        assert_eq!(second.plain, b"again");
        assert_eq!(second.session_says(&[b"welcome"]), b"welcome");
    }
}

#[test]
fn another_seed_and_none_mean_a_full_handshake() {
    let now = SystemTime::now();
    for version in VERSIONS {
        let config = client(version);
        let seeds = [Seed::fresh(now).unwrap(), Seed::fresh(now).unwrap()];
        Pair::connected(&context(Some(&seeds[0])), &config);
        assert!(!Pair::connected(&context(Some(&seeds[1])), &config).session.is_resumed(), "{version:?}");
        let config = client(version);
        Pair::connected(&context(None), &config);
        assert!(!Pair::connected(&context(None), &config).session.is_resumed(), "{version:?}");
    }
}

#[test]
fn a_ticket_is_good_for_its_period_and_the_next() {
    let now = SystemTime::now();
    for version in VERSIONS {
        let context = context(Some(&Seed::fresh(now).unwrap()));
        let config = client(version);
        Pair::connected(&context, &config);
        context.advance(now + PERIOD);
        assert!(Pair::connected(&context, &config).session.is_resumed(), "{version:?}");
        context.advance(now + 3 * PERIOD);
        assert!(!Pair::connected(&context, &config).session.is_resumed(), "{version:?}");
    }
}

#[test]
fn a_ticket_is_no_good_for_another_name() {
    let context = context(Some(&Seed::fresh(SystemTime::now()).unwrap()));
    for version in VERSIONS {
        let config = client(version);
        Pair::connected(&context, &config);
        let mut other = Pair::new(&context, &config, "other.example");
        other.shake_hands().unwrap();
        assert!(!other.session.is_resumed(), "{version:?}");
    }
}

#[test]
fn one_ticket_is_sent() {
    let context = context(Some(&Seed::fresh(SystemTime::now()).unwrap()));
    let pair = Pair::connected(&context, &client(Version::Tls13));
    assert_eq!(pair.client.tls13_tickets_received(), 1);
}

#[test]
fn data_before_the_handshake_is_done_is_not_accepted() {
    let context = context(Some(&Seed::fresh(SystemTime::now()).unwrap()));
    let mut config = client_config(Version::Tls13, &["h2"]);
    config.enable_early_data = true;
    let config = Arc::new(config);
    Pair::connected(&context, &config);
    let mut pair = Pair::new(&context, &config, "localhost");
    assert!(pair.client.early_data().is_none(), "the ticket allows none");
    pair.shake_hands().unwrap();
    assert!(pair.session.is_resumed());
    assert!(!pair.client.is_early_data_accepted());
}

#[test]
fn early_data_for_a_server_that_was_here_before_is_passed_over() {
    // A server of the same name took early data, and gave a ticket that says so.
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
    let mut config = client_config(Version::Tls13, &[]);
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
    // Nobody knows that ticket here, nor the key of what was said by it.
    let context = context(Some(&Seed::fresh(SystemTime::now()).unwrap()));
    let mut pair = Pair::new(&context, &config, "localhost");
    // As much as requests take. `rustls` counts a record again with each one that follows, and passes over 16 KiB.
    for _ in 0..4 {
        pair.client.early_data().expect("the ticket allows some").write_all(&[b'x'; 500]).unwrap();
        pair.client_speaks();
    }
    pair.shake_hands().unwrap();
    assert!(!pair.client.is_early_data_accepted() && !pair.session.is_resumed());
    assert_eq!(pair.plain, b"", "what was said too early");
    pair.client_says(b"said again").unwrap();
    assert_eq!(pair.plain, b"said again");
}
