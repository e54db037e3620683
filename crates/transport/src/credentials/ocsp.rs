//! Parses OCSP responses for stapling (RFC 6960) in order to check that a response is about a certificate
//! and to read its status and period of validity.
//!
//! Here, we only decide if a response would be useful for clients. The signature will be verified by the
//! clients because only they know which roots they trust.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, TagNumber, Tagged};
use webpki::EndEntityCert;

use super::asn1::{read_explicit, read_sequence, read_time};
use super::validity::Validity;

/// The only response type in use (id-pkix-ocsp-basic, RFC 6960 §4.2.1).
const BASIC_RESPONSE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");

/// Hash algorithms that may identify the issuer: SHA-1, SHA-256, SHA-384 and SHA-512.
const HASHES: [(ObjectIdentifier, &Algorithm); 4] = [
    (ObjectIdentifier::new_unwrap("1.3.14.3.2.26"), &SHA1_FOR_LEGACY_USE_ONLY),
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1"), &SHA256),
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2"), &SHA384),
    (ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3"), &SHA512),
];

/// The status `good` is a NULL with the implicit tag 0, while `revoked` and `unknown` have the tags 1
/// and 2.
const GOOD: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(0) };

/// Validity, in seconds, of a response without nextUpdate. Since such a response says that newer ones
/// are available at any time (RFC 6960 §4.2.2.1), it should not be cached for long.
const WITHOUT_NEXT_UPDATE_SECONDS: i64 = 24 * 60 * 60;

/// Status of a certificate, according to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertStatus {
    /// Good, within this period.
    Good(Validity),
    /// Revoked, or unknown to the responder.
    NotGood,
    /// The response is about other certificates.
    NotIncluded,
}

/// Reads the status of `certificate` from a response in DER.
///
/// # Errors
/// Returns the reason if this is not a successful response.
pub(super) fn certificate_status(
    response: &[u8],
    certificate: &EndEntityCert<'_>,
) -> Result<CertStatus, &'static str> {
    let basic_response = basic_response(response)?;
    let responses =
        single_responses(basic_response.as_bytes()).map_err(|_| "its basic response is malformed")?;

    let mut reader = SliceReader::new(responses).map_err(|_| "it is too long")?;
    while !reader.is_finished() {
        let single = read_sequence(&mut reader).map_err(|_| "an entry in it is truncated")?;
        let status =
            single_response_status(single, certificate).map_err(|_| "an entry in it is malformed")?;
        if status != CertStatus::NotIncluded {
            return Ok(status);
        }
    }
    Ok(CertStatus::NotIncluded)
}

/// Returns the encoded BasicOCSPResponse of an OCSPResponse (RFC 6960 §4.2.1).
fn basic_response(response: &[u8]) -> Result<&OctetStringRef, &'static str> {
    let mut reader = SliceReader::new(response).map_err(|_| "it is too long")?;
    let response = read_sequence(&mut reader).map_err(|_| "it is truncated, or something else")?;
    if !reader.is_finished() {
        return Err("data follows it");
    }

    let mut fields = SliceReader::new(response).map_err(|_| "it is too long")?;
    let status = AnyRef::decode(&mut fields).ok().filter(|status| status.tag() == Tag::Enumerated);
    if status.ok_or("it has no status")?.value() != [0] {
        return Err("the responder reported an error");
    }

    match read_response_bytes(&mut fields) {
        Ok((BASIC_RESPONSE, basic_response)) => Ok(basic_response),
        _ => Err("it has no basic response"),
    }
}

/// Reads the `responseBytes` field. Returns the type of the response, and the encoded response.
fn read_response_bytes<'a>(
    fields: &mut SliceReader<'a>,
) -> der::Result<(ObjectIdentifier, &'a OctetStringRef)> {
    let response_bytes = read_explicit(fields, 0)?.unwrap_or_default();
    let response_bytes = read_sequence(&mut SliceReader::new(response_bytes)?)?;
    let mut fields = SliceReader::new(response_bytes)?;
    Ok((ObjectIdentifier::decode(&mut fields)?, <&OctetStringRef>::decode(&mut fields)?))
}

/// Returns the encoded SingleResponses of a BasicOCSPResponse (RFC 6960 §4.2.1). They follow each other.
fn single_responses(basic_response: &[u8]) -> der::Result<&[u8]> {
    let basic_response = read_sequence(&mut SliceReader::new(basic_response)?)?;
    let response_data = read_sequence(&mut SliceReader::new(basic_response)?)?;

    let mut fields = SliceReader::new(response_data)?;
    let _version = read_explicit(&mut fields, 0)?;
    let _responder_id = AnyRef::decode(&mut fields)?;
    let _produced_at = read_time(&mut fields)?;
    read_sequence(&mut fields)
}

/// Returns the status of `certificate`, according to a SingleResponse.
fn single_response_status(
    single_response: &[u8],
    certificate: &EndEntityCert<'_>,
) -> der::Result<CertStatus> {
    let mut fields = SliceReader::new(single_response)?;
    if !identifies(read_sequence(&mut fields)?, certificate)? {
        return Ok(CertStatus::NotIncluded);
    }
    if AnyRef::decode(&mut fields)?.tag() != GOOD {
        return Ok(CertStatus::NotGood);
    }

    let not_before = read_time(&mut fields)?;
    let not_after = match read_explicit(&mut fields, 0)? {
        Some(next_update) => read_time(&mut SliceReader::new(next_update)?)?,
        None => not_before.saturating_add(WITHOUT_NEXT_UPDATE_SECONDS),
    };
    Ok(CertStatus::Good(Validity { not_before, not_after }))
}

/// Whether a CertID identifies `certificate` by its serial number and by the hash of its issuer's name.
fn identifies(cert_id: &[u8], certificate: &EndEntityCert<'_>) -> der::Result<bool> {
    let mut fields = SliceReader::new(cert_id)?;
    let algorithm = ObjectIdentifier::decode(&mut SliceReader::new(read_sequence(&mut fields)?)?)?;
    let issuer_name_hash = <&OctetStringRef>::decode(&mut fields)?;
    let _issuer_key_hash = <&OctetStringRef>::decode(&mut fields)?;
    let serial = AnyRef::decode(&mut fields)?;
    serial.tag().assert_eq(Tag::Integer)?;

    let Some((_, algorithm)) = HASHES.iter().find(|(known, _)| *known == algorithm) else {
        return Ok(false);
    };
    let issuer_name = AnyRef::new(Tag::Sequence, certificate.issuer())?.to_der()?;
    Ok(serial.value() == certificate.serial()
        && digest(algorithm, &issuer_name).as_ref() == issuer_name_hash.as_bytes())
}
