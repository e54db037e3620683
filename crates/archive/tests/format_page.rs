//! Compares `FORMAT.md` to the code. To do so, we decode archives with a second reader that uses nothing but the tables on this
//! page, and compare the results.
//!
//! If you change only the code or only the page, a test fails.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[path = "support/page.rs"]
mod page;
mod support;

use cannery_archive::{
    AFFIX_BYTES_MAX, Archive, Coding, Digest, ETag, Entry, Format, Head, HeaderEffect, HeaderRule, HpackLine,
    HpackLines, HpackRuns, INDEX_RULES_MAX, KEY_BYTES_MAX, Key, KeyBuffer, LINE_IDS, NO_LINE_ID, NewHead,
    NewHpackLine, NewQpackLine, NewRecord, Origin, PATTERN_SEGMENTS_MAX, Piece, Pieces, QpackLines,
    QpackRuns, Record, RecordKind, Rule, SCHEMA_VERSION, Scope, ScopeEntry, name,
};
use page::Structure;

/// Hashes a key as described on the page.
fn hash(key: &[u8], format: Format) -> u64 {
    let step = |hash: u64, byte: &u8| hash.wrapping_mul(page::number("hash_factor")) ^ u64::from(*byte);
    let hash = key.iter().fold(page::number("hash_start"), step);
    if format == Format::Cdb { hash & 0xffff_ffff } else { hash }
}

fn structure_at<'a>(heading: &str, file: &'a [u8], at: u64, format: Format) -> Structure<'a> {
    Structure::decode(heading, &file[usize::try_from(at).unwrap()..], format)
}

/// Looks up a key in the way described on the page. Returns the record's position and data.
fn find<'a>(file: &'a [u8], format: Format, key: &[u8]) -> Option<(u64, &'a [u8])> {
    let pair = 2 * format.quantity_bytes();
    let hash = hash(key, format);
    let table = structure_at("Table reference", file, hash % page::number("tables") * pair, format);
    let (start, slots) = (table.number("position"), table.number("slots"));
    for probe in 0..slots.min(page::number("probes_max")) {
        let slot = structure_at("Slot", file, start + (hash / 256 + probe) % slots * pair, format);
        let position = slot.number("position");
        if position == 0 {
            return None;
        }
        let record = structure_at("Record", file, position, format);
        if slot.number("hash") == hash && record.bytes("key") == key {
            return Some((position, record.bytes("data")));
        }
    }
    None
}

#[test]
fn all_records_are_found_as_specified() {
    for format in support::FORMATS {
        let file = support::archive(format);
        let archive = Archive::from_bytes(file.clone()).unwrap();
        let entries: Vec<Entry<'_>> = archive.entries().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 13, "the sample has a record of each kind");
        for entry in entries {
            assert_eq!(find(&file, format, entry.key), Some((entry.position, entry.data)), "{:?}", entry.key);
        }
        assert_eq!(find(&file, format, b"/nothing"), None);
    }
}

#[test]
fn padding_is_as_specified() {
    for format in support::FORMATS {
        let mut writer = support::writer(format);
        let length = usize::try_from(page::number("aligned_body_bytes_min")).unwrap();
        support::put_body(&mut writer, &vec![b'x'; length]);
        let archive = Archive::from_bytes(support::finish(writer)).unwrap();
        let entries: Vec<Entry<'_>> = archive.entries().map(Result::unwrap).collect();
        let [_, padding, body] = &entries[..] else { panic!("facts, padding and body: {entries:?}") };
        compare_record(&archive, padding);
        compare_record(&archive, body);
        assert_eq!(body.data_position % page::number("page_bytes"), 0);
        assert_eq!(find(archive.bytes(), format, b"P\0\0\0\0"), Some((padding.position, padding.data)));
    }
}

#[test]
fn all_records_are_decoded_as_specified() {
    for format in support::FORMATS {
        let archive = Archive::from_bytes(support::archive(format)).unwrap();
        for entry in archive.entries().map(Result::unwrap) {
            compare_record(&archive, &entry);
        }
    }
}

