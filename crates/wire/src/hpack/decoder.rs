//! HPACK decoder: the fields of header blocks, one by one (RFC 7541 §3, §6).
//!
//! A block is always decoded to its end, even if its request is refused: the dynamic table must see the whole
//! block, because all later blocks depend on it. The work is linear in the decoded size, which is bounded
//! (decompression bombs).

use super::decoder_table::DecoderTable;
use super::error::DecodeError;
use super::field::{Field, is_name, is_value};
use super::integer;
use super::name::Name;
use super::static_table::{STATIC_FIELDS, STATIC_TABLE};
use crate::huffman::Text;
use crate::limits::{FIELD_LIST_BYTES_DECODED_MAX, FIELD_LIST_BYTES_MAX, HPACK_TABLE_BYTES};

/// Size of a decoded field list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Within the limit: `take` got all fields.
    Whole,
    /// Larger than [`FIELD_LIST_BYTES_MAX`]: `take` didn't get the fields beyond it. The request must be
    /// refused; the connection goes on.
    TooLarge,
}

/// Decodes a connection's header blocks, in the order in which they were sent.
#[derive(Debug)]
pub struct Decoder {
    table: DecoderTable,
}

impl Decoder {
    /// Creates a decoder for a new connection. Doesn't allocate.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder { table: DecoderTable::with_size_max(HPACK_TABLE_BYTES) }
    }

    /// Returns the memory of the dynamic table, in bytes: up to three times its size as the RFC defines it.
    #[must_use]
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        self.table.allocated_bytes()
    }

    /// Decodes a whole block (HEADERS and its CONTINUATION frames), and passes its fields to `take`, one by
    /// one.
    ///
    /// `strings` is a scratch buffer, which is cleared.
    ///
    /// # Errors
    ///
    /// Returns an error if the block is invalid, which is the peer's fault. The connection must be closed,
    /// because the state of this decoder is no longer valid.
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

    /// Applies the changes of the table's size that a block may begin with (RFC 7541 §4.2), and returns the
    /// rest of the block.
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

    /// Returns the field with this index (RFC 7541 §2.3.3).
    #[inline]
    fn field(&self, index: usize) -> Result<Field<'_>, DecodeError> {
        // The invalid index 0 wraps around to an index beyond both tables.
        if let Some(field) = STATIC_TABLE.get(index.wrapping_sub(1)) {
            return Ok(*field);
        }
        self.table.get(index.wrapping_sub(STATIC_FIELDS + 1)).ok_or(DecodeError::Index)
    }

    /// Decodes a literal field (RFC 7541 §6.2). Returns it with the rest of the block.
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
            // Copied, because inserting this field may evict the entry with its name (RFC 7541 §4.4).
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

/// Decodes a string from the front of a block (RFC 7541 §5.2). Returns it with the rest of the block.
fn decode_string<'b>(block: &'b [u8], strings: &mut Vec<u8>) -> Result<(Text<'b>, &'b [u8]), DecodeError> {
    let is_coded = block.first().is_some_and(|byte| byte & 0x80 != 0);
    let (length, rest) = integer::decode(block, 7)?;
    let (bytes, rest) = rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
    let text = Text::decode(bytes, is_coded, strings).map_err(|_| DecodeError::Huffman)?;
    Ok((text, rest))
}

#[cfg(test)]
mod tests;
