//! The container as others read it: Debian's tinycdb the 32-bit form, an independent crate the 64-bit form;
//! and `FORMAT.md` held against the bytes.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use cannery_archive::{Archive, Coding, Digest, Format, Key, KeyBuffer, NamedRecord, Record, SCHEMA_VERSION};

fn records(bytes: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let archive = Archive::from_bytes(bytes.to_vec()).unwrap();
    archive
        .entries()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.key.to_vec(), entry.data.to_vec()))
        .collect()
}

fn on_disk(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn what_was_written_is_found_in_both_widths() {
    for format in [Format::Cdb, Format::Cdb64] {
        let archive = Archive::from_bytes(support::archive(format)).unwrap();
        assert_eq!(archive.format(), format);
        archive.verify(|_| {}).unwrap();
        let mut buffer = KeyBuffer::new();
        let key = Key::from_target(b"/page", &mut buffer).unwrap();
        let Some(Record::Resource(resource)) = archive.path(None, key).unwrap() else {
            panic!("no resource")
        };
        let representation = resource.representations().next().unwrap().unwrap();
        assert_eq!(representation.coding, Coding::Brotli);
        assert_eq!(archive.body(representation.body).unwrap(), support::BODY);
        assert_eq!(archive.head(representation.head).unwrap().content_type, b"Content-Type: text/plain\r\n");
        assert!(archive.path(Some(b"example.com"), key).unwrap().is_none());
        let mut buffer = KeyBuffer::new();
        let old = Key::from_target(b"/old", &mut buffer).unwrap();
        assert!(matches!(archive.path(Some(b"EXAMPLE.com"), old).unwrap(), Some(Record::Redirect(_))));
        assert!(archive.path(None, old).unwrap().is_none());
        let mut buffer = KeyBuffer::new();
        let deep = Key::from_target(b"/docs/a/b/c", &mut buffer).unwrap();
        let scopes: Vec<usize> = archive.scopes(None, deep).map(|scope| scope.unwrap().0).collect();
        assert_eq!(scopes, [b"/docs/".len()]);
    }
}

#[test]
fn tinycdb_reads_the_narrow_form() {
    if std::env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip") {
        println!("skipped: CANNERY_OUTSIDE=skip");
        return;
    }
    let bytes = support::archive(Format::Cdb);
    let file = on_disk(&bytes);
    let run = |arguments: &[&str]| {
        let output = Command::new("cdb").args(arguments).output().expect("tinycdb: apt-get install tinycdb");
        assert!(output.status.success(), "cdb {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let path = file.path().to_str().unwrap();
    let mut expected = Vec::new();
    let archive = Archive::from_bytes(bytes.clone()).unwrap();
    for entry in archive.entries().map(Result::unwrap) {
        expected.extend_from_slice(format!("+{},{}:", entry.key.len(), entry.data.len()).as_bytes());
        expected.extend_from_slice(entry.key);
        expected.extend_from_slice(b"->");
        expected.extend_from_slice(entry.data);
        expected.push(b'\n');
    }
    expected.push(b'\n');
    assert!(run(&["-d", path]) == expected, "the dump differs");
    assert_eq!(run(&["-q", path, "manifest"]), b"{}");
    assert_eq!(run(&["-q", path, "/page"]), records(&bytes)[b"/page".as_slice()]);
}

#[test]
fn an_independent_reader_agrees_about_the_wide_form() {
    let bytes = support::archive(Format::Cdb64);
    let file = on_disk(&bytes);
    let cdb = cdb64::Cdb::<_, cdb64::CdbHash>::open(file.path()).unwrap();
    for (key, data) in records(&bytes) {
        assert_eq!(cdb.get(&key).unwrap().as_deref(), Some(data.as_slice()), "{key:?}");
    }
    assert_eq!(cdb.get(b"/nothing").unwrap(), None);
}

/// The rows of the table behind a heading of `FORMAT.md`: offset, size, words.
fn table(heading: &str) -> Vec<(usize, usize, String)> {
    let page = include_str!("../FORMAT.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (offset, size) = (cells.next()?.parse().ok()?, cells.next()?);
        Some((offset, size.parse().unwrap_or(0), cells.next()?.to_owned()))
    });
    rows.collect()
}

fn number(data: &[u8], heading: &str, words: &str) -> u64 {
    let row = table(heading).into_iter().find(|row| row.2.starts_with(words)).expect(words);
    let mut bytes = [0; 8];
    bytes[..row.1].copy_from_slice(&data[row.0..row.0 + row.1]);
    u64::from_le_bytes(bytes)
}

#[test]
fn the_page_of_the_format_tells_the_truth() {
    for (format, at) in [(Format::Cdb, "2063"), (Format::Cdb64, "4119")] {
        let bytes = support::archive(format);
        assert!(include_str!("../FORMAT.md").contains(at));
        let facts = &bytes[at.parse().unwrap()..];
        let last = table("Facts").pop().unwrap();
        assert_eq!(
            last.0 + last.1,
            records(&bytes)[b"cannery".as_slice()].len(),
            "the table covers the record"
        );
        assert!(table("Facts").windows(2).all(|rows| rows[0].0 + rows[0].1 == rows[1].0), "without a hole");
        assert_eq!(&facts[..4], b"CANR");
        assert_eq!(number(facts, "Facts", "version"), u64::from(SCHEMA_VERSION));
        assert_eq!(number(facts, "Facts", "flags"), 1 + 2 + 4);
        assert_eq!(number(facts, "Facts", "depth"), 1);
        assert_eq!(number(facts, "Facts", "number of path"), 2);
        assert_eq!(number(facts, "Facts", "number of bodies"), 1);
        assert_eq!(number(facts, "Facts", "bytes of the bodies"), support::BODY.len() as u64);
        assert_eq!(number(facts, "Facts", "length of the file"), bytes.len() as u64);

        let mut head = bytes[..at.parse::<usize>().unwrap() + 96].to_vec();
        let digest_at = head.len() - 32;
        let digest = head[digest_at..].to_vec();
        head[digest_at..].fill(0);
        assert_eq!(Digest::of(&[&bytes[head.len()..], &head].concat()).0.as_slice(), digest);

        let all = records(&bytes);
        let head =
            &all.iter().find(|(key, _)| matches!(NamedRecord::of(key), NamedRecord::Head(0))).unwrap().1;
        assert_eq!(number(head, "Head", "status"), 200);
        assert_eq!(number(head, "Head", "which of the server's"), 8);
        assert_eq!(number(head, "Head", "length of the status line"), 17);
        assert_eq!(number(head, "Head", "length of the line with the media type"), 26);
        let quantity = usize::try_from(format.quantity_bytes()).unwrap();
        let page = &all[b"/page".as_slice()];
        assert_eq!(page[..5], [1, 1, 200, 0, 1], "kind, origin, status, count");
        assert_eq!(page[5], 2, "br");
        assert_eq!(page.len(), 5 + 17 + 3 * quantity);
        let mut redirect = vec![2, 0, 52, 1, 3, 0];
        redirect.extend_from_slice(b"top\0\x05\0/new/\x01\0");
        assert_eq!(all[b"//example.com/old".as_slice()], redirect);
        let scope = &all[b"/docs//".as_slice()];
        assert_eq!(scope[..2], [0, 1], "flags, a fallback page");
        assert_eq!(scope[6..11], *b"\x04html");
        assert_eq!(all[b"S_redirects".as_slice()].len(), 2 * quantity);
    }
}