/// Decodes a record in both ways and compares the results. The key determines the kind of record.
fn compare_record(archive: &Archive, entry: &Entry<'_>) {
    let format = archive.format();
    match (entry.key, entry.kind()) {
        (b"cannery", RecordKind::Facts) => compare_facts(archive, entry.data),
        ([b'P', number @ ..], RecordKind::Padding(named)) => {
            assert_eq!(number, named.to_le_bytes());
            assert!(entry.data.iter().all(|byte| *byte == 0));
        }
        (b"manifest", RecordKind::Manifest) => assert_eq!(Some(entry.data), archive.manifest().unwrap()),
        ([b'B', digest @ ..], RecordKind::Body(named)) => {
            assert_eq!(digest.len() as u64, page::number("digest_bytes"));
            assert_eq!((digest, Digest::of(entry.data)), (named.0.as_slice(), named));
        }
        ([b'H', 0, 0, 0, 0], RecordKind::Head(0)) => {
            compare_head(
                &Structure::whole("Head", entry.data, format),
                &archive.head(entry.position).unwrap(),
                format,
            );
        }
        ([b'h', 0, 0, 0, 0], RecordKind::PlainHead(0)) => {
            let plain = Structure::whole("Plain head record", entry.data, format).number("head");
            assert_eq!(plain, archive.decode_plain_head(entry).unwrap());
            assert_eq!(archive.plain_head(plain).unwrap(), archive.head(plain).unwrap());
        }
        ([b'S', path @ ..], RecordKind::Source(named)) => {
            assert_eq!((path, named), (b"_redirects".as_slice(), b"_redirects".as_slice()));
            let source = Structure::whole("Source record", entry.data, format);
            let extent = archive.decode_source(entry).unwrap();
            assert_eq!(source.number("body_position"), extent.position);
            assert_eq!(source.number("body_bytes"), extent.length);
            assert_eq!(archive.body(extent).unwrap(), support::OTHER_BODY);
        }
        ([path @ .., b'/'], RecordKind::Scope(named)) if path.ends_with(b"/") => {
            assert_eq!(path, named);
            compare_scope(entry.data, archive.decode_scope(entry).unwrap(), format);
        }
        ([b'/', ..], RecordKind::Path(named)) => {
            assert_eq!(entry.key, named);
            compare_path(entry.data, archive.decode_path(entry).unwrap(), format);
        }
        (key, kind) => panic!("{key:?} is {kind:?}, which is not on the page"),
    }
}

fn compare_facts(archive: &Archive, data: &[u8]) {
    let (facts, file) = (archive.facts(), archive.bytes());
    let read = Structure::whole("Facts", data, archive.format());
    assert_eq!(read.bytes("magic"), page::constant("magic").as_bytes());
    assert_eq!(read.number("version"), page::number("version"));
    assert_eq!(
        page::flags_of("Facts flags", read.number("flags")),
        ["slash_redirects", "forced_rules", "hosts", "wildcard_hosts", "header_rules", "host_header_rules"]
    );
    assert!(facts.header_rules && facts.host_header_rules);
    assert_eq!((facts.slash_redirects, facts.forced_rules, facts.hosts), (true, true, true));
    assert!(facts.wildcard_hosts);
    assert_eq!(read.number("scope_depth_max"), u64::from(facts.scope_depth_max));
    assert_eq!((read.number("path_bytes_max"), facts.path_bytes_max), (6, 6));
    assert_eq!((read.number("wildcard_labels_max"), facts.wildcard_labels_max), (2, 2));
    assert_eq!(read.number("serial"), archive.facts().serial);
    assert_eq!(read.bytes("reserved"), [0; 6]);
    assert_eq!((read.number("paths"), facts.paths), (3, 3));
    assert_eq!((read.number("bodies"), facts.bodies), (2, 2));
    let body_bytes = (support::BODY.len() + support::OTHER_BODY.len()) as u64;
    assert_eq!((read.number("body_bytes"), facts.body_bytes), (body_bytes, body_bytes));
    assert_eq!(read.number("file_bytes"), file.len() as u64);

    // Hash everything as described on the page.
    let facts_end = data.as_ptr() as usize - file.as_ptr() as usize + data.len();
    let mut beginning = file[..facts_end].to_vec();
    let digest_at = facts_end - read.bytes("digest").len();
    beginning[digest_at..].fill(0);
    let digest = Digest::of(&[&file[facts_end..], &beginning].concat());
    assert_eq!((read.bytes("digest"), digest), (digest.0.as_slice(), facts.digest));
}

