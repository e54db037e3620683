//! The interface that the response field encoder needs from each syntax.

use cannery_archive::Head;

use crate::ground::archive_ref::ArchiveRef;
use crate::ground::decimal::Decimal;
use crate::response::server_fields::ServerFields;

/// A syntax for fields: HTTP/1 text, HPACK or QPACK (the latter two with state for each connection).
///
/// Methods append to an encoded field section. Stored lines are lines the archiver encoded in this syntax.
pub(crate) trait FieldEncoder {
    /// A stored line.
    type Line<'a>: Copy;
    /// Consecutive stored lines.
    type Lines<'a>: Iterator<Item = Self::Line<'a>>;

    /// Returns all stored lines of a head, without its status.
    fn lines<'a>(head: &Head<'a>) -> Self::Lines<'a>;

    /// Returns the stored lines that describe the resource. A 304 repeats them.
    fn resource_lines<'a>(head: &Head<'a>) -> Self::Lines<'a>;

    /// Returns `true` if a stored line has this name.
    fn has_name(line: Self::Line<'_>, name: FieldName) -> bool;

    /// Begins a section with lines from `archive`. This is necessary even if no field uses a table because HPACK sends table size
    /// updates first. The section must end with [`FieldEncoder::end`].
    fn begin(&mut self, section: &mut Vec<u8>, archive: ArchiveRef<'_>);

    /// Ends the section that begins at `start` in the buffer.
    fn end(&mut self, section: &mut [u8], start: usize);

    /// Appends the status and all stored lines of a head.
    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>);

    /// Appends stored lines from the archive passed to [`FieldEncoder::begin`].
    fn put_lines(&mut self, section: &mut Vec<u8>, lines: Self::Lines<'_>);

    /// Appends a stored line from the archive passed to [`FieldEncoder::begin`].
    fn put_line(&mut self, section: &mut Vec<u8>, line: Self::Line<'_>);

    /// Appends `date` and then the server's other fields, leaving out those with a bit in `overrides`.
    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8);

    fn put_status(section: &mut Vec<u8>, status: u16);

    /// Appends a field. `name` must be in lower case.
    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]);

    /// Appends one of our own values.
    fn put_value(section: &mut Vec<u8>, name: FieldName, value: &str);

    /// Appends an entity tag in quotes.
    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]);

    /// Appends a field with a value of `length` bytes, which `append` should append. HTTP/1 text does not need the length.
    fn put_with(
        section: &mut Vec<u8>,
        name: FieldName,
        length: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    );

    /// Appends a field from a rule, with any name. Its value has `length` bytes, which `append` should append.
    fn put_rule(
        section: &mut Vec<u8>,
        name: &[u8],
        length: impl FnOnce() -> usize,
        append: impl FnOnce(&mut Vec<u8>),
    );

    #[inline]
    fn put_content_length(section: &mut Vec<u8>, length: u64) {
        let number = Decimal::new(length);
        let digits = number.digits();
        let append = |section: &mut Vec<u8>| section.extend_from_slice(digits);
        Self::put_with(section, FieldName::ContentLength, || digits.len(), append);
    }
}

/// Names that the encoder needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldName {
    AcceptRanges,
    Allow,
    CacheControl,
    ContentLength,
    ContentRange,
    ContentType,
    LastModified,
    Location,
    Vary,
}

impl FieldName {
    /// Returns the name in lower case, as in HTTP/2 and HTTP/3.
    pub(crate) const fn lower_case(self) -> &'static str {
        match self {
            FieldName::AcceptRanges => "accept-ranges",
            FieldName::Allow => "allow",
            FieldName::CacheControl => "cache-control",
            FieldName::ContentLength => "content-length",
            FieldName::ContentRange => "content-range",
            FieldName::ContentType => "content-type",
            FieldName::LastModified => "last-modified",
            FieldName::Location => "location",
            FieldName::Vary => "vary",
        }
    }
}
