//! QPACK string literals (RFC 9204 §4.1.2).

use std::ops::Range;

use super::error::Fault;
use super::integer;
use crate::huffman;

/// A string as sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

/// A decoded string.
pub(super) enum Text<'b> {
    Plain(&'b [u8]),
    /// In the scratch buffer, which may still be reallocated.
    Decoded(Range<usize>),
}

impl<'b> Literal<'b> {
    /// Splits a literal off the front of `bytes`. Its length has a prefix of `bits` bits. The bit above is set if the
    /// string is Huffman-coded. Takes constant time.
    pub(super) fn split(bytes: &'b [u8], bits: u32) -> Result<(Literal<'b>, &'b [u8]), Fault> {
        let is_coded = bytes.first().is_some_and(|byte| byte & (1 << bits) != 0);
        let (length, rest) = integer::decode(bytes, bits)?;
        let length = usize::try_from(length).map_err(|_| Fault::Truncated)?;
        let (bytes, rest) = rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        Ok((Literal { bytes, is_coded }, rest))
    }

    /// Decodes the string, with `strings` as a buffer for one that is Huffman-coded.
    pub(super) fn decode(self, strings: &mut Vec<u8>) -> Result<Text<'b>, Fault> {
        if !self.is_coded {
            return Ok(Text::Plain(self.bytes));
        }
        let start = strings.len();
        huffman::decode(self.bytes, strings).map_err(|_| Fault::Huffman)?;
        Ok(Text::Decoded(start..strings.len()))
    }
}

impl<'b> Text<'b> {
    pub(super) fn resolve<'a>(self, strings: &'a [u8]) -> &'a [u8]
    where
        'b: 'a,
    {
        match self {
            Text::Plain(bytes) => bytes,
            Text::Decoded(range) => &strings[range],
        }
    }
}

/// Appends a string, Huffman-coded if that is shorter. Its length has a prefix of `bits` bits; the bits above the
/// Huffman bit are those of `form`.
pub(super) fn put(out: &mut Vec<u8>, form: u8, bits: u32, string: &[u8]) {
    let coded_bytes = huffman::encoded_bytes(string);
    if coded_bytes < string.len() {
        integer::put(out, form | 1 << bits, bits, coded_bytes as u64);
        huffman::encode(string, out);
    } else {
        integer::put(out, form, bits, string.len() as u64);
        out.extend_from_slice(string);
    }
}
