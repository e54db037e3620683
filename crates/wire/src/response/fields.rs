//! Response fields for all versions of HTTP. Most of them are lines that the archiver has encoded; only the server knows the rest.
//!
//! We copy encoded lines as they are; only numbers and dates need to be formatted. There is a [`FieldEncoder`] for each syntax:
//! HTTP/1.1 text (RFC 9112 §5), HPACK (RFC 9113 §8.3) and QPACK (RFC 9114 §4.1). This module knows nothing about frames.

mod encoder;
mod hpack;
mod qpack;
mod text;

use cannery_archive::Head;
use cannery_base::date::format_http_date;
use cannery_site::{Answer, ContentRange, Fields, Location, Page, SiteFields, SiteLine, Validators};

use super::builtin_fields::{
    ALLOWED, PAGE_TYPE, PARTS_TYPE, is_success_sent_as_error, redirect_caching, varies_by_encoding,
};
use super::multiplexed::OwnHead;
use super::server_fields::ServerFields;
use crate::ground::archive_ref::ArchiveRef;
use crate::ground::decimal::Decimal;
use crate::response::Response;
use encoder::{FieldEncoder, FieldName};
pub(crate) use text::Text;

/// Appends the encoded field section of a response.
#[inline]
pub(crate) fn field_section<E: FieldEncoder>(
    encoder: &mut E,
    response: &Response<'_>,
    section: &mut Vec<u8>,
) {
    let Response { answer, archive, fields } = *response;
    let start = section.len();
    encoder.begin(section, archive);
    let mut section = Section { encoder, bytes: section };

    // Most responses take the second arm: the archive already has the head for this status, except for validators.
    let overrides = match &answer.fields {
        _ if let Some(site_fields) = answer.site_fields => section.put_head_with_rules(response, site_fields),
        Fields::Canned { head, validators } if answer.status == head.status => {
            section.encoder.put_head(section.bytes, head);
            section.put_validators(*validators, fields);
            head.overrides
        }
        _ => section.put_other_head(answer, fields),
    };

    if let Some(length) = answer.content_length {
        E::put_content_length(section.bytes, length);
    }
    section.encoder.put_server_fields(section.bytes, fields, overrides);
    section.encoder.end(section.bytes, start);
}

/// Appends the encoded field section of a response that does not come from an archive.
pub(crate) fn field_section_of<E: FieldEncoder>(encoder: &mut E, head: &OwnHead<'_>, section: &mut Vec<u8>) {
    let start = section.len();
    encoder.begin(section, ArchiveRef::NONE);
    for (name, value) in head.fields {
        E::put_field(section, name, value);
    }
    if let Some((fields, overrides)) = head.server_fields {
        encoder.put_server_fields(section, fields, overrides);
    }
    encoder.end(section, start);
}

/// A field section under construction.
struct Section<'b, E> {
    encoder: &'b mut E,
    bytes: &'b mut Vec<u8>,
}