fn compare_head(read: &Structure<'_>, head: &Head<'_>, format: Format) {
    assert_eq!(read.number("status"), u64::from(head.status));
    assert_eq!(page::flags_of("Head flags", read.number("flags")), ["sends_etag"]);
    assert!(head.sends_etag);
    assert_eq!(read.number("overrides"), u64::from(head.overrides));
    assert_eq!(read.bytes("status_line"), head.status_line());
    assert_eq!(read.bytes("content_type"), head.content_type());
    assert_eq!(read.bytes("representation"), head.representation());
    assert_eq!(read.bytes("resource"), head.resource());
    let compressed = read.bytes("compressed");
    let hpack = Structure::decode("HPACK runs", compressed, format);
    compare_hpack(&hpack, head.hpack, format);
    compare_qpack(&compressed[hpack.length..], head.qpack(), format);
    let NewHead { status_line, content_type, representation, resource, .. } = support::head();
    assert_eq!(head.text, [status_line, content_type, representation, resource].concat());
}

fn compare_hpack(read: &Structure<'_>, runs: HpackRuns<'_>, format: Format) {
    let of_page = |names: &[&str]| {
        let lists = names.iter().map(|name| Structure::sequence(read.bytes(name), format, |_| "HPACK line"));
        lists.flatten().map(|line| numbers_and_literal(&line)).collect::<Vec<_>>()
    };
    let of_code = |lines: HpackLines<'_>| {
        let numbers = |line: HpackLine<'_>| [line.id.into(), line.static_index.into(), u64::from(line.size)];
        lines.map(|line| (numbers(line), line.literal.to_vec())).collect::<Vec<_>>()
    };
    let names = ["status_line", "content_type", "representation", "resource"];
    assert_eq!(of_page(&names), of_code(runs.all()));
    assert_eq!(of_page(&names[1..]), of_code(runs.lines()));
    assert_eq!(of_page(&names[1..2]), of_code(runs.content_type()));
    assert_eq!(of_page(&names[2..3]), of_code(runs.representation()));
    assert_eq!(of_page(&names[3..]), of_code(runs.resource()));
    assert_eq!(of_page(&names).len(), support::head().hpack.concat().len());
}

fn compare_qpack(data: &[u8], runs: QpackRuns<'_>, format: Format) {
    let read = Structure::whole("QPACK runs", data, format);
    let of_page = |names: &[&str]| {
        let mut lines = Vec::new();
        for name in names {
            let mut run = read.bytes(name);
            for row in Structure::sequence(read.bytes(&format!("{name}_table")), format, |_| "QPACK row") {
                let length = usize::try_from(row.number("representation_bytes")).unwrap();
                let (representation, rest) = run.split_at(length);
                lines.push(([row.number("id"), row.number("size")], representation.to_vec()));
                run = rest;
            }
            assert!(run.is_empty(), "`{name}` has a row for each line");
        }
        lines
    };

    let of_code = |lines: QpackLines<'_>| {
        let joined: Vec<u8> = lines.flat_map(|line| line.representation.iter().copied()).collect();
        assert_eq!(joined, lines.representations());
        lines
            .map(|line| ([line.id.into(), line.size.into()], line.representation.to_vec()))
            .collect::<Vec<([u64; 2], _)>>()
    };

    let names = ["status_line", "content_type", "representation", "resource"];
    assert_eq!(of_page(&names), of_code(runs.all()));
    assert_eq!(of_page(&names[1..]), of_code(runs.lines()));
    assert_eq!(of_page(&names[3..]), of_code(runs.resource()));
    assert_eq!(of_page(&names).len(), support::head().qpack.concat().len());
}

/// Returns the numbers and the literal of an HPACK line.
fn numbers_and_literal(line: &Structure<'_>) -> ([u64; 3], Vec<u8>) {
    (["id", "static_index", "size"].map(|name| line.number(name)), line.bytes("literal").to_vec())
}

