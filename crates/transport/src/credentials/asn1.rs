//! Reads DER fields that occur in both certificates and OCSP responses: sequences, tagged fields and times.

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode, Reader, Tag, TagNumber, Tagged};

/// Reads a SEQUENCE. Returns the content.
pub(super) fn read_sequence<'a>(reader: &mut impl Reader<'a>) -> der::Result<&'a [u8]> {
    let sequence = AnyRef::decode(reader)?;
    sequence.tag().assert_eq(Tag::Sequence)?;
    Ok(sequence.value())
}

/// Reads an optional field with an explicit tag. Returns its content, or `None` if the field is missing.
pub(super) fn read_explicit<'a>(reader: &mut impl Reader<'a>, number: u32) -> der::Result<Option<&'a [u8]>> {
    let tag = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    if reader.is_finished() || Tag::peek(reader)? != tag {
        return Ok(None);
    }
    Ok(Some(AnyRef::decode(reader)?.value()))
}

/// Reads a time in either form of RFC 5280 §4.1.2.5. Returns the Unix time in seconds.
pub(super) fn read_time<'a>(reader: &mut impl Reader<'a>) -> der::Result<i64> {
    let since_1970 = match Tag::peek(reader)? {
        Tag::UtcTime => UtcTime::decode(reader)?.to_unix_duration(),
        _ => GeneralizedTime::decode(reader)?.to_unix_duration(),
    };
    Ok(i64::try_from(since_1970.as_secs()).expect("a year has four digits"))
}

#[cfg(test)]
mod tests;
