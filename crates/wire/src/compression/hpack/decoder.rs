//! Decodes header blocks (RFC 7541 §3, §6).
//!
//! We need to decode a block completely, even if we are going to refuse the request. Otherwise, the dynamic table might be wrong
//! for all later blocks. The work is linear in the decoded size, and this size has a limit (decompression bombs).

use super::decoder_table::DecoderTable;
use super::error::DecodeError;
use super::field::{Field, is_name, is_value};
use super::integer;
use super::name::Name;
use super::static_table::{STATIC_FIELDS, STATIC_TABLE};
use crate::compression::huffman::Text;
use crate::limits::{FIELD_LIST_BYTES_DECODED_MAX, FIELD_LIST_BYTES_MAX, HPACK_TABLE_BYTES};

/// Whether a block's fields are within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// They are. `take` was called for all of them.
    Whole,
    /// The fields exceed [`FIELD_LIST_BYTES_MAX`], and we did not call `take` for those beyond the limit. Callers need to refuse
    /// the request, but the connection can go on.
    TooLarge,
}

/// Decodes a connection's header blocks, which must be given in the order they were sent.
#[derive(Debug)]
pub struct Decoder {
    table: DecoderTable,
}

impl Decoder {
    /// Creates a decoder for a new connection. It does not allocate yet.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder { table: DecoderTable::with_size_max(HPACK_TABLE_BYTES) }
    }

    /// Returns the memory used by the dynamic table, in bytes. This can be three times the size as defined by the RFC.
    #[must_use]
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        self.table.allocated_bytes()
    }

    /// Decodes a block, calling `take` with each field. The block must include all CONTINUATION frames.
    ///
    /// `strings` is used as a temporary buffer and will be cleared.
    ///
    /// # Errors
    /// An invalid block is the peer's fault. You must close the connection, because the decoder cannot be used any more.
    pub fn decode(
        &mut self,
        block: &[u8],
        strings: &mut Vec<u8>,
        mut take: impl FnMut(Field<'_>),
    ) -> Result<List, DecodeError> {
        let mut rest = self.apply_size_updates(block)?;
        let mut list_bytes = 0;
        while let Some(first) = rest.first() {
            let field;
            if first & 0x80 != 0 {
                let (index, after) = integer::decode(rest, 7)?;
                field = self.field(index)?;
                rest = after;
            } else {
                let is_indexed = first & 0x40 != 0;
                strings.clear();
                (field, rest) = self.decode_literal(rest, is_indexed, strings)?;
                if is_indexed {
                    self.table.insert(&field);
                }
            }

            list_bytes += field.size();
            if list_bytes <= FIELD_LIST_BYTES_MAX {
                take(field);
            } else if list_bytes > FIELD_LIST_BYTES_DECODED_MAX {
                return Err(DecodeError::TooLarge);
            }
        }
        Ok(if list_bytes > FIELD_LIST_BYTES_MAX { List::TooLarge } else { List::Whole })
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        (0..).map_while(|number| self.table.get(number)).map(|field| field.size()).sum()
    }

    /// Applies the changes of the table's size that a block may start with (RFC 7541 §4.2) and returns the rest.
    #[inline]
    fn apply_size_updates<'b>(&mut self, mut block: &'b [u8]) -> Result<&'b [u8], DecodeError> {
        while let Some(0x20..=0x3f) = block.first() {
            let (size, after) = integer::decode(block, 5)?;
            if size > HPACK_TABLE_BYTES {
                return Err(DecodeError::TableSize);
            }
            self.table.set_size_max(size);
            block = after;
        }
        Ok(block)
    }

    /// Returns a field by index (RFC 7541 §2.3.3).
    #[inline]
    fn field(&self, index: usize) -> Result<Field<'_>, DecodeError> {
        // Index 0 is invalid. It wraps around, so it is in neither table.
        if let Some(field) = STATIC_TABLE.get(index.wrapping_sub(1)) {
            return Ok(*field);
        }
        self.table.get(index.wrapping_sub(STATIC_FIELDS + 1)).ok_or(DecodeError::Index)
    }

    /// Decodes a literal (RFC 7541 §6.2). Also returns the rest.
    fn decode_literal<'a, 'b: 'a>(
        &self,
        block: &'b [u8],
        is_indexed: bool,
        strings: &'a mut Vec<u8>,
    ) -> Result<(Field<'a>, &'b [u8]), DecodeError> {
        if let Some(0x20..=0x3f) = block.first() {
            return Err(DecodeError::TableSize);
        }

        let (index, mut rest) = integer::decode(block, if is_indexed { 6 } else { 4 })?;
        let name_text = if index == 0 {
            let (text, after) = decode_string(rest, strings)?;
            rest = after;
            text
        } else if let Some(field) = STATIC_TABLE.get(index - 1) {
            Text::Plain(field.name_text)
        } else {
            // The name needs to be copied, because inserting this field may evict the entry that the name is from (RFC 7541 §4.4).
            let start = strings.len();
            strings.extend_from_slice(self.field(index)?.name_text);
            Text::Decoded(start..strings.len())
        };

        let (value, rest) = decode_string(rest, strings)?;
        let name_text = name_text.resolve(strings);
        let value = value.resolve(strings);
        let name = Name::from_bytes(name_text);
        let is_well_formed = is_name(name, name_text) && is_value(value);
        Ok((Field { name, name_text, value, is_well_formed }, rest))
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

/// Decodes the string at the start of a block (RFC 7541 §5.2). Also returns the rest.
fn decode_string<'b>(block: &'b [u8], strings: &mut Vec<u8>) -> Result<(Text<'b>, &'b [u8]), DecodeError> {
    let is_coded = block.first().is_some_and(|byte| byte & 0x80 != 0);
    let (length, rest) = integer::decode(block, 7)?;
    let (bytes, rest) = rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
    let text = Text::decode(bytes, is_coded, strings).map_err(|_| DecodeError::Huffman)?;
    Ok((text, rest))
}

#[cfg(test)]
mod tests;
