//! Interface of a field compression, as the encoder of response fields uses it.

use cannery_archive::Head;

use crate::archive_ref::ArchiveRef;
use crate::server_fields::ServerFields;

/// A field compression with its state on one connection: HPACK or QPACK.
///
/// Appends to an encoded field section. Stored lines are those that the archiver encoded.
pub(crate) trait FieldEncoder {
    /// A stored line.
    type Line<'a>: Copy;
    /// Consecutive stored lines.
    type Lines<'a>: Iterator<Item = Self::Line<'a>>;

    /// Returns all stored lines of a head after its status.
    fn lines<'a>(head: &Head<'a>) -> Self::Lines<'a>;

    /// Returns the stored lines about the resource, which a 304 repeats.
    fn resource_lines<'a>(head: &Head<'a>) -> Self::Lines<'a>;

    /// Returns `true` if a stored line has this name.
    fn has_name(line: Self::Line<'_>, name: FieldName) -> bool;

    /// Begins a section of lines of this archive, even if no field uses a table: HPACK sends size updates first. The section
    /// must end with [`FieldEncoder::end`].
    fn begin(&mut self, section: &mut Vec<u8>, archive: ArchiveRef<'_>);

    /// Ends a section, which starts at `start` in the buffer.
    fn end(&mut self, section: &mut [u8], start: usize);

    /// Appends all stored lines of a head, and its status first.
    fn put_head(&mut self, section: &mut Vec<u8>, head: &Head<'_>);

    /// Appends stored lines of the archive that the section was begun for.
    fn put_lines(&mut self, section: &mut Vec<u8>, lines: Self::Lines<'_>);

    /// Appends a stored line of the archive that the section was begun for.
    fn put_line(&mut self, section: &mut Vec<u8>, line: Self::Line<'_>);

    /// Appends `date`, then the server's other fields, except those with a bit in `overrides`.
    fn put_server_fields(&mut self, section: &mut Vec<u8>, fields: &ServerFields, overrides: u8);

    /// Appends `:status`.
    fn put_status(section: &mut Vec<u8>, status: u16);

    /// Appends a field. Its name is in lower case.
    fn put_field(section: &mut Vec<u8>, name: &str, value: &[u8]);

    /// Appends an entity tag, in quotes.
    fn put_etag(section: &mut Vec<u8>, etag: &[u8; 16]);

    /// Appends the beginning of a literal, up to its name. The value follows as a string literal.
    fn put_name(section: &mut Vec<u8>, name: FieldName);

    /// Appends the beginning of a literal with any name, which is changed to lower case.
    fn put_literal_name(section: &mut Vec<u8>, name: &[u8]);
}

/// Names of fields that the encoder formats or looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldName {
    CacheControl,
    ContentLength,
    ContentRange,
    ContentType,
    LastModified,
    Location,
}
