//! From when to when a certificate or an OCSP response holds; that of a certificate is read from its DER (RFC 5280 §4.1).
//!
//! No library at hand tells the dates without verifying the chain up to a root, which a server has not. Nothing is
//! decided by this but a warning. Never panics on any bytes: what is not understood is `None`.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::der::{INTEGER, SEQUENCE, element, tagged, time};

/// Both ends, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

impl Validity {
    /// Reads the dates of a certificate in DER.
    pub(crate) fn of_certificate(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (mut signed, _) = element(certificate, SEQUENCE)?;
        if let Some((_, rest)) = element(signed, tagged(0)) {
            signed = rest;
        }
        let (_, rest) = element(signed, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (dates, _) = element(rest, SEQUENCE)?;
        let (not_before, rest) = time(dates)?;
        let (not_after, _) = time(rest)?;
        Some(Self { not_before, not_after })
    }

    /// Where `now` lies, in seconds since 1970: before that time, within it or behind it.
    pub(crate) fn compare(&self, now: i64) -> Ordering {
        if now < self.not_before {
            Ordering::Less
        } else if now > self.not_after {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

/// Seconds since 1970; what lies before is 1970.
pub(crate) fn unix_seconds(now: SystemTime) -> i64 {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(now).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_of_a_certificate_make_it_panic() {
        let names = ["localhost".to_owned()];
        let now = UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let (certificate, _) = crate::SelfSigned::Ecdsa.generate(&names, now).unwrap();
        let whole = Validity::of_certificate(&certificate).unwrap();
        assert_eq!((whole.not_before, whole.not_after), (1_799_913_600, 1_834_300_800));
        for end in 0..certificate.len() {
            assert_eq!(Validity::of_certificate(&certificate[..end]), None, "a certificate cut at {end}");
        }
        for place in 0..certificate.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0x81, 0x84, 0xff] {
                let mut damaged = certificate.to_vec();
                damaged[place] = value;
                let _ = Validity::of_certificate(&damaged);
            }
        }
    }

    #[test]
    fn a_time_lies_before_within_or_behind() {
        let validity = Validity { not_before: 100, not_after: 200 };
        let at = |seconds| validity.compare(seconds);
        assert_eq!(
            [at(99), at(100), at(200), at(201)],
            [Ordering::Less, Ordering::Equal, Ordering::Equal, Ordering::Greater]
        );
    }
}
