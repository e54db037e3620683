//! Writes the two archives of the pinned inputs: a small site, built by the archiver, and a large one of map tiles.
//!
//! It runs before counting: on the simulated processor it would take minutes.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{self, File};

use cannery_archive::{
    Coding, Digest, Format, Key, KeyBuffer, NewHead, NewRecord, NewRepresentation, Origin, Writer,
};
use cannery_archiver::Options;
use cannery_counts::{HELD, RECORDS, large, site, sources};

fn main() -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(site().parent().ok_or("a path of ours has a folder")?)?;
    cannery_archiver::compile(&Options::new(sources(), site()), &())?;
    write_large()
}

/// As many paths as a large map has, one body and one head.
fn write_large() -> Result<(), Box<dyn Error>> {
    let mut writer = Writer::new(File::create(large())?, Format::Cdb)?;
    let content = b"the picture of a tile";
    let digest = Digest::of(content);
    let body = writer.body(&digest, content.len() as u64, &mut content.as_slice())?;
    let head = writer.head(&NewHead {
        status: 200,
        sends_etag: true,
        overrides: 0,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: image/png\r\n".to_vec(),
        representation: Vec::new(),
        resource: b"Cache-Control: public, max-age=3600\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    })?;
    let representation = NewRepresentation { coding: Coding::Identity, etag: digest.etag(), body, head };

    let record = NewRecord::Resource {
        status: 200,
        origin: Origin::File,
        modified: None,
        representations: vec![representation],
    };

    let mut buffer = KeyBuffer::new();
    let mut is_held = false;
    for number in 0..RECORDS {
        let path = format!("/14/{}/{}.png", 8262 + number / 500, 5240 + number % 500);
        is_held |= path.as_bytes() == HELD;
        writer.path(
            None,
            Key::from_target(path.as_bytes(), &mut buffer).map_err(|bad| bad.to_string())?,
            &record,
        )?;
    }

    assert!(is_held, "the path that is looked up is among those that are written");
    writer.finish()?;
    Ok(())
}
