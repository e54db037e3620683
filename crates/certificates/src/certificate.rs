//! The parts of a certificate that we need: its names, its validity, and the ID by which its authority advises
//! about its renewal (RFC 9773 §4.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};
use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, ObjectIdentifier, OctetStringRef, UtcTime};
use der::{Decode, Reader, SliceReader, Tag, TagNumber, Tagged};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::clock::Timestamp;
use crate::names::Name;

const SUBJECT_ALTERNATIVE_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const SUBJECT_KEY_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
const AUTHORITY_KEY_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");

/// A certificate that we hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The subject alternative names. Kinds of names that we never order are left out.
    pub(crate) names: Vec<Name>,
    pub(crate) validity: Validity,
    /// `None` if the certificate doesn't have an authority key identifier.
    pub(crate) renewal_id: Option<RenewalId>,
    /// Whether it seems to be signed with its own key, as a placeholder is that an operator has made.
    pub(crate) is_self_signed: bool,
    /// SHA-256 of the certificate in hex.
    pub(crate) fingerprint: String,
}

/// First and last second of a certificate's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

/// Identifies a certificate in requests for renewal information and in orders that replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenewalId {
    pub(crate) authority_key_identifier: Vec<u8>,
    /// The content bytes of the INTEGER, including a leading zero.
    pub(crate) serial: Vec<u8>,
}

impl Certificate {
    /// Reads the first certificate of a PEM file. Returns `None` if there is none, or if it can't be parsed.
    pub(crate) fn from_pem(pem: &[u8]) -> Option<Certificate> {
        let first = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        Certificate::from_der(&first).ok()
    }

    /// Reads the fields of a TBSCertificate (RFC 5280 §4.1) in their order.
    fn from_der(certificate: &[u8]) -> der::Result<Certificate> {
        let fingerprint = digest(&SHA256, certificate);
        let fingerprint = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let certificate = read_sequence(&mut SliceReader::new(certificate)?)?;
        let tbs_certificate = read_sequence(&mut SliceReader::new(certificate)?)?;

        let mut fields = SliceReader::new(tbs_certificate)?;
        let _version = read_tagged(&mut fields, 0)?;
        let serial = AnyRef::decode(&mut fields)?;
        serial.tag().assert_eq(Tag::Integer)?;
        let _signature_algorithm = AnyRef::decode(&mut fields)?;
        let issuer = AnyRef::decode(&mut fields)?;
        let mut dates = SliceReader::new(read_sequence(&mut fields)?)?;
        let validity = Validity { not_before: read_time(&mut dates)?, not_after: read_time(&mut dates)? };
        let subject = AnyRef::decode(&mut fields)?;
        let public_key = read_sequence(&mut fields)?;

        let mut names = Vec::new();
        let mut subject_key_identifier = None;
        let mut authority_key_identifier = None;
        if let Some(extensions) = read_tagged(&mut fields, 3)? {
            let mut extensions = SliceReader::new(read_sequence(&mut SliceReader::new(extensions)?)?)?;
            while !extensions.is_finished() {
                let (kind, value) = read_extension(read_sequence(&mut extensions)?)?;
                if kind == SUBJECT_ALTERNATIVE_NAME {
                    names = read_names(value)?;
                } else if kind == SUBJECT_KEY_IDENTIFIER {
                    subject_key_identifier = Some(<&OctetStringRef>::from_der(value)?.as_bytes().to_vec());
                } else if kind == AUTHORITY_KEY_IDENTIFIER {
                    authority_key_identifier = read_key_identifier(value)?;
                }
            }
        }
        // An authority with the same name has another key.
        let is_self_signed = issuer == subject
            && (authority_key_identifier.is_none()
                || authority_key_identifier == subject_key_identifier
                || is_signed_with(certificate, public_key).unwrap_or_default());
        let renewal_id = authority_key_identifier.map(|authority_key_identifier| RenewalId {
            authority_key_identifier,
            serial: serial.value().to_vec(),
        });
        Ok(Certificate { names, validity, renewal_id, is_self_signed, fingerprint })
    }
}

/// Whether a certificate is signed with a key (SubjectPublicKeyInfo). Both are without their tag and length. Keys and signatures that
/// servers don't accept aren't recognized.
fn is_signed_with(certificate: &[u8], public_key: &[u8]) -> der::Result<bool> {
    let mut fields = SliceReader::new(certificate)?;
    let signed = fields.tlv_bytes()?;
    let signature_algorithm = read_sequence(&mut fields)?;
    let signature = BitStringRef::decode(&mut fields)?;
    let mut key = SliceReader::new(public_key)?;
    let key_algorithm = read_sequence(&mut key)?;
    let key = BitStringRef::decode(&mut key)?;

    let known = default_provider().signature_verification_algorithms.all;
    Ok(known.iter().any(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == key_algorithm
            && algorithm.signature_alg_id().as_ref() == signature_algorithm
            && algorithm.verify_signature(key.raw_bytes(), signed, signature.raw_bytes()).is_ok()
    }))
}

/// Reads a SEQUENCE. Returns the content.
fn read_sequence<'a>(reader: &mut impl Reader<'a>) -> der::Result<&'a [u8]> {
    let sequence = AnyRef::decode(reader)?;
    sequence.tag().assert_eq(Tag::Sequence)?;
    Ok(sequence.value())
}