fn compare_path(data: &[u8], record: Record<'_>, format: Format) {
    match (page::name_of("Path record kinds", data[0].into()), record) {
        (kind @ ("resource" | "dated_resource"), Record::Resource(resource)) => {
            let heading = if kind == "resource" { "Resource" } else { "Dated resource" };
            let read = Structure::whole(heading, data, format);
            assert_eq!((kind == "dated_resource").then(|| read.number("modified")), resource.modified);
            assert_eq!(read.number("status"), u64::from(resource.status));
            assert_eq!(page::name_of("Origins", read.number("origin")), origin_name(resource.origin));

            let list = Structure::sequence(read.bytes("representations"), format, |_| "Representation");
            assert_eq!(read.number("count"), list.len() as u64);
            assert_eq!(resource.representations().count(), list.len());
            for (read, representation) in list.iter().zip(resource.representations().map(Result::unwrap)) {
                assert_eq!(page::name_of("Codings", read.number("coding")), representation.coding.name());
                assert_eq!(read.bytes("etag"), representation.etag);
                assert_eq!(read.number("body_position"), representation.body.position);
                assert_eq!(read.number("body_bytes"), representation.body.length);
                assert_eq!(read.number("head"), representation.head);
            }
        }
        ("redirect", Record::Redirect(redirect)) => {
            let read = Structure::whole("Redirect", data, format);
            assert_eq!(read.number("status"), u64::from(redirect.status));
            assert_eq!(page::flags_of("Redirect flags", read.number("flags")), ["has_query"]);
            assert!(redirect.has_query);
            assert_eq!((read.bytes("fragment"), redirect.fragment), (b"top".as_slice(), b"top".as_slice()));
            compare_pieces(read.bytes("target"), redirect.target, format);
        }
        ("rewrite", Record::Rewrite(rewrite)) => {
            let read = Structure::whole("Rewrite", data, format);
            assert_eq!(read.number("status"), u64::from(rewrite.status));
            compare_pieces(read.bytes("path"), rewrite.path, format);
        }
        (name, record) => panic!("`{name}` on the page, {record:?} in the code"),
    }
}

fn compare_pieces(bytes: &[u8], pieces: Pieces<'_>, format: Format) {
    let heading_at = |kind| match page::name_of("Piece kinds", kind) {
        "literal" => "Literal",
        _ => "Capture or splat",
    };
    let list = Structure::sequence(bytes, format, heading_at);
    assert_eq!(pieces.count(), list.len());
    for (read, piece) in list.iter().zip(pieces.map(Result::unwrap)) {
        match (page::name_of("Piece kinds", read.number("kind")), piece) {
            ("literal", Piece::Literal(literal)) => assert_eq!(read.bytes("literal"), literal),
            ("capture", Piece::Capture(number)) | ("splat", Piece::Splat(number)) => {
                assert_eq!(read.number("number"), u64::from(number));
            }
            (name, piece) => panic!("`{name}` on the page, {piece:?} in the code"),
        }
    }
}

fn compare_scope(data: &[u8], scope: Scope<'_>, format: Format) {
    let read = Structure::whole("Scope record", data, format);
    let flags = page::flags_of("Scope flags", read.number("flags"));
    assert_eq!(flags == ["own_site"], scope.own_site);
    let lists = [read.bytes("pages"), read.bytes("rules")].concat();
    let list = Structure::sequence(&lists, format, |_| "Entry of a scope");

    for index in Structure::sequence(read.bytes("indexes"), format, |_| "Rule index") {
        compare_index(&index, read.bytes("rules"), format);
    }

    assert_eq!(scope.entries().count(), list.len());
    for (read, entry) in list.iter().zip(scope.entries().map(Result::unwrap)) {
        let content = read.bytes("content");
        match (page::name_of("Scope entry kinds", read.number("kind")), entry) {
            ("fallback", ScopeEntry::Fallback { suffix, record }) => {
                let read = Structure::whole("Fallback", content, format);
                assert_eq!(read.bytes("suffix"), suffix);
                compare_path(read.bytes("record"), record, format);
            }
            ("error_page", ScopeEntry::ErrorPage { status, record }) => {
                let read = Structure::whole("Error page", content, format);
                assert_eq!(read.number("status"), u64::from(status));
                compare_path(read.bytes("record"), record, format);
            }
            ("rule", ScopeEntry::Rule(rule)) => compare_rule(content, &rule, format),
            ("header_rule", ScopeEntry::HeaderRule(rule)) => compare_header_rule(content, &rule, format),
            (name, entry) => panic!("`{name}` on the page, {entry:?} in the code"),
        }
    }
}

