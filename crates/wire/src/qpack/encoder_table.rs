//! QPACK encoder state: the lines of ours that a peer's dynamic table holds (RFC 9204 §2.1).
//!
//! A line is inserted when it is first sent, as long as there is room, and stays: we never evict. A field section refers only
//! to entries that the peer has acknowledged, so no stream ever waits for the encoder stream. So one byte for each line is
//! enough to find its index, without a search or an allocation.

use std::mem;

use cannery_archive::{LINE_IDS, QpackLine, QpackLines};

use super::error::{Error, Fault};
use super::instruction::DecoderInstruction;
use super::integer;
use crate::hpack::FIELD_OVERHEAD;
use crate::limits::QPACK_TABLE_BYTES;
use crate::table_owner::{LINE_SLOTS, Ownership, TableOwner, slot_of_server_line};

/// Minimum size of an entry, in bytes: names are not empty.
const ENTRY_BYTES_MIN: usize = FIELD_OVERHEAD + 1;

// We never evict, and entries are larger than 32 bytes, so the insert count is less than the number of entries on which the
// encoding of the Required Insert Count depends (RFC 9204 §4.5.1.1): it is the count plus one.
const _: () = assert!(QPACK_TABLE_BYTES / ENTRY_BYTES_MIN < 0x7f, "both bytes of a prefix must fit");

/// Encoder state of one connection.
#[derive(Debug)]
pub struct EncoderTable {
    /// Insert count after the insertion of the line in each slot; 0 if the line is not in the table.
    insertions: [u8; LINE_SLOTS],
    /// Number of insertions.
    insert_count: u8,
    /// Number of insertions that were returned for sending.
    sent_count: u8,
    /// Number of insertions that the peer has acknowledged (RFC 9204 §2.1.4). Invariant: at most `sent_count`, which is at most
    /// `insert_count`.
    known_received: u8,
    /// Required Insert Count of the current section (RFC 9204 §2.1.2): the largest insert count of the entries to which it
    /// refers. Invariant: at most `known_received`, which is the Base.
    required: u8,
    /// Size of the entries (RFC 9204 §3.2.1), in bytes. Invariant: at most `capacity`.
    used: usize,
    /// Capacity of the table, in bytes.
    capacity: usize,
    /// The archive that the line IDs in the table belong to.
    owner: TableOwner,
    /// Maximum number of Section Acknowledgments that the peer can still send.
    unacknowledged_sections: u64,
    /// Instructions that were not returned yet. All instructions of a connection take less than its table.
    encoder_stream: Vec<u8>,
    /// Beginning of an instruction of the decoder stream that hasn't arrived completely.
    incomplete: Vec<u8>,
}

impl EncoderTable {
    /// Creates the state of a new connection. Sections use only the static table until the peer's SETTINGS arrive.
    #[must_use]
    pub fn new() -> EncoderTable {
        EncoderTable {
            insertions: [0; LINE_SLOTS],
            insert_count: 0,
            sent_count: 0,
            known_received: 0,
            required: 0,
            used: 0,
            capacity: 0,
            owner: TableOwner::default(),
            unacknowledged_sections: 0,
            encoder_stream: Vec::new(),
            incomplete: Vec::new(),
        }
    }

