//! An OCSP response that is to be handed out with a certificate (RFC 6960): whether it is for that, what it says of it, and
//! how long.
//!
//! Its signature is for clients to verify, who know whom to trust; nothing is decided here but whether a response helps
//! them. Never panics on any bytes.

use aws_lc_rs::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use webpki::EndEntityCert;

use crate::der::{ENUMERATED, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, element, tagged, time};
use crate::validity::Validity;

/// The kind of response that there is (id-pkix-ocsp-basic, RFC 6960 §4.2.1).
const BASIC: [u8; 9] = [0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// The hashes by which a response names the issuer: SHA-1, and SHA-256, SHA-384 and SHA-512.
const HASHES: [(&[u8], &Algorithm); 4] = [
    (&[0x2b, 14, 3, 2, 0x1a], &SHA1_FOR_LEGACY_USE_ONLY),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1], &SHA256),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2], &SHA384),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3], &SHA512),
];

/// How long a response holds that does not say when there will be a newer one, in seconds. Such a one says that newer
/// ones are there at any time (RFC 6960 §4.2.2.1), and so is not made for keeping.
const ENDLESS_SECONDS: i64 = 24 * 60 * 60;

/// What a response says of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertStatus {
    /// It is good, in this time.
    Good(Validity),
    /// It is revoked, or not known to who answers.
    NotGood,
    /// Nothing: it is about others.
    NotIncluded,
}

/// Reads what a response in DER says of a certificate, or why it is none.
pub(crate) fn certificate_status(
    response: &[u8],
    certificate: &EndEntityCert<'_>,
) -> Result<CertStatus, &'static str> {
    let mut answers = answers(response)?;
    while !answers.is_empty() {
        let (answer, rest) = element(answers, SEQUENCE).ok_or("an answer in it is cut or damaged")?;
        if let Some(said) = read_answer(answer, certificate).ok_or("an answer in it is damaged")? {
            return Ok(said);
        }
        answers = rest;
    }
    Ok(CertStatus::NotIncluded)
}

/// The answers of a response, one behind the other (RFC 6960 §4.2.1).
fn answers(response: &[u8]) -> Result<&[u8], &'static str> {
    let (response, behind) = element(response, SEQUENCE).ok_or("it does not begin as one, or is cut")?;
    if !behind.is_empty() {
        return Err("something follows it");
    }
    let (status, rest) = element(response, ENUMERATED).ok_or("it has no status")?;
    if status != [0] {
        return Err("the responder refused to answer");
    }
    let basic = || {
        let (typed, _) = element(element(rest, tagged(0))?.0, SEQUENCE)?;
        let (kind, rest) = element(typed, OBJECT_IDENTIFIER)?;
        (kind == BASIC).then_some(element(rest, OCTET_STRING)?.0)
    };
    let basic = basic().ok_or("it holds no answer")?;
    let answers = || {
        let (data, _) = element(element(basic, SEQUENCE)?.0, SEQUENCE)?;
        // The version is told only where it is not the first.
        let data = element(data, tagged(0)).map_or(data, |(_, rest)| rest);
        // Who answers is known by name or by key.
        let (_, rest) = element(data, tagged(1)).or_else(|| element(data, tagged(2)))?;
        let (_produced, rest) = time(rest)?;
        Some(element(rest, SEQUENCE)?.0)
    };
    answers().ok_or("the answer in it is damaged")
}

/// What one answer says of the certificate: `Some(None)` if it is about another.
fn read_answer(answer: &[u8], certificate: &EndEntityCert<'_>) -> Option<Option<CertStatus>> {
    let (identity, rest) = element(answer, SEQUENCE)?;
    let (algorithm, identity) = element(identity, SEQUENCE)?;
    let (algorithm, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (issuer, identity) = element(identity, OCTET_STRING)?;
    let (_issuer_key, identity) = element(identity, OCTET_STRING)?;
    let (serial, _) = element(identity, INTEGER)?;
    if serial != certificate.serial() || !is_hash(issuer, algorithm, certificate.issuer()) {
        return Some(None);
    }
    // Good, revoked and unknown are told by their numbers: 0, 1 and 2; the first holds nothing.
    let Some((_, rest)) = element(rest, 0x80) else { return Some(Some(CertStatus::NotGood)) };
    let (not_before, rest) = time(rest)?;
    let not_after = match element(rest, tagged(0)) {
        Some((next, _)) => time(next)?.0,
        None => not_before.saturating_add(ENDLESS_SECONDS),
    };
    Some(Some(CertStatus::Good(Validity { not_before, not_after })))
}

/// Whether `hash` is that of a name, of which `name` is the content.
fn is_hash(hash: &[u8], algorithm: &[u8], name: &[u8]) -> bool {
    let Some((_, algorithm)) = HASHES.iter().find(|(known, _)| *known == algorithm) else { return false };
    let mut context = Context::new(algorithm);
    let digits = name.len().to_be_bytes();
    let digits = &digits[digits.iter().position(|&digit| digit != 0).unwrap_or(digits.len() - 1)..];
    context.update(&[SEQUENCE]);
    if name.len() >= 0x80 {
        context.update(&[0x80 | u8::try_from(digits.len()).unwrap_or(u8::MAX)]);
    }
    context.update(digits);
    context.update(name);
    context.finish().as_ref() == hash
}
