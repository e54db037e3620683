//! Knows which of our lines are in the peer's dynamic table (RFC 9204 §2.1).
//!
//! When we send a line for the first time, we insert it if there is room. It stays there, since we never evict entries. Sections
//! only refer to entries the peer has acknowledged, so that no stream ever has to wait for the encoder stream. One byte per line is
//! enough to find the index, without searching or allocating.

use std::mem;

use cannery_archive::{LINE_IDS, QpackLine, QpackLines};

use super::error::{Error, Fault};
use super::instruction::DecoderInstruction;
use super::integer;
use crate::compression::hpack::FIELD_OVERHEAD;
use crate::compression::table_owner::{LINE_SLOTS, Ownership, TableOwner, slot_of_server_line};
use crate::limits::QPACK_TABLE_BYTES;

/// Minimum size of an entry, in bytes. Names cannot be empty.
const ENTRY_BYTES_MIN: usize = FIELD_OVERHEAD + 1;

// We never evict, and entries are larger than 32 bytes. The insert count will therefore always be smaller than the number of
// entries that the encoding of the Required Insert Count depends on (RFC 9204 §4.5.1.1), and the encoding is simply the count plus
// one.
const _: () = assert!(QPACK_TABLE_BYTES / ENTRY_BYTES_MIN < 0x7f, "both bytes of a prefix must fit");

/// A connection's encoder.
#[derive(Debug)]
pub struct EncoderTable {
    /// For each slot, the insert count right after its line was inserted, or 0 if the line is not in the table.
    insertions: [u8; LINE_SLOTS],
    /// Number of insertions.
    insert_count: u8,
    /// Number of insertions that were returned for sending.
    sent_count: u8,
    /// Number of insertions the peer has acknowledged (RFC 9204 §2.1.4). `known_received <= sent_count <= insert_count`.
    known_received: u8,
    /// The section's Required Insert Count (RFC 9204 §2.1.2): the largest insert count of all entries that the section refers to.
    /// This is at most `known_received`, which we use as the Base.
    required: u8,
    /// Total size of the entries (RFC 9204 §3.2.1), in bytes, at most `capacity`.
    used: usize,
    /// Maximum size of the table, in bytes.
    capacity: usize,
    /// The archive that line IDs in the table refer to.
    owner: TableOwner,
    /// Maximum number of Section Acknowledgments that the peer can still send.
    unacknowledged_sections: u64,
    /// Instructions that have not been returned yet. On each connection, all of them together take less than the table.
    encoder_stream: Vec<u8>,
    /// The start of an instruction on the decoder stream that is still incomplete.
    incomplete: Vec<u8>,
}

impl EncoderTable {
    /// Creates the encoder of a new connection, which will only use the static table until the peer's SETTINGS arrive.
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

    /// Returns the memory used by instructions, in bytes: our own that were not returned yet, and an incomplete one of the peer.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.encoder_stream.capacity() + self.incomplete.capacity()
    }

    /// Handles the peer's SETTINGS. They only arrive once. `capacity_max` is SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub fn set_peer_settings(&mut self, capacity_max: u64) {
        debug_assert_eq!(self.capacity, 0, "SETTINGS arrive once (RFC 9114 §7.2.4)");
        self.capacity = usize::try_from(capacity_max).unwrap_or(usize::MAX).min(QPACK_TABLE_BYTES);
        if self.capacity > 0 {
            // Set Dynamic Table Capacity (RFC 9204 §4.3.1).
            integer::put(&mut self.encoder_stream, 0x20, 5, self.capacity as u64);
        }
    }

    /// Returns bytes that must be sent on our encoder stream, possibly none.
    #[must_use]
    pub fn take_encoder_stream(&mut self) -> Vec<u8> {
        self.sent_count = self.insert_count;
        mem::take(&mut self.encoder_stream)
    }

    /// Executes the instructions on the peer's decoder stream, which may be incomplete.
    ///
    /// # Errors
    /// [`Error::DecoderStream`] if an instruction is invalid. You have to close the connection.
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

    /// Executes all complete instructions and returns the bytes that are left (fewer than an integer of 62 bits has).
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
            // Our sections only refer to entries that were acknowledged before, so we do not learn anything new here (no matter
            // which stream it is).
            DecoderInstruction::AcknowledgeSection => {
                let left = self.unacknowledged_sections.checked_sub(1).ok_or(Fault::Acknowledgment)?;
                self.unacknowledged_sections = left;
            }
            // We need to expect as many acknowledgments as before, since the stream might not even have a section.
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

    /// Starts a section with lines from this archive and appends space for the prefix. `identity` is the start of the archive's
    /// digest, or 0 without an archive.
    #[inline]
    pub fn begin_section(&mut self, section: &mut Vec<u8>, archive: u16, identity: u64) {
        section.extend_from_slice(&[0, 0]);
        self.required = 0;
        if self.owner.begin_section(archive, identity) == Ownership::Replaced {
            // We never evict entries, so the old lines will stay in the table.
            self.insertions[..LINE_IDS.into()].fill(0);
        }
    }

    /// Ends a section. Fills in the prefix (RFC 9204 §4.5.1).
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

    /// Appends several of the archive's lines.
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

    /// Appends one of the archive's lines.
    #[inline]
    pub fn put_archive_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>) {
        self.put_line(section, line, self.owner.slot_of_archive_line(line.id));
    }

    /// Appends one of the server's lines.
    #[inline]
    pub fn put_server_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>) {
        self.put_line(section, line, slot_of_server_line(line.id));
    }

    /// Appends a line. If it does not have a slot, it is not in any table.
    #[inline]
    fn put_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>, slot: Option<usize>) {
        if let Some(slot) = slot {
            let insertion = self.insertions[slot];
            if insertion == 0 {
                if self.used + usize::from(line.size) <= self.capacity {
                    self.insert(line, slot);
                }
            } else if insertion <= self.known_received {
                // An indexed field line. The index is relative to the Base (RFC 9204 §4.5.2).
                integer::put(section, 0x80, 6, (self.known_received - insertion).into());
                self.required = self.required.max(insertion);
                return;
            }
        }
        section.extend_from_slice(line.representation);
    }

    /// Inserts a line. There must be room for it.
    #[cold]
    fn insert(&mut self, line: QpackLine<'_>, slot: usize) {
        let size = usize::from(line.size);
        // In a damaged archive, lines can have other sizes. This could make our numbers overflow.
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

/// This is not one of our literals, so the archive must be damaged.
struct NotLiteral;

/// Appends an instruction that inserts a literal, whose strings stay the same (RFC 9204 §4.3.2, §4.3.3).
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
