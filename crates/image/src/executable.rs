//! Requirements of an executable in ELF format: a processor, and perhaps a dynamic linker.

use std::io;
use std::os::unix::fs::FileExt;

/// The parts of a 64-bit little-endian ELF header that we need (`elf(5)`).
const MACHINE: usize = 18;
const SEGMENTS_OFFSET: usize = 32;
const SEGMENT_BYTES: usize = 54;
const SEGMENT_COUNT: usize = 56;
const HEADER_BYTES: usize = 64;

/// `p_type` of the segment that names the dynamic linker.
const PT_INTERP: u32 = 3;

/// An executable for Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The processor, as images name it: `amd64` or `arm64`, for example.
    pub architecture: &'static str,
    /// The program needs a dynamic linker and shared libraries, which an image without a system doesn't have.
    pub is_dynamic: bool,
}

impl Executable {
    /// Reads the headers of a file. Returns `None` if it isn't an executable for a 64-bit processor that we know.
    ///
    /// # Errors
    ///
    /// Returns the error of the system if the file can't be read.
    pub fn read(file: &impl FileExt) -> io::Result<Option<Executable>> {
        let Some(header) = bytes::<HEADER_BYTES>(file, 0)? else { return Ok(None) };
        // 64 bits, little-endian.
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Ok(None);
        }
        let architecture = match u16::from_le_bytes([header[MACHINE], header[MACHINE + 1]]) {
            62 => "amd64",
            183 => "arm64",
            243 => "riscv64",
            258 => "loong64",
            _ => return Ok(None),
        };

        let short = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let offset: [u8; 8] = header[SEGMENTS_OFFSET..SEGMENTS_OFFSET + 8].try_into().expect("eight bytes");
        let offset = u64::from_le_bytes(offset);
        let mut is_dynamic = false;
        for index in 0..short(SEGMENT_COUNT) {
            let position = offset.saturating_add(index * short(SEGMENT_BYTES));
            let Some(kind) = bytes::<4>(file, position)? else { return Ok(None) };
            is_dynamic |= u32::from_le_bytes(kind) == PT_INTERP;
        }
        Ok(Some(Executable { architecture, is_dynamic }))
    }
}

/// Reads an array at a position, or `None` if the file ends before.
fn bytes<const N: usize>(file: &impl FileExt, position: u64) -> io::Result<Option<[u8; N]>> {
    let mut array = [0; N];
    match file.read_exact_at(&mut array, position) {
        Ok(()) => Ok(Some(array)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A file in memory, as long as its bytes.
    struct Bytes(Vec<u8>);

    impl FileExt for Bytes {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn write_at(&self, _buffer: &[u8], _offset: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns the header of a program for a machine, with segments of these types after it.
    fn program(machine: u16, segments: &[u32]) -> Bytes {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[MACHINE..MACHINE + 2].copy_from_slice(&machine.to_le_bytes());
        bytes[SEGMENTS_OFFSET] = 64;
        bytes[SEGMENT_BYTES] = 56;
        bytes[SEGMENT_COUNT] = u8::try_from(segments.len()).expect("few segments");
        for kind in segments {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        Bytes(bytes)
    }

    fn read(file: &impl FileExt) -> Option<Executable> {
        Executable::read(file).expect("memory has no errors")
    }

    #[test]
    fn processor_and_linker_are_read() {
        let static_arm = Executable { architecture: "arm64", is_dynamic: false };
        assert_eq!(read(&program(183, &[1, 1, 2])), Some(static_arm));
        let dynamic = Executable { architecture: "amd64", is_dynamic: true };
        assert_eq!(read(&program(62, &[6, PT_INTERP, 1])), Some(dynamic));
    }

    #[test]
    fn other_files_are_not_programs() {
        assert_eq!(read(&program(40, &[])), None, "a 32-bit ARM");
        assert_eq!(read(&Bytes(b"#!/bin/sh\n".to_vec())), None);
        let mut truncated = program(62, &[1, PT_INTERP]);
        truncated.0.truncate(HEADER_BYTES + 56);
        assert_eq!(read(&truncated), None);
    }

    #[test]
    fn this_test_is_a_program() {
        let own = File::open(std::env::current_exe().expect("it has a path")).expect("it can be read");
        assert!(Executable::read(&own).expect("it can be read").is_some());
    }
}
