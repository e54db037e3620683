//! Decodes field sections, and the encoder stream that fills the dynamic table (RFC 9204 §2.2).
//!
//! We do not allow blocked streams. When a field section arrives, we can therefore decode it at once, or else it is an error. The
//! work is linear in the decoded size, and this size has a limit (decompression bombs).

use std::mem;

use super::dynamic_table::DynamicTable;
use super::error::{Error, Fault};
use super::instruction::Instruction;
use super::integer;
use super::literal::Literal;
use super::static_table::STATIC_TABLE;
use crate::compression::hpack::{Field, List, Name, is_name, is_value};
use crate::compression::huffman::Text;
use crate::limits::{
    FIELD_LIST_BYTES_DECODED_MAX, FIELD_LIST_BYTES_MAX, QPACK_INSTRUCTION_BYTES_MAX, QPACK_TABLE_BYTES,
};

/// Maximum number of entries in the table (RFC 9204 §4.5.1.1).
const ENTRIES_MAX: u64 = QPACK_TABLE_BYTES as u64 / 32;

/// Decodes a connection's field sections.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// The start of an instruction that is still incomplete.
    incomplete: Vec<u8>,
    /// Number of insertions that the encoder knows to have arrived. In the RFC, this is the Known Received Count (RFC 9204 §2.1.4).
    acknowledged: u64,
}

/// A decoded field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSection {
    /// Whether `take` was called for all fields.
    pub list: List,
    /// Set if the section refers to the dynamic table. The encoder expects an acknowledgment then ([`Decoder::acknowledge`]).
    pub uses_table: Option<InsertCount>,
}

/// The Required Insert Count of a section (RFC 9204 §2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertCount(u64);

