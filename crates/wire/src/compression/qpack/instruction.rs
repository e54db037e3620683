//! Instructions on encoder and decoder streams (RFC 9204 §4.3, §4.4).

use super::error::Fault;
use super::integer;
use super::literal::Literal;

/// An instruction on an encoder stream. Its strings are not decoded yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction<'b> {
    /// Sets the table's capacity, in bytes (RFC 9204 §4.3.1).
    SetCapacity(u64),
    /// Inserts a field. Its name is from the static table (RFC 9204 §4.3.2).
    InsertWithStaticName { index: u64, value: Literal<'b> },
    /// Inserts a field whose name is from another entry, with an index relative to the newest one (RFC 9204 §4.3.2).
    InsertWithDynamicName { index: u64, value: Literal<'b> },
    /// Inserts a field (RFC 9204 §4.3.3).
    InsertWithLiteralName { name: Literal<'b>, value: Literal<'b> },
    /// Inserts an entry again (RFC 9204 §4.3.4). The index is relative to the newest one.
    Duplicate { index: u64 },
}

impl<'b> Instruction<'b> {
    /// Reads the instruction at the start of `bytes` in constant time. It does not matter if the bytes arrive one at a time.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if there have to be more bytes.
    pub(super) fn split(bytes: &'b [u8]) -> Result<(Instruction<'b>, &'b [u8]), Fault> {
        let first = bytes.first().ok_or(Fault::Truncated)?;
        if first & 0x80 != 0 {
            let (index, rest) = integer::decode(bytes, 6)?;
            let (value, rest) = Literal::split(rest, 7)?;
            let instruction = if first & 0x40 != 0 {
                Instruction::InsertWithStaticName { index, value }
            } else {
                Instruction::InsertWithDynamicName { index, value }
            };
            return Ok((instruction, rest));
        }

        if first & 0x40 != 0 {
            let (name, rest) = Literal::split(bytes, 5)?;
            let (value, rest) = Literal::split(rest, 7)?;
            return Ok((Instruction::InsertWithLiteralName { name, value }, rest));
        }

        let (number, rest) = integer::decode(bytes, 5)?;
        if first & 0x20 != 0 {
            Ok((Instruction::SetCapacity(number), rest))
        } else {
            Ok((Instruction::Duplicate { index: number }, rest))
        }
    }
}

/// An instruction on a decoder stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecoderInstruction {
    /// The peer has decoded a section (RFC 9204 §4.4.1).
    AcknowledgeSection,
    /// The peer will not decode a stream's sections (RFC 9204 §4.4.2).
    CancelStream,
    /// This many insertions have arrived (RFC 9204 §4.4.3).
    IncrementInsertCount(u64),
}

impl DecoderInstruction {
    /// Reads the instruction that `bytes` starts with.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if there have to be more bytes.
    pub(super) fn split(bytes: &[u8]) -> Result<(DecoderInstruction, &[u8]), Fault> {
        let first = bytes.first().ok_or(Fault::Truncated)?;
        let prefix_bits = if first & 0x80 != 0 { 7 } else { 6 };
        let (number, rest) = integer::decode(bytes, prefix_bits)?;

        let instruction = match first {
            0b1000_0000.. => DecoderInstruction::AcknowledgeSection,
            0b0100_0000.. => DecoderInstruction::CancelStream,
            _ => DecoderInstruction::IncrementInsertCount(number),
        };
        Ok((instruction, rest))
    }
}
