//! Tests that the 32-bit format reports its limit before an archive gets too large, and that it is still possible to continue in
//! the 64-bit format then.
//!
//! These tests need not write gigabytes: a body that does not fit is refused without being read.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::Read;

use cannery_archive::{Archive, Coding, Digest, Format, NewRecord, Origin, Record, WriteError, Writer};

const END: u64 = u32::MAX as u64;

/// Returns the size of the slots for `records` records in the 32-bit format.
fn tables_bytes(records: u64) -> u64 {
    16 * records
}

/// A reader that must not be read.
struct Unreadable;

impl Read for Unreadable {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("a body that does not fit was read")
    }
}

fn is_full<T>(outcome: &Result<T, WriteError>) -> bool {
    matches!(outcome, Err(WriteError::Full))
}

#[test]
fn narrow_format_is_full_at_its_last_byte() {
    let writer = support::writer(Format::Cdb);
    // The header, and the facts with their slots.
    let used = 2048 + 8 + 7 + 96 + tables_bytes(1);
    assert!(writer.require(END - used, 0).is_ok());
    assert!(is_full(&writer.require(END - used + 1, 0)));
    assert!(writer.require(END - used - tables_bytes(10), 10).is_ok());
    assert!(is_full(&writer.require(END - used - tables_bytes(10) + 1, 10)));
}

#[test]
fn body_that_does_not_fit_is_not_read() {
    let digest = Digest::of(b"");
    for length in [END, END - 1000, END - 2500, 1 << 33, u64::MAX - 1, u64::MAX] {
        let mut writer = support::writer(Format::Cdb);
        assert!(is_full(&writer.body(&digest, length, &mut Unreadable)), "{length} bytes");
    }
    let mut wide = support::writer(Format::Cdb64);
    assert!(is_full(&wide.body(&digest, u64::MAX, &mut Unreadable)));
}

#[test]
fn huge_sizes_are_refused_in_both_widths() {
    for format in support::FORMATS {
        let writer = support::writer(format);
        for (bytes, records) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1, u64::MAX / 16)] {
            assert!(is_full(&writer.require(bytes, records)), "{format}: {bytes} bytes, {records} records");
        }
    }
    assert!(support::writer(Format::Cdb64).require(1 << 40, 1 << 30).is_ok());
}

#[test]
fn refused_body_changes_nothing() {
    let mut writer = support::writer(Format::Cdb);
    support::put_body(&mut writer, support::BODY);
    assert!(is_full(&writer.body(&Digest::of(b""), END, &mut Unreadable)));
    // This body would fit, but the padding before it doesn't.
    assert!(is_full(&writer.body(&Digest::of(b""), END - 2500, &mut Unreadable)));
    support::put_body(&mut writer, support::OTHER_BODY);
    let mut expected = support::writer(Format::Cdb);
    support::put_body(&mut expected, support::BODY);
    support::put_body(&mut expected, support::OTHER_BODY);
    assert!(support::finish(writer) == support::finish(expected));
}

/// Returns an archive with two bodies and a path to the second one. `between` will be called after the bodies.
fn with_two_bodies(format: Format, between: impl FnOnce(Writer) -> Writer) -> Vec<u8> {
    let mut writer = support::writer(format);
    support::put_body(&mut writer, support::BODY);
    let other = support::put_body(&mut writer, support::OTHER_BODY);
    let mut writer = between(writer);
    assert_eq!(writer.body_length(other), support::OTHER_BODY.len() as u64);
    let empty = support::put_body(&mut writer, b"");
    let head = writer.head(&support::head()).unwrap();
    let representations = vec![
        support::representation(Coding::Gzip, b"", empty, head),
        support::representation(Coding::Identity, support::OTHER_BODY, other, head),
    ];
    let record = NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations };
    support::with_key("a", |key| writer.path(None, key, &record)).unwrap();
    support::finish(writer)
}

#[test]
fn widened_archive_equals_wide_archive() {
    let widen = |writer: Writer| writer.widen(tempfile::tempfile().unwrap()).unwrap();
    let widened = with_two_bodies(Format::Cdb, widen);
    assert!(widened == with_two_bodies(Format::Cdb64, |writer| writer));
    let archive = Archive::from_bytes(widened).unwrap();
    assert_eq!(archive.format(), Format::Cdb64);
    archive.verify(|_| {}).unwrap();
    support::with_key("a", |key| {
        let Some(Record::Resource(resource)) = archive.path(None, key).unwrap() else {
            panic!("`/a` is a resource")
        };
        let bodies = resource.representations().map(|one| archive.body(one.unwrap().body).unwrap());
        assert_eq!(bodies.collect::<Vec<_>>(), [b"", support::OTHER_BODY]);
    });
}

#[test]
fn short_body_is_an_error() {
    let mut writer = support::writer(Format::Cdb);
    let outcome = writer.body(&Digest::of(b"abc"), 4, &mut b"abc".as_slice());
    assert!(matches!(outcome, Err(WriteError::Io(_))));
}

#[test]
fn field_longer_than_its_length_field_is_refused() {
    let mut writer = support::writer(Format::Cdb);
    let mut head = support::head();
    head.resource = vec![b'x'; 1 << 16];
    assert!(matches!(writer.head(&head), Err(WriteError::TooLong { max: 0xffff, got: 0x1_0000, .. })));
}