/// Reads an optional field with an explicit tag. Issuer and subject IDs, which no authority uses, are skipped.
fn read_tagged<'a>(reader: &mut impl Reader<'a>, number: u32) -> der::Result<Option<&'a [u8]>> {
    let tag = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    if reader.is_finished() || Tag::peek(reader)? != tag {
        return Ok(None);
    }
    Ok(Some(AnyRef::decode(reader)?.value()))
}

/// Reads a time in either form of RFC 5280 §4.1.2.5.
fn read_time<'a>(reader: &mut impl Reader<'a>) -> der::Result<Timestamp> {
    let since_1970 = match Tag::peek(reader)? {
        Tag::UtcTime => UtcTime::decode(reader)?.to_unix_duration(),
        _ => GeneralizedTime::decode(reader)?.to_unix_duration(),
    };
    Ok(Timestamp(since_1970.as_secs()))
}

/// Returns the kind and the encoded value of an extension.
fn read_extension(extension: &[u8]) -> der::Result<(ObjectIdentifier, &[u8])> {
    let mut fields = SliceReader::new(extension)?;
    let kind = ObjectIdentifier::decode(&mut fields)?;
    if Tag::peek(&fields)? == Tag::Boolean {
        let _is_critical = AnyRef::decode(&mut fields)?;
    }
    Ok((kind, <&OctetStringRef>::decode(&mut fields)?.as_bytes()))
}

/// Reads the GeneralNames of a certificate (RFC 5280 §4.2.1.6).
fn read_names(value: &[u8]) -> der::Result<Vec<Name>> {
    const DNS_NAME: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(2) };
    const IP_ADDRESS: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(7) };

    let mut names = Vec::new();
    let mut encoded = SliceReader::new(read_sequence(&mut SliceReader::new(value)?)?)?;
    while !encoded.is_finished() {
        let name = AnyRef::decode(&mut encoded)?;
        let parsed = match name.tag() {
            DNS_NAME => std::str::from_utf8(name.value()).ok().and_then(|text| text.parse().ok()),
            IP_ADDRESS => read_address(name.value()).map(Name::Address),
            _ => None,
        };
        names.extend(parsed);
    }
    Ok(names)
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

/// Reads the key identifier of an AuthorityKeyIdentifier (RFC 5280 §4.2.1.1), which is its first field.
fn read_key_identifier(value: &[u8]) -> der::Result<Option<Vec<u8>>> {
    const KEY_IDENTIFIER: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(0) };

    let mut fields = SliceReader::new(read_sequence(&mut SliceReader::new(value)?)?)?;
    if fields.is_finished() || Tag::peek(&fields)? != KEY_IDENTIFIER {
        return Ok(None);
    }
    Ok(Some(AnyRef::decode(&mut fields)?.value().to_vec()))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SerialNumber};

    use super::*;

    fn issued() -> rcgen::Certificate {
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();

        let names = ["example.com", "*.example.com", "192.0.2.1", "2001:db8::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(SerialNumber::from(vec![0x87, 0x65]));
        params.not_before = Timestamp(1_800_000_000).to_system_time().into();
        params.not_after = Timestamp(1_800_518_400).to_system_time().into();
        params.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap()
    }

    #[test]
    fn certificate_is_read() {
        let found = Certificate::from_pem(issued().pem().as_bytes()).unwrap();
        let names: Vec<_> = found.names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["example.com", "*.example.com", "192.0.2.1", "2001:db8::1"]);
        let Validity { not_before, not_after } = found.validity;
        assert_eq!((not_before.0, not_after.0), (1_800_000_000, 1_800_518_400));
        let id = found.renewal_id.unwrap();
        assert_eq!((id.serial, id.authority_key_identifier.len()), (vec![0, 0x87, 0x65], 20));
        assert!(!found.is_self_signed);
    }

    #[test]
    fn self_signed_certificate_is_recognized() {
        let mut params = CertificateParams::new(vec!["example.com".to_owned()]).unwrap();
        let is_self_signed =
            |issued: &rcgen::Certificate| Certificate::from_der(issued.der()).unwrap().is_self_signed;
        assert!(is_self_signed(&params.self_signed(&KeyPair::generate().unwrap()).unwrap()));

        // With an authority key identifier, but no subject key identifier to compare it to.
        params.use_authority_key_identifier_extension = true;
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ED25519] {
            let placeholder = params.self_signed(&KeyPair::generate_for(algorithm).unwrap()).unwrap();
            assert!(Certificate::from_der(placeholder.der()).unwrap().renewal_id.is_some());
            assert!(is_self_signed(&placeholder), "{algorithm:?}");
        }

        // An authority may have the same name as what it issues.
        let mut of_authority = params.clone();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.use_authority_key_identifier_extension = true;
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
        assert!(is_self_signed(authority.as_ref()));
        assert!(!is_self_signed(&params.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap()));
    }

    #[test]
    fn malformed_certificate_never_panics() {
        let der = issued().der().to_vec();
        for end in 0..der.len() {
            assert!(Certificate::from_der(&der[..end]).is_err(), "a certificate cut at {end}");
        }
        for position in 0..der.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x81, 0x84, 0xff] {
                let mut damaged = der.clone();
                damaged[position] = value;
                let _ = Certificate::from_der(&damaged);
            }
        }
        for text in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(Certificate::from_pem(text.as_bytes()), None, "{text}");
        }
    }
}
