//! Renewals that are interrupted, and many in a row. Meanwhile, a server presents a certificate that clients trust.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cannery_testkit::tls::ClientOptions;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

use super::proxy::{Fault, response};
use super::{RENEW_NOW, World, end, text};
use crate::harness::{Server, is_slow, skip_outside};
use crate::random::Random;
use crate::transports::connect_tls_with;

/// Loads a bundle as a server does, which fails if the key is that of another certificate. Returns the first certificate.
fn load(bundle: &[u8]) -> CertificateDer<'static> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(bundle).map(Result::unwrap).collect();
    let first = chain[0].clone();
    let key = PrivateKeyDer::from_pem_slice(bundle).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    first
}

/// Killed at any point, the process leaves the old bundle or a complete new one, clients get a certificate that they trust, and the
/// next process doesn't order before the interval is over.
#[test]
fn killed_process_leaves_a_good_bundle_and_no_second_order() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.once(&["example.test"]).assert_issued();
    let requests_of_order = world.proxy.count("");
    let bundle = world.file("example.test.pem");
    let flags = ["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", text(&bundle)];
    let server = Server::start(&flags);
    let address = server.read_tls_address();

    let kills = if is_slow() { 50 } else { 6 };
    let mut random = Random::new(38);
    let (mut before, mut after) = (0, 0);
    for kill in 0..kills {
        world.pass_time("example.test");
        world.proxy.plan(|_, _| Fault::None);
        // Other names than those of the certificate: an order is due.
        let names = ["example.test,a.example.test", "example.test"][kill % 2];
        let mut child = world.command(&[names]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The points are spread over all requests of an order. The last ones may come after the end of it.
        let requests = requests_of_order * kill / kills + usize::try_from(random.below(2)).unwrap();
        let began = Instant::now();
        while world.proxy.count("") < requests && began.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(random.below(20)));
        end(&mut child);
        // A request that was sent may still be on its way.
        let ordered = world.proxy.count("/order-plz");
        assert!(ordered <= 1, "kill {kill}: {ordered} orders");
        *(if ordered == 0 { &mut before } else { &mut after }) += 1;

        load(&std::fs::read(&bundle).unwrap());
        let presented = world.pebble.verify(&address, "example.test");
        presented.unwrap_or_else(|error| panic!("kill {kill} at request {requests}: {error}"));

        let next = world.once(&[names]);
        let orders = world.proxy.count("/order-plz");
        assert!(orders <= 1, "kill {kill}: {orders} orders, {next:#?}");
    }
    assert!(before > 0 && after > 0, "{before} kills before the order began, and {after} after that");

    // Another server loads what is there.
    let last = load(&std::fs::read(&bundle).unwrap());
    let other = Server::start(&flags);
    assert_eq!(world.pebble.verify(&other.read_tls_address(), "example.test").unwrap(), last);
}

/// A certificate that lives for six days is renewed again and again, as if half of its life passed each time. Each order names the
/// certificate that it replaces, and the server presents each new one.
#[test]
fn short_lived_certificate_is_renewed_many_times() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let names = ["example.test,www.example.test", "--profile", "shortlived"];
    world.once(&names).assert_issued();
    let bundle = world.file("example.test.pem");
    let flags = ["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", text(&bundle)];
    let server = Server::start(&flags);
    let address = server.read_tls_address();
    // It stays open, and its certificate doesn't change.
    let early = connect_tls_with(&address, "example.test", ClientOptions::default());

    let mut seen = vec![world.pebble.verify(&address, "www.example.test").unwrap()];
    for renewal in 1..=if is_slow() { 30 } else { 3 } {
        world.pass_time("example.test");
        world.proxy.plan(|path, _| {
            if path.contains("renewalInfo") {
                response(200, "application/json", RENEW_NOW)
            } else {
                Fault::None
            }
        });
        let outcome = world.once(&names);
        // Pebble doesn't find a serial number that begins with a zero byte, which one in 256 does.
        if outcome.errors.contains("could not find order resulting in the given certificate serial number") {
            return;
        }
        outcome.assert_issued();
        // The authority has accepted the chain: otherwise, another order would follow without it, later.
        assert_eq!(outcome.event("ordering")["replaces"], true, "renewal {renewal}");
        assert_eq!(world.proxy.count("/order-plz"), 1, "renewal {renewal}");
        server.await_line("new certificates are used");
        let presented = world.pebble.verify(&address, "www.example.test").unwrap();
        assert!(!seen.contains(&presented), "renewal {renewal}: an old certificate is presented");
        assert_eq!(load(&std::fs::read(&bundle).unwrap()), presented, "renewal {renewal}");
        seen.push(presented);

        let state = world.state("example.test");
        assert_eq!(
            (&state["attempt"]["failures"], &state["last_error"]),
            (&0.into(), &Value::Null),
            "{state}"
        );
        // At once, another renewal isn't due, whatever the authority advises.
        assert_eq!(world.once(&names).code, Some(0));
        assert_eq!(world.proxy.count("/order-plz"), 1, "renewal {renewal}");
    }
    assert_eq!(early.conn.peer_certificates().unwrap()[0], seen[0]);
}