impl Decoder {
    /// Creates a decoder for a new connection. It does not allocate yet.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder { table: DynamicTable::new(), incomplete: Vec::new(), acknowledged: 0 }
    }

    /// Returns the memory used by the dynamic table and an incomplete instruction, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.table.allocated_bytes() + self.incomplete.capacity()
    }

    /// Executes the instructions on the peer's encoder stream, which may be incomplete.
    ///
    /// `strings` is used as a temporary buffer and will be cleared.
    ///
    /// # Errors
    /// [`Error::EncoderStream`] if an instruction is invalid. You have to close the connection.
    pub fn read_encoder_stream(&mut self, bytes: &[u8], strings: &mut Vec<u8>) -> Result<(), Error> {
        if self.incomplete.is_empty() {
            let rest = self.execute_all(bytes, strings).map_err(Error::EncoderStream)?;
            self.incomplete.extend_from_slice(rest);
        } else {
            let mut joined = mem::take(&mut self.incomplete);
            joined.extend_from_slice(bytes);
            let rest = self.execute_all(&joined, strings).map_err(Error::EncoderStream)?.len();
            joined.drain(..joined.len() - rest);
            self.incomplete = joined;
        }

        if self.incomplete.len() > QPACK_INSTRUCTION_BYTES_MAX {
            return Err(Error::EncoderStream(Fault::EntryTooLarge));
        }
        Ok(())
    }

    /// Executes all complete instructions. Returns the bytes that are left.
    fn execute_all<'b>(&mut self, mut bytes: &'b [u8], strings: &mut Vec<u8>) -> Result<&'b [u8], Fault> {
        loop {
            match Instruction::split(bytes) {
                Ok((instruction, rest)) => {
                    strings.clear();
                    self.execute(instruction, strings)?;
                    bytes = rest;
                }
                Err(Fault::Truncated) => return Ok(bytes),
                Err(fault) => return Err(fault),
            }
        }
    }

    fn execute(&mut self, instruction: Instruction<'_>, strings: &mut Vec<u8>) -> Result<(), Fault> {
        let (name, value) = match instruction {
            Instruction::SetCapacity(capacity) => return self.table.set_capacity(capacity),
            Instruction::InsertWithStaticName { index, value } => {
                (Text::Plain(static_field(index)?.name_text), value.decode(strings)?)
            }
            Instruction::InsertWithDynamicName { index, value } => {
                let name = copy(strings, self.table.relative(index)?.name_text);
                (name, value.decode(strings)?)
            }
            Instruction::InsertWithLiteralName { name, value } => {
                (name.decode(strings)?, value.decode(strings)?)
            }
            Instruction::Duplicate { index } => {
                let field = self.table.relative(index)?;
                (copy(strings, field.name_text), copy(strings, field.value))
            }
        };
        self.table.insert(&field_of(name, value, strings))
    }

    /// Decodes a complete section, calling `take` with each field.
    ///
    /// `strings` is used as a temporary buffer and will be cleared.
    ///
    /// # Errors
    /// [`Error::FieldSection`] or [`Error::TooLarge`] if the section is invalid. You have to close the connection.
    pub fn decode(
        &self,
        section: &[u8],
        strings: &mut Vec<u8>,
        mut take: impl FnMut(Field<'_>),
    ) -> Result<FieldSection, Error> {
        let (prefix, mut rest) = self.decode_prefix(section).map_err(Error::FieldSection)?;
        let mut list_bytes = 0;
        while !rest.is_empty() {
            strings.clear();
            // `map_err` would copy each field.
            let field = match self.decode_line(rest, prefix, strings) {
                Ok((field, after)) => {
                    rest = after;
                    field
                }
                Err(fault) => return Err(Error::FieldSection(fault)),
            };

            list_bytes += field.size();
            if list_bytes <= FIELD_LIST_BYTES_MAX {
                take(field);
            } else if list_bytes > FIELD_LIST_BYTES_DECODED_MAX {
                return Err(Error::TooLarge);
            }
        }

        let list = if list_bytes > FIELD_LIST_BYTES_MAX { List::TooLarge } else { List::Whole };
        let required = prefix.required_insert_count;
        Ok(FieldSection { list, uses_table: (required > 0).then_some(InsertCount(required)) })
    }

    /// Tells the encoder that we have decoded a section, by appending this to our decoder stream (RFC 9204 §4.4.1).
    pub fn acknowledge(&mut self, out: &mut Vec<u8>, stream: u64, section: InsertCount) {
        integer::put(out, 0x80, 7, stream);
        self.acknowledged = self.acknowledged.max(section.0);
    }

    /// Tells the encoder that a stream's sections will not be decoded, by appending this to our decoder stream (RFC 9204 §4.4.2).
    pub fn cancel(&self, out: &mut Vec<u8>, stream: u64) {
        integer::put(out, 0x40, 6, stream);
    }

    /// Tells the encoder the number of insertions that have arrived (if it does not know yet), by appending this to our decoder
    /// stream (RFC 9204 §4.4.3).
    pub fn acknowledge_insertions(&mut self, out: &mut Vec<u8>) {
        let increment = self.table.insert_count() - self.acknowledged;
        if increment > 0 {
            integer::put(out, 0, 6, increment);
            self.acknowledged = self.table.insert_count();
        }
    }

    /// Decodes a section's prefix (RFC 9204 §4.5.1).
    #[inline]
    fn decode_prefix<'b>(&self, section: &'b [u8]) -> Result<(Prefix, &'b [u8]), Fault> {
        // Without references to the dynamic table, both numbers are zero.
        match section {
            [0, 0, rest @ ..] => Ok((Prefix { required_insert_count: 0, base: 0 }, rest)),
            _ => self.decode_long_prefix(section),
        }
    }

    fn decode_long_prefix<'b>(&self, section: &'b [u8]) -> Result<(Prefix, &'b [u8]), Fault> {
        let (encoded, rest) = integer::decode(section, 8)?;
        let is_negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
        let (delta, rest) = integer::decode(rest, 7)?;

        let required_insert_count = self.required_insert_count(encoded)?;
        let base = if is_negative {
            required_insert_count.checked_sub(delta + 1)
        } else {
            Some(required_insert_count + delta)
        };

        let base = base.ok_or(Fault::Prefix)?;
        Ok((Prefix { required_insert_count, base }, rest))
    }

    /// Decodes a Required Insert Count, which is sent modulo twice the maximum number of entries in the table (RFC 9204 §4.5.1.1).
    fn required_insert_count(&self, encoded: u64) -> Result<u64, Fault> {
        if encoded == 0 {
            return Ok(0);
        }

        let full_range = 2 * ENTRIES_MAX;
        if encoded > full_range {
            return Err(Fault::Prefix);
        }

        let max = self.table.insert_count() + ENTRIES_MAX;
        let mut required = max / full_range * full_range + encoded - 1;
        if required > max {
            required = required.checked_sub(full_range).ok_or(Fault::Prefix)?;
        }

        match required {
            0 => Err(Fault::Prefix),
            _ if required > self.table.insert_count() => Err(Fault::Blocked),
            _ => Ok(required),
        }
    }

    /// Decodes the field line at the start of `bytes` (RFC 9204 §4.5.2 to §4.5.6). Also returns the rest.
    #[inline]
    fn decode_line<'a, 'b: 'a>(
        &'a self,
        bytes: &'b [u8],
        prefix: Prefix,
        strings: &'a mut Vec<u8>,
    ) -> Result<(Field<'a>, &'b [u8]), Fault> {
        let first = bytes.first().copied().unwrap_or_default();

        match first {
            // Indexed field line, from the static or the dynamic table.
            0b1100_0000.. => {
                let (index, rest) = integer::decode(bytes, 6)?;
                Ok((*static_field(index)?, rest))
            }
            0b1000_0000.. => {
                let (index, rest) = integer::decode(bytes, 6)?;
                Ok((self.before_base(prefix, index)?, rest))
            }
            // Literal field line with name reference. We can ignore the bit that tells intermediaries not to index the field.
            0b0100_0000.. => {
                let (index, rest) = integer::decode(bytes, 4)?;
                let is_static = first & 0b0001_0000 != 0;
                let named = if is_static { *static_field(index)? } else { self.before_base(prefix, index)? };
                decode_value(named, rest, strings)
            }
            // Literal field line with literal name.
            0b0010_0000.. => {
                let (name, rest) = Literal::split(bytes, 3)?;
                let (value, rest) = Literal::split(rest, 7)?;
                let (name, value) = (name.decode(strings)?, value.decode(strings)?);
                Ok((field_of(name, value, strings), rest))
            }
            // Indexed field line with post-base index.
            0b0001_0000.. => {
                let (index, rest) = integer::decode(bytes, 4)?;
                Ok((self.after_base(prefix, index)?, rest))
            }
            // Literal field line with post-base name reference.
            _ => {
                let (index, rest) = integer::decode(bytes, 3)?;
                decode_value(self.after_base(prefix, index)?, rest, strings)
            }
        }
    }

    /// Returns an entry. The index is relative to the Base (RFC 9204 §3.2.5).
    fn before_base(&self, prefix: Prefix, index: u64) -> Result<Field<'_>, Fault> {
        let absolute = prefix.base.checked_sub(1).and_then(|last| last.checked_sub(index));
        self.entry(prefix, absolute.ok_or(Fault::Index)?)
    }

    /// Returns an entry. The index is post-base (RFC 9204 §3.2.6).
    fn after_base(&self, prefix: Prefix, index: u64) -> Result<Field<'_>, Fault> {
        self.entry(prefix, prefix.base + index)
    }

    fn entry(&self, prefix: Prefix, absolute: u64) -> Result<Field<'_>, Fault> {
        if absolute >= prefix.required_insert_count {
            return Err(Fault::Index);
        }
        self.table.absolute(absolute)
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

