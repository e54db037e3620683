//! Heads of answers as literals, from what HTTP/1.1 spells: until they are spelled ahead.
//!
//! Slow, and right: it allocates.

use cannery_site::{Answer, Body};

use crate::archive_ref::ArchiveRef;
use crate::h1;
use crate::hpack::put_field;
use crate::output::Output;
use crate::server_fields::ServerFields;

/// Spells the header block of an answer.
pub(super) fn head(answer: &Answer<'_>, archive: ArchiveRef<'_>, fields: &ServerFields, output: &mut Output) {
    let mut text = Output::new();
    let bodiless = Answer { body: Body::Empty, ..*answer };
    h1::spell_answer(&mut text, &bodiless, archive.bytes, fields);
    let mut block = Vec::new();
    let mut lines = text.parts().0.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().and_then(|line| line.get(9..12)).unwrap_or_default();
    put_field(&mut block, ":status", status);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        put_field(&mut block, &name, line[colon + 1..].trim_ascii());
    }
    output.put(&block);
}

/// Spells fields.
pub(super) fn put_fields(fields: &[(&str, &[u8])], output: &mut Output) {
    let mut block = Vec::new();
    for (name, value) in fields {
        put_field(&mut block, name, value);
    }
    output.put(&block);
}
