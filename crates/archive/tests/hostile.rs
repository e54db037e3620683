//! No byte of a file can make the reader panic, and `verify` sees every byte that was changed.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{Archive, Format, Key, KeyBuffer, Pieces, Record, RecordKind, ScopeEntry};

/// Opens the bytes and asks everything that can be asked. Only that it returns is looked at.
fn ask_everything(bytes: Vec<u8>) {
    let Ok(archive) = Archive::from_bytes(bytes) else { return };
    let mut buffer = KeyBuffer::new();
    for target in ["/page", "/old", "/docs/a/b", "/docs/", "/"] {
        let Ok(key) = Key::from_target(target.as_bytes(), &mut buffer) else { continue };
        for host in [None, Some(b"example.com".as_slice())] {
            if let Ok(Some(record)) = archive.path(host, key) {
                look_into(&archive, record);
            }
            let _ = archive.directory(host, key).is_ok();
            for scope in archive.scopes(host, key).flatten() {
                for entry in scope.1.entries().flatten() {
                    match entry {
                        ScopeEntry::Fallback { record, .. } | ScopeEntry::ErrorPage { record, .. } => {
                            look_into(&archive, record);
                        }
                        ScopeEntry::Rule(rule) => {
                            count(rule.pattern);
                            look_into(&archive, rule.record);
                        }
                        ScopeEntry::HeaderRule(rule) => count(rule.pattern),
                    }
                }
            }
        }
    }
    for entry in archive.entries().take(1000).flatten() {
        let _ = (
            RecordKind::from_key(entry.key),
            archive.decode_path(&entry).is_ok(),
            archive.decode_source(&entry).is_ok(),
        );
    }
    let _ = (archive.manifest().is_ok(), archive.verify(|_| {}).is_ok());
}

fn look_into(archive: &Archive, record: Record<'_>) {
    match record {
        Record::Resource(resource) => {
            for representation in resource.representations().flatten() {
                let _ = archive.body(representation.body).is_ok();
                let Ok(head) = archive.head(representation.head) else { continue };
                let runs = [head.hpack.lines(), head.hpack.content_type(), head.hpack.representation()];
                let lines = runs.into_iter().flatten().count() + head.hpack.resource().count();
                assert!(lines <= 3 * head.hpack.all().count().max(1 << 14), "lines end");
            }
        }
        Record::Redirect(redirect) => count(redirect.target),
        Record::Rewrite(rewrite) => count(rewrite.path),
    }
}

fn count(pieces: Pieces<'_>) {
    assert!(pieces.count() <= 1 << 16, "pieces end");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        for length in 0..bytes.len() {
            assert!(Archive::from_bytes(bytes[..length].to_vec()).is_err(), "{format} cut to {length} bytes");
        }
    }
}

#[test]
fn every_changed_byte_is_seen_by_verify_and_survived_by_the_reader() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        for place in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] ^= change;
                let sound =
                    Archive::from_bytes(changed.clone()).is_ok_and(|archive| archive.verify(|_| {}).is_ok());
                assert!(!sound, "{format}: byte {place} changed by {change:#x} goes unseen");
                ask_everything(changed);
            }
        }
    }
}

#[test]
fn numbers_as_large_as_can_be_are_survived() {
    for format in [Format::Cdb, Format::Cdb64] {
        let bytes = support::archive(format);
        let width = usize::try_from(format.quantity_bytes()).unwrap();
        for place in 0..bytes.len() - width {
            for value in [u64::MAX, u64::MAX >> 1, u64::MAX >> 32, bytes.len() as u64, place as u64] {
                let mut changed = bytes.clone();
                changed[place..place + width].copy_from_slice(&value.to_le_bytes()[..width]);
                ask_everything(changed);
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_behind_a_sound_beginning_are_survived(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
        let bytes = support::archive(Format::Cdb);
        let mut changed = bytes.clone();
        let start = changed.len() - tail.len().min(changed.len() - 2200);
        let length = changed.len() - start;
        changed[start..].copy_from_slice(&tail[..length]);
        ask_everything(changed);
    }
}

#[test]
fn verify_sees_a_number_of_two_header_lines() {
    let sound = |id: u8| {
        let mut writer = support::writer(Format::Cdb);
        writer.head(&support::head()).unwrap();
        let mut other = support::head();
        other.hpack[1][0].id = id;
        other.hpack[1][0].literal.push(b'!');
        writer.head(&other).unwrap();
        Archive::from_bytes(support::finish(writer)).unwrap().verify(|_| {}).is_ok()
    };
    assert!(sound(9), "another line has another number");
    assert!(!sound(support::head().hpack[1][0].id));
    assert!(!sound(56), "there are no more");
}
