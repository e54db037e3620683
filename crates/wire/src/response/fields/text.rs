//! Response fields as HTTP/1.1 text (RFC 9112 §5).

use cannery_archive::Head;

use super::encoder::{FieldEncoder, FieldName};
use crate::ground::archive_ref::ArchiveRef;
use crate::ground::decimal::put_digits;
use crate::response::head;
use crate::response::server_fields::ServerFields;

/// HTTP/1.1 text encoder. Unlike the other encoders, this one does not need any state between responses.
pub(crate) struct Text<'a> {
    /// Value of the `Connection` field.
    pub(crate) connection: Option<&'a str>,
}

/// Consecutive lines. Each includes its line end.
pub(crate) struct TextLines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TextLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |place| place + 1);
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!line.is_empty()).then_some(line)
    }
}

impl FieldEncoder for Text<'_> {
    type Line<'a> = &'a [u8];
    type Lines<'a> = TextLines<'a>;

    #[inline]
    fn lines<'a>(head: &Head<'a>) -> TextLines<'a> {
        TextLines { rest: head.lines() }
    }

    #[inline]
    fn resource_lines<'a>(head: &Head<'a>) -> TextLines<'a> {
        TextLines { rest: head.resource() }
    }

    fn has_name(line: &[u8], name: FieldName) -> bool {
        line.strip_prefix(prefix(name)).is_some()
    }

    #[inline(always)]
    fn begin(&mut self, _: &mut Vec<u8>, _: ArchiveRef<'_>) {}

    #[inline(always)]
    fn end(&mut self, _: &mut [u8], _: usize) {}

    #[inline(always)]
    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>) {
        section.extend_from_slice(head.text);
    }

    #[inline]
    fn put_lines(&mut self, section: &mut Vec<u8>, lines: TextLines<'_>) {
        section.extend_from_slice(lines.rest);
    }

    #[inline]
    fn put_line(&mut self, section: &mut Vec<u8>, line: &[u8]) {
        section.extend_from_slice(line);
    }

    #[inline(always)]
    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8) {
        if let Some(option) = self.connection {
            section.extend_from_slice(b"Connection: ");
            section.extend_from_slice(option.as_bytes());
            section.extend_from_slice(b"\r\n");
        }
        section.extend_from_slice(fields.end_of_head(overrides));
    }

    fn put_status(section: &mut Vec<u8>, status: u16) {
        head::put_status_line(section, status);
    }

    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
        head::put_field(section, name, value);
    }

    fn put_value(section: &mut Vec<u8>, name: FieldName, value: &str) {
        Self::put_with(section, name, || value.len(), |section| section.extend_from_slice(value.as_bytes()));
    }

    #[inline(always)]
    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]) {
        let mut line = *b"ETag: \"0123456789abcdef\"\r\n";
        line[7..23].copy_from_slice(etag);
        section.extend_from_slice(&line);
    }

    #[inline(always)]
    fn put_with(
        section: &mut Vec<u8>,
        name: FieldName,
        _: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        section.extend_from_slice(prefix(name));
        append(section);
        section.extend_from_slice(b"\r\n");
    }

    fn put_rule(
        section: &mut Vec<u8>,
        name: &[u8],
        _: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        section.extend_from_slice(name);
        section.extend_from_slice(b": ");
        append(section);
        section.extend_from_slice(b"\r\n");
    }

    /// Appends the whole line at once because a short slice costs about as much as a longer one.
    #[inline(always)]
    fn put_content_length(section: &mut Vec<u8>, length: u64) {
        const NAME: &[u8; 16] = b"Content-Length: ";
        let mut line = *b"Content-Length: 01234567890123456789\r\n";

        // The digits are right-aligned. Put the name right before them.
        let end = line.len() - 2;
        let start = put_digits(&mut line[..end], length) - NAME.len();
        line[start..][..NAME.len()].copy_from_slice(NAME);
        section.extend_from_slice(&line[start..]);
    }
}

/// Returns the name and the bytes that separate it from the value.
#[inline(always)]
const fn prefix(name: FieldName) -> &'static [u8] {
    match name {
        FieldName::AcceptRanges => b"Accept-Ranges: ",
        FieldName::Allow => b"Allow: ",
        FieldName::CacheControl => b"Cache-Control: ",
        FieldName::ContentLength => b"Content-Length: ",
        FieldName::ContentRange => b"Content-Range: ",
        FieldName::ContentType => b"Content-Type: ",
        FieldName::LastModified => b"Last-Modified: ",
        FieldName::Location => b"Location: ",
        FieldName::Vary => b"Vary: ",
    }
}