fn compare_rule(content: &[u8], rule: &Rule<'_>, format: Format) {
    let read = Structure::whole("Rule", content, format);
    assert_eq!(read.number("ordinal"), u64::from(rule.ordinal));
    let flags = page::flags_of("Rule flags", read.number("flags"));
    assert_eq!((flags.contains(&"force"), flags.contains(&"pages_only")), (rule.force, rule.pages_only));
    compare_pieces(read.bytes("pattern"), rule.pattern, format);
    compare_path(read.bytes("record"), rule.record, format);
}

fn compare_header_rule(content: &[u8], rule: &HeaderRule<'_>, format: Format) {
    let read = Structure::whole("Header rule", content, format);
    assert_eq!(read.number("ordinal"), u64::from(rule.ordinal));
    assert_eq!(read.bytes("host"), rule.host);
    compare_pieces(read.bytes("pattern"), rule.pattern, format);
    let list = Structure::sequence(read.bytes("fields"), format, |_| "Header field");
    assert_eq!(rule.fields.count(), list.len());
    for (read, field) in list.iter().zip(rule.fields.map(Result::unwrap)) {
        let effect = match field.effect {
            HeaderEffect::Remove => "remove",
            HeaderEffect::Join => "join",
            HeaderEffect::Replace => "replace",
            HeaderEffect::Line => "line",
        };
        assert_eq!(page::name_of("Header effects", read.number("effect")), effect);
        assert_eq!(read.number("overrides"), u64::from(field.overrides));
        assert_eq!((read.bytes("name"), read.bytes("value")), (field.name, field.value));
    }
}

/// Checks the sizes of an index's tables, and the entries that its offsets point to.
fn compare_index(read: &Structure<'_>, rules: &[u8], format: Format) {
    let index = Structure::whole("Index content", read.bytes("index"), format);
    let kind = page::name_of("Index kinds", index.number("kind"));
    let (count, depth) = (index.number("rules"), index.number("depth"));
    let set = count.div_ceil(64) * 8;
    let lengths = page::number("pattern_segments_max") + 1;
    let [slots, prefixes, suffixes] =
        ["literal_slots", "prefixes", "suffixes"].map(|name| index.number(name));
    let tables = 4 * count + set * (lengths + 2 * depth + 2) + 14 * slots + 18 * prefixes + 13 * suffixes;
    let rest = index.bytes("tables");
    assert!(rest.len() as u64 >= tables + 2, "the heap is last and has at least its two reserved bytes");
    for offset in rest[..usize::try_from(4 * count).unwrap()].chunks(4) {
        let offset = u32::from_le_bytes(offset.try_into().unwrap()) as usize;
        let entry = Structure::decode("Entry of a scope", &rules[offset..], format);
        let expected = if kind == "header" { "header_rule" } else { "rule" };
        assert_eq!(page::name_of("Scope entry kinds", entry.number("kind")), expected);
    }
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Alias => "alias",
        Origin::Generated => "generated",
        Origin::Rule => "rule",
        Origin::Carried => "carried",
    }
}

/// Returns an archive with one path, `/a`.
fn with_resource(coding: Coding, origin: Origin) -> Vec<u8> {
    let mut writer = support::writer(Format::Cdb);
    let body = support::put_body(&mut writer, support::BODY);
    let head = writer.head(&support::head()).unwrap();
    let representations = vec![support::representation(coding, support::BODY, body, head)];
    let record = NewRecord::Resource { status: 200, origin, modified: None, representations };
    support::with_key("a", |key| writer.path(None, key, &record)).unwrap();
    support::finish(writer)
}

/// Changes a byte in the record for `/a`, and returns `true` if we can still decode it.
fn is_decodable(mut file: Vec<u8>, offset: usize, byte: u64) -> bool {
    let (position, data) = find(&file, Format::Cdb, b"/a").unwrap();
    let data_at = usize::try_from(position).unwrap() + 8 + b"/a".len();
    assert_eq!(file[data_at], data[0]);
    file[data_at + offset] = u8::try_from(byte).unwrap();
    let archive = Archive::from_bytes(file).unwrap();
    match support::with_key("a", |key| archive.path(None, key).map(Option::unwrap)) {
        Ok(Record::Resource(resource)) => resource.representations().all(|one| one.is_ok()),
        other => other.is_ok(),
    }
}

