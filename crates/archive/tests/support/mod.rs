//! A small archive with one record of each kind, for the tests of this crate.

#![allow(clippy::unwrap_used, reason = "a helper of tests: a panic is the report")]

use std::io::{Read, Seek};

use cannery_archive::{
    Coding, Digest, Format, Key, KeyBuffer, NewHead, NewRecord, NewRepresentation, NewRule, NewScope, Origin,
    Piece, Writer,
};

/// The bytes of the one body.
#[allow(dead_code, reason = "not every test binary looks at it")]
pub(crate) const BODY: &[u8] = b"hello, archive";

/// The archive in this width.
pub(crate) fn archive(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(tempfile::tempfile().unwrap(), format).unwrap();
    let digest = Digest::of(BODY);
    let body = writer.body(&digest, BODY.len() as u64, &mut &BODY[..]).unwrap();
    let head = NewHead {
        status: 200,
        sends_etag: true,
        overrides: 8,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: b"Content-Encoding: br\r\n".to_vec(),
        resource: b"Vary: Accept-Encoding\r\n".to_vec(),
    };
    let head = writer.head(&head).unwrap();
    let representations = vec![NewRepresentation { coding: Coding::Brotli, etag: digest.etag(), body, head }];
    let resource = NewRecord::Resource { status: 200, origin: Origin::Alias, representations };
    let target = vec![Piece::Literal(b"/new/"), Piece::Capture(0)];
    let redirect = NewRecord::Redirect { status: 308, has_query: false, fragment: b"top", target };
    let mut buffer = KeyBuffer::new();
    let mut key = |path: &[u8]| Key::from_file(path, &mut buffer).unwrap().bytes().to_vec();
    let (page, old, folder) = (key(b"page"), key(b"old"), key(b"docs/"));
    let mut buffer = KeyBuffer::new();
    writer.path(None, Key::from_file(&page[1..], &mut buffer).unwrap(), &resource).unwrap();
    writer.path(Some("example.com"), Key::from_file(&old[1..], &mut buffer).unwrap(), &redirect).unwrap();
    let rule = NewRule { ordinal: 7, force: true, pattern: vec![Piece::Splat(0)], record: redirect };
    let scope = NewScope {
        own_site: false,
        fallbacks: vec![(b"html", resource.clone())],
        error_pages: vec![(404, resource)],
        rules: vec![rule],
    };
    writer.scope(None, Key::from_file(&folder[1..], &mut buffer).unwrap(), &scope).unwrap();
    writer.source(b"_redirects", body).unwrap();
    writer.manifest(b"{}").unwrap();
    let (mut file, _) = writer.finish(true).unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}
