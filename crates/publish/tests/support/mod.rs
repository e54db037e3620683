//! Small archives for the tests of this crate.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "test helpers: a panic is the report, and no test uses all"
)]

use std::io::{Read, Seek};
use std::sync::Arc;

use cannery_archive::{
    Archive, BodyId, Coding, Digest, Format, Key, KeyBuffer, NO_LINE_ID, NewHead, NewHpackLine, NewQpackLine,
    NewRecord, NewRepresentation, Origin, Writer,
};

/// A site: paths with their contents.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) format: Format,
    pub(crate) serial: u64,
}

impl Site {
    pub(crate) fn new(files: &[(&str, &[u8])], serial: u64) -> Site {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
        Site { files, format: Format::Cdb, serial }
    }

    /// Returns the bytes of its archive.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), self.format).unwrap();
        writer.set_serial(self.serial);
        let mut bodies: Vec<(Digest, BodyId)> = Vec::new();
        for (_, content) in &self.files {
            let digest = Digest::of(content);
            if !bodies.iter().any(|(other, _)| *other == digest) {
                bodies.push((digest, writer.body_from_slice(&digest, content).unwrap()));
            }
        }

        let head = writer.head(&head()).unwrap();
        let mut buffer = KeyBuffer::new();
        let mut paths: Vec<&str> = Vec::new();
        for (path, content) in &self.files {
            if paths.contains(&path.as_str()) {
                continue;
            }
            paths.push(path);
            let digest = Digest::of(content);
            let body = bodies.iter().find(|(other, _)| *other == digest).unwrap().1;
            let coding = Coding::Identity;
            let representation = NewRepresentation { coding, etag: digest.etag(), body, head };
            let record = NewRecord::Resource {
                status: 200,
                origin: Origin::File,
                modified: (content.len() % 3 == 0).then_some(784_111_777),
                representations: vec![representation; 1 + content.len() % 2],
            };
            writer.path(None, Key::from_file(path.as_bytes(), &mut buffer).unwrap(), &record).unwrap();
        }
        writer.manifest(format!("{{\"serial\":{}}}", self.serial).as_bytes()).unwrap();

        let (mut file, _) = writer.finish().unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn archive(&self) -> Arc<Archive> {
        Arc::new(Archive::from_bytes(self.bytes()).unwrap())
    }
}

fn head() -> NewHead {
    NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: Vec::new(),
        resource: Vec::new(),
        hpack: [
            vec![NewHpackLine { id: NO_LINE_ID, static_index: 8, size: 0, literal: Vec::new() }],
            vec![NewHpackLine { id: 1, static_index: 31, size: 54, literal: b"\x0atext/plain".to_vec() }],
            vec![],
            vec![],
        ],
        qpack: [
            vec![NewQpackLine { id: NO_LINE_ID, size: 0, representation: b"\xd9".to_vec() }],
            vec![NewQpackLine { id: 1, size: 54, representation: b"\x5f\x1d\x0atext/plain".to_vec() }],
            vec![],
            vec![],
        ],
    }
}

/// Returns `length` bytes that no other seed has.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Reads a file from its start.
pub(crate) fn read_all(mut file: std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}
