//! Where the narrow form ends: it says so before it is passed, loses nothing, and goes on in the wide one.
//!
//! No test here writes gigabytes: what is refused is refused before it is read.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::Read;

use cannery_archive::{Archive, Coding, Digest, Format, NewRecord, Origin, Record, WriteError, Writer};

const END: u64 = u32::MAX as u64;

/// Bytes of the table slots of so many records in the narrow form.
fn tables_bytes(records: u64) -> u64 {
    16 * records
}

/// A source from which nothing may be read.
struct Untouched;

impl Read for Untouched {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("a body that does not fit is not read")
    }
}

fn is_full<T>(outcome: &Result<T, WriteError>) -> bool {
    matches!(outcome, Err(WriteError::Full))
}

#[test]
fn the_narrow_form_is_full_at_its_last_byte_and_not_before() {
    let writer = support::writer(Format::Cdb);
    // So far: the header, and the facts with their slots.
    let used = 2048 + 8 + 7 + 96 + tables_bytes(1);
    assert!(writer.require(END - used, 0).is_ok());
    assert!(is_full(&writer.require(END - used + 1, 0)));
    assert!(writer.require(END - used - tables_bytes(10), 10).is_ok());
    assert!(is_full(&writer.require(END - used - tables_bytes(10) + 1, 10)));
}

#[test]
fn a_body_that_does_not_fit_is_refused_before_it_is_read() {
    let digest = Digest::of(b"");
    for length in [END, END - 1000, END - 2500, 1 << 33, u64::MAX - 1, u64::MAX] {
        let mut writer = support::writer(Format::Cdb);
        assert!(is_full(&writer.body(&digest, length, &mut Untouched)), "{length} bytes");
    }
    let mut wide = support::writer(Format::Cdb64);
    assert!(is_full(&wide.body(&digest, u64::MAX, &mut Untouched)));
}

#[test]
fn numbers_beyond_all_files_are_refused_in_both_widths() {
    for format in support::FORMATS {
        let writer = support::writer(format);
        for (bytes, records) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1, u64::MAX / 16)] {
            assert!(is_full(&writer.require(bytes, records)), "{format}: {bytes} bytes, {records} records");
        }
    }
    assert!(support::writer(Format::Cdb64).require(1 << 40, 1 << 30).is_ok());
}

#[test]
fn a_refused_body_changes_nothing() {
    let mut writer = support::writer(Format::Cdb);
    support::put_body(&mut writer, support::BODY);
    assert!(is_full(&writer.body(&Digest::of(b""), END, &mut Untouched)));
    // There is room for this one, and none for the padding before it.
    assert!(is_full(&writer.body(&Digest::of(b""), END - 2500, &mut Untouched)));
    support::put_body(&mut writer, support::OTHER_BODY);
    let mut untroubled = support::writer(Format::Cdb);
    support::put_body(&mut untroubled, support::BODY);
    support::put_body(&mut untroubled, support::OTHER_BODY);
    assert!(support::finish(writer) == support::finish(untroubled));
}

/// Two bodies, with `between` done to the writer behind them, and a path that leads to the second.
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
fn a_widened_archive_is_the_one_that_was_wide_from_the_start() {
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
fn a_body_shorter_than_announced_is_an_error() {
    let mut writer = support::writer(Format::Cdb);
    let outcome = writer.body(&Digest::of(b"abc"), 4, &mut b"abc".as_slice());
    assert!(matches!(outcome, Err(WriteError::Io(_))));
}

#[test]
fn what_is_longer_than_its_length_field_can_say_is_refused() {
    let mut writer = support::writer(Format::Cdb);
    let mut head = support::head();
    head.resource = vec![b'x'; 1 << 16];
    assert!(matches!(writer.head(&head), Err(WriteError::TooLong { max: 0xffff, got: 0x1_0000, .. })));
}
