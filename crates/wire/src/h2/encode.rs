//! An answer's fields as a header block (RFC 9113 §8.3, RFC 7541): the canned lines, then what only the server knows.
//!
//! Says what HTTP/1 says in the same cases (`h1/spell.rs`), but for `Connection`. Copies what was spelled before; formats
//! nothing but a length and dates. Knows no frames.

use cannery_archive::{Head, HpackLine, HpackLines};
use cannery_base::date::format_http_date;
use cannery_site::{Answer, ContentRange, Fields, Location, Page, SiteFields, SiteLine, Validators};

use crate::archive_ref::ArchiveRef;
use crate::builtin_fields::{ALLOWED, PAGE_TYPE, PARTS_TYPE, redirect_caching, varies_by_encoding};
use crate::decimal::Decimal;
use crate::hpack::{EncoderTable, index, put_field, put_name_index, put_text_length};
use crate::server_fields::ServerFields;

/// Appends the block of an answer.
#[inline]
pub(super) fn head(
    encoder: &mut EncoderTable,
    answer: &Answer<'_>,
    archive: ArchiveRef<'_>,
    fields: &ServerFields,
    block: &mut Vec<u8>,
) {
    encoder.begin_block(block, archive.number, archive.identity);
    let mut block = Block { encoder, bytes: block };
    let overrides = if let Some(site_fields) = answer.site_fields {
        block.with_site_fields(answer, site_fields, archive.bytes, fields)
    } else if let Fields::Canned { head, validators } = &answer.fields
        && answer.status == head.status
    {
        block.whole(head);
        block.validators(*validators, fields);
        head.overrides
    } else {
        block.other(answer, fields)
    };
    if let Some(length) = answer.content_length {
        block.number(index::CONTENT_LENGTH, length);
    }
    block.bytes.extend_from_slice(fields.hpack_date());
    fields.hpack_lines(overrides).for_each(|line| block.encoder.put_server_line(block.bytes, line));
}

/// A block that is being spelled.
struct Block<'b> {
    encoder: &'b mut EncoderTable,
    bytes: &'b mut Vec<u8>,
}

