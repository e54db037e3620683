//! Certificates from files, their selection by server name and client capabilities, and their replacement.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cannery_transport::{Certificates, Context, Error, SelfSigned, Settings, Source, Version, Warning};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::{SignatureScheme, crypto::aws_lc_rs};
use support::certs::{TestCert, bundle, generate, generate_with, issued, pem, write};
use support::{Pair, VERSIONS, client_config, client_options, settings};
use tempfile::TempDir;

fn load(sources: &[Source]) -> Result<Certificates, Error> {
    Certificates::load(sources, SystemTime::now())
}

fn context(certificates: Certificates) -> Context {
    support::context(Settings { certificates, ..settings(SelfSigned::Ecdsa) })
}

/// Returns the certificate that a client receives that requests a server name.
fn selected(context: &Context, name: &str) -> Vec<u8> {
    let mut pair = Pair::new(context, &Arc::new(client_config(Version::Tls13, &[])), name);
    pair.handshake().unwrap();
    pair.client.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn chain_and_key_load_from_one_file_or_two() {
    let directory = TempDir::new().unwrap();
    let now = SystemTime::now();
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
        let made = generate_with(algorithm, &["localhost"], now, now + Duration::from_secs(3600));
        let one = bundle(&directory, "bundle.pem", &made);
        let key = write(&directory, "key.pem", &made.key);
        let two = Source::new(write(&directory, "chain.pem", &made.certificate)).with_key(key);
        for source in [one, two] {
            let context = context(load(&[source]).unwrap());
            assert_eq!(selected(&context, "localhost"), made.der, "{algorithm:?}");
        }
    }
}

#[test]
fn server_name_selects_its_certificate_or_the_first() {
    let directory = TempDir::new().unwrap();
    let all = [
        generate(&["first.example"]),
        generate(&["*.example.com"]),
        generate(&["www.example.com", "Second.Example"]),
    ];

    let sources: Vec<_> =
        (0..).zip(&all).map(|(number, made)| bundle(&directory, &format!("{number}.pem"), made)).collect();
    let context = context(load(&sources).unwrap());

    for (name, expected) in [
        ("first.example", 0),
        ("a.example.com", 1),
        ("A.Example.Com", 1),
        ("www.example.com", 2),
        ("second.example", 2),
        ("a.b.example.com", 0),
        ("example.com", 0),
        ("stranger.example", 0),
        // Clients send no server name for an address.
        ("192.0.2.1", 0),
    ] {
        assert_eq!(selected(&context, name), all[expected].der, "{name}");
    }
}

/// Clients that connect to an address send no server name.
#[test]
fn client_without_a_server_name_gets_the_certificate_of_an_address() {
    let directory = TempDir::new().unwrap();
    let all = [generate(&["first.example"]), generate(&["192.0.2.1"]), generate(&["192.0.2.2", "b.example"])];
    let sources: Vec<_> =
        (0..).zip(&all).map(|(number, made)| bundle(&directory, &format!("{number}.pem"), made)).collect();
    let certificates = load(&sources).unwrap();
    assert!(certificates.warnings().is_empty(), "{:?}", certificates.warnings());
    let context = context(certificates);
    for (name, expected) in [("192.0.2.1", 1), ("stranger.example", 0), ("b.example", 2)] {
        assert_eq!(selected(&context, name), all[expected].der, "{name}");
    }
}

#[test]
fn client_receives_a_certificate_that_it_can_verify() {
    let directory = TempDir::new().unwrap();
    let now = SystemTime::now();
    let made = |algorithm| generate_with(algorithm, &["localhost"], now, now + Duration::from_secs(3600));
    let all = [made(&PKCS_RSA_SHA256), made(&PKCS_ECDSA_P256_SHA256)];
    let sources = [bundle(&directory, "rsa.pem", &all[0]), bundle(&directory, "ecdsa.pem", &all[1])];
    let context = context(load(&sources).unwrap());

    for version in VERSIONS {
        for (schemes, expected) in [
            (&[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256][..], 1),
            (&[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256], 0),
        ] {
            let config = client_options(version, &[]).schemes(schemes).build();
            let pair = Pair::connected(&context, &Arc::new(config));
            assert_eq!(
                pair.client.peer_certificates().unwrap()[0].to_vec(),
                all[expected].der,
                "{version:?} {schemes:?}"
            );
        }
    }

    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| format!("{suite:?}").contains("ECDHE_RSA"));
    let config = client_options(Version::Tls12, &[]).provider(provider).build();
    let pair = Pair::connected(&context, &Arc::new(config));
    assert_eq!(pair.client.peer_certificates().unwrap()[0].to_vec(), all[0].der, "by its suites");
}

