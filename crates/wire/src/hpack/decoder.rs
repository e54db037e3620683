//! A header block to its fields (RFC 7541 §3, §6), one after the other.
//!
//! Never knows what they mean, and never stops in the middle because somebody does not like one: the table has to see the
//! whole block, or all blocks behind it would be read wrongly. The work is linear in what the block stands for, which is
//! bounded.

use std::ops::Range;

use super::error::DecodeError;
use super::field::{Field, is_name, is_value};
use super::integer;
use super::name::Name;
use super::static_table::{STATIC_FIELDS, STATIC_TABLE};
use super::table::Table;
use crate::huffman;
use crate::limits::{FIELD_LIST_BYTES_DECODED_MAX, FIELD_LIST_BYTES_MAX, HPACK_TABLE_BYTES};

/// What a block was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// All fields were handed over.
    Whole,
    /// Those beyond [`FIELD_LIST_BYTES_MAX`] were not: the request is to be refused, the connection goes on.
    TooLarge,
}

/// Reads a connection's header blocks, in the order in which they were sent.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
}

impl Decoder {
    /// For a new connection. Allocates nothing yet.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder { table: Table::new() }
    }

    /// Reads a whole block, HEADERS and what continued it, and hands over its fields one by one. `strings` is room for
    /// what has to be decoded, which is cleared.
    ///
    /// # Errors
    ///
    /// The peer's fault; the connection is to be ended, and this decoder used no more.
    pub fn decode(
        &mut self,
        block: &[u8],
        strings: &mut Vec<u8>,
        mut take: impl FnMut(Field<'_>),
    ) -> Result<List, DecodeError> {
        let mut rest = self.size_updates(block)?;
        let mut list_bytes = 0;
        while let Some(first) = rest.first() {
            let field;
            if first & 0x80 != 0 {
                let (index, behind) = integer::decode(rest, 7)?;
                (field, rest) = (self.field(index)?, behind);
            } else {
                let is_kept = first & 0x40 != 0;
                strings.clear();
                (field, rest) = self.literal(rest, is_kept, strings)?;
                if is_kept {
                    self.table.insert(&field);
                }
            }
            list_bytes += field.size();
            if list_bytes <= FIELD_LIST_BYTES_MAX {
                take(field);
            } else if list_bytes > FIELD_LIST_BYTES_DECODED_MAX {
                return Err(DecodeError::Endless);
            }
        }
        Ok(if list_bytes > FIELD_LIST_BYTES_MAX { List::TooLarge } else { List::Whole })
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        (0..).map_while(|number| self.table.get(number)).map(|field| field.size()).sum()
    }

    /// Reads the changes of the table's size that a block may begin with (RFC 7541 §4.2).
    #[inline]
    fn size_updates<'b>(&mut self, mut block: &'b [u8]) -> Result<&'b [u8], DecodeError> {
        while let Some(0x20..=0x3f) = block.first() {
            let (size, behind) = integer::decode(block, 5)?;
            if size > HPACK_TABLE_BYTES {
                return Err(DecodeError::TableSize);
            }
            self.table.set_size_max(size);
            block = behind;
        }
        Ok(block)
    }

    /// The field of this index (RFC 7541 §2.3.3).
    #[inline]
    fn field(&self, index: usize) -> Result<Field<'_>, DecodeError> {
        // An index of 0, which is none, wraps round to what is in no table.
        if let Some(field) = STATIC_TABLE.get(index.wrapping_sub(1)) {
            return Ok(*field);
        }
        self.table.get(index.wrapping_sub(STATIC_FIELDS + 1)).ok_or(DecodeError::Index)
    }

    /// Reads a field that is spelled out, and what is left behind it (RFC 7541 §6.2).
    fn literal<'a, 'b: 'a>(
        &self,
        block: &'b [u8],
        is_kept: bool,
        strings: &'a mut Vec<u8>,
    ) -> Result<(Field<'a>, &'b [u8]), DecodeError> {
        if let Some(0x20..=0x3f) = block.first() {
            return Err(DecodeError::TableSize);
        }
        let (index, mut rest) = integer::decode(block, if is_kept { 6 } else { 4 })?;
        let name_text = if index == 0 {
            let (text, behind) = string(rest, strings)?;
            rest = behind;
            text
        } else if let Some(field) = STATIC_TABLE.get(index - 1) {
            Text::Plain(field.name_text)
        } else {
            // The table may drop the entry before the name is used (RFC 7541 §4.4).
            let start = strings.len();
            strings.extend_from_slice(self.field(index)?.name_text);
            Text::Decoded(start..strings.len())
        };
        let (value, rest) = string(rest, strings)?;
        let (name_text, value) = (name_text.of(strings), value.of(strings));
        let name = Name::of(name_text);
        let is_well_formed = is_name(name, name_text) && is_value(value);
        Ok((Field { name, name_text, value, is_well_formed }, rest))
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

/// Where a string's bytes are.
enum Text<'a> {
    Plain(&'a [u8]),
    /// In the room for what is decoded, which may still move.
    Decoded(Range<usize>),
}

impl<'a> Text<'a> {
    fn of(self, strings: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Plain(bytes) => bytes,
            Text::Decoded(range) => &strings[range],
        }
    }
}

/// Reads a string from the front of a block (RFC 7541 §5.2), and what is left behind it.
fn string<'b>(block: &'b [u8], strings: &mut Vec<u8>) -> Result<(Text<'b>, &'b [u8]), DecodeError> {
    let is_coded = block.first().is_some_and(|byte| byte & 0x80 != 0);
    let (length, rest) = integer::decode(block, 7)?;
    let (bytes, rest) = rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
    if !is_coded {
        return Ok((Text::Plain(bytes), rest));
    }
    let start = strings.len();
    huffman::decode(bytes, strings).map_err(|_| DecodeError::Huffman)?;
    Ok((Text::Decoded(start..strings.len()), rest))
}

#[cfg(test)]
mod tests;
