//! Tests that each kind of response has the same status and fields in HTTP/1, HTTP/2 and HTTP/3, in the same order. Also tests the
//! length of heads.

use std::io::{Read, Seek};

use cannery_archive::{
    Archive, Coding, Digest, Format, Key, KeyBuffer, NO_LINE_ID, NewHead, NewRecord, NewRepresentation,
    NewRule, NewScope, Origin, Piece, Writer,
};
use cannery_site::{Scratch, Site, VirtualHosts};
use proptest::prelude::*;

use super::*;
use crate::compression::hpack::{self, Decoder, Field, List};
use crate::compression::qpack;
use crate::h1;
use crate::response::head::status_line;
use crate::response::output::Output;

/// Time when we send responses, also used for the file's last modification, in seconds since 1970.
const NOW: u64 = 784_111_777;

/// Requests without the empty line, and the status that they lead to.
const REQUESTS: [(&str, u16); 18] = [
    ("GET /page HTTP/1.1\r\nHost: h\r\n", 200),
    ("HEAD /page HTTP/1.1\r\nHost: h\r\n", 200),
    ("GET /page HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\n", 200),
    ("GET /coded HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, *;q=0\r\n", 406),
    ("GET /page HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n", 304),
    ("GET /page HTTP/1.1\r\nHost: h\r\nIf-Match: \"other\"\r\n", 412),
    ("GET /page HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n", 206),
    ("GET /page HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0, 2-2\r\n", 206),
    ("GET /page HTTP/1.1\r\nHost: h\r\nRange: bytes=99999-\r\n", 416),
    ("GET /plain HTTP/1.1\r\nHost: h\r\n", 200),
    ("GET /plain HTTP/1.1\r\nHost: h\r\nAccept-Encoding: identity;q=0\r\n", 200),
    ("GET /here/a%20b?c HTTP/1.1\r\nHost: h\r\n", 301),
    ("GET /there HTTP/1.1\r\nHost: h\r\n", 302),
    ("GET /missing HTTP/1.1\r\nHost: h\r\n", 404),
    ("POST /page HTTP/1.1\r\nHost: h\r\n", 405),
    ("BREW /page HTTP/1.1\r\nHost: h\r\n", 501),
    ("OPTIONS * HTTP/1.1\r\nHost: h\r\n", 204),
    ("GET /gone HTTP/1.1\r\nHost: h\r\n", 410),
];