#[test]
fn replacement_affects_new_handshakes_only() {
    let directory = TempDir::new().unwrap();
    let (old, new) = (generate(&["localhost"]), generate(&["localhost"]));
    let context = context(load(&[bundle(&directory, "old.pem", &old)]).unwrap());
    let config = Arc::new(client_config(Version::Tls13, &[]));
    let mut established = Pair::connected(&context, &config);
    let mut halfway = Pair::new(&context, &config, "localhost");
    halfway.flush_client();
    halfway.open_in_session().unwrap();
    let new_ones = load(&[bundle(&directory, "new.pem", &new)]).unwrap();
    context.clone().replace_certificates(new_ones, SystemTime::now()).unwrap();
    established.send_from_client(b"still").unwrap();
    assert_eq!(established.plain, b"still");
    halfway.handshake().unwrap();
    assert_eq!(halfway.client.peer_certificates().unwrap()[0].to_vec(), old.der);
    assert_eq!(selected(&context, "localhost"), new.der);
}

#[test]
fn served_certificate_can_be_kept() {
    let directory = TempDir::new().unwrap();
    let (kept, other, new) = (generate(&["a.example"]), generate(&["b.example"]), generate(&["b.example"]));
    let [first, second] = [bundle(&directory, "a.pem", &kept), bundle(&directory, "b.pem", &other)];
    let context = context(load(&[first.clone(), second]).unwrap());
    assert!(context.certificate_from(&directory.path().join("c.pem")).is_none());

    let renewed = load(&[bundle(&directory, "b.pem", &new)]).unwrap();
    let all = context.certificate_from(&first.chain).unwrap().merge(renewed);
    context.replace_certificates(all, SystemTime::now()).unwrap();
    for (name, expected) in [("a.example", &kept), ("b.example", &new)] {
        assert_eq!(selected(&context, name), expected.der, "{name}");
    }
}

#[test]
fn invalid_certificate_does_not_replace_a_valid_one() {
    let directory = TempDir::new().unwrap();
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let made = |from, to| generate_with(&PKCS_ECDSA_P256_SHA256, &["localhost"], from, to);
    let good = made(now - hour, now + hour);
    let context = context(load(&[bundle(&directory, "one.pem", &good)]).unwrap());

    let replace = |file: &str, made: &TestCert, now| {
        context.replace_certificates(load(&[bundle(&directory, file, made)]).unwrap(), now)
    };

    let (expired, early) = (made(now - 2 * hour, now - hour), made(now + hour, now + 3 * hour));
    for bad in [&expired, &early] {
        let error = replace("one.pem", bad, now).unwrap_err().to_string();
        assert!(error.contains("one.pem: the new certificate has expired or is not valid yet"), "{error}");
        assert_eq!(selected(&context, "localhost"), good.der);
    }

    // If the previous certificate is also invalid or comes from another file, no valid one is lost.
    replace("one.pem", &expired, now + 2 * hour).unwrap();
    assert_eq!(selected(&context, "localhost"), expired.der);
    replace("one.pem", &good, now).unwrap();
    replace("two.pem", &expired, now).unwrap();
    assert_eq!(selected(&context, "localhost"), expired.der);
}

#[test]
fn generated_and_loaded_certificates_merge() {
    let directory = TempDir::new().unwrap();
    let made = generate(&["made.example"]);
    let loaded = load(&[bundle(&directory, "made.pem", &made)]).unwrap();
    let own =
        Certificates::self_signed(SelfSigned::Ed25519, &["localhost".to_owned()], SystemTime::now()).unwrap();
    let context = context(own.merge(loaded));
    assert_eq!(selected(&context, "made.example"), made.der);
    assert_ne!(selected(&context, "localhost"), made.der);
}

#[test]
fn defects_are_reported_as_warnings() {
    let directory = TempDir::new().unwrap();
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    let made = |names, from, to| generate_with(&PKCS_ECDSA_P256_SHA256, names, from, to);
    let (issued, issuer) = issued(&["d.example"]);
    let chain = |first: &TestCert, second: &TestCert| TestCert {
        certificate: first.certificate.clone() + &second.certificate,
        key: issued.key.clone(),
        der: Vec::new(),
    };

    let sources = [
        bundle(&directory, "old.pem", &made(&["a.example"], now - 2 * hour, now - hour)),
        bundle(&directory, "early.pem", &made(&["b.example"], now + hour, now + 2 * hour)),
        bundle(&directory, "nameless.pem", &made(&[], now - hour, now + hour)),
        bundle(&directory, "good.pem", &made(&["c.example"], now - hour, now + hour)),
        bundle(&directory, "chain.pem", &chain(&issued, &issuer)),
        bundle(&directory, "stranger.pem", &chain(&issued, &generate(&["e.example"]))),
    ];

    let certificates = load(&sources).unwrap();
    let path = |source: &Source| source.chain.clone();
    assert_eq!(
        certificates.warnings(),
        [
            Warning::Expired(path(&sources[0])),
            Warning::NotYetValid(path(&sources[1])),
            Warning::NoDnsName(path(&sources[2])),
            Warning::ChainOutOfOrder(path(&sources[5])),
        ]
    );
    assert!(certificates.warnings()[0].to_string().contains("old.pem: the certificate has expired"));
}

