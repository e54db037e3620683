//! Archives in programs: one file with both a server and its site.
//!
//! Such a file consists of an ELF executable, zeros up to the next page, and the archive. The ELF headers say where the program
//! ends, and the first record of the archive has its version, length and digest. This way, less than a page is wasted, and we can
//! recognize a file that was cut anywhere after the program. A trailer, on the other hand, would be the first thing to get lost.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::error::OpenError;
use crate::layout::format::Format;
use crate::layout::padding::PAGE_BYTES;

/// Length of a 64-bit ELF header, in bytes. 32-bit headers are shorter.
const HEADER_BYTES: usize = 64;

/// `sh_type`, and its value for sections that do not occupy any bytes in the file.
const SECTION_TYPE: Range<usize> = 4..8;
const NO_BITS: [u8; 4] = 8u32.to_le_bytes();

/// Offsets and lengths of the fields we need, for 32-bit or 64-bit ELF (`elf(5)`).
struct Layout {
    /// Number of bytes of an offset or length.
    word: usize,
    segments: Table,
    sections: Table,
}

/// A table of segments or sections.
struct Table {
    /// Position of the table's offset in the header.
    offset: usize,
    /// Offset of the number of entries in the header. The entry length is in the two bytes before it.
    count: usize,
    /// Length of an entry.
    entry_bytes: usize,
    /// Position of the part's offset in an entry.
    part_offset: usize,
    /// Position of the part's length in an entry.
    part_bytes: usize,
}

const ELF32: Layout = Layout {
    word: 4,
    segments: Table { offset: 28, count: 44, entry_bytes: 32, part_offset: 4, part_bytes: 16 },
    sections: Table { offset: 32, count: 48, entry_bytes: 40, part_offset: 16, part_bytes: 20 },
};
const ELF64: Layout = Layout {
    word: 8,
    segments: Table { offset: 32, count: 56, entry_bytes: 56, part_offset: 8, part_bytes: 32 },
    sections: Table { offset: 40, count: 60, entry_bytes: 64, part_offset: 24, part_bytes: 32 },
};

/// Returns the length of the program at the start of `file`, or `None` when there is no program.
///
/// We only recognize ELF executables for little-endian machines. The file can be longer than the program (if an archive follows) or
/// shorter (if it was cut).
///
/// # Errors
/// Returns the error of the system if the file cannot be read.
pub fn program_bytes(file: &File) -> io::Result<Option<u64>> {
    let Some(header) = read(file, 0, HEADER_BYTES)? else { return Ok(None) };
    let layout = match header[..] {
        [b'\x7f', b'E', b'L', b'F', 2, 1, ..] => ELF64,
        [b'\x7f', b'E', b'L', b'F', 1, 1, ..] => ELF32,
        _ => return Ok(None),
    };

    let mut end = HEADER_BYTES as u64;
    for (table, is_sections) in [(layout.segments, false), (layout.sections, true)] {
        let count = number(&header, table.count, 2);
        if count == 0 {
            continue;
        }
        if number(&header, table.count - 2, 2) != table.entry_bytes as u64 {
            return Ok(None);
        }
        let offset = number(&header, table.offset, layout.word);
        let table_bytes = count * table.entry_bytes as u64;
        let Some(table_end) = offset.checked_add(table_bytes) else { return Ok(None) };
        end = end.max(table_end);

        // In a truncated file, the tables may be missing.
        let length = usize::try_from(table_bytes).expect("the count and the length of an entry have 16 bits");
        let entries = read(file, offset, length)?.unwrap_or_default();
        for entry in entries.chunks_exact(table.entry_bytes) {
            if is_sections && entry[SECTION_TYPE] == NO_BITS {
                continue;
            }
            let offset = number(entry, table.part_offset, layout.word);
            let Some(part_end) = offset.checked_add(number(entry, table.part_bytes, layout.word)) else {
                return Ok(None);
            };
            end = end.max(part_end);
        }
    }
    Ok(Some(end))
}

/// Returns the position of the archive in a file that starts with a program of this length.
#[must_use]
pub fn archive_position(program_bytes: u64) -> u64 {
    program_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

/// Returns the part of `file` that is an archive: the whole file, or what follows a program.
pub(crate) fn locate(file: &File) -> Result<Range<u64>, OpenError> {
    let file_bytes = file.metadata()?.len();
    let Some(program_bytes) = program_bytes(file)? else { return Ok(0..file_bytes) };
    if file_bytes <= program_bytes {
        return Err(OpenError::NoArchive);
    }

    let start = archive_position(program_bytes);
    let got = file_bytes.saturating_sub(start);
    if got < Format::Cdb.header_bytes() {
        return Err(OpenError::Cut { got });
    }
    Ok(start..file_bytes)
}

/// Reads `length` bytes. Returns `None` if the file ends too early.
fn read(file: &File, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; length];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        // Files cannot have this offset.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a little-endian number of `length` bytes (at most 8), which must be inside `bytes`.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
