//! A small archive for the tests of the commands, with a record of each kind.
//!
//! We write it with the archive crate, so that a bug in the archiver won't make these tests fail.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use cannery_archive::{
    Archive, BodyId, Coding, Digest, Format, HeadId, Key, KeyBuffer, NO_LINE_ID, NewHead, NewRecord,
    NewRepresentation, NewRule, NewScope, Origin, Piece, Writer,
};
use libdeflater::{CompressionLvl, Compressor};

/// The content of `index.html`, of its copy, and of the `index.html` of the host.
pub(super) const INDEX: &[u8] = b"<!doctype html><title>home</title>";
/// The content of `a/coded only.txt`, which is stored only as gzip.
pub(super) const TEXT: &[u8] = b"over and over and over and over and over and over again";
/// The content of `_redirects`.
pub(super) const REDIRECTS: &[u8] = b"/old/* /new/:splat 301\n/go https://example.com/ 302\n";
/// The content of `_404.html`.
pub(super) const NOT_FOUND: &[u8] = b"<!doctype html><title>nothing</title>";

/// An archive in a temporary directory, which is removed when the value is dropped.
pub(super) struct Sample {
    /// The path of the archive.
    pub(super) archive: PathBuf,
    folder: tempfile::TempDir,
}

impl Sample {
    /// Writes the archive.
    pub(super) fn write() -> Sample {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("site.cdb");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&archive).unwrap();
        write(file);
        Sample { archive, folder }
    }

    /// Returns a directory for files of the test.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens the archive.
    pub(super) fn open(&self) -> Archive {
        super::open::open(&self.archive).unwrap()
    }
}

fn write(file: File) {
    let mut writer = Writer::new(file, Format::Cdb).unwrap();
    let mut body = |bytes: &[u8]| {
        (writer.body(&Digest::of(bytes), bytes.len() as u64, &mut &bytes[..]).unwrap(), Digest::of(bytes))
    };
    let (index, text) = (body(INDEX), body(&gzip(TEXT)));
    let (redirects, not_found) = (body(REDIRECTS), body(NOT_FOUND));

    let html = writer.head(&head(200, b"Content-Type: text/html\r\n", b"")).unwrap();
    let coded = b"Content-Encoding: gzip\r\n";
    let plain = writer.head(&head(200, b"Content-Type: text/plain\r\n", coded)).unwrap();
    let missing = writer.head(&head(404, b"Content-Type: text/html\r\n", b"")).unwrap();

    let mut buffer = KeyBuffer::new();
    let mut path = |host: Option<&str>, path: &[u8], record: &NewRecord<'_>| {
        writer.path(host, Key::from_file(path, &mut buffer).unwrap(), record).unwrap();
    };
    path(None, b"index.html", &resource(200, Origin::File, Coding::Identity, index, html));
    path(None, b"copy.html", &resource(200, Origin::File, Coding::Identity, index, html));
    path(None, b"", &resource(200, Origin::Alias, Coding::Identity, index, html));
    path(None, b"a/coded only.txt", &resource(200, Origin::File, Coding::Gzip, text, plain));
    path(Some("h.test"), b"index.html", &resource(200, Origin::File, Coding::Identity, index, html));
    path(None, b"go", &redirect(302, vec![Piece::Literal(b"https://example.com/")]));

    let rule = NewRule {
        ordinal: 0,
        force: false,
        pages_only: false,
        pattern: vec![Piece::Literal(b"old/"), Piece::Splat(0)],
        record: redirect(301, vec![Piece::Literal(b"/new/"), Piece::Capture(0)]),
    };
    let error_page = resource(404, Origin::File, Coding::Identity, not_found, missing);
    let root = NewScope { error_pages: vec![(404, error_page)], rules: vec![rule], ..NewScope::default() };
    writer.scope(None, Key::ROOT, &root).unwrap();
    writer.scope(Some("h.test"), Key::ROOT, &NewScope { own_site: true, ..NewScope::default() }).unwrap();
    writer.source(b"_redirects", redirects.0).unwrap();
    writer.source(b"_404.html", not_found.0).unwrap();
    writer
        .manifest(br#"{"tool":"sample","rule_files":["_redirects"],"rule_lines":[[0,1,0],[0,2,"/go"]]}"#)
        .unwrap();
    writer.finish().unwrap();
}

fn head(status: u16, content_type: &[u8], representation: &[u8]) -> NewHead {
    let mut head = NewHead {
        status,
        sends_etag: true,
        overrides: 0,
        status_line: cannery_wire::response_head::status_line(status),
        content_type: content_type.to_vec(),
        representation: representation.to_vec(),
        resource: b"Cache-Control: public, no-cache\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };
    let id_of = |name: &str, _: &[u8]| if name == "cache-control" { 0 } else { NO_LINE_ID };
    head.hpack = cannery_wire::hpack::encode_head(&head, id_of);
    head.qpack = cannery_wire::qpack::encode_head(&head, id_of);
    head
}

fn resource(
    status: u16,
    origin: Origin,
    coding: Coding,
    (body, digest): (BodyId, Digest),
    head: HeadId,
) -> NewRecord<'static> {
    let representation = NewRepresentation { coding, etag: digest.etag(), body, head };
    NewRecord::Resource { status, origin, modified: None, representations: vec![representation] }
}

fn redirect(status: u16, target: Vec<Piece<'_>>) -> NewRecord<'_> {
    NewRecord::Redirect { status, has_query: false, fragment: b"", target }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut coded = vec![0; 1000];
    let length = Compressor::new(CompressionLvl::best()).gzip_compress(content, &mut coded).unwrap();
    coded.truncate(length);
    coded
}
