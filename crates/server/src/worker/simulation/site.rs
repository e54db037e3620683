//! Two releases of a small site, for the simulation: the same paths with different bytes.

use std::io::{Read, Seek};
use std::sync::Arc;

use cannery_archive::{
    Archive, Coding, Digest, Format, Key, KeyBuffer, NO_LINE_ID, NewHead, NewRecord, NewRepresentation,
    NewScope, Origin, Writer,
};
use cannery_site::{Site, VirtualHosts};

use crate::content::{Content, Entry, Sites};
use crate::pages::BuiltinPages;

pub(super) struct Releases {
    pub(super) first: Arc<Content>,
    pub(super) second: Arc<Content>,
}

impl Releases {
    pub(super) fn build() -> Releases {
        let release = |name| {
            let archive = Archive::from_bytes(archive(name)).expect("an archive");
            let site = Arc::new(Site::new(archive, VirtualHosts::Enabled));
            Arc::new(Content::Sites(Sites::new(
                vec![Entry { host: None, site, earlier: Vec::new(), preview: None, is_withdrawn: false }],
                BuiltinPages::default(),
            )))
        };
        Releases { first: release("first"), second: release("second") }
    }

    /// Returns copies with reference counts of their own.
    pub(super) fn unshared(&self) -> Releases {
        let copy = |content: &Content| {
            let Content::Sites(sites) = content else { panic!("releases are sites") };
            Arc::new(Content::Sites(sites.with(sites.entries().to_vec())))
        };
        Releases { first: copy(&self.first), second: copy(&self.second) }
    }
}

/// Builds an archive with the resources `/small`, `/middle` and `/large`, and error pages.
///
/// `/middle` has a gzip and an identity representation, both large enough to be sent from the archive without
/// a copy. The same is true for the 400 page, while the 408 page takes several calls to send.
///
/// A release that is a number has this serial.
pub(crate) fn archive(release: &str) -> Vec<u8> {
    let mut writer =
        Writer::new(tempfile::tempfile().expect("a temporary file"), Format::Cdb).expect("a writer");

    let resource = |writer: &mut Writer, name: &str, codings: &[Coding], length: usize| {
        let mut representations = Vec::new();
        for coding in codings {
            let line = format!("{release} {name} {}\n", coding.name());
            let content: Vec<u8> = line.bytes().cycle().take(length).collect();
            let digest = Digest::of(&content);
            let body = writer.body(&digest, length as u64, &mut content.as_slice()).expect("a body");
            let head = writer.head(&head(*coding)).expect("a head");
            representations.push(NewRepresentation { coding: *coding, etag: digest.etag(), body, head });
        }
        NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations }
    };

    let paths: [(&str, &[Coding], usize); 3] = [
        ("small", &[Coding::Identity], 13),
        ("middle", &[Coding::Gzip, Coding::Identity], 9000),
        ("large", &[Coding::Identity], 80_000),
    ];
    for (name, codings, length) in paths {
        let record = resource(&mut writer, name, codings, length);
        let mut buffer = KeyBuffer::new();
        let key = Key::from_file(name.as_bytes(), &mut buffer).expect("a key");
        writer.path(None, key, &record).expect("a path");
    }

    let mut page = |status: u16, length| {
        (status, resource(&mut writer, &status.to_string(), &[Coding::Identity], length))
    };
    let error_pages = vec![page(400, 9000), page(404, 100), page(405, 100), page(408, 60_000)];
    let scope = NewScope { error_pages, ..NewScope::default() };
    writer.scope(None, Key::ROOT, &scope).expect("a scope");

    writer.set_serial(release.parse().unwrap_or(0));
    let (mut file, _) = writer.finish().expect("an archive");
    let mut bytes = Vec::new();
    file.rewind().expect("a temporary file");
    file.read_to_end(&mut bytes).expect("a temporary file");
    bytes
}

fn head(coding: Coding) -> NewHead {
    let encoding = match coding {
        Coding::Identity => Vec::new(),
        coding => format!("Content-Encoding: {}\r\n", coding.name()).into_bytes(),
    };
    let mut head = NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: encoding,
        resource: b"Vary: Accept-Encoding\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };

    let id_of = |name: &str, _: &[u8]| match name {
        "content-type" => 0,
        "vary" => 1,
        // One line ID per coding.
        "content-encoding" => 2 + coding as u8,
        _ => NO_LINE_ID,
    };

    head.hpack = cannery_wire::hpack::encode_head(&head, id_of);
    head.qpack = cannery_wire::qpack::encode_head(&head, id_of);
    head
}
