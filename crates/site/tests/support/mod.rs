//! Sites in memory for the tests of this crate. One of them is a sample with a few hundred small files.

#![allow(clippy::unwrap_used, reason = "test helpers: a panic is the report")]
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{Read, Seek};

use cannery_archive::{
    Archive, Coding, Digest, Format, Key, KeyBuffer, NewHead, NewRecord, NewRepresentation, NewRule,
    NewScope, Origin, Piece, Writer,
};
use cannery_site::{Site, VirtualHosts};

/// Finishes an archive and returns it as a site.
pub(crate) fn finished(writer: Writer) -> Site {
    let (mut file, _) = writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Site::new(Archive::from_bytes(bytes).unwrap(), VirtualHosts::Enabled)
}

/// Starts an archive.
pub(crate) fn writer() -> Writer {
    Writer::new(tempfile::tempfile().unwrap(), Format::Cdb).unwrap()
}

/// Returns a head for plain text without a coding, with these field lines about the resource.
pub(crate) fn plain_head(resource: &[u8]) -> NewHead {
    NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: Vec::new(),
        resource: resource.to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    }
}

/// Returns the sample site: `/docs/0.html` to `/docs/499.html` in gzip and identity, and in `/app/` a rule, a fallback page and
/// error pages. The subdomains of `example.org` have an empty site.
pub(crate) fn site() -> Site {
    let mut writer = writer();
    let head = |coding: &[u8]| NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/html; charset=utf-8\r\n".to_vec(),
        representation: coding.to_vec(),
        resource: b"Vary: Accept-Encoding\r\nCache-Control: public, no-cache\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };

    let heads =
        [writer.head(&head(b"Content-Encoding: gzip\r\n")).unwrap(), writer.head(&head(b"")).unwrap()];

    let mut buffer = KeyBuffer::new();
    let mut last = None;

    for number in 0..500 {
        let mut representations = Vec::new();
        for (coding, head) in [Coding::Gzip, Coding::Identity].into_iter().zip(heads) {
            let content = format!("{number} {}", coding.name());
            let digest = Digest::of(content.as_bytes());
            let body = writer.body(&digest, content.len() as u64, &mut content.as_bytes()).unwrap();
            representations.push(NewRepresentation { coding, etag: digest.etag(), body, head });
        }
        let record =
            NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations };
        let key = Key::from_file(format!("docs/{number}.html").as_bytes(), &mut buffer).unwrap();
        writer.path(None, key, &record).unwrap();
        last = Some(record);
    }

    let target = vec![Piece::Literal(b"/new/"), Piece::Capture(0)];
    let redirect = NewRecord::Redirect { status: 301, has_query: false, fragment: b"", target };
    let pattern = vec![Piece::Literal(b"app/old/"), Piece::Splat(0)];
    let rules = vec![NewRule { ordinal: 0, force: false, pages_only: false, pattern, record: redirect }];

    let page = last.unwrap();
    let error_pages = vec![(404, page.clone()), (405, page.clone())];
    let scope = NewScope { fallbacks: vec![(b"html", page)], error_pages, ..NewScope::default() };
    writer.scope(None, Key::from_file(b"app/", &mut buffer).unwrap(), &scope).unwrap();
    writer.scope(None, Key::ROOT, &NewScope { rules, ..NewScope::default() }).unwrap();
    writer.scope(Some("*.example.org"), Key::ROOT, &NewScope::default()).unwrap();
    finished(writer)
}