impl<E: FieldEncoder> Section<'_, E> {
    /// Appends the fields of a less common response, up to its length. Returns which of the server's fields the site has set.
    #[cold]
    fn put_other_head(&mut self, answer: &Answer<'_>, fields: &ServerFields) -> u8 {
        let status = answer.status;

        match &answer.fields {
            Fields::Canned { head, validators } => {
                self.put_head_with_other_status(status, head);
                self.put_validators(*validators, fields);
                head.overrides
            }
            Fields::Partial { head, validators, range } => {
                self.put_status_and_lines(status, E::lines(head));
                self.put_validators(*validators, fields);
                self.put_content_range(*range);
                head.overrides
            }
            Fields::Multipart { multipart, validators } => {
                self.put_status(status);
                let boundary = multipart.boundary();
                let pieces = [PARTS_TYPE.as_bytes(), boundary[0], boundary[1]];
                self.put_literal(FieldName::ContentType, &pieces);
                self.put_lines(E::resource_lines(multipart.head()));
                self.put_validators(*validators, fields);
                multipart.head().overrides
            }
            Fields::NotModified { head, validators } => {
                self.put_status_and_lines(status, E::resource_lines(head));
                self.put_validators(*validators, fields);
                head.overrides
            }
            Fields::Redirect(location) => {
                self.put_status(status);
                self.put_location(location, status, fields);
                0
            }
            Fields::BuiltIn { page, complete_length } => {
                self.put_builtin_head(status, *page, *complete_length);
                match page {
                    Some(Page { head, .. }) => self.put_lines(E::lines(head)),
                    None => self.put_builtin_page_fields(status),
                }
                page.map_or(0, |page| page.head.overrides)
            }
        }
    }

    /// Appends the fields of an answer that is subject to `_headers` rules: first the lines that the rules do not replace, and then
    /// the rules' own fields. Returns which of the server's fields the site has set.
    #[cold]
    fn put_head_with_rules(&mut self, response: &Response<'_>, site_fields: &SiteFields) -> u8 {
        let Response { answer, fields, .. } = *response;
        let archive = response.archive.bytes;
        let status = answer.status;
        let is_of_success = is_success_sent_as_error(answer);
        let put_lines = |section: &mut Self, lines: E::Lines<'_>| {
            for line in lines {
                // Drop lines that a rule replaces. Note that a page which is shown for an error must not be cached like a success.
                let is_caching = E::has_name(line, FieldName::CacheControl);
                if E::has_name(line, FieldName::ContentType) && site_fields.replaces_content_type()
                    || is_caching && site_fields.replaces_caching()
                {
                    continue;
                }
                if is_caching && is_of_success {
                    section.put_value(FieldName::CacheControl, "no-store");
                } else {
                    section.put_line(line);
                }
            }
        };

        // Built-in heads start with a status of their own.
        if !matches!(answer.fields, Fields::BuiltIn { .. }) {
            self.put_status(status);
        }

        let mut has_content = true;
        match &answer.fields {
            Fields::Canned { head, validators } => {
                put_lines(self, E::lines(head));
                self.put_validators(*validators, fields);
            }
            Fields::Partial { head, validators, range } => {
                put_lines(self, E::lines(head));
                self.put_validators(*validators, fields);
                self.put_content_range(*range);
            }
            Fields::Multipart { multipart, validators } => {
                let boundary = multipart.boundary();
                self.put_literal(FieldName::ContentType, &[PARTS_TYPE.as_bytes(), boundary[0], boundary[1]]);
                put_lines(self, E::resource_lines(multipart.head()));
                self.put_validators(*validators, fields);
            }
            Fields::NotModified { head, validators } => {
                put_lines(self, E::resource_lines(head));
                self.put_validators(*validators, fields);
            }
            Fields::Redirect(location) => {
                self.put_location(location, status, fields);
                has_content = false;
            }
            Fields::BuiltIn { page, complete_length } => {
                self.put_builtin_head(status, *page, *complete_length);
                match page {
                    Some(Page { head, .. }) => put_lines(self, E::lines(head)),
                    None => {
                        self.put_builtin_page_fields(status);
                        has_content = false;
                    }
                }
            }
        }

        // A rule must not replace the type of a multipart body, since clients need its boundary.
        let is_multipart = matches!(answer.fields, Fields::Multipart { .. });
        for line in site_fields.lines(archive, has_content) {
            let name = line.name(archive);
            if !(is_multipart && name == b"Content-Type") {
                self.put_rule_line(name, line, archive);
            }
        }
        // The head has the fields whose values are made from the path. These also replace the server's fields.
        let of_head = match &answer.fields {
            Fields::Canned { head, .. } | Fields::Partial { head, .. } | Fields::NotModified { head, .. } => {
                head.overrides
            }
            Fields::Multipart { multipart, .. } => multipart.head().overrides,
            Fields::Redirect(_) | Fields::BuiltIn { .. } => 0,
        };
        site_fields.overrides() | of_head
    }

    /// Appends a rule's field. Multiple values are joined with commas.
    fn put_rule_line(&mut self, name: &[u8], line: SiteLine<'_>, archive: &[u8]) {
        // We need two bytes for each separator, and one separator less than there are values.
        let joined = || line.values(archive).map(|value| value.len() + 2).sum::<usize>().saturating_sub(2);
        E::put_rule(self.bytes, name, joined, |section| {
            for (number, value) in line.values(archive).enumerate() {
                if number > 0 {
                    section.extend_from_slice(b", ");
                }
                section.extend_from_slice(value);
            }
        });
    }

    fn put_location(&mut self, location: &Location<'_>, status: u16, fields: &ServerFields) {
        E::put_with(
            self.bytes,
            FieldName::Location,
            || location.length(),
            |section| {
                location.for_each_piece(&mut |piece| section.extend_from_slice(piece));
            },
        );
        self.put_value(FieldName::CacheControl, redirect_caching(status, location, fields));
    }

    /// Appends the fields that describe a built-in page. A 204 has no page.
    fn put_builtin_page_fields(&mut self, status: u16) {
        if status != 204 {
            self.put_value(FieldName::ContentType, PAGE_TYPE);
            self.put_value(FieldName::CacheControl, "no-store");
        }
    }

    /// Appends a head with a status it was not rendered for.
    ///
    /// This happens when an error page is shown. Errors should not be cached, even if the page itself may be.
    fn put_head_with_other_status(&mut self, status: u16, head: &Head<'_>) {
        if status < 400 {
            return self.put_status_and_lines(status, E::lines(head));
        }
        self.put_status(status);
        for line in E::lines(head) {
            if E::has_name(line, FieldName::CacheControl) {
                self.put_value(FieldName::CacheControl, "no-store");
            } else {
                self.put_line(line);
            }
        }
    }

    /// Appends the status of a built-in response, and the fields that this status requires.
    fn put_builtin_head(&mut self, status: u16, page: Option<Page<'_>>, complete_length: Option<u64>) {
        self.put_status(status);
        match status {
            // RFC 9110 §9.3.7: the response to OPTIONS describes what clients can use.
            204 => {
                self.put_value(FieldName::Allow, ALLOWED);
                self.put_value(FieldName::AcceptRanges, "bytes");
            }
            // RFC 9110 §15.5.6: 405 requires `Allow`.
            405 | 501 => self.put_value(FieldName::Allow, ALLOWED),
            // If the page itself varies, its head already has this line.
            406 | 416 if !page.is_some_and(|page| varies_by_encoding(page.head.resource())) => {
                self.put_value(FieldName::Vary, "Accept-Encoding");
            }
            _ => {}
        }

        if let Some(length) = complete_length {
            self.put_literal(FieldName::ContentRange, &[b"bytes */", Decimal::new(length).digits()]);
        }
    }

    fn put_status_and_lines(&mut self, status: u16, lines: E::Lines<'_>) {
        self.put_status(status);
        self.put_lines(lines);
    }

    fn put_lines(&mut self, lines: E::Lines<'_>) {
        self.encoder.put_lines(self.bytes, lines);
    }

    fn put_line(&mut self, line: E::Line<'_>) {
        self.encoder.put_line(self.bytes, line);
    }

    fn put_status(&mut self, status: u16) {
        E::put_status(self.bytes, status);
    }

    #[inline]
    fn put_validators(&mut self, validators: Validators<'_>, fields: &ServerFields) {
        if let Some(etag) = validators.etag {
            E::put_etag(self.bytes, etag);
        }
        if let Some(modified) = validators.modified {
            // RFC 9110 §8.8.2.1: this date must not be later than the response's own date.
            self.put_literal(FieldName::LastModified, &[&format_http_date(modified.min(fields.seconds()))]);
        }
    }

    fn put_content_range(&mut self, range: ContentRange) {
        let [first, last, complete] = [range.first, range.last, range.complete_length].map(Decimal::new);
        let pieces = [b"bytes ", first.digits(), b"-", last.digits(), b"/", complete.digits()];
        self.put_literal(FieldName::ContentRange, &pieces);
    }

    /// Appends a field. Its value is the concatenation of `pieces`.
    #[inline]
    fn put_literal(&mut self, name: FieldName, pieces: &[&[u8]]) {
        let length = || pieces.iter().map(|piece| piece.len()).sum();
        E::put_with(self.bytes, name, length, |section| {
            for piece in pieces {
                section.extend_from_slice(piece);
            }
        });
    }

    fn put_value(&mut self, name: FieldName, value: &str) {
        E::put_value(self.bytes, name, value);
    }
}

#[cfg(test)]
mod tests;