#[test]
fn fields_match_those_of_http1() {
    let site = site();
    let fields = ServerFields::new(&[("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "deny")], NOW);
    let (mut table, mut decoder) = (hpack::EncoderTable::new(), Decoder::new());
    let (mut qpack_table, mut qpack_decoder) = (qpack::EncoderTable::new(), qpack::Decoder::new());
    // Try this with an empty table, with a full one, and after changing the size.
    for round in 0..4 {
        for (request, status) in REQUESTS {
            let block = section(&site, request, &fields, &mut table);
            let (text, got) = h1_fields(&site, request, &fields);
            assert_eq!(got, status, "{request}");
            assert_eq!(decoded(&mut decoder, &block), text, "{request} in round {round}");
            let section = section(&site, request, &fields, &mut qpack_table);
            assert_eq!(qpack_decoded(&qpack_decoder, &section), text, "{request} in round {round}");
        }

        match round {
            0 => qpack_table.set_peer_settings(4096),
            1 => {
                table.set_size_max(0, 200);
                exchange(&mut qpack_table, &mut qpack_decoder);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn delayed_acknowledgments_never_block(
        steps in prop::collection::vec((0..REQUESTS.len(), 0_usize..60, 0_usize..8, 1_u64..3), 0..80),
        capacity in 0_u64..600,
    ) {
        let site = site();
        let fields = ServerFields::new(&[("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "deny")], NOW);
        let (mut table, mut decoder) = (qpack::EncoderTable::new(), qpack::Decoder::new());
        let mut instructions = Vec::new();
        let mut acknowledgments = Vec::new();
        table.set_peer_settings(capacity);
        for (number, instruction_bytes, acknowledgment_bytes, release) in steps {
            let (request, _) = REQUESTS[number];
            let section = section_of_release(&site, request, &fields, &mut table, release);
            let decoded = qpack_decoded(&decoder, &section);
            prop_assert_eq!(decoded, h1_fields(&site, request, &fields).0, "{}", request);

            // Some bytes arrive on each stream.
            instructions.extend(table.take_encoder_stream());
            let bytes = instruction_bytes.min(instructions.len());
            let arrived: Vec<u8> = instructions.drain(..bytes).collect();
            decoder.read_encoder_stream(&arrived, &mut Vec::new()).unwrap();
            decoder.acknowledge_insertions(&mut acknowledgments);
            let bytes = acknowledgment_bytes.min(acknowledgments.len());
            let arrived: Vec<u8> = acknowledgments.drain(..bytes).collect();
            table.read_decoder_stream(&arrived).unwrap();
        }
    }
}

#[test]
fn repeated_heads_take_few_bytes() {
    let site = site();
    let fields = ServerFields::new(&[("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "deny")], NOW);
    let mut table = hpack::EncoderTable::new();
    let (request, _) = REQUESTS[2];
    let cold = section(&site, request, &fields, &mut table).len();
    let warm = section(&site, request, &fields, &mut table).len();
    let text = h1_text(&site, request, &fields).len();
    // The indices of nine lines, the tag (21 bytes), the length (7) and the date (25).
    assert_eq!((text, cold, warm), (304, 157, 62));

    let mut table = qpack::EncoderTable::new();
    table.set_peer_settings(4096);
    let cold = section(&site, request, &fields, &mut table).len();
    let instructions = exchange(&mut table, &mut qpack::Decoder::new());
    let warm = section(&site, request, &fields, &mut table).len();
    // The prefix, the indices of nine lines (10 bytes), the tag (20), the length (6) and the date (24).
    assert_eq!((cold, instructions, warm), (115, 57, 62));
}

#[test]
fn head_without_lines_still_has_a_status() {
    // A head that looks like this can only be from a damaged archive.
    let site = site();
    let fields = ServerFields::new(&[], NOW);
    let request = "GET /damaged HTTP/1.1\r\nHost: h\r\n";
    let block = section(&site, request, &fields, &mut hpack::EncoderTable::new());
    let h2_fields = decoded(&mut Decoder::new(), &block);
    let section = section(&site, request, &fields, &mut qpack::EncoderTable::new());
    let h3_fields = qpack_decoded(&qpack::Decoder::new(), &section);
    for fields in [h2_fields, h3_fields] {
        assert_eq!(fields[0], ":status: 200");
        assert!(fields.iter().any(|field| field.starts_with("content-length: ")));
    }
}

/// Sends a table's encoder stream to a decoder, which acknowledges it. Returns the length of the stream.
fn exchange(table: &mut qpack::EncoderTable, decoder: &mut qpack::Decoder) -> usize {
    let instructions = table.take_encoder_stream();
    decoder.read_encoder_stream(&instructions, &mut Vec::new()).unwrap();
    let mut acknowledgments = Vec::new();
    decoder.acknowledge_insertions(&mut acknowledgments);
    table.read_decoder_stream(&acknowledgments).unwrap();
    instructions.len()
}

/// Returns the status and fields of the HTTP/1 response. The fields look like in HTTP/2.
fn h1_fields(site: &Site, request: &str, fields: &ServerFields) -> (Vec<String>, u16) {
    let text = h1_text(site, request, fields);
    let status = String::from_utf8(text[9..12].to_vec()).unwrap();
    let mut all = vec![format!(":status: {status}")];
    all.extend(
        hpack::parse_field_lines(&text)
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))),
    );
    (all, status.parse().unwrap())
}

/// Returns the HTTP/1 response's head.
fn h1_text(site: &Site, request: &str, fields: &ServerFields) -> Vec<u8> {
    let mut output = Output::new();
    with_answer(site, request, |answer, archive| {
        let answer = &answer.without_body();
        h1::put_response(&mut output, &Response { answer, archive, fields }, None);
    });
    output.parts().0.to_vec()
}

/// Returns the encoded fields of the HTTP/2 or HTTP/3 response.
fn section(site: &Site, request: &str, fields: &ServerFields, encoder: &mut impl FieldEncoder) -> Vec<u8> {
    section_of_release(site, request, fields, encoder, 1)
}

/// Returns the same, but for an archive that has this identity.
fn section_of_release(
    site: &Site,
    request: &str,
    fields: &ServerFields,
    encoder: &mut impl FieldEncoder,
    identity: u64,
) -> Vec<u8> {
    let mut section = Vec::new();
    with_answer(site, request, |answer, archive| {
        let archive = ArchiveRef { identity, ..archive };
        field_section(encoder, &Response { answer, archive, fields }, &mut section);
    });
    section
}

fn with_answer(site: &Site, request: &str, write: impl FnOnce(&Answer<'_>, ArchiveRef<'_>)) {
    let request = format!("{request}\r\n");
    let mut head = h1::Head::EMPTY;
    let (_, step) = h1::Connection::default().next_request(request.as_bytes(), &mut head);
    assert!(matches!(step, h1::Step::Request), "{step:?}: {request}");
    let archive = ArchiveRef { number: 0, bytes: site.archive().bytes(), identity: 1 };
    let mut scratch = Scratch::default();
    scratch.set_now(NOW);
    write(&site.answer(&head.common.request, &mut scratch), archive);
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let list = decoder.decode(block, &mut Vec::new(), |field| fields.push(print(&field)));
    assert_eq!(list, Ok(List::Whole));
    fields
}

fn qpack_decoded(decoder: &qpack::Decoder, section: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(section, &mut Vec::new(), |field| fields.push(print(&field)));
    assert_eq!(decoded.unwrap().list, List::Whole);
    fields
}

fn print(field: &Field<'_>) -> String {
    let [name, value] = [field.name_text, field.value].map(String::from_utf8_lossy);
    format!("{name}: {value}")
}

/// Creates a site with pages in Brotli and identity, a page in identity with a modification time, redirects, a page with a
/// different status, error pages, and a damaged head.
fn site() -> Site {
    let mut writer = Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap();
    let mut resource = |status: u16, codings: &[Coding], modified| {
        let representations = codings.iter().map(|coding| {
            let content = format!("{status} {} {}", codings.len(), coding.name()).repeat(100);
            let digest = Digest::of(content.as_bytes());
            let body = writer.body(&digest, content.len() as u64, &mut content.as_bytes()).unwrap();
            let head = writer.head(&new_head(status, *coding, codings.len() > 1)).unwrap();
            NewRepresentation { coding: *coding, etag: digest.etag(), body, head }
        });
        let representations = representations.collect();
        NewRecord::Resource { status, origin: Origin::File, modified, representations }
    };

    let page = resource(200, &[Coding::Brotli, Coding::Identity], None);
    let coded = resource(200, &[Coding::Brotli], None);
    let plain = resource(200, &[Coding::Identity], Some(NOW + 5));
    let missing = resource(404, &[Coding::Identity], None);

    let rewritten = NewRecord::Rewrite { status: 410, path: vec![Piece::Literal(b"/page")] };
    let redirect = |status, target| NewRecord::Redirect { status, has_query: false, fragment: b"f", target };
    let here = redirect(301, vec![Piece::Literal(b"/there/"), Piece::Capture(0)]);
    let there = redirect(302, vec![Piece::Literal(b"https://example.org/")]);

    let damaged = NewHead {
        hpack: Default::default(),
        qpack: Default::default(),
        ..new_head(200, Coding::Identity, false)
    };
    let damaged = writer.head(&damaged).unwrap();

    let NewRecord::Resource { representations, .. } = &plain else { unreachable!("it is one") };
    let representations = vec![NewRepresentation { head: damaged, ..representations[0] }];
    let damaged = NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations };

    let mut buffer = KeyBuffer::new();
    for (name, record) in [
        ("page", &page),
        ("coded", &coded),
        ("plain", &plain),
        ("gone", &rewritten),
        ("there", &there),
        ("damaged", &damaged),
    ] {
        writer.path(None, Key::from_file(name.as_bytes(), &mut buffer).unwrap(), record).unwrap();
    }

    let rules = vec![NewRule {
        ordinal: 0,
        force: false,
        pages_only: false,
        pattern: vec![Piece::Literal(b"here/"), Piece::Splat(0)],
        record: here,
    }];

    let error_pages = vec![(404, missing.clone()), (405, page.clone()), (412, page)];
    let scope = NewScope { error_pages, rules, ..NewScope::default() };
    writer.scope(None, Key::ROOT, &scope).unwrap();

    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Site::new(Archive::from_bytes(bytes).unwrap(), VirtualHosts::Enabled)
}

fn new_head(status: u16, coding: Coding, varies: bool) -> NewHead {
    let representation = match coding {
        Coding::Identity => Vec::new(),
        coding => format!("Content-Encoding: {}\r\n", coding.name()).into_bytes(),
    };

    let vary: &[u8] = if varies { b"Vary: Accept-Encoding\r\n" } else { b"" };
    let mut head = NewHead {
        status,
        sends_etag: true,
        overrides: if varies { 0 } else { 8 },
        status_line: status_line(status),
        content_type: b"Content-Type: text/html; charset=utf-8\r\n".to_vec(),
        representation,
        resource: [vary, b"Cache-Control: public, no-cache\r\nAccept-Ranges: bytes\r\nX-A: b\r\n"].concat(),
        hpack: Default::default(),
        qpack: Default::default(),
    };

    let id_of = |name: &str, _: &[u8]| match name {
        "content-type" => 0,
        "content-encoding" => 1,
        "vary" => 2,
        "cache-control" => 3,
        "accept-ranges" => 4,
        "x-a" => 5,
        _ => NO_LINE_ID,
    };

    head.hpack = hpack::encode_head(&head, id_of);
    head.qpack = qpack::encode_head(&head, id_of);
    head
}
