//! IP addresses of certificates, which `rustls-webpki` only compares with a given one.

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, Reader, SliceReader, Tag, TagNumber, Tagged};

use super::asn1::{read_explicit, read_sequence};

/// `subjectAltName` (RFC 5280 §4.2.1.6).
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The tag of an `iPAddress` among the names.
const IP_ADDRESS: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(7) };

/// Returns `true` if a certificate in DER is for an IP address.
pub(super) fn has_address(certificate: &[u8]) -> bool {
    read(certificate).unwrap_or(false)
}

fn read(certificate: &[u8]) -> der::Result<bool> {
    let certificate = read_sequence(&mut SliceReader::new(certificate)?)?;
    let tbs_certificate = read_sequence(&mut SliceReader::new(certificate)?)?;
    let mut fields = SliceReader::new(tbs_certificate)?;
    while !fields.is_finished() {
        if let Some(extensions) = read_explicit(&mut fields, 3)? {
            return has_address_extension(extensions);
        }
        AnyRef::decode(&mut fields)?;
    }
    Ok(false)
}

fn has_address_extension(extensions: &[u8]) -> der::Result<bool> {
    let mut extensions = SliceReader::new(read_sequence(&mut SliceReader::new(extensions)?)?)?;
    while !extensions.is_finished() {
        let mut extension = SliceReader::new(read_sequence(&mut extensions)?)?;
        if ObjectIdentifier::decode(&mut extension)? != SUBJECT_ALT_NAME {
            continue;
        }
        // The value is the last field, after an optional flag.
        let mut value: &[u8] = &[];
        while !extension.is_finished() {
            value = AnyRef::decode(&mut extension)?.value();
        }
        let mut names = SliceReader::new(read_sequence(&mut SliceReader::new(value)?)?)?;
        while !names.is_finished() {
            if AnyRef::decode(&mut names)?.tag() == IP_ADDRESS {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::SelfSigned;

    #[test]
    fn addresses_are_found_among_names() {
        for (names, expected) in
            [(&["a.example"][..], false), (&["a.example", "192.0.2.1"], true), (&["::1"], true)]
        {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let (certificate, _) = SelfSigned::Ecdsa.generate(&names, SystemTime::now()).unwrap();
            assert_eq!(has_address(&certificate), expected, "{names:?}");
        }
        assert!(!has_address(b"no certificate"));
    }
}
