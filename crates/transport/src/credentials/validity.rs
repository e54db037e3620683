//! Validity periods of certificates and OCSP responses.
//!
//! The dates of a certificate are read from its DER (RFC 5280 §4.1). While `rustls-webpki` reads them
//! too, it only does so when verifying a chain up to a root, and servers do not have any roots.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use der::asn1::AnyRef;
use der::{Decode, SliceReader};

use super::asn1::{read_explicit, read_sequence, read_time};

/// Both ends of the period as Unix times in seconds, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl Validity {
    /// Reads the dates of a certificate in DER. Returns `None` if they cannot be parsed.
    pub(super) fn from_certificate(certificate: &[u8]) -> Option<Self> {
        Self::read(certificate).ok()
    }

    fn read(certificate: &[u8]) -> der::Result<Self> {
        let certificate = read_sequence(&mut SliceReader::new(certificate)?)?;
        let tbs_certificate = read_sequence(&mut SliceReader::new(certificate)?)?;

        let mut fields = SliceReader::new(tbs_certificate)?;
        let _version = read_explicit(&mut fields, 0)?;
        let _serial_number = AnyRef::decode(&mut fields)?;
        let _signature_algorithm = AnyRef::decode(&mut fields)?;
        let _issuer = AnyRef::decode(&mut fields)?;

        let mut dates = SliceReader::new(read_sequence(&mut fields)?)?;
        Ok(Self { not_before: read_time(&mut dates)?, not_after: read_time(&mut dates)? })
    }

    /// Compares `now` (Unix time in seconds) with the period.
    pub(super) fn compare(&self, now: i64) -> Ordering {
        if now < self.not_before {
            Ordering::Less
        } else if now > self.not_after {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

/// Returns the Unix time in seconds. Returns 0 for earlier times.
pub(crate) fn unix_seconds(now: SystemTime) -> i64 {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn malformed_certificate_never_panics() {
        let names = ["localhost".to_owned()];
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let (certificate, _) = crate::SelfSigned::Ecdsa.generate(&names, now).unwrap();
        let whole = Validity::from_certificate(&certificate).unwrap();
        assert_eq!((whole.not_before, whole.not_after), (1_799_913_600, 1_834_300_800));
        for end in 0..certificate.len() {
            assert_eq!(Validity::from_certificate(&certificate[..end]), None, "a certificate cut at {end}");
        }
        for position in 0..certificate.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x81, 0x84, 0xff] {
                let mut damaged = certificate.to_vec();
                damaged[position] = value;
                let _ = Validity::from_certificate(&damaged);
            }
        }
    }

    #[test]
    fn time_is_before_in_or_after_the_period() {
        let validity = Validity { not_before: 100, not_after: 200 };
        let at = |seconds| validity.compare(seconds);
        assert_eq!(
            [at(99), at(100), at(200), at(201)],
            [Ordering::Less, Ordering::Equal, Ordering::Equal, Ordering::Greater]
        );
    }
}
