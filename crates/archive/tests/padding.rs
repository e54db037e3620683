//! Tests that large bodies are aligned to pages. This has to work at any position and in both widths, without using more padding
//! than necessary.
//!
//! All constants are from `FORMAT.md`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[allow(dead_code, reason = "this test uses only the constants of the page")]
#[path = "support/page.rs"]
mod page;
mod support;

use std::io::Write;

use cannery_archive::{
    Archive, BodyId, Coding, Digest, Entry, Format, Loading, NewRecord, Origin, RecordKind, Writer,
};
use proptest::prelude::*;

fn large() -> u64 {
    page::number("aligned_body_bytes_min")
}

fn page_bytes() -> u64 {
    page::number("page_bytes")
}

/// Returns this many bytes, unique to `index`.
fn content(index: usize, length: u64) -> Vec<u8> {
    let mut content = vec![b'a' + u8::try_from(index % 26).unwrap(); usize::try_from(length).unwrap()];
    let number = index.to_le_bytes();
    let marked = content.len().min(number.len());
    content[..marked].copy_from_slice(&number[..marked]);
    content
}

/// Writes these bodies, and a path that has all of them as representations.
fn written(contents: &[Vec<u8>], mut writer: Writer) -> Vec<u8> {
    let bodies: Vec<BodyId> =
        contents.iter().map(|content| support::put_body(&mut writer, content)).collect();
    with_path(contents, &bodies, writer)
}

fn with_path(contents: &[Vec<u8>], bodies: &[BodyId], mut writer: Writer) -> Vec<u8> {
    let head = writer.head(&support::head()).unwrap();
    let all = contents.iter().zip(bodies);
    let representations =
        all.map(|(content, body)| support::representation(Coding::Identity, content, *body, head)).collect();
    let record = NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations };
    support::with_key("a", |key| writer.path(None, key, &record)).unwrap();
    support::finish(writer)
}

fn entries(archive: &Archive) -> Vec<Entry<'_>> {
    archive.entries().map(Result::unwrap).collect()
}

/// Computes the end of the bodies by trying, for each record, which position is the first possible one.
fn reference_end(lengths: &[u64], format: Format) -> u64 {
    let before_key = format.record_header_bytes();
    let mut end = format.header_bytes() + before_key + 7 + 96;
    for length in lengths {
        let before_body = before_key + 1 + Digest::BYTES as u64;
        let is_aligned = |record: u64| (record + before_body).is_multiple_of(page_bytes());
        if *length >= large() && !is_aligned(end) {
            let smallest = end + before_key + 5;
            end = (smallest..).find(|record| is_aligned(*record)).unwrap();
        }
        end += before_body + length;
    }
    end
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn large_bodies_are_aligned_with_minimal_padding(
        lengths in proptest::collection::vec(
            prop_oneof![4 => 8..9000_u64, 1 => large() - 3..large() + 3, 1 => large()..large() + 9000],
            1..12,
        ),
        wide in any::<bool>(),
    ) {
        let format = if wide { Format::Cdb64 } else { Format::Cdb };
        let contents: Vec<_> =
            lengths.iter().enumerate().map(|(index, length)| content(index, *length)).collect();
        let archive = Archive::from_bytes(written(&contents, support::writer(format))).unwrap();
        archive.verify(|_| {}).unwrap();

        let entries = entries(&archive);
        let bodies: Vec<_> =
            entries.iter().filter(|entry| matches!(entry.kind(), RecordKind::Body(_))).collect();
        prop_assert!(bodies.iter().map(|body| body.data).eq(contents.iter().map(Vec::as_slice)));
        for body in &bodies {
            if body.data.len() as u64 >= large() {
                prop_assert_eq!(body.data_position % page_bytes(), 0);
            }
        }
        prop_assert_eq!(bodies.last().unwrap().end(), reference_end(&lengths, format));
        for pair in entries.windows(2) {
            if let RecordKind::Padding(_) = pair[0].kind() {
                prop_assert!(pair[1].data.len() as u64 >= large(), "padding precedes a large body");
                prop_assert!(pair[0].data.iter().all(|byte| *byte == 0));
            }
        }
    }
}

#[test]
fn padding_has_ascending_ordinals_and_is_not_counted() {
    for format in support::FORMATS {
        let contents: Vec<_> = (0..3).map(|index| content(index, large() + 1)).collect();
        let archive = Archive::from_bytes(written(&contents, support::writer(format))).unwrap();
        let numbers = entries(&archive).into_iter().filter_map(|entry| match entry.kind() {
            RecordKind::Padding(number) => Some(number),
            _ => None,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((archive.facts().bodies, archive.facts().paths), (3, 1));
    }
}

#[test]
fn report_counts_padding() {
    for format in support::FORMATS {
        let mut writer = support::writer(format);
        support::put_body(&mut writer, &content(0, large()));
        support::put_body(&mut writer, &content(1, 100));
        support::put_body(&mut writer, &content(2, large()));
        let (_, written) = writer.finish().unwrap();
        let mut plain = support::writer(format);
        support::put_body(&mut plain, &content(0, 100));
        let (_, without) = plain.finish().unwrap();
        assert_eq!(without.padding_bytes, 0);
        // There are two more bodies and their padding, and the tables have four more entries.
        let body_bytes = 2 * (format.record_header_bytes() + 33 + large());
        let more = written.facts.file_bytes - without.facts.file_bytes;
        assert_eq!(more, body_bytes + written.padding_bytes + 4 * 2 * format.slot_bytes());
    }
}

#[test]
fn widened_archive_is_padded_again() {
    let contents: Vec<_> = [large(), 5, large() + 4096, 77, large() * 2]
        .into_iter()
        .enumerate()
        .map(|(index, length)| content(index, length))
        .collect();
    let mut narrow = support::writer(Format::Cdb);
    let bodies: Vec<_> = contents.iter().map(|content| support::put_body(&mut narrow, content)).collect();
    let wide = narrow.widen(tempfile::tempfile().unwrap()).unwrap();
    let widened = with_path(&contents, &bodies, wide);
    assert!(widened == written(&contents, support::writer(Format::Cdb64)), "the same bytes");
}

#[test]
fn aligned_body_is_aligned_in_memory() {
    let content = content(0, large());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&written(std::slice::from_ref(&content), support::writer(Format::Cdb))).unwrap();
    for loading in [Loading::InMemory, Loading::Mapped] {
        let archive = Archive::open(file.path(), loading).unwrap();
        let entries = entries(&archive);
        let body = entries.iter().find(|entry| entry.data == content).unwrap();
        assert_eq!(body.data.as_ptr().addr() as u64 % page_bytes(), 0, "{loading:?}");
    }
}

#[test]
fn verify_finds_padding_that_is_not_zero() {
    let mut file = written(&[content(0, large())], support::writer(Format::Cdb));
    let archive = Archive::from_bytes(file.clone()).unwrap();
    let padding = entries(&archive)
        .into_iter()
        .find(|entry| matches!(entry.kind(), RecordKind::Padding(_)))
        .map(|entry| usize::try_from(entry.data_position).unwrap() + entry.data.len() - 1)
        .unwrap();
    file[padding] = 1;
    support::reseal(&mut file);
    let error = Archive::from_bytes(file).unwrap().verify(|_| {}).unwrap_err();
    assert!(error.to_string().contains("padding"), "{error}");
}
