//! OCSP responses: which are handed out, with which certificate, and until when.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use cannery_secure::{Certificates, Context, Error, SelfSigned, Settings, Source, Warning};
use support::certs::{Made, bundle, make, write};
use support::{Pair, VERSIONS, settings};
use tempfile::TempDir;
use webpki::EndEntityCert;

const HOUR: Duration = Duration::from_secs(3600);

const SHA_1: &[u8] = &[0x2b, 14, 3, 2, 0x1a];
const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];

/// What a certificate is said to be.
const GOOD: &[u8] = &[0x80, 0];
const REVOKED: &[u8] = b"\xa1\x11\x18\x0f20200101000000Z";
const UNKNOWN: &[u8] = &[0x82, 0];

/// An element of DER.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let head = match content.len() {
        0..0x80 => vec![tag, length[1]],
        0x80..0x100 => vec![tag, 0x81, length[1]],
        _ => vec![tag, 0x82, length[0], length[1]],
    };
    [head, content].concat()
}

fn time(at: SystemTime) -> Vec<u8> {
    let at = rcgen::date_time_ymd(1970, 1, 1) + at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let text = format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    element(0x18, &[text.as_bytes()])
}

/// What a responder says of a certificate.
fn answer(
    certificate: &Made,
    (oid, algorithm): (&[u8], &'static Algorithm),
    status: &[u8],
    from: SystemTime,
    to: Option<SystemTime>,
) -> Vec<u8> {
    let der = certificate.der.as_slice().into();
    let certificate = EndEntityCert::try_from(&der).unwrap();
    let issuer = digest(algorithm, &element(0x30, &[certificate.issuer()]));
    let identity = element(
        0x30,
        &[
            &element(0x30, &[&element(6, &[oid]), &[5, 0]]),
            &element(4, &[issuer.as_ref()]),
            &element(4, &[issuer.as_ref()]),
            &element(2, &[certificate.serial()]),
        ],
    );
    let next = to.map(|to| element(0xa0, &[&time(to)])).unwrap_or_default();
    element(0x30, &[&identity, status, &time(from), &next])
}

/// A response with these answers.
fn response(answers: &[&[u8]]) -> Vec<u8> {
    let responder = element(0xa2, &[&element(4, &[b"a hash of its key"])]);
    let data = element(0x30, &[&responder, &time(SystemTime::now()), &element(0x30, answers)]);
    let basic = element(0x30, &[&data, &element(0x30, &[]), &element(3, &[b"\0signed"])]);
    let kind = [6, 9, 0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
    let typed = element(0x30, &[&kind, &element(4, &[&basic])]);
    element(0x30, &[&[10, 1, 0], &element(0xa0, &[&typed])])
}

fn good(certificate: &Made, from: SystemTime, to: Option<SystemTime>) -> Vec<u8> {
    answer(certificate, (SHA_1, &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to)
}

fn load(folder: &TempDir, made: &Made, response: &[u8], now: SystemTime) -> Result<Certificates, Error> {
    let staple = Some(write(folder, "staple.der", response));
    Certificates::load(&[Source { staple, ..bundle(folder, "made.pem", made) }], now)
}

fn context(certificates: Certificates, now: SystemTime) -> Context {
    support::context(Settings { certificates, now, ..settings(SelfSigned::Ecdsa) })
}

/// What clients of both versions are handed who ask for it.
fn handed_out(context: &Context) -> Vec<u8> {
    let [first, second] = VERSIONS.map(|version| {
        let (config, seen) = support::client_config_that_keeps_staples(version);
        Pair::connected(context, &Arc::new(config));
        seen.lock().unwrap().clone()
    });
    assert_eq!(first, second);
    first
}

#[test]
fn a_response_is_handed_to_clients_that_ask_for_as_long_as_it_holds() {
    let folder = TempDir::new().unwrap();
    let (made, now) = (make(&["localhost"]), SystemTime::now());
    let response = response(&[&good(&made, now - HOUR, Some(now + HOUR))]);
    let certificates = load(&folder, &made, &response, now).unwrap();
    assert_eq!(certificates.warnings(), []);
    let context = context(certificates, now);
    assert_eq!(handed_out(&context), response);
    assert_eq!(context.advance(now + HOUR / 2), []);
    assert_eq!(handed_out(&context), response);
    let expired = [Warning::StapleExpired(folder.path().join("staple.der"))];
    assert_eq!(context.advance(now + HOUR + Duration::from_secs(2)), expired);
    assert_eq!(handed_out(&context), b"", "the handshake succeeds without");
    assert_eq!(context.advance(now + 2 * HOUR), [], "told once");
}

#[test]
fn a_response_is_found_among_others_and_by_any_hash() {
    let folder = TempDir::new().unwrap();
    let (made, other, now) = (make(&["localhost"]), make(&["localhost"]), SystemTime::now());
    let (from, to) = (now - HOUR, Some(now + HOUR));
    let by_sha_256 = answer(&made, (SHA_256, &SHA256), GOOD, from, to);
    let of_other = answer(&other, (SHA_256, &SHA256), REVOKED, from, to);
    let both = response(&[&of_other, &by_sha_256]);
    let certificates = load(&folder, &made, &both, now).unwrap();
    assert_eq!(certificates.warnings(), []);
    assert_eq!(handed_out(&context(certificates, now)), both);
}

#[test]
fn a_response_that_helps_no_client_is_warned_of_and_not_handed_out() {
    let folder = TempDir::new().unwrap();
    let path = || folder.path().join("staple.der");
    let (made, other, now) = (make(&["localhost"]), make(&["localhost"]), SystemTime::now());
    let (from, to, day) = (now - HOUR, Some(now + HOUR), 24 * HOUR);
    let said = |status| answer(&made, (SHA_1, &SHA1_FOR_LEGACY_USE_ONLY), status, from, to);
    // The same certificate by a hash that nobody knows, and by the hash of another issuer.
    let unknown_hash = answer(&made, (&[0x2b, 14, 3, 2, 0x1b], &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to);
    let wrong_hash = answer(&made, (SHA_256, &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to);
    for (answer, expected) in [
        (good(&made, now - 2 * HOUR, Some(now - HOUR)), Warning::StapleExpired(path())),
        (good(&made, now - day - HOUR, None), Warning::StapleExpired(path())),
        (good(&made, now + HOUR, Some(now + 2 * HOUR)), Warning::StapleNotYetValid(path())),
        (good(&other, from, to), Warning::StapleOfAnother(path())),
        (unknown_hash, Warning::StapleOfAnother(path())),
        (wrong_hash, Warning::StapleOfAnother(path())),
        (said(REVOKED), Warning::StapleNotGood(path())),
        (said(UNKNOWN), Warning::StapleNotGood(path())),
    ] {
        let certificates = load(&folder, &made, &response(&[&answer]), now).unwrap();
        assert_eq!(certificates.warnings(), [expected]);
        assert_eq!(handed_out(&context(certificates, now)), b"");
    }
    let endless = load(&folder, &made, &response(&[&good(&made, from, None)]), now).unwrap();
    assert_eq!(endless.warnings(), [], "a day without a word of the next");
    let nothing = load(&folder, &made, &response(&[]), now).unwrap();
    assert_eq!(nothing.warnings(), [Warning::StapleOfAnother(path())]);
}

#[test]
fn what_is_no_response_is_refused_with_the_file() {
    let folder = TempDir::new().unwrap();
    let made = make(&["localhost"]);
    let followed = [&response(&[])[..], b"x"].concat();
    for (bytes, expected) in [
        (&b""[..], "does not begin"),
        (b"-----BEGIN", "does not begin"),
        (&[0x30, 3, 0x0a, 1, 0], "holds no answer"),
        (&[0x30, 3, 0x0a, 1, 6], "refused to answer"),
        (&[0x30, 3, 0x02, 1, 0], "has no status"),
        (&followed, "something follows"),
        (&response(&[&[0x30, 5]]), "cut or damaged"),
        (&response(&[&[0x30, 0]]), "is damaged"),
    ] {
        let error = load(&folder, &made, bytes, SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("staple.der") && error.contains(expected), "{error} lacks {expected}");
    }
}

#[test]
fn no_bytes_of_a_response_make_it_panic() {
    let folder = TempDir::new().unwrap();
    let (made, now) = (make(&["localhost"]), SystemTime::now());
    let whole = response(&[&good(&made, now - HOUR, Some(now + HOUR))]);
    for end in 0..whole.len() {
        assert!(load(&folder, &made, &whole[..end], now).is_err(), "cut at {end}");
    }
    let mut refused = 0;
    for place in 0..whole.len() {
        for value in [0, 0x30, 0x7f, 0x80, 0x81, 0x84, 0xff] {
            let mut damaged = whole.clone();
            damaged[place] = value;
            refused += usize::from(load(&folder, &made, &damaged, now).is_err());
        }
    }
    assert!(refused > whole.len(), "only {refused} were refused");
}
