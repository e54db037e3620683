//! Response fields as HPACK (RFC 7541).

use cannery_archive::{Head, HpackLine, HpackLines};

use super::encoder::{FieldEncoder, FieldName};
use crate::compression::hpack::{EncoderTable, index, put_field, put_name_index, put_text_length};
use crate::ground::archive_ref::ArchiveRef;
use crate::ground::decimal::Decimal;
use crate::response::server_fields::ServerFields;

impl FieldEncoder for EncoderTable {
    type Line<'a> = HpackLine<'a>;
    type Lines<'a> = HpackLines<'a>;

    #[inline]
    fn lines<'a>(head: &Head<'a>) -> HpackLines<'a> {
        head.hpack.lines()
    }

    #[inline]
    fn resource_lines<'a>(head: &Head<'a>) -> HpackLines<'a> {
        head.hpack.resource()
    }

    #[inline]
    fn has_name(line: HpackLine<'_>, name: FieldName) -> bool {
        line.static_index == static_index(name)
    }

    #[inline]
    fn begin(&mut self, section: &mut Vec<u8>, archive: ArchiveRef<'_>) {
        self.begin_block(section, archive.number, archive.identity);
    }

    #[inline]
    fn end(&mut self, _section: &mut [u8], _start: usize) {}

    #[inline]
    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>) {
        let mut lines = head.hpack.all();
        match lines.next() {
            Some(line) if index::STATUS.contains(&line.static_index) => self.put_archive_line(section, line),
            _ => return put_damaged_head(self, section, head),
        }
        for line in lines {
            self.put_archive_line(section, line);
        }
    }

    fn put_lines(&mut self, section: &mut Vec<u8>, lines: HpackLines<'_>) {
        for line in lines {
            self.put_archive_line(section, line);
        }
    }

    #[inline]
    fn put_line(&mut self, section: &mut Vec<u8>, line: HpackLine<'_>) {
        self.put_archive_line(section, line);
    }

    #[inline]
    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8) {
        section.extend_from_slice(fields.hpack_date());
        for line in fields.hpack_lines(overrides) {
            self.put_server_line(section, line);
        }
    }

    fn put_status(section: &mut Vec<u8>, status: u16) {
        put_field(section, ":status", Decimal::new(status.into()).digits());
    }

    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
        put_field(section, name, value);
    }

    #[inline]
    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]) {
        // Name index, length, and the quotes.
        let mut literal = *b"\x0f\x13\x12\"0123456789abcdef\"";
        literal[4..20].copy_from_slice(etag);
        section.extend_from_slice(&literal);
    }

    fn put_value(section: &mut Vec<u8>, name: FieldName, value: &str) {
        put_field(section, name.lower_case(), value.as_bytes());
    }

    #[inline]
    fn put_with(
        section: &mut Vec<u8>,
        name: FieldName,
        length: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        put_name_index(section, static_index(name));
        put_text_length(section, length());
        append(section);
    }

    // We use a literal without indexing here, because site-defined names are not in any table.
    fn put_rule(
        section: &mut Vec<u8>,
        name: &[u8],
        length: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        section.push(0);
        put_text_length(section, name.len());
        section.extend(name.iter().map(u8::to_ascii_lowercase));
        put_text_length(section, length());
        append(section);
    }
}

/// Appends a head from a damaged archive. Note that the response would be malformed without a status.
#[cold]
fn put_damaged_head(encoder: &mut EncoderTable, section: &mut Vec<u8>, head: &Head<'_>) {
    EncoderTable::put_status(section, head.status);
    encoder.put_lines(section, head.hpack.lines());
}

#[inline]
const fn static_index(name: FieldName) -> u8 {
    match name {
        FieldName::AcceptRanges => index::ACCEPT_RANGES,
        FieldName::Allow => index::ALLOW,
        FieldName::CacheControl => index::CACHE_CONTROL,
        FieldName::ContentLength => index::CONTENT_LENGTH,
        FieldName::ContentRange => index::CONTENT_RANGE,
        FieldName::ContentType => index::CONTENT_TYPE,
        FieldName::LastModified => index::LAST_MODIFIED,
        FieldName::Location => index::LOCATION,
        FieldName::Vary => index::VARY,
    }
}