/// A section's prefix.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    required_insert_count: u64,
    base: u64,
}

fn static_field(index: u64) -> Result<&'static Field<'static>, Fault> {
    usize::try_from(index).ok().and_then(|index| STATIC_TABLE.get(index)).ok_or(Fault::Index)
}

/// Decodes the value of a field whose name is from an entry. Also returns the rest.
#[inline]
fn decode_value<'a, 'b: 'a>(
    named: Field<'a>,
    bytes: &'b [u8],
    strings: &'a mut Vec<u8>,
) -> Result<(Field<'a>, &'b [u8]), Fault> {
    let (value, rest) = Literal::split(bytes, 7)?;
    let value = value.decode(strings)?.resolve(strings);
    let is_well_formed = is_name(named.name, named.name_text) && is_value(value);
    Ok((Field { value, is_well_formed, ..named }, rest))
}

/// Copies a string from the table. Otherwise, an insertion could evict the entry while we need it.
fn copy(strings: &mut Vec<u8>, text: &[u8]) -> Text<'static> {
    let start = strings.len();
    strings.extend_from_slice(text);
    Text::Decoded(start..strings.len())
}

fn field_of<'a, 'b: 'a>(name: Text<'b>, value: Text<'b>, strings: &'a [u8]) -> Field<'a> {
    let (name_text, value) = (name.resolve(strings), value.resolve(strings));
    let name = Name::from_bytes(name_text);
    Field { name, name_text, value, is_well_formed: is_name(name, name_text) && is_value(value) }
}

#[cfg(test)]
mod tests;