    /// Returns the memory of instructions, in bytes: those that were not returned, and an incomplete one of the peer's.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.encoder_stream.capacity() + self.incomplete.capacity()
    }

    /// Handles the peer's SETTINGS, which arrive once. `capacity_max` is SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub fn set_peer_settings(&mut self, capacity_max: u64) {
        debug_assert_eq!(self.capacity, 0, "SETTINGS arrive once (RFC 9114 §7.2.4)");
        self.capacity = usize::try_from(capacity_max).unwrap_or(usize::MAX).min(QPACK_TABLE_BYTES);
        if self.capacity > 0 {
            // Set Dynamic Table Capacity (RFC 9204 §4.3.1).
            integer::put(&mut self.encoder_stream, 0x20, 5, self.capacity as u64);
        }
    }

    /// Returns the next bytes of our encoder stream, which must be sent. Empty if there is nothing to send.
    #[must_use]
    pub fn take_encoder_stream(&mut self) -> Vec<u8> {
        self.sent_count = self.insert_count;
        mem::take(&mut self.encoder_stream)
    }

    /// Executes the instructions in the next bytes of the peer's decoder stream.
    ///
    /// # Errors
    ///
    /// [`Error::DecoderStream`] if an instruction is invalid. The connection must be closed.
    pub fn read_decoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.incomplete.is_empty() {
            let rest = self.execute_all(bytes).map_err(Error::DecoderStream)?;
            self.incomplete.extend_from_slice(rest);
        } else {
            let mut joined = mem::take(&mut self.incomplete);
            joined.extend_from_slice(bytes);
            let rest = self.execute_all(&joined).map_err(Error::DecoderStream)?.len();
            joined.drain(..joined.len() - rest);
            self.incomplete = joined;
        }
        Ok(())
    }

    /// Executes all complete instructions, and returns the rest of the bytes: less than an integer of 62 bits.
    fn execute_all<'b>(&mut self, mut bytes: &'b [u8]) -> Result<&'b [u8], Fault> {
        loop {
            match DecoderInstruction::split(bytes) {
                Ok((instruction, rest)) => {
                    self.execute(instruction)?;
                    bytes = rest;
                }
                Err(Fault::Truncated) => return Ok(bytes),
                Err(fault) => return Err(fault),
            }
        }
    }

    fn execute(&mut self, instruction: DecoderInstruction) -> Result<(), Fault> {
        match instruction {
            // Sections refer only to acknowledged entries, so the acknowledgment is no news, of whichever stream it is.
            DecoderInstruction::AcknowledgeSection => {
                let left = self.unacknowledged_sections.checked_sub(1).ok_or(Fault::Acknowledgment)?;
                self.unacknowledged_sections = left;
            }
            // The stream may have no section, so the number of acknowledgments that may follow stays.
            DecoderInstruction::CancelStream => {}
            DecoderInstruction::IncrementInsertCount(increment) => {
                let increment = u8::try_from(increment)
                    .ok()
                    .filter(|increment| (1..=self.sent_count - self.known_received).contains(increment));
                self.known_received += increment.ok_or(Fault::Increment)?;
            }
        }
        Ok(())
    }

    /// Begins a section of lines of this archive, and appends space for the prefix. `identity` is the beginning of the archive's
    /// digest, or 0 if there is no archive.
    #[inline]
    pub fn begin_section(&mut self, section: &mut Vec<u8>, archive: u16, identity: u64) {
        section.extend_from_slice(&[0, 0]);
        self.required = 0;
        if self.owner.begin_section(archive, identity) == Ownership::Replaced {
            // The old lines stay in the table, because we never evict.
            self.insertions[..LINE_IDS.into()].fill(0);
        }
    }

    /// Ends a section: writes its prefix (RFC 9204 §4.5.1).
    #[inline]
    pub fn end_section(&mut self, section: &mut [u8]) {
        if self.required > 0
            && let [required_insert_count, delta_base, ..] = section
        {
            *required_insert_count = self.required + 1;
            *delta_base = self.known_received - self.required;
            self.unacknowledged_sections += 1;
        }
    }

    /// Appends lines of the archive that the section was begun for.
    #[inline]
    pub fn put_archive_lines(&mut self, section: &mut Vec<u8>, lines: QpackLines<'_>) {
        if self.capacity == 0 || self.owner.is_for_other_archive() {
            section.extend_from_slice(lines.representations());
        } else {
            for line in lines {
                self.put_archive_line(section, line);
            }
        }
    }

    /// Appends a line of the archive that the section was begun for.
    #[inline]
    pub fn put_archive_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>) {
        self.put_line(section, line, self.owner.slot_of_archive_line(line.id));
    }

    /// Appends a line of the server's own.
    #[inline]
    pub fn put_server_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>) {
        self.put_line(section, line, slot_of_server_line(line.id));
    }

    /// Appends a line. Without a slot it's in no table.
    #[inline]
    fn put_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>, slot: Option<usize>) {
        if let Some(slot) = slot {
            let insertion = self.insertions[slot];
            if insertion == 0 {
                if self.used + usize::from(line.size) <= self.capacity {
                    self.insert(line, slot);
                }
            } else if insertion <= self.known_received {
                // An indexed field line, relative to the Base (RFC 9204 §4.5.2).
                integer::put(section, 0x80, 6, (self.known_received - insertion).into());
                self.required = self.required.max(insertion);
                return;
            }
        }
        section.extend_from_slice(line.representation);
    }

    /// Inserts a line for which there is room.
    #[cold]
    fn insert(&mut self, line: QpackLine<'_>, slot: usize) {
        let size = usize::from(line.size);
        // Only the lines of a damaged archive have other sizes, which would make the numbers of this table overflow.
        let is_sized =
            (ENTRY_BYTES_MIN..=QPACK_TABLE_BYTES).contains(&size) && line.representation.len() <= size;
        if is_sized && put_insertion(&mut self.encoder_stream, line.representation).is_ok() {
            self.used += size;
            self.insert_count += 1;
            self.insertions[slot] = self.insert_count;
        }
    }
}

impl Default for EncoderTable {
    fn default() -> Self {
        EncoderTable::new()
    }
}

/// The representation is not a literal of ours. Only a damaged archive has such a line.
struct NotLiteral;

/// Appends the instruction that inserts a literal (RFC 9204 §4.3.2, §4.3.3). Its strings are those of the literal.
fn put_insertion(stream: &mut Vec<u8>, representation: &[u8]) -> Result<(), NotLiteral> {
    match representation.first() {
        Some(0b0101_0000..=0b0101_1111) => {
            let (static_index, value) = integer::decode(representation, 4).map_err(|_| NotLiteral)?;
            integer::put(stream, 0xc0, 6, static_index);
            stream.extend_from_slice(value);
            Ok(())
        }
        Some(first @ 0b0010_0000..=0b0010_1111) => {
            let (name_bytes, strings) = integer::decode(representation, 3).map_err(|_| NotLiteral)?;
            let is_coded = first & 0b1000 != 0;
            integer::put(stream, if is_coded { 0x60 } else { 0x40 }, 5, name_bytes);
            stream.extend_from_slice(strings);
            Ok(())
        }
        _ => Err(NotLiteral),
    }
}

#[cfg(test)]
mod tests;
