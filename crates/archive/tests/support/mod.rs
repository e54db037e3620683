//! A small archive for the tests of this crate, with a record of each kind.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "test helpers: a panic is the report, and no test uses all"
)]

pub(crate) mod exercise;

use std::io::{Read, Seek};

use cannery_archive::{
    BodyId, Coding, Digest, Format, HeadId, HeaderEffect, Key, KeyBuffer, NO_LINE_ID, NewHead, NewHeaderRule,
    NewHpackLine, NewQpackLine, NewRecord, NewRepresentation, NewRule, NewScope, Origin, Piece, Writer,
};

/// Both widths.
pub(crate) const FORMATS: [Format; 2] = [Format::Cdb, Format::Cdb64];

/// The bytes of the first body.
pub(crate) const BODY: &[u8] = b"hello, archive";
/// The bytes of the second body.
pub(crate) const OTHER_BODY: &[u8] = b"hello again";

/// Creates a writer for an anonymous file.
pub(crate) fn writer(format: Format) -> Writer {
    Writer::new(tempfile::tempfile().unwrap(), format).unwrap()
}

/// Returns the archive that was written.
pub(crate) fn finish(writer: Writer) -> Vec<u8> {
    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Calls `action` with the key for a source file or directory.
pub(crate) fn with_key<T>(path: &str, action: impl FnOnce(Key<'_>) -> T) -> T {
    action(Key::from_file(path.as_bytes(), &mut KeyBuffer::new()).unwrap())
}

/// Writes a body under its digest.
pub(crate) fn put_body(writer: &mut Writer, content: &[u8]) -> BodyId {
    writer.body(&Digest::of(content), content.len() as u64, &mut &*content).unwrap()
}

/// Returns a head. Its runs have different lengths.
pub(crate) fn head() -> NewHead {
    NewHead {
        status: 200,
        sends_etag: true,
        overrides: 8,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: b"Content-Encoding: br\r\n".to_vec(),
        resource: b"Vary: Accept-Encoding\r\n".to_vec(),
        hpack: [
            vec![line(NO_LINE_ID, 8, 0, b"")],
            vec![line(1, 31, 54, b"\x0atext/plain")],
            vec![line(2, 26, 50, b"\x02br")],
            vec![line(0, 59, 51, b"\x0fAccept-Encoding"), line(NO_LINE_ID, 0, 34, b"\x01a\x01b")],
        ],
        qpack: [
            vec![qpack_line(NO_LINE_ID, 0, b"\xd9")],
            vec![qpack_line(1, 54, b"\x5f\x1d\x0atext/plain")],
            vec![qpack_line(NO_LINE_ID, 0, b"\xea")],
            vec![
                qpack_line(0, 51, b"\x5f\x2c\x0fAccept-Encoding"),
                qpack_line(NO_LINE_ID, 34, b"\x21a\x01b"),
            ],
        ],
    }
}

fn qpack_line(id: u8, size: u16, representation: &[u8]) -> NewQpackLine {
    NewQpackLine { id, size, representation: representation.to_vec() }
}

fn line(id: u8, static_index: u8, size: u16, literal: &[u8]) -> NewHpackLine {
    NewHpackLine { id, static_index, size, literal: literal.to_vec() }
}

/// Returns a representation of `content`.
pub(crate) fn representation(
    coding: Coding,
    content: &[u8],
    body: BodyId,
    head: HeadId,
) -> NewRepresentation {
    NewRepresentation { coding, etag: Digest::of(content).etag(), body, head }
}

/// Returns the sample archive with this width.
pub(crate) fn archive(format: Format) -> Vec<u8> {
    let mut writer = writer(format);
    let (body, other) = (put_body(&mut writer, BODY), put_body(&mut writer, OTHER_BODY));
    let head = writer.head(&head()).unwrap();
    writer.plain_head(head, head).unwrap();
    let brotli = representation(Coding::Brotli, BODY, body, head);
    let identity = representation(Coding::Identity, OTHER_BODY, other, head);

    let alias = NewRecord::Resource {
        status: 200,
        origin: Origin::Alias,
        modified: None,
        representations: vec![brotli, identity],
    };
    let page = NewRecord::Resource {
        status: 404,
        origin: Origin::File,
        modified: Some(784_111_777),
        representations: vec![identity],
    };

    let target = vec![Piece::Literal(b"/new/"), Piece::Capture(0)];
    let redirect = NewRecord::Redirect { status: 308, has_query: true, fragment: b"top", target };
    let rewrite = NewRecord::Rewrite { status: 203, path: vec![Piece::Literal(b"/page")] };

    with_key("page", |key| writer.path(None, key, &alias)).unwrap();
    with_key("shown", |key| writer.path(None, key, &rewrite)).unwrap();
    with_key("old", |key| writer.path(Some("Example.com"), key, &redirect)).unwrap();

    let rules = vec![
        NewRule {
            ordinal: 7,
            force: true,
            pages_only: false,
            pattern: vec![Piece::Capture(0), Piece::Splat(1)],
            record: redirect,
        },
        NewRule {
            ordinal: 9,
            force: false,
            pages_only: true,
            pattern: vec![Piece::Literal(b"x"), Piece::Splat(0)],
            record: rewrite,
        },
    ];

    let header_rule = NewHeaderRule {
        ordinal: 3,
        host: b"*.example.com",
        pattern: vec![Piece::Splat(0)],
        fields: vec![
            (HeaderEffect::Remove, 8, b"X-Frame-Options".to_vec(), vec![]),
            (HeaderEffect::Join, 0, b"Link".to_vec(), b"<a>".to_vec()),
            (HeaderEffect::Replace, 1, b"Referrer-Policy".to_vec(), b"no-referrer".to_vec()),
            (HeaderEffect::Line, 0, b"Set-Cookie".to_vec(), b"a=1".to_vec()),
        ],
    };

    let scope = NewScope {
        own_site: false,
        fallbacks: vec![(b"html", alias)],
        error_pages: vec![(404, page)],
        rules,
        header_rules: vec![header_rule],
    };

    with_key("docs/", |key| writer.scope(None, key, &scope)).unwrap();
    let own = NewScope { own_site: true, ..NewScope::default() };
    with_key("", |key| writer.scope(Some("example.com"), key, &own)).unwrap();
    with_key("", |key| writer.scope(Some("*.Example.com"), key, &NewScope::default())).unwrap();

    writer.source(b"_redirects", other).unwrap();
    writer.manifest(b"{}").unwrap();
    writer.set_serial(7);
    finish(writer)
}

/// Fixes the length and digest of a 32-bit archive after a change, as an attacker would do.
///
/// The offsets are from `FORMAT.md`: in the facts, the length is at byte 40 and the digest at byte 64.
pub(crate) fn reseal(file: &mut [u8]) {
    const FACTS_AT: usize = 2063;
    let length = (file.len() as u64).to_le_bytes();
    file[FACTS_AT + 40..FACTS_AT + 48].copy_from_slice(&length);
    let (beginning, rest) = file.split_at_mut(FACTS_AT + 96);
    beginning[FACTS_AT + 64..].fill(0);
    let digest = Digest::of(&[&*rest, &*beginning].concat());
    beginning[FACTS_AT + 64..].copy_from_slice(&digest.0);
}
