//! Tests compatibility with other programs: Debian's `tinycdb` for the 32-bit format (reading and writing), and the crate `cdb64`
//! for reading the 64-bit format.
//!
//! Without `tinycdb`, tests fail. Set `CANNERY_OUTSIDE=skip` to skip tests that run external programs.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use cannery_archive::{Archive, Coding, Format, Loading, Record, RecordKind};

#[test]
fn written_records_are_found_in_both_widths() {
    for format in support::FORMATS {
        let archive = Archive::from_bytes(support::archive(format)).unwrap();
        assert_eq!(archive.format(), format);
        support::with_key("page", |key| {
            let Some(Record::Resource(resource)) = archive.path(None, key).unwrap() else {
                panic!("`/page` is a resource")
            };
            let first = resource.representations().next().unwrap().unwrap();
            assert_eq!(first.coding, Coding::Brotli);
            assert_eq!(archive.body(first.body).unwrap(), support::BODY);
            let head = archive.head(first.head).unwrap();
            assert_eq!(head.content_type(), b"Content-Type: text/plain\r\n");
            assert!(archive.path(Some(b"example.com"), key).unwrap().is_none());
        });
        support::with_key("old", |key| {
            assert!(matches!(archive.path(Some(b"EXAMPLE.com"), key).unwrap(), Some(Record::Redirect(_))));
            assert!(archive.path(None, key).unwrap().is_none());
        });
    }
}

#[test]
fn writing_is_deterministic() {
    for format in support::FORMATS {
        assert!(support::archive(format) == support::archive(format), "{format}");
    }
}

#[test]
fn all_loading_modes_give_the_same_bytes() {
    for format in support::FORMATS {
        let bytes = support::archive(format);
        let file = on_disk(&bytes);
        for loading in [Loading::Mapped, Loading::Preloaded, Loading::InMemory] {
            let archive = Archive::open(file.path(), loading).unwrap();
            assert!(archive.bytes() == bytes, "{format}, {loading:?}");
        }
    }
}

#[test]
fn verify_counts_records_and_reports_progress() {
    for format in support::FORMATS {
        let archive = Archive::from_bytes(support::archive(format)).unwrap();
        let mut progress = 0;
        let seen = archive.verify(|bytes| progress = bytes).unwrap();
        assert_eq!((seen.records, seen.bodies, seen.paths), (13, 2, 3));
        assert_eq!(seen.body_bytes, (support::BODY.len() + support::OTHER_BODY.len()) as u64);
        let last = archive.entries().map(Result::unwrap).last().unwrap();
        assert_eq!(last.kind(), RecordKind::Manifest);
        assert_eq!(progress, last.end(), "progress ends with the last record");
    }
}

#[test]
fn directory_lookup_does_not_find_scopes() {
    let archive = Archive::from_bytes(support::archive(Format::Cdb)).unwrap();
    for name in ["", "docs/"] {
        support::with_key(name, |key| {
            for host in [None, Some(b"example.com".as_slice())] {
                assert!(archive.directory(host, key).unwrap().is_none(), "{name}: two slashes mark a scope");
            }
        });
    }
}

#[test]
fn tinycdb_dumps_narrow_archive() {
    let Some(tinycdb) = Tinycdb::find() else { return };
    let bytes = support::archive(Format::Cdb);
    let file = on_disk(&bytes);
    let archive = Archive::from_bytes(bytes).unwrap();
    assert!(tinycdb.run("-d", file.path(), &[]) == dump(&archive), "the dumps differ");
    for entry in archive.entries().map(Result::unwrap) {
        if let Ok(key) = std::str::from_utf8(entry.key)
            && !key.contains('\0')
        {
            assert!(tinycdb.run("-q", file.path(), &[key]) == entry.data, "{key}");
        }
    }
    let statistics = String::from_utf8(tinycdb.run("-s", file.path(), &[])).unwrap();
    assert!(statistics.contains("number of records: 13\n"), "{statistics}");
}

#[test]
fn tinycdb_recreates_archive_from_dump() {
    let Some(tinycdb) = Tinycdb::find() else { return };
    let bytes = support::archive(Format::Cdb);
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("dump"), folder.path().join("site.cdb"));
    std::fs::write(&input, dump(&Archive::from_bytes(bytes.clone()).unwrap())).unwrap();
    tinycdb.run("-c", &output, &[input.to_str().unwrap()]);
    assert!(std::fs::read(&output).unwrap() == bytes, "the files differ");
    Archive::open(&output, Loading::Mapped).unwrap().verify(|_| {}).unwrap();
}

#[test]
fn independent_reader_finds_all_records_of_wide_archive() {
    let bytes = support::archive(Format::Cdb64);
    let file = on_disk(&bytes);
    let theirs = cdb64::Cdb::<_, cdb64::CdbHash>::open(file.path()).unwrap();
    let ours = Archive::from_bytes(bytes).unwrap();
    let mut count = 0;
    for entry in ours.entries().map(Result::unwrap) {
        assert_eq!(theirs.get(entry.key).unwrap().as_deref(), Some(entry.data), "{:?}", entry.key);
        count += 1;
    }
    assert_eq!(count, 13);
    assert_eq!(theirs.get(b"/nothing").unwrap(), None);
}

fn on_disk(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Returns all records in the format that `cdb -d` uses.
fn dump(archive: &Archive) -> Vec<u8> {
    let mut text = Vec::new();
    for entry in archive.entries().map(Result::unwrap) {
        write!(text, "+{},{}:", entry.key.len(), entry.data.len()).unwrap();
        text.extend_from_slice(&[entry.key, b"->", entry.data, b"\n"].concat());
    }
    text.push(b'\n');
    text
}

/// The program `cdb`.
struct Tinycdb;

impl Tinycdb {
    /// Returns `None` if we skip external programs.
    fn find() -> Option<Tinycdb> {
        if std::env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip") {
            println!("skipped: CANNERY_OUTSIDE=skip");
            return None;
        }
        Some(Tinycdb)
    }

    /// Returns the output of `cdb MODE FILE REST…`.
    fn run(&self, mode: &str, file: &Path, rest: &[&str]) -> Vec<u8> {
        let output = Command::new("cdb").arg(mode).arg(file).args(rest).output();
        let output = output.unwrap_or_else(|error| {
            panic!("cannot run `cdb` ({error}): apt-get install tinycdb, or set CANNERY_OUTSIDE=skip")
        });
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cdb {mode} {}: {stderr}", file.display());
        output.stdout
    }
}
