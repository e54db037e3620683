//! Tests with corrupt archives: no byte should make the reader panic, and `verify` should find every changed
//! byte.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::path::Path;
use std::{env, fs};

use cannery_archive::{Archive, Format, NewHead};

use support::exercise::exercise;

#[test]
fn truncated_file_is_refused() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        for length in 0..bytes.len() {
            assert!(
                Archive::from_bytes(bytes[..length].to_vec()).is_err(),
                "{format} truncated to {length} bytes"
            );
        }
    }
}

/// The fuzz target `archive_open` starts with these archives. Set `CANNERY_WRITE_SEEDS=1` to write them.
#[test]
fn seeds_of_the_fuzz_target_are_current() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/archive_open");
    for format in [Format::Cdb, Format::Cdb64] {
        let seed = corpus.join(format.to_string());
        let bytes = support::archive(format);
        if env::var_os("CANNERY_WRITE_SEEDS").is_some() {
            fs::write(&seed, &bytes).unwrap();
        }
        assert!(fs::read(&seed).unwrap() == bytes, "run this test with CANNERY_WRITE_SEEDS=1");
    }
}

#[test]
fn verify_finds_each_changed_byte() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        for offset in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[offset] ^= change;
                let is_valid =
                    Archive::from_bytes(changed.clone()).is_ok_and(|archive| archive.verify(|_| {}).is_ok());
                assert!(!is_valid, "{format}: byte {offset} changed by {change:#x} is not found");
                exercise(changed);
            }
        }
    }
}

#[test]
fn huge_numbers_do_not_panic() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        let width = usize::try_from(format.quantity_bytes()).unwrap();
        for offset in 0..bytes.len() - width {
            for value in [u64::MAX, u64::MAX >> 1, u64::MAX >> 32, bytes.len() as u64, offset as u64] {
                let mut changed = bytes.clone();
                changed[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
                exercise(changed);
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_after_valid_start_do_not_panic(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
        let bytes = support::archive(Format::Cdb);
        let mut changed = bytes.clone();
        let start = changed.len() - tail.len().min(changed.len() - 2200);
        let length = changed.len() - start;
        changed[start..].copy_from_slice(&tail[..length]);
        exercise(changed);
    }
}

#[test]
fn verify_finds_id_of_two_field_lines() {
    let is_valid = |change: &dyn Fn(&mut NewHead)| {
        let mut writer = support::writer(Format::Cdb);
        writer.head(&support::head()).unwrap();
        let mut other = support::head();
        change(&mut other);
        writer.head(&other).unwrap();
        Archive::from_bytes(support::finish(writer)).unwrap().verify(|_| {}).is_ok()
    };

    let change_hpack = |head: &mut NewHead, id: u8| {
        head.hpack[1][0].id = id;
        head.hpack[1][0].literal.push(b'!');
    };
    let change_qpack = |head: &mut NewHead, id: u8| {
        head.qpack[1][0].id = id;
        head.qpack[1][0].representation.push(b'!');
    };

    for change in [change_hpack, change_qpack] {
        assert!(is_valid(&|head| change(head, 9)), "another line has another ID");
        assert!(!is_valid(&|head| change(head, support::head().hpack[1][0].id)), "two lines have one ID");
        assert!(!is_valid(&|head| change(head, 56)), "the ID is out of range");
    }
}
