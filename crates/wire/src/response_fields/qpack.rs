//! Response fields in QPACK (RFC 9204).

use cannery_archive::Head;

use super::encoder::{FieldEncoder, FieldName};
use crate::archive_ref::ArchiveRef;
use crate::hpack::put_string;
use crate::qpack::{EncoderTable, put_field};
use crate::server_fields::ServerFields;

/// Lines of HTTP/1.1.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }
}

impl FieldEncoder for EncoderTable {
    type Line<'a> = (&'a [u8], &'a [u8]);
    type Lines<'a> = Lines<'a>;

    fn lines<'a>(head: &Head<'a>) -> Lines<'a> {
        Lines(head.lines())
    }

    fn resource_lines<'a>(head: &Head<'a>) -> Lines<'a> {
        Lines(head.resource())
    }

    fn has_name((name, _): Self::Line<'_>, wanted: FieldName) -> bool {
        name.eq_ignore_ascii_case(match wanted {
            FieldName::CacheControl => b"cache-control",
            FieldName::ContentLength => b"content-length",
            FieldName::ContentRange => b"content-range",
            FieldName::ContentType => b"content-type",
            FieldName::LastModified => b"last-modified",
            FieldName::Location => b"location",
        })
    }

    fn begin(&mut self, section: &mut Vec<u8>, _archive: ArchiveRef<'_>) {
        section.extend_from_slice(&[0, 0]);
    }

    fn end(&mut self, _section: &mut [u8], _start: usize) {}

    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>) {
        put_field(section, ":status", head.status.to_string().as_bytes());
        self.put_lines(section, Self::lines(head));
    }

    fn put_lines(&mut self, section: &mut Vec<u8>, lines: Lines<'_>) {
        for line in lines {
            self.put_line(section, line);
        }
    }

    fn put_line(&mut self, section: &mut Vec<u8>, (name, value): Self::Line<'_>) {
        put_field(section, &String::from_utf8_lossy(name).to_ascii_lowercase(), value);
    }

    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8) {
        self.put_lines(section, Lines(fields.lines(overrides)));
    }

    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
        put_field(section, name, value);
    }

    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]) {
        // The index of the name, the length, and the quotes.
        let mut literal = *b"\x57\x12\"0123456789abcdef\"";
        literal[3..19].copy_from_slice(etag);
        section.extend_from_slice(&literal);
    }

    fn put_name(section: &mut Vec<u8>, name: FieldName) {
        match name {
            FieldName::CacheControl => section.extend_from_slice(&[0x5f, 36 - 15]),
            FieldName::ContentLength => section.push(0x50 | 4),
            FieldName::ContentRange => put_string(section, 0x20, 3, b"content-range"),
            FieldName::ContentType => section.extend_from_slice(&[0x5f, 44 - 15]),
            FieldName::LastModified => section.push(0x50 | 10),
            FieldName::Location => section.push(0x50 | 12),
        }
    }

    fn put_literal_name(section: &mut Vec<u8>, name: &[u8]) {
        put_string(section, 0x20, 3, &name.to_ascii_lowercase());
    }
}
