//! String literals in QPACK (RFC 9204 §4.1.2).

use super::error::Fault;
use super::integer;
use crate::compression::huffman::Text;

/// A string as sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

impl<'b> Literal<'b> {
    /// Reads the string at the start of `bytes`. Its length has a prefix of `bits` bits, preceded by a bit that says if the string
    /// is Huffman-coded. Takes constant time.
    pub(super) fn split(bytes: &'b [u8], bits: u32) -> Result<(Literal<'b>, &'b [u8]), Fault> {
        let is_coded = bytes.first().is_some_and(|byte| byte & (1 << bits) != 0);
        let (length, rest) = integer::decode(bytes, bits)?;
        let length = usize::try_from(length).map_err(|_| Fault::Truncated)?;
        let (bytes, rest) = rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        Ok((Literal { bytes, is_coded }, rest))
    }

    /// Decodes a string. If it is Huffman-coded, the result is in `strings`.
    pub(super) fn decode(self, strings: &mut Vec<u8>) -> Result<Text<'b>, Fault> {
        Text::decode(self.bytes, self.is_coded, strings).map_err(|_| Fault::Huffman)
    }
}