#[test]
fn codings_and_origins_are_as_specified() {
    let (codings, origins) = (page::enumeration("Codings"), page::enumeration("Origins"));
    for coding in Coding::ALL {
        let file = with_resource(coding, Origin::File);
        compare_path(find(&file, Format::Cdb, b"/a").unwrap().1, only_record(&file), Format::Cdb);
        assert_eq!(page::name_of("Codings", coding as u64), coding.name());
    }

    for origin in [Origin::File, Origin::Alias, Origin::Generated, Origin::Rule] {
        let file = with_resource(Coding::Gzip, origin);
        compare_path(find(&file, Format::Cdb, b"/a").unwrap().1, only_record(&file), Format::Cdb);
    }

    let kinds = page::enumeration("Path record kinds");
    for (offset, known) in [(0, kinds), (1, origins), (5, codings)] {
        let file = with_resource(Coding::Gzip, Origin::File);
        let numbers: Vec<u64> = known.iter().map(|(number, _)| *number).collect();
        for number in 0..=u64::from(u8::MAX) {
            // If it is a different kind of record, its bytes may be valid or not.
            if offset > 0 || !numbers.contains(&number) {
                assert_eq!(
                    is_decodable(file.clone(), offset, number),
                    numbers.contains(&number),
                    "{known:?}"
                );
            }
        }
    }
}

/// Returns the record for `/a`. Leaks the archive.
fn only_record(file: &[u8]) -> Record<'static> {
    let archive: &'static Archive = Box::leak(Box::new(Archive::from_bytes(file.to_vec()).unwrap()));
    support::with_key("a", |key| archive.path(None, key)).unwrap().unwrap()
}

#[test]
fn constants_are_as_specified() {
    assert_eq!(page::number("version"), u64::from(SCHEMA_VERSION));
    assert_eq!(page::number("path_bytes_max"), KEY_BYTES_MAX as u64);
    assert_eq!(page::number("line_ids"), LINE_IDS.into());
    assert_eq!(page::number("index_rules_max"), INDEX_RULES_MAX as u64);
    assert_eq!(page::number("pattern_segments_max"), PATTERN_SEGMENTS_MAX as u64);
    assert_eq!(page::number("affix_bytes_max"), AFFIX_BYTES_MAX as u64);
    assert_eq!(page::number("no_line_id"), NO_LINE_ID.into());
    assert_eq!(page::number("digest_bytes"), Digest::BYTES as u64);
    assert_eq!(page::number("etag_bytes"), ETag::BYTES as u64);

    let versions = page::rows("Versions");
    assert_eq!(
        versions.last().unwrap()[0],
        page::constant("version"),
        "the table of versions ends with the current version"
    );

    assert!(page::section("Keys").contains(&format!("| `{}` | facts |", name::FACTS.escape_ascii())));
    assert!(page::section("Keys").contains(&format!("| `{}` | JSON", name::MANIFEST.escape_ascii())));
    for format in support::FORMATS {
        assert_eq!(page::number("tables") * 2 * format.quantity_bytes(), format.header_bytes());
        let facts_at = format.header_bytes() + format.record_header_bytes() + name::FACTS.len() as u64;
        assert!(page::section("Facts").contains(&format!("at byte {facts_at} of a")), "{format}: {facts_at}");
    }
}

#[test]
fn lookup_stops_as_specified() {
    let probes_max = page::number("probes_max");
    for (distance, is_found) in [(probes_max - 1, true), (probes_max, false)] {
        let archive = Archive::from_bytes(crowded(distance)).unwrap();
        let found = archive.entry(name::MANIFEST).unwrap();
        assert_eq!(found.is_some(), is_found, "the entry is {distance} slots away");
    }
}

