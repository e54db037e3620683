//! Response fields in QPACK (RFC 9204).

use cannery_archive::{Head, QpackLine, QpackLines};

use super::encoder::{FieldEncoder, FieldName};
use crate::compression::hpack::put_text_length;
use crate::compression::qpack::{
    EncoderTable, index, is_status, put_field, put_literal_name, put_name_index, put_status, static_name,
};
use crate::ground::archive_ref::ArchiveRef;
use crate::response::server_fields::ServerFields;

impl FieldEncoder for EncoderTable {
    type Line<'a> = QpackLine<'a>;
    type Lines<'a> = QpackLines<'a>;

    #[inline]
    fn lines<'a>(head: &Head<'a>) -> QpackLines<'a> {
        head.qpack().lines()
    }

    #[inline]
    fn resource_lines<'a>(head: &Head<'a>) -> QpackLines<'a> {
        head.qpack().resource()
    }

    fn has_name(line: QpackLine<'_>, name: FieldName) -> bool {
        static_name(line.representation) == Some(name.lower_case().as_bytes())
    }

    #[inline]
    fn begin(&mut self, section: &mut Vec<u8>, archive: ArchiveRef<'_>) {
        self.begin_section(section, archive.number, archive.identity);
    }

    #[inline]
    fn end(&mut self, section: &mut [u8], start: usize) {
        self.end_section(&mut section[start..]);
    }

    #[inline]
    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>) {
        let lines = head.qpack().all();
        if is_status(lines.representations()) {
            self.put_archive_lines(section, lines);
        } else {
            put_damaged_head(self, section, head);
        }
    }

    #[inline]
    fn put_lines(&mut self, section: &mut Vec<u8>, lines: QpackLines<'_>) {
        self.put_archive_lines(section, lines);
    }

    #[inline]
    fn put_line(&mut self, section: &mut Vec<u8>, line: QpackLine<'_>) {
        self.put_archive_line(section, line);
    }

    #[inline]
    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8) {
        section.extend_from_slice(fields.qpack_date());
        for line in fields.qpack_lines(overrides) {
            self.put_server_line(section, line);
        }
    }

    fn put_status(section: &mut Vec<u8>, status: u16) {
        put_status(section, status);
    }

    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]) {
        put_field(section, name, value);
    }

    #[inline]
    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]) {
        // Name index, length, and the quotes.
        let mut literal = *b"\x57\x12\"0123456789abcdef\"";
        literal[3..19].copy_from_slice(etag);
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
        put_name(section, name);
        put_text_length(section, length());
        append(section);
    }

    fn put_rule(
        section: &mut Vec<u8>,
        name: &[u8],
        length: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        put_literal_name(section, name);
        put_text_length(section, length());
        append(section);
    }
}

/// Appends the start of a field line, up to its name.
#[inline]
fn put_name(section: &mut Vec<u8>, name: FieldName) {
    match name {
        FieldName::AcceptRanges => put_name_index(section, index::ACCEPT_RANGES),
        FieldName::Allow => put_literal_name(section, b"allow"),
        FieldName::CacheControl => put_name_index(section, index::CACHE_CONTROL),
        FieldName::ContentLength => put_name_index(section, index::CONTENT_LENGTH),
        // The static table doesn't have this name.
        FieldName::ContentRange => section.extend_from_slice(CONTENT_RANGE),
        FieldName::ContentType => put_name_index(section, index::CONTENT_TYPE),
        FieldName::LastModified => put_name_index(section, index::LAST_MODIFIED),
        FieldName::Location => put_name_index(section, index::LOCATION),
        FieldName::Vary => put_name_index(section, index::VARY),
    }
}

/// Appends a head from a damaged archive. Without a status, the response would be malformed.
#[cold]
fn put_damaged_head(encoder: &mut EncoderTable, section: &mut Vec<u8>, head: &Head<'_>) {
    put_status(section, head.status);
    encoder.put_archive_lines(section, head.qpack().lines());
}

/// `content-range` as a Huffman-coded literal name.
const CONTENT_RANGE: &[u8] = b"\x2f\x02\x21\xea\x49\x6a\x4a\xd6\x0e\xa9\x8b";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        use FieldName::{
            AcceptRanges, CacheControl, ContentLength, ContentRange, ContentType, LastModified, Location,
            Vary,
        };
        let in_table = [AcceptRanges, CacheControl, ContentLength, ContentType, LastModified, Location, Vary];
        for name in [in_table.as_slice(), &[ContentRange]].concat() {
            let mut literal = Vec::new();
            EncoderTable::put_with(&mut literal, name, || 1, |section| section.push(b'~'));
            let mut expected = Vec::new();
            put_field(&mut expected, name.lower_case(), b"~");
            assert_eq!(literal, expected, "{name:?}");

            if name != ContentRange {
                assert_eq!(static_name(&literal), Some(name.lower_case().as_bytes()));
            }
        }
    }

    #[test]
    fn etag_is_encoded() {
        let mut literal = Vec::new();
        EncoderTable::put_etag(&mut literal, b"~~~~~~~~~~~~~~~~");
        let mut expected = Vec::new();
        put_field(&mut expected, "etag", b"\"~~~~~~~~~~~~~~~~\"");
        assert_eq!(literal, expected);
    }
}
