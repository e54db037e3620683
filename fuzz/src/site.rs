//! The site of the targets: a few paths, built once per thread.
//!
//! | path | resource |
//! |---|---|
//! | `/SET` for each set of codings, by its bits | a resource in these codings, the first one is the smallest |
//! | `/length/N` for each of [`LENGTHS`] | N bytes in identity, last modified at [`MODIFIED`] |

use std::io::{Read, Seek};

use cannery_archive::{
    Archive, Coding, Digest, Format, HeadId, Key, KeyBuffer, NewHead, NewRecord, NewRepresentation, Origin,
    Writer,
};
use cannery_site::{Site, VirtualHosts};

/// The lengths of the resources below `/length/`, in bytes.
pub(crate) const LENGTHS: [usize; 5] = [0, 1, 10, 300, 5000];

/// The modification time of these resources: 2024-11-20, in seconds since 1970.
pub(crate) const MODIFIED: u64 = 1_732_060_800;

/// The time of all requests.
pub(crate) const NOW: u64 = 1_763_700_000;

thread_local! {
    /// The site.
    pub(crate) static SITE: Site = site();
}

/// Returns the codings of a set, by its bits.
pub(crate) fn codings_of(set: usize) -> impl Iterator<Item = Coding> {
    Coding::ALL.into_iter().enumerate().filter(move |(bit, _)| set >> bit & 1 == 1).map(|(_, coding)| coding)
}

/// The number of sets of codings, including the empty one.
pub(crate) const SETS: usize = 1 << Coding::ALL.len();

/// Returns the body of a resource below `/length/`. Every four bytes contain their own position.
pub(crate) fn numbered(length: usize) -> Vec<u8> {
    (0u32..).flat_map(u32::to_be_bytes).take(length).collect()
}

fn site() -> Site {
    let file = tempfile::tempfile().expect("a file can be made");
    let mut writer = Writer::new(file, Format::Cdb).expect("it can be written");
    let head = NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/plain\r\n".to_vec(),
        representation: Vec::new(),
        resource: b"Cache-Control: no-cache\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };

    let head = writer.head(&head).expect("it can be written");
    for set in 1..SETS {
        let bodies = codings_of(set).map(|coding| (coding, coding.name().as_bytes().to_vec()));
        put(&mut writer, head, &set.to_string(), &bodies.collect::<Vec<_>>());
    }
    for length in LENGTHS {
        put(&mut writer, head, &format!("length/{length}"), &[(Coding::Identity, numbered(length))]);
    }

    let (mut file, _) = writer.finish().expect("it can be written");
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("it can be read");
    Site::new(Archive::from_bytes(bytes).expect("it is an archive"), VirtualHosts::Ignored)
}

fn put(writer: &mut Writer, head: HeadId, path: &str, bodies: &[(Coding, Vec<u8>)]) {
    let representations = bodies.iter().map(|(coding, body)| {
        let digest = Digest::of(body);
        let id = writer.body(&digest, body.len() as u64, &mut body.as_slice()).expect("it can be written");
        NewRepresentation { coding: *coding, etag: digest.etag(), body: id, head }
    });
    let record = NewRecord::Resource {
        status: 200,
        origin: Origin::File,
        modified: Some(MODIFIED),
        representations: representations.collect(),
    };
    let mut buffer = KeyBuffer::new();
    let key = Key::from_file(path.as_bytes(), &mut buffer).expect("it is a path");
    writer.path(None, key, &record).expect("it can be written");
}
