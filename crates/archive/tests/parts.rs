//! Tests that archives can be put together again from their parts, bit by bit.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::{Read, Seek};

use cannery_archive::{Alignment, Archive, AssembleError, Assembler, Part};

/// Puts the parts of `archive` together, after `change` has seen each of them.
fn assemble(archive: &Archive, change: impl Fn(&mut Part<'_>)) -> Result<Vec<u8>, AssembleError> {
    let parts = archive.parts().unwrap();
    let mut assembler = Assembler::new(tempfile::tempfile().unwrap(), archive.format(), parts.alignment)?;
    let mut outcome = Ok(());
    parts
        .for_each(|mut part| {
            change(&mut part);
            let written = match &part {
                Part::Body { digest, content } => {
                    assembler.body_from_slice(digest, content).map_err(Into::into)
                }
                Part::Linked { key, data } => assembler.linked(key, data),
                Part::Record { key, data } => assembler.record(key, data).map_err(Into::into),
            };
            if let (Ok(()), Err(error)) = (&outcome, written) {
                outcome = Err(error);
            }
        })
        .unwrap();
    outcome?;
    let mut file = assembler.finish(parts.facts)?;
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn parts_make_up_the_same_archive() {
    for format in support::FORMATS {
        let original = support::archive(format);
        let archive = Archive::from_bytes(original.clone()).unwrap();
        assert!(assemble(&archive, |_| {}).unwrap() == original, "{format}");
    }
}

#[test]
fn padding_follows_from_bodies() {
    for format in support::FORMATS {
        let mut writer = support::writer(format);
        for length in [10, 100_000, 61_440, 61_439, 3, 200_000] {
            support::put_body(&mut writer, &vec![7; length]);
        }
        let original = support::finish(writer);
        let archive = Archive::from_bytes(original.clone()).unwrap();
        let parts = archive.parts().unwrap();
        assert_eq!(parts.alignment, Alignment::Derived);
        let mut count = 0;
        parts.for_each(|_| count += 1).unwrap();
        assert_eq!(count, 6, "padding is no part");
        assert!(assemble(&archive, |_| {}).unwrap() == original, "{format}");
    }
}

#[test]
fn changed_part_is_noticed() {
    for format in support::FORMATS {
        let archive = Archive::from_bytes(support::archive(format)).unwrap();
        let outcome = assemble(&archive, |part| {
            if let Part::Body { content, .. } = part {
                *content = &content[1..];
            }
        });
        assert!(matches!(outcome, Err(AssembleError::Digest { .. })), "{format}");
        let outcome = assemble(&archive, |part| {
            if let Part::Linked { data, .. } = part {
                *data.last_mut().unwrap() = 99;
            }
        });
        assert!(matches!(outcome, Err(AssembleError::Link)), "{format}");
    }
}

#[test]
fn foreign_hash_tables_are_refused() {
    for format in support::FORMATS {
        let mut bytes = support::archive(format);
        // The last slots are in a table, and one more byte follows no rule.
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(Archive::from_bytes(bytes).unwrap().parts().is_err(), "{format}");
    }
}
