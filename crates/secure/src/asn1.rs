//! Reads the DER fields that certificates and OCSP responses share: sequences, tagged fields and times.

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode, Reader, Tag, TagNumber, Tagged};

/// Reads a SEQUENCE. Returns its content.
pub(crate) fn read_sequence<'a>(reader: &mut impl Reader<'a>) -> der::Result<&'a [u8]> {
    let sequence = AnyRef::decode(reader)?;
    sequence.tag().assert_eq(Tag::Sequence)?;
    Ok(sequence.value())
}

/// Reads an optional field with an explicit tag. Returns its content, or `None` if another field or none follows.
pub(crate) fn read_explicit<'a>(reader: &mut impl Reader<'a>, number: u32) -> der::Result<Option<&'a [u8]>> {
    let tag = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    if reader.is_finished() || Tag::peek(reader)? != tag {
        return Ok(None);
    }
    Ok(Some(AnyRef::decode(reader)?.value()))
}

/// Reads a time in either form of RFC 5280 §4.1.2.5. Returns it in seconds since 1970.
pub(crate) fn read_time<'a>(reader: &mut impl Reader<'a>) -> der::Result<i64> {
    let since_1970 = match Tag::peek(reader)? {
        Tag::UtcTime => UtcTime::decode(reader)?.to_unix_duration(),
        _ => GeneralizedTime::decode(reader)?.to_unix_duration(),
    };
    Ok(i64::try_from(since_1970.as_secs()).expect("a year has four digits"))
}

#[cfg(test)]
mod tests {
    use der::SliceReader;

    use super::*;

    fn parse_time(der: &[u8]) -> Option<i64> {
        let mut reader = SliceReader::new(der).unwrap();
        let seconds = read_time(&mut reader).ok()?;
        reader.is_finished().then_some(seconds)
    }

    #[test]
    fn times_are_parsed_in_both_forms() {
        for (der, expected) in [
            (&b"\x17\x0d700101000000Z"[..], 0),
            (b"\x17\x0d991231235959Z", 946_684_799),
            (b"\x17\x0d000301000000Z", 951_868_800),
            (b"\x18\x0f20240229120000Z", 1_709_208_000),
            (b"\x18\x0f20500101000000Z", 2_524_608_000),
            (b"\x18\x0f99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(parse_time(der), Some(expected), "{}", der.escape_ascii());
        }
    }

    #[test]
    fn malformed_times_are_refused() {
        for der in [
            &b"\x17\x0d701301000000Z"[..],
            b"\x17\x0d700101000000+",
            b"\x17\x0d7001010000",
            b"\x17\x0d70010100000-Z",
            b"\x17\x05+1+1Z",
            b"\x18\x03202",
            b"",
        ] {
            assert_eq!(parse_time(der), None, "{}", der.escape_ascii());
        }
    }
}