impl Block<'_> {
    /// A head under the status that it was spelled for.
    #[inline]
    fn whole(&mut self, head: &Head<'_>) {
        let mut lines = head.hpack.all();
        match lines.next() {
            Some(line) if index::STATUS.contains(&line.static_index) => self.line(line),
            // Of a damaged archive: a block without a status would cost the connection.
            _ => return self.lines_under(head.status, head.hpack.lines()),
        }
        self.lines(lines);
    }

    /// All answers but the most frequent: the fields up to the length. Says which of the server's fields the site sets.
    #[cold]
    fn other(&mut self, answer: &Answer<'_>, fields: &ServerFields) -> u8 {
        let status = answer.status;
        match &answer.fields {
            Fields::Canned { head, validators } => {
                self.other_status(status, head);
                self.validators(*validators, fields);
                head.overrides
            }
            Fields::Partial { head, validators, range } => {
                self.lines_under(status, head.hpack.lines());
                self.validators(*validators, fields);
                self.content_range(*range);
                head.overrides
            }
            Fields::Multipart { multipart, validators } => {
                self.status(status);
                let boundary = multipart.boundary();
                let pieces = [PARTS_TYPE.as_bytes(), boundary[0], boundary[1]];
                self.pieces(index::CONTENT_TYPE, &pieces);
                self.lines(multipart.head().hpack.resource());
                self.validators(*validators, fields);
                multipart.head().overrides
            }
            Fields::NotModified { head, validators } => {
                self.lines_under(status, head.hpack.resource());
                self.validators(*validators, fields);
                head.overrides
            }
            Fields::Redirect(location) => {
                self.status(status);
                self.location(location, status, fields);
                0
            }
            Fields::BuiltIn { page, complete_length } => {
                self.own(status, *page, *complete_length);
                match page {
                    Some(Page { head, .. }) => self.lines(head.hpack.lines()),
                    None => self.page_fields(status),
                }
                page.map_or(0, |page| page.head.overrides)
            }
        }
    }

    /// An answer to which the rules of `_headers` add fields: its own head without those that they replace, then theirs.
    #[cold]
    fn with_site_fields(
        &mut self,
        answer: &Answer<'_>,
        site_fields: &SiteFields,
        archive: &[u8],
        fields: &ServerFields,
    ) -> u8 {
        let status = answer.status;
        let put_lines = |block: &mut Self, lines: HpackLines<'_>| {
            for line in lines {
                let is_caching = line.static_index == index::CACHE_CONTROL;
                if line.static_index == index::CONTENT_TYPE && site_fields.replaces_content_type()
                    || is_caching && site_fields.replaces_caching(archive, status)
                {
                    continue;
                }
                if is_caching && status >= 400 {
                    block.field("cache-control", "no-store");
                } else {
                    block.line(line);
                }
            }
        };
        let mut has_content = true;
        if !matches!(answer.fields, Fields::BuiltIn { .. }) {
            self.status(status);
        }
        match &answer.fields {
            Fields::Canned { head, validators } => {
                put_lines(self, head.hpack.lines());
                self.validators(*validators, fields);
            }
            Fields::Partial { head, validators, range } => {
                put_lines(self, head.hpack.lines());
                self.validators(*validators, fields);
                self.content_range(*range);
            }
            Fields::Multipart { multipart, validators } => {
                let boundary = multipart.boundary();
                self.pieces(index::CONTENT_TYPE, &[PARTS_TYPE.as_bytes(), boundary[0], boundary[1]]);
                put_lines(self, multipart.head().hpack.resource());
                self.validators(*validators, fields);
            }
            Fields::NotModified { head, validators } => {
                put_lines(self, head.hpack.resource());
                self.validators(*validators, fields);
            }
            Fields::Redirect(location) => {
                self.location(location, status, fields);
                has_content = false;
            }
            Fields::BuiltIn { page, complete_length } => {
                self.own(status, *page, *complete_length);
                match page {
                    Some(Page { head, .. }) => put_lines(self, head.hpack.lines()),
                    None => {
                        self.page_fields(status);
                        has_content = false;
                    }
                }
            }
        }
        let is_parts = matches!(answer.fields, Fields::Multipart { .. });
        for line in site_fields.lines(archive, status, has_content) {
            let name = line.name(archive);
            if !(is_parts && name == b"Content-Type") {
                self.site_line(name, line, archive);
            }
        }
        site_fields.overrides()
    }

    /// A line that the rules add: as literals, for no table holds it.
    fn site_line(&mut self, name: &[u8], line: SiteLine<'_>, archive: &[u8]) {
        self.bytes.push(0);
        put_text_length(self.bytes, name.len());
        self.bytes.extend(name.iter().map(u8::to_ascii_lowercase));
        let joined: usize = line.values(archive).map(|value| value.len() + 2).sum();
        put_text_length(self.bytes, joined.saturating_sub(2));
        for (place, value) in line.values(archive).enumerate() {
            if place > 0 {
                self.bytes.extend_from_slice(b", ");
            }
            self.bytes.extend_from_slice(value);
        }
    }

    fn location(&mut self, location: &Location<'_>, status: u16, fields: &ServerFields) {
        put_name_index(self.bytes, index::LOCATION);
        put_text_length(self.bytes, location.length());
        location.for_each_piece(&mut |piece| self.bytes.extend_from_slice(piece));
        self.field("cache-control", redirect_caching(status, fields));
    }

    /// What describes a page that is built in.
    fn page_fields(&mut self, status: u16) {
        if status != 204 {
            self.field("content-type", PAGE_TYPE);
            self.field("cache-control", "no-store");
        }
    }

    /// A head under another status than the one that it was spelled for. An error is kept by nobody, whatever holds for
    /// the page that stands in for it.
    fn other_status(&mut self, status: u16, head: &Head<'_>) {
        if status < 400 {
            return self.lines_under(status, head.hpack.lines());
        }
        self.status(status);
        for line in head.hpack.lines() {
            if line.static_index == index::CACHE_CONTROL {
                self.field("cache-control", "no-store");
            } else {
                self.line(line);
            }
        }
    }

    /// The fields of an answer of the server itself that its status needs.
    fn own(&mut self, status: u16, page: Option<Page<'_>>, complete_length: Option<u64>) {
        self.status(status);
        match status {
            // RFC 9110 §9.3.7: what can be asked for besides.
            204 => {
                self.field("allow", ALLOWED);
                self.field("accept-ranges", "bytes");
            }
            // RFC 9110 §15.5.6: 405 must say what is allowed.
            405 | 501 => self.field("allow", ALLOWED),
            // A page that varies itself says so already.
            406 | 416 if !page.is_some_and(|page| varies_by_encoding(page.head.resource())) => {
                self.field("vary", "Accept-Encoding");
            }
            _ => {}
        }
        if let Some(length) = complete_length {
            self.pieces(index::CONTENT_RANGE, &[b"bytes */", Decimal::new(length).digits()]);
        }
    }

    fn lines_under(&mut self, status: u16, lines: HpackLines<'_>) {
        self.status(status);
        self.lines(lines);
    }

    #[inline]
    fn lines(&mut self, lines: HpackLines<'_>) {
        lines.for_each(|line| self.line(line));
    }

    #[inline]
    fn line(&mut self, line: HpackLine<'_>) {
        self.encoder.put_archive_line(self.bytes, line);
    }

    fn status(&mut self, status: u16) {
        put_field(self.bytes, ":status", Decimal::new(status.into()).digits());
    }

    #[inline]
    fn validators(&mut self, validators: Validators<'_>, fields: &ServerFields) {
        if let Some(etag) = validators.etag {
            // The name by its index, the length, and the quotes.
            let mut literal = *b"\x0f\x13\x12\"0123456789abcdef\"";
            literal[4..20].copy_from_slice(etag);
            self.bytes.extend_from_slice(&literal);
        }
        if let Some(modified) = validators.modified {
            // RFC 9110 §8.8.2.1: never later than the answer.
            self.pieces(index::LAST_MODIFIED, &[&format_http_date(modified.min(fields.seconds()))]);
        }
    }

    fn content_range(&mut self, range: ContentRange) {
        let [first, last, complete] = [range.first, range.last, range.complete_length].map(Decimal::new);
        let pieces = [b"bytes ", first.digits(), b"-", last.digits(), b"/", complete.digits()];
        self.pieces(index::CONTENT_RANGE, &pieces);
    }

    /// A field whose name the static table has, of which nobody else may have the value.
    fn pieces(&mut self, name: u8, pieces: &[&[u8]]) {
        put_name_index(self.bytes, name);
        put_text_length(self.bytes, pieces.iter().map(|piece| piece.len()).sum());
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    #[inline]
    fn number(&mut self, name: u8, number: u64) {
        let number = Decimal::new(number);
        put_name_index(self.bytes, name);
        put_text_length(self.bytes, number.digits().len());
        self.bytes.extend_from_slice(number.digits());
    }

    fn field(&mut self, name: &str, value: &str) {
        put_field(self.bytes, name, value.as_bytes());
    }
}

#[cfg(test)]
mod tests;
