//! Tests archives in programs. An archive should be found after any program, but not if a header is damaged.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::fs::{self, File};
use std::path::Path;

use cannery_archive::{Archive, Format, Loading, OpenError, archive_position, program_bytes};
use proptest::prelude::*;

/// Returns a 64-bit ELF program with a segment and two sections, the second of which does not take any bytes in the file.
fn program64(length: usize) -> Vec<u8> {
    let mut program = vec![0; length];
    let mut put = |at: usize, bytes: &[u8]| program[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(32, &64u64.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &1u16.to_le_bytes());
    put(40, &200u64.to_le_bytes());
    put(58, &64u16.to_le_bytes());
    put(60, &2u16.to_le_bytes());
    // The segment. It has 400 bytes and starts at 0.
    put(64 + 32, &400u64.to_le_bytes());
    // The sections. One is from 400 to the end, and the other only exists in memory.
    put(200 + 4, &1u32.to_le_bytes());
    put(200 + 24, &400u64.to_le_bytes());
    put(200 + 32, &(length as u64 - 400).to_le_bytes());
    put(264 + 4, &8u32.to_le_bytes());
    put(264 + 24, &400u64.to_le_bytes());
    put(264 + 32, &(1u64 << 40).to_le_bytes());
    program
}

/// Returns a 32-bit ELF program with one section.
fn program32(length: usize) -> Vec<u8> {
    let mut program = vec![0; length];
    let mut put = |at: usize, bytes: &[u8]| program[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x01\x01\x01");
    put(32, &100u32.to_le_bytes());
    put(46, &40u16.to_le_bytes());
    put(48, &1u16.to_le_bytes());
    put(100 + 4, &1u32.to_le_bytes());
    put(100 + 16, &140u32.to_le_bytes());
    put(100 + 20, &u32::try_from(length - 140).unwrap().to_le_bytes());
    program
}

/// Returns a file that has a program and an archive.
fn bundle(mut program: Vec<u8>, archive: &[u8]) -> Vec<u8> {
    let start = archive_position(program.len() as u64);
    program.resize(usize::try_from(start).unwrap(), 0);
    program.extend_from_slice(archive);
    program
}

fn write(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join("app");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn archive_follows_program_at_next_page() {
    let folder = tempfile::tempdir().unwrap();
    let archive = support::archive(Format::Cdb64);
    for length in [500, 4095, 4096, 4097, 10_000] {
        for program in [program64(length), program32(length)] {
            let path = write(folder.path(), &bundle(program, &archive));
            assert_eq!(program_bytes(&File::open(&path).unwrap()).unwrap(), Some(length as u64));
            assert_eq!(fs::metadata(&path).unwrap().len() % 4096, archive.len() as u64 % 4096);
            for loading in [Loading::Automatic, Loading::Mapped, Loading::Preloaded, Loading::InMemory] {
                let opened = Archive::open(&path, loading).unwrap();
                assert!(opened.bytes() == archive, "{length} {loading:?}");
                opened.verify(|_| {}).unwrap();
            }

            let (opened, lease) = Archive::open_leased(&path, Loading::Mapped).unwrap();
            if lease.is_some() {
                opened.detach().unwrap();
            }
            assert!(opened.bytes() == archive, "{length}");
            assert!(
                Archive::from_file(&File::open(&path).unwrap(), Loading::Mapped).unwrap().bytes() == archive
            );
        }
    }
}

#[test]
fn each_truncation_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bundle(program64(5000), &support::archive(Format::Cdb));
    for length in (0..whole.len()).step_by(7).chain([4999, 5000, 5001, 8191, 8192, 8193, whole.len() - 1]) {
        let path = write(folder.path(), &whole[..length]);
        let error = Archive::open(&path, Loading::Mapped).unwrap_err();
        match length {
            0..2048 => assert!(matches!(error, OpenError::TooShort { .. }), "{length}: {error}"),
            2048..=5000 => assert!(matches!(error, OpenError::NoArchive), "{length}: {error}"),
            5001..10240 => assert!(matches!(error, OpenError::Cut { .. }), "{length}: {error}"),
            _ => assert!(
                matches!(error, OpenError::Foreign | OpenError::Cut { .. } | OpenError::Length { .. }),
                "{length}: {error}"
            ),
        }
    }
}

proptest! {
    #[test]
    fn damaged_headers_cause_no_panic(
        changes in prop::collection::vec((0usize..340, any::<u8>()), 1..6),
        is_wide in any::<bool>(),
    ) {
        let mut program = if is_wide { program64(5000) } else { program32(5000) };
        for (at, byte) in changes {
            program[at] = byte;
        }
        let folder = tempfile::tempdir().unwrap();
        let archive = support::archive(Format::Cdb);
        let path = write(folder.path(), &bundle(program, &archive));
        // The change may be harmless.
        if let Ok(opened) = Archive::open(&path, Loading::InMemory) {
            prop_assert!(opened.bytes() == archive);
        }
    }
}