#[test]
fn errors_name_the_file() {
    let directory = TempDir::new().unwrap();
    let (made, other) = (generate(&["a.example"]), generate(&["b.example"]));
    let alone = |name: &str, text: &str| Source::new(write(&directory, name, text));
    let with_key = |name: &str, chain: &str, key: &str| {
        let key = write(&directory, &format!("key-{name}"), key);
        Source::new(write(&directory, name, chain)).with_key(key)
    };

    let cut = &made.certificate[..200];
    let encrypted = pem("ENCRYPTED PRIVATE KEY", b"sealed");
    let garbage = pem("PRIVATE KEY", b"no key at all");

    for (source, expected) in [
        (alone("empty.pem", ""), "empty.pem: holds no certificate"),
        (alone("no-key.pem", &made.certificate), "no-key.pem: holds no private key"),
        (alone("cut.pem", cut), "cut.pem: is damaged"),
        (
            alone("keys.pem", &(made.certificate.clone() + &made.key + &other.key)),
            "keys.pem: holds 2 private keys",
        ),
        (
            alone("sealed.pem", &(made.certificate.clone() + &encrypted)),
            "sealed.pem: the private key is encrypted",
        ),
        (alone("odd.pem", &(made.certificate.clone() + &garbage)), "odd.pem: the private key is of a kind"),
        (
            alone("bad.pem", &(pem("CERTIFICATE", b"none") + &made.key)),
            "bad.pem: the first certificate cannot be read",
        ),
        (
            with_key("1.pem", &made.certificate, &other.key),
            "key-1.pem: the private key is not that of the first certificate",
        ),
        (with_key("2.pem", &(other.certificate.clone() + &made.certificate), &made.key), "issuers after it"),
        (with_key("3.pem", &made.certificate, ""), "key-3.pem: holds no private key"),
        (Source::new("/nowhere.pem"), "/nowhere.pem: "),
    ] {
        let error = load(&[source]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }

    assert!(matches!(load(&[]), Err(Error::NoSource)));
    let large = write(&directory, "large.pem", vec![b'x'; 1024 * 1024 + 1]);
    assert!(matches!(load(&[Source::new(large)]), Err(Error::TooLarge { .. })));
}

#[test]
fn debug_output_and_errors_contain_no_key() {
    let directory = TempDir::new().unwrap();
    let made = generate(&["localhost"]);
    let secret: Vec<&str> = made.key.lines().filter(|line| !line.starts_with("--")).collect();
    let certificates = load(&[bundle(&directory, "made.pem", &made)]).unwrap();
    let mut printed = format!("{certificates:?}");

    let context = context(certificates);
    let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    printed += &format!("{context:?} {:?}", pair.session);

    // An error about damaged PEM might quote a line of the key.
    for damage in ["*", "-----BEGIN", "="] {
        let damaged = made.key.replacen(&secret[1][10..12], damage, 1);
        let error = load(&[bundle(
            &directory,
            "damaged.pem",
            &TestCert { key: damaged, ..generate(&["localhost"]) },
        )])
        .unwrap_err();
        printed += &format!("{error} {error:?}");
    }

    for line in &secret {
        for part in line.as_bytes().chunks(8).filter(|part| part.len() == 8) {
            let part = std::str::from_utf8(part).unwrap();
            assert!(!printed.contains(part), "a part of the key is in {printed}");
        }
    }

    assert!(printed.contains("Certificates") && Path::new(directory.path()).exists());
}

#[test]
fn context_needs_a_protocol_and_a_version() {
    let none = Context::new(Settings { protocols: Vec::new(), ..settings(SelfSigned::Ecdsa) });
    assert!(none.unwrap_err().to_string().contains("no protocol is enabled"));
    let none = Context::new(Settings { versions: Vec::new(), ..settings(SelfSigned::Ecdsa) });
    assert!(none.unwrap_err().to_string().contains("no version of TLS is enabled"));
}

#[test]
fn disabled_version_is_refused() {
    for version in VERSIONS {
        let context = support::context(Settings { versions: vec![version], ..settings(SelfSigned::Ecdsa) });
        for offered in VERSIONS {
            let mut pair = Pair::new(&context, &Arc::new(client_config(offered, &[])), "localhost");
            assert_eq!(
                pair.handshake().is_ok(),
                offered == version,
                "{offered:?} where {version:?} is enabled"
            );
        }
    }
}
