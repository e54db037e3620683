//! Heads in HPACK form have the same fields as in HTTP/1.1, and line IDs.

use std::collections::BTreeMap;

use cannery_archive::{Archive, Head, HpackLines, NO_LINE_ID, RecordKind};
use cannery_wire::hpack::{self, Decoder, EncoderTable, Field};

use crate::site::Site;

/// Returns all heads in the order they were written.
fn heads(archive: &Archive) -> Vec<Head<'_>> {
    let entries = archive.entries().map(Result::unwrap);
    let heads = entries.filter(|entry| matches!(entry.kind(), RecordKind::Head(_)));
    heads.map(|entry| archive.head(entry.position).unwrap()).collect()
}

/// Parses lines like a client and returns the fields.
fn read(lines: HpackLines<'_>) -> Vec<(String, Vec<u8>)> {
    let (mut block, mut table, mut fields) = (Vec::new(), EncoderTable::new(), Vec::new());
    table.begin_block(&mut block, 0, 1);
    lines.for_each(|line| table.put_archive_line(&mut block, line));
    let take = |field: Field<'_>| {
        fields.push((String::from_utf8(field.name_text.to_vec()).unwrap(), field.value.to_vec()));
    };
    Decoder::new().decode(&block, &mut Vec::new(), take).unwrap();
    fields
}

fn fields(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    hpack::parse_field_lines(text).map(|(name, value)| (name, value.to_vec())).collect()
}

#[test]
fn hpack_and_http1_fields_are_equal() {
    let long = "x".repeat(4000);
    let mut site = Site::new(&[("a.html", &"page ".repeat(200)), ("404.html", "none"), ("d/b.css", "b")]);
    site.options.encoders = [cannery_archiver::Encoder::Identity, cannery_archiver::Encoder::Gzip].into();
    let rules = format!("/d/*\n  X-One: \u{e9}\n  Set-Cookie: a=1\n  Set-Cookie: b=2\n  Link: {long}\n");
    site.write("_headers", rules);
    let built = site.build();
    let heads = heads(&built.archive);
    assert!(heads.len() >= 4);
    for head in heads {
        let status = (":status".to_owned(), head.status.to_string().into_bytes());
        assert_eq!(read(head.hpack.all()), [vec![status], fields(head.lines())].concat());
        assert_eq!(read(head.hpack.content_type()), fields(head.content_type()));
        assert_eq!(read(head.hpack.representation()), fields(head.representation()));
        assert_eq!(read(head.hpack.resource()), fields(head.resource()));
    }
}

#[test]
fn line_ids_are_ordered_by_use() {
    let site = Site::new(&[("a.html", "a"), ("b.html", "b"), ("c.css", "c")]);
    site.write("_headers", "/*\n  X-All: 1\n/a*\n  X-Some: 1\n");
    let built = site.build();

    let mut numbers = BTreeMap::new();
    for line in heads(&built.archive).iter().flat_map(|head| head.hpack.all()) {
        let mut block = Vec::new();
        let mut table = EncoderTable::new();
        table.begin_block(&mut block, 0, 1);
        table.put_archive_line(&mut block, line);
        Decoder::new()
            .decode(&block, &mut Vec::new(), |field| {
                let text = [field.name_text, b": ", field.value].concat();
                let before = numbers.insert(String::from_utf8(text).unwrap(), line.id);
                assert!(before.is_none_or(|id| id == line.id), "the same in all heads");
            })
            .unwrap();
    }

    let number = |line: &str| numbers[line];
    assert_eq!(number(":status: 200"), NO_LINE_ID);
    assert!(number("x-all: 1") < number("content-type: text/html; charset=utf-8"));
    assert!(
        number("content-type: text/html; charset=utf-8") < number("content-type: text/css; charset=utf-8")
    );
    assert!(number("x-some: 1") < NO_LINE_ID);

    let given: Vec<u8> = numbers.values().copied().filter(|id| *id != NO_LINE_ID).collect();
    assert_eq!(given.iter().max().map(|id| usize::from(*id) + 1), Some(given.len()), "none is left out");
}
