//! Certificates from files, the choice among them by name and by what a client can verify, and their replacement.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cannery_secure::{Certificates, Context, Error, SelfSigned, Settings, Source, Version, Warning};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::{SignatureScheme, crypto::aws_lc_rs};
use support::certs::{Made, bundle, issued, make, make_with, pem, write};
use support::{Pair, VERSIONS, client_config, client_config_of, settings};
use tempfile::TempDir;

fn load(sources: &[Source]) -> Result<Certificates, Error> {
    Certificates::load(sources, SystemTime::now())
}

fn context(certificates: Certificates) -> Context {
    support::context(Settings { certificates, ..settings(SelfSigned::Ecdsa) })
}

/// The certificate that a client is shown who asks for a name.
fn shown(context: &Context, name: &str) -> Vec<u8> {
    let mut pair = Pair::new(context, &Arc::new(client_config(Version::Tls13, &[])), name);
    pair.shake_hands().unwrap();
    pair.client.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn one_file_or_two_hold_a_certificate_of_any_kind() {
    let folder = TempDir::new().unwrap();
    let now = SystemTime::now();
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
        let made = make_with(algorithm, &["localhost"], now, now + Duration::from_secs(3600));
        let one = bundle(&folder, "bundle.pem", &made);
        let key = Some(write(&folder, "key.pem", &made.key));
        let two = Source { chain: write(&folder, "chain.pem", &made.certificate), key, staple: None };
        for source in [one, two] {
            let context = context(load(&[source]).unwrap());
            assert_eq!(shown(&context, "localhost"), made.der, "{algorithm:?}");
        }
    }
}

#[test]
fn a_name_is_answered_by_its_certificate_and_a_strange_one_by_the_first() {
    let folder = TempDir::new().unwrap();
    let all =
        [make(&["first.example"]), make(&["*.example.com"]), make(&["www.example.com", "Second.Example"])];
    let sources: Vec<_> =
        (0..).zip(&all).map(|(number, made)| bundle(&folder, &format!("{number}.pem"), made)).collect();
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
        // An address is not sent as a name.
        ("192.0.2.1", 0),
    ] {
        assert_eq!(shown(&context, name), all[expected].der, "{name}");
    }
}

