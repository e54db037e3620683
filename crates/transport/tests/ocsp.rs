//! OCSP stapling: which responses are sent, with which certificate, and until when.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use cannery_transport::{Certificates, Context, Error, SelfSigned, Settings, Warning};
use support::certs::{TestCert, bundle, generate, write};
use support::{Pair, VERSIONS, client_options, settings};
use tempfile::TempDir;
use webpki::EndEntityCert;

const HOUR: Duration = Duration::from_secs(3600);

const SHA_1: &[u8] = &[0x2b, 14, 3, 2, 0x1a];
const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];

// The status of a certificate.
const GOOD: &[u8] = &[0x80, 0];
const REVOKED: &[u8] = b"\xa1\x11\x18\x0f20200101000000Z";
const UNKNOWN: &[u8] = &[0x82, 0];

/// Encodes an element in DER.
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

/// Encodes a SingleResponse (RFC 6960 §4.2.1).
fn single_response(
    certificate: &TestCert,
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

/// Encodes a response that consists of these SingleResponses.
fn response(singles: &[&[u8]]) -> Vec<u8> {
    let responder = element(0xa2, &[&element(4, &[b"a hash of its key"])]);
    let data = element(0x30, &[&responder, &time(SystemTime::now()), &element(0x30, singles)]);
    let basic = element(0x30, &[&data, &element(0x30, &[]), &element(3, &[b"\0signed"])]);
    let kind = [6, 9, 0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
    let typed = element(0x30, &[&kind, &element(4, &[&basic])]);
    element(0x30, &[&[10, 1, 0], &element(0xa0, &[&typed])])
}

fn good(certificate: &TestCert, from: SystemTime, to: Option<SystemTime>) -> Vec<u8> {
    single_response(certificate, (SHA_1, &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to)
}

fn load(
    directory: &TempDir,
    made: &TestCert,
    response: &[u8],
    now: SystemTime,
) -> Result<Certificates, Error> {
    let staple = write(directory, "staple.der", response);
    Certificates::load(&[bundle(directory, "made.pem", made).with_staple(staple)], now)
}

fn context(certificates: Certificates, now: SystemTime) -> Context {
    support::context(Settings { certificates, now, ..settings(SelfSigned::Ecdsa) })
}

/// Returns the staple that clients of both versions receive on request.
fn stapled(context: &Context) -> Vec<u8> {
    let [first, second] = VERSIONS.map(|version| {
        let staple = Arc::default();
        let config = client_options(version, &[]).staple(&staple).build();
        Pair::connected(context, &Arc::new(config));
        let staple = staple.lock().unwrap();
        staple.clone()
    });
    assert_eq!(first, second);
    first
}

#[test]
fn response_is_stapled_until_it_expires() {
    let directory = TempDir::new().unwrap();
    let (made, now) = (generate(&["localhost"]), SystemTime::now());
    let response = response(&[&good(&made, now - HOUR, Some(now + HOUR))]);
    let certificates = load(&directory, &made, &response, now).unwrap();
    assert_eq!(certificates.warnings(), []);
    let context = context(certificates, now);
    assert_eq!(stapled(&context), response);
    assert_eq!(context.advance(now + HOUR / 2), []);
    assert_eq!(stapled(&context), response);
    let expired = [Warning::StapleExpired(directory.path().join("staple.der"))];
    assert_eq!(context.advance(now + HOUR + Duration::from_secs(2)), expired);
    assert_eq!(stapled(&context), b"", "the handshake succeeds without a staple");
    assert_eq!(context.advance(now + 2 * HOUR), [], "one warning for each response");
}

#[test]
fn response_may_hold_others_and_use_any_hash() {
    let directory = TempDir::new().unwrap();
    let (made, other, now) = (generate(&["localhost"]), generate(&["localhost"]), SystemTime::now());
    let (from, to) = (now - HOUR, Some(now + HOUR));
    let by_sha_256 = single_response(&made, (SHA_256, &SHA256), GOOD, from, to);
    let of_other = single_response(&other, (SHA_256, &SHA256), REVOKED, from, to);
    let both = response(&[&of_other, &by_sha_256]);
    let certificates = load(&directory, &made, &both, now).unwrap();
    assert_eq!(certificates.warnings(), []);
    assert_eq!(stapled(&context(certificates, now)), both);
}

#[test]
fn useless_response_is_not_stapled_but_warned_of() {
    let directory = TempDir::new().unwrap();
    let path = || directory.path().join("staple.der");
    let (made, other, now) = (generate(&["localhost"]), generate(&["localhost"]), SystemTime::now());
    let (from, to, day) = (now - HOUR, Some(now + HOUR), 24 * HOUR);

    let with_status = |status| single_response(&made, (SHA_1, &SHA1_FOR_LEGACY_USE_ONLY), status, from, to);
    // The same certificate by an unknown hash algorithm, and by another algorithm's hash of the issuer.
    let unknown_hash =
        single_response(&made, (&[0x2b, 14, 3, 2, 0x1b], &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to);
    let wrong_hash = single_response(&made, (SHA_256, &SHA1_FOR_LEGACY_USE_ONLY), GOOD, from, to);

    for (single, expected) in [
        (good(&made, now - 2 * HOUR, Some(now - HOUR)), Warning::StapleExpired(path())),
        (good(&made, now - day - HOUR, None), Warning::StapleExpired(path())),
        (good(&made, now + HOUR, Some(now + 2 * HOUR)), Warning::StapleNotYetValid(path())),
        (good(&other, from, to), Warning::StapleMismatch(path())),
        (unknown_hash, Warning::StapleMismatch(path())),
        (wrong_hash, Warning::StapleMismatch(path())),
        (with_status(REVOKED), Warning::StapleNotGood(path())),
        (with_status(UNKNOWN), Warning::StapleNotGood(path())),
    ] {
        let certificates = load(&directory, &made, &response(&[&single]), now).unwrap();
        assert_eq!(certificates.warnings(), [expected]);
        assert_eq!(stapled(&context(certificates, now)), b"");
    }

    let without_next_update = load(&directory, &made, &response(&[&good(&made, from, None)]), now).unwrap();
    assert_eq!(without_next_update.warnings(), [], "without nextUpdate, valid for a day");
    let nothing = load(&directory, &made, &response(&[]), now).unwrap();
    assert_eq!(nothing.warnings(), [Warning::StapleMismatch(path())]);
}

#[test]
fn malformed_response_is_refused_with_its_file() {
    let directory = TempDir::new().unwrap();
    let made = generate(&["localhost"]);
    let followed = [&response(&[])[..], b"x"].concat();
    for (bytes, expected) in [
        (&b""[..], "is truncated, or something else"),
        (b"-----BEGIN", "is truncated, or something else"),
        (&[0x30, 3, 0x0a, 1, 0], "has no basic response"),
        (&[0x30, 3, 0x0a, 1, 6], "reported an error"),
        (&[0x30, 3, 0x02, 1, 0], "has no status"),
        (&followed, "data follows"),
        (&response(&[&[0x30, 5]]), "an entry in it is truncated"),
        (&response(&[&[0x30, 0]]), "an entry in it is malformed"),
    ] {
        let error = load(&directory, &made, bytes, SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("staple.der") && error.contains(expected), "{error} lacks {expected}");
    }
}

#[test]
fn malformed_response_never_panics() {
    let directory = TempDir::new().unwrap();
    let (made, now) = (generate(&["localhost"]), SystemTime::now());
    let whole = response(&[&good(&made, now - HOUR, Some(now + HOUR))]);
    for end in 0..whole.len() {
        assert!(load(&directory, &made, &whole[..end], now).is_err(), "cut at {end}");
    }
    let mut refused = 0;
    for position in 0..whole.len() {
        for value in [0, 0x30, 0x7f, 0x80, 0x81, 0x84, 0xff] {
            let mut damaged = whole.clone();
            damaged[position] = value;
            refused += usize::from(load(&directory, &made, &damaged, now).is_err());
        }
    }
    assert!(refused > whole.len(), "only {refused} were refused");
}