/// Returns a 32-bit archive with a different table for the manifest. To find it, a lookup has to skip `distance` slots, all of
/// which have a different record with the same hash.
fn crowded(distance: u64) -> Vec<u8> {
    let mut file = support::archive(Format::Cdb);
    let hash = hash(name::MANIFEST, Format::Cdb);
    let (manifest, _) = find(&file, Format::Cdb, name::MANIFEST).unwrap();
    let (other, _) = find(&file, Format::Cdb, b"/page").unwrap();
    let slots = distance + 2;
    let mut table = vec![0; usize::try_from(slots * 8).unwrap()];
    for probe in 0..=distance {
        let at = usize::try_from((hash / 256 + probe) % slots * 8).unwrap();
        let position = if probe == distance { manifest } else { other };
        table[at..at + 4].copy_from_slice(&u32::try_from(hash).unwrap().to_le_bytes());
        table[at + 4..at + 8].copy_from_slice(&u32::try_from(position).unwrap().to_le_bytes());
    }
    let reference = usize::try_from(hash % 256 * 8).unwrap();
    let start = u32::try_from(file.len()).unwrap();
    file[reference..reference + 4].copy_from_slice(&start.to_le_bytes());
    file[reference + 4..reference + 8].copy_from_slice(&u32::try_from(slots).unwrap().to_le_bytes());
    file.extend_from_slice(&table);
    support::reseal(&mut file);
    file
}

#[test]
fn paths_are_normalized_as_specified() {
    let rows = page::rows("Paths");
    assert_eq!(rows.len(), 13);
    for row in rows {
        let (target, expected) = (row[0], row[1].replace("\\0", "\0"));
        let mut buffer = KeyBuffer::new();
        match Key::from_target(target.as_bytes(), &mut buffer) {
            Ok(key) => assert_eq!(key.bytes(), expected.as_bytes(), "{target}"),
            Err(error) => assert_eq!(expected, "error", "{target}: {error}"),
        }
    }
}

#[test]
fn sample_archive_is_as_specified() {
    let mut writer = support::writer(Format::Cdb);
    let content = b"hello\n";
    let line = |id, static_index, size, literal: &[u8]| NewHpackLine {
        id,
        static_index,
        size,
        literal: literal.to_vec(),
    };
    let qpack_line =
        |id, size, representation: &[u8]| NewQpackLine { id, size, representation: representation.to_vec() };
    let body = support::put_body(&mut writer, content);
    let head = NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain; charset=utf-8\r\n".to_vec(),
        representation: Vec::new(),
        resource: b"Cache-Control: no-cache\r\n".to_vec(),
        hpack: [
            vec![line(NO_LINE_ID, 8, 0, b"")],
            vec![line(
                1,
                31,
                69,
                b"\x92\x49\x7c\xa5\x8a\xe8\x19\xaa\xfb\x50\x93\x8e\xc4\x15\x30\x5a\x99\x56\x7b",
            )],
            vec![],
            vec![line(0, 24, 53, b"\x86\xa8\xeb\x10\x64\x9c\xbf")],
        ],
        qpack: [
            vec![qpack_line(NO_LINE_ID, 0, b"\xd9")],
            vec![qpack_line(
                1,
                69,
                b"\x5f\x1d\x92\x49\x7c\xa5\x8a\xe8\x19\xaa\xfb\x50\x93\x8e\xc4\x15\x30\x5a\x99\x56\x7b",
            )],
            vec![],
            vec![qpack_line(NO_LINE_ID, 0, b"\xe7")],
        ],
    };
    let head = writer.head(&head).unwrap();
    let representations = vec![support::representation(Coding::Identity, content, body, head)];
    let record = NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations };
    support::with_key("a.txt", |key| writer.path(None, key, &record)).unwrap();
    writer.manifest(b"{}").unwrap();
    let file = support::finish(writer);

    let records_at = usize::try_from(Format::Cdb.header_bytes()).unwrap();
    let expected = dump(&file, records_at);
    let text = page::section("A whole archive").split("```text\n").nth(1).unwrap();
    let got = text.split("```").next().unwrap();
    assert!(got == expected, "the page should show:\n{expected}");
    let references = file[..records_at].chunks(8).filter(|pair| pair[4..] != [0; 4]).count();
    assert_eq!(references, 5, "table references that have slots");
}

/// Returns a hex dump. Each line has a position, sixteen bytes, and the same bytes as characters (if printable).
fn dump(file: &[u8], from: usize) -> String {
    let mut text = String::new();
    for (line, bytes) in file[from..].chunks(16).enumerate() {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let characters = bytes.iter().map(|byte| match byte {
            b' '..=b'~' if *byte != b'`' => char::from(*byte),
            _ => '.',
        });
        let characters: String = characters.collect();
        let line = format!("{:4}  {:47}  {characters}", from + 16 * line, digits.join(" "));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