#[test]
fn of_two_certificates_for_a_name_a_client_is_shown_one_that_it_can_verify() {
    let folder = TempDir::new().unwrap();
    let now = SystemTime::now();
    let made = |algorithm| make_with(algorithm, &["localhost"], now, now + Duration::from_secs(3600));
    let all = [made(&PKCS_RSA_SHA256), made(&PKCS_ECDSA_P256_SHA256)];
    let sources = [bundle(&folder, "rsa.pem", &all[0]), bundle(&folder, "ecdsa.pem", &all[1])];
    let context = context(load(&sources).unwrap());
    for version in VERSIONS {
        for (schemes, expected) in [
            (&[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256][..], 1),
            (&[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256], 0),
        ] {
            let config = support::client_config_with_schemes(version, schemes);
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
    let pair = Pair::connected(&context, &Arc::new(client_config_of(provider, Version::Tls12, &[])));
    assert_eq!(pair.client.peer_certificates().unwrap()[0].to_vec(), all[0].der, "by its suites");
}

#[test]
fn certificates_are_replaced_for_those_who_come_and_not_for_those_who_are_there() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (make(&["localhost"]), make(&["localhost"]));
    let context = context(load(&[bundle(&folder, "old.pem", &old)]).unwrap());
    let config = Arc::new(client_config(Version::Tls13, &[]));
    let mut there = Pair::connected(&context, &config);
    let mut halfway = Pair::new(&context, &config, "localhost");
    halfway.client_speaks();
    halfway.session_listens().unwrap();
    let new_ones = load(&[bundle(&folder, "new.pem", &new)]).unwrap();
    context.clone().replace_certificates(new_ones, SystemTime::now()).unwrap();
    there.client_says(b"still").unwrap();
    assert_eq!(there.plain, b"still");
    halfway.shake_hands().unwrap();
    assert_eq!(halfway.client.peer_certificates().unwrap()[0].to_vec(), old.der);
    assert_eq!(shown(&context, "localhost"), new.der);
}

#[test]
fn a_certificate_out_of_its_time_takes_the_place_of_none_that_clients_accept() {
    let folder = TempDir::new().unwrap();
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let made = |from, to| make_with(&PKCS_ECDSA_P256_SHA256, &["localhost"], from, to);
    let good = made(now - hour, now + hour);
    let context = context(load(&[bundle(&folder, "one.pem", &good)]).unwrap());
    let replace = |file: &str, made: &Made, now| {
        context.replace_certificates(load(&[bundle(&folder, file, made)]).unwrap(), now)
    };
    let (expired, early) = (made(now - 2 * hour, now - hour), made(now + hour, now + 3 * hour));
    for bad in [&expired, &early] {
        let error = replace("one.pem", bad, now).unwrap_err().to_string();
        assert!(error.contains("one.pem: the new certificate has expired or does not hold yet"), "{error}");
        assert_eq!(shown(&context, "localhost"), good.der);
    }
    // Where the one before is no better, or was another file's, nothing is lost.
    replace("one.pem", &expired, now + 2 * hour).unwrap();
    assert_eq!(shown(&context, "localhost"), expired.der);
    replace("one.pem", &good, now).unwrap();
    replace("two.pem", &expired, now).unwrap();
    assert_eq!(shown(&context, "localhost"), expired.der);
}

#[test]
fn made_and_loaded_certificates_stand_together() {
    let folder = TempDir::new().unwrap();
    let made = make(&["made.example"]);
    let loaded = load(&[bundle(&folder, "made.pem", &made)]).unwrap();
    let own =
        Certificates::self_signed(SelfSigned::Ed25519, &["localhost".to_owned()], SystemTime::now()).unwrap();
    let context = context(own.and(loaded));
    assert_eq!(shown(&context, "made.example"), made.der);
    assert_ne!(shown(&context, "localhost"), made.der);
}

#[test]
fn what_an_operator_should_know_is_told() {
    let folder = TempDir::new().unwrap();
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    let made = |names, from, to| make_with(&PKCS_ECDSA_P256_SHA256, names, from, to);
    let (issued, issuer) = issued(&["d.example"]);
    let chain = |first: &Made, second: &Made| Made {
        certificate: first.certificate.clone() + &second.certificate,
        key: issued.key.clone(),
        der: Vec::new(),
    };
    let sources = [
        bundle(&folder, "old.pem", &made(&["a.example"], now - 2 * hour, now - hour)),
        bundle(&folder, "early.pem", &made(&["b.example"], now + hour, now + 2 * hour)),
        bundle(&folder, "nameless.pem", &made(&[], now - hour, now + hour)),
        bundle(&folder, "good.pem", &made(&["c.example"], now - hour, now + hour)),
        bundle(&folder, "chain.pem", &chain(&issued, &issuer)),
        bundle(&folder, "stranger.pem", &chain(&issued, &make(&["e.example"]))),
    ];
    let certificates = load(&sources).unwrap();
    let path = |source: &Source| source.chain.clone();
    assert_eq!(
        certificates.warnings(),
        [
            Warning::Expired(path(&sources[0])),
            Warning::NotYetValid(path(&sources[1])),
            Warning::Nameless(path(&sources[2])),
            Warning::Unordered(path(&sources[5])),
        ]
    );
    assert!(certificates.warnings()[0].to_string().contains("old.pem: the certificate has expired"));
}

#[test]
fn each_fault_of_a_file_is_named_with_the_file() {
    let folder = TempDir::new().unwrap();
    let (made, other) = (make(&["a.example"]), make(&["b.example"]));
    let alone =
        |name: &str, text: &str| Source { chain: write(&folder, name, text), key: None, staple: None };
    let with_key = |name: &str, chain: &str, key: &str| {
        let key = Some(write(&folder, &format!("key-{name}"), key));
        Source { chain: write(&folder, name, chain), key, staple: None }
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
        (with_key("2.pem", &(other.certificate.clone() + &made.certificate), &made.key), "issuers behind it"),
        (with_key("3.pem", &made.certificate, ""), "key-3.pem: holds no private key"),
        (Source { chain: PathBuf::from("/nowhere.pem"), key: None, staple: None }, "/nowhere.pem: "),
    ] {
        let error = load(&[source]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
    assert!(matches!(load(&[]), Err(Error::Nothing)));
    let large = write(&folder, "large.pem", vec![b'x'; 1024 * 1024 + 1]);
    assert!(matches!(load(&[Source { chain: large, key: None, staple: None }]), Err(Error::TooLarge { .. })));
}

#[test]
fn nothing_that_is_printed_shows_a_key() {
    let folder = TempDir::new().unwrap();
    let made = make(&["localhost"]);
    let secret: Vec<&str> = made.key.lines().filter(|line| !line.starts_with("--")).collect();
    let certificates = load(&[bundle(&folder, "made.pem", &made)]).unwrap();
    let mut printed = format!("{certificates:?}");
    let context = context(certificates);
    let pair = Pair::connected(&context, &Arc::new(client_config(Version::Tls13, &[])));
    printed += &format!("{context:?} {:?}", pair.session);
    // A key whose text is damaged is where an error might quote a line.
    for damage in ["*", "-----BEGIN", "="] {
        let damaged = made.key.replacen(&secret[1][10..12], damage, 1);
        let error = load(&[bundle(&folder, "damaged.pem", &Made { key: damaged, ..make(&["localhost"]) })])
            .unwrap_err();
        printed += &format!("{error} {error:?}");
    }
    for line in &secret {
        for part in line.as_bytes().chunks(8).filter(|part| part.len() == 8) {
            let part = std::str::from_utf8(part).unwrap();
            assert!(!printed.contains(part), "a part of the key is in {printed}");
        }
    }
    assert!(printed.contains("Certificates") && Path::new(folder.path()).exists());
}

#[test]
fn nothing_is_left_when_all_is_switched_off() {
    let none = Context::new(Settings { protocols: Vec::new(), ..settings(SelfSigned::Ecdsa) });
    assert!(none.unwrap_err().to_string().contains("no protocol is left"));
    let none = Context::new(Settings { versions: Vec::new(), ..settings(SelfSigned::Ecdsa) });
    assert!(none.unwrap_err().to_string().contains("no version of TLS is left"));
}

#[test]
fn a_version_that_is_switched_off_is_not_spoken() {
    for version in VERSIONS {
        let context = support::context(Settings { versions: vec![version], ..settings(SelfSigned::Ecdsa) });
        for asked in VERSIONS {
            let mut pair = Pair::new(&context, &Arc::new(client_config(asked, &[])), "localhost");
            assert_eq!(pair.shake_hands().is_ok(), asked == version, "{asked:?} where {version:?} is spoken");
        }
    }
}
