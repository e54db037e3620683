//! An answer to the bytes of HTTP/1.1: the canned head, then what only the server knows.
//!
//! Copies runs that were spelled before; formats nothing but a length. Never copies a large body.

use cannery_archive::{Extent, Head};
use cannery_base::date::format_http_date;
use cannery_site::{
    Answer, Body, ContentRange, Fields, Location, MultipartPiece, Page, SiteFields, Validators,
};

use crate::archive_ref::slice;
use crate::builtin_fields::{ALLOWED, PAGE_TYPE, PARTS_TYPE, redirect_caching, varies};
use crate::decimal::put_digits;
use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::output::Output;
use crate::response_head::reason_phrase;
use crate::server_fields::ServerFields;

/// Appends an answer of a connection that stays open.
#[cfg(test)]
pub(crate) fn response_without_option(
    output: &mut Output,
    answer: &Answer<'_>,
    archive: &[u8],
    fields: &ServerFields,
) {
    self::answer(output, answer, archive, fields, None);
}

/// Appends an answer. `archive` is the file that the answer's ranges are of.
pub(super) fn answer(
    output: &mut Output,
    answer: &Answer<'_>,
    archive: &[u8],
    fields: &ServerFields,
    connection: Option<&str>,
) {
    if let Some(site_fields) = answer.site_fields {
        put_with_site_fields(output, answer, site_fields, archive, fields);
        put_end(output, answer, fields, connection, site_fields.overrides());
        put_body(output, &answer.body, archive);
        return;
    }
    let mut overrides = 0;
    match &answer.fields {
        Fields::Canned { head, validators } => {
            if answer.status == head.status {
                output.put(head.text);
            } else {
                put_other_status(output, answer.status, head);
            }
            put_validators(output, *validators, fields);
            overrides = head.overrides;
        }
        Fields::Partial { head, validators, range } => {
            put_status_line(output, answer.status);
            output.put(head.lines());
            put_validators(output, *validators, fields);
            put_content_range(output, *range);
            overrides = head.overrides;
        }
        Fields::Multipart { multipart, validators } => {
            put_status_line(output, answer.status);
            put_parts_type(output, multipart.boundary());
            output.put(multipart.head().resource());
            put_validators(output, *validators, fields);
            overrides = multipart.head().overrides;
        }
        Fields::NotModified { head, validators } => {
            put_status_line(output, answer.status);
            output.put(head.resource());
            put_validators(output, *validators, fields);
            overrides = head.overrides;
        }
        Fields::Redirect(location) => {
            put_status_line(output, answer.status);
            put_location(output, location, answer.status, fields);
        }
        Fields::BuiltIn { page, complete_length } => {
            put_own(output, answer.status, *page, *complete_length);
            match page {
                Some(Page { head, .. }) => {
                    output.put(head.content_type());
                    output.put(head.representation());
                    output.put(head.resource());
                }
                None => put_page_fields(output, answer.status),
            }
            overrides = page.map_or(0, |page| page.head.overrides);
        }
    }
    put_end(output, answer, fields, connection, overrides);
    put_body(output, &answer.body, archive);
}

/// An answer to which the rules of `_headers` add fields: its own head without those that they replace, then theirs.
#[cold]
fn put_with_site_fields(
    output: &mut Output,
    answer: &Answer<'_>,
    site_fields: &SiteFields,
    archive: &[u8],
    fields: &ServerFields,
) {
    let status = answer.status;
    let put_lines = |output: &mut Output, lines: &[u8]| {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let is_caching = line.starts_with(b"Cache-Control:");
            if line.starts_with(b"Content-Type:") && site_fields.replaces_content_type()
                || is_caching && site_fields.replaces_caching(archive, status)
            {
                continue;
            }
            output.put(if is_caching && status >= 400 { b"Cache-Control: no-store\r\n" } else { line });
        }
    };
    let mut has_content = true;
    if !matches!(answer.fields, Fields::BuiltIn { .. }) {
        put_status_line(output, status);
    }
    match &answer.fields {
        Fields::Canned { head, validators } => {
            put_lines(output, head.lines());
            put_validators(output, *validators, fields);
        }
        Fields::Partial { head, validators, range } => {
            put_lines(output, head.lines());
            put_validators(output, *validators, fields);
            put_content_range(output, *range);
        }
        Fields::Multipart { multipart, validators } => {
            put_parts_type(output, multipart.boundary());
            put_lines(output, multipart.head().resource());
            put_validators(output, *validators, fields);
        }
        Fields::NotModified { head, validators } => {
            put_lines(output, head.resource());
            put_validators(output, *validators, fields);
        }
        Fields::Redirect(location) => {
            put_location(output, location, status, fields);
            has_content = false;
        }
        Fields::BuiltIn { page, complete_length } => {
            put_own(output, status, *page, *complete_length);
            match page {
                Some(Page { head, .. }) => put_lines(output, head.lines()),
                None => {
                    put_page_fields(output, status);
                    has_content = false;
                }
            }
        }
    }
    let is_parts = matches!(answer.fields, Fields::Multipart { .. });
    for line in site_fields.lines(archive, status, has_content) {
        let name = line.name(archive);
        if is_parts && name == b"Content-Type" {
            continue;
        }
        output.put(name);
        let mut separator = b": ".as_slice();
        for value in line.values(archive) {
            output.put(separator);
            output.put(value);
            separator = b", ";
        }
        output.put(b"\r\n");
    }
}

fn put_parts_type(output: &mut Output, boundary: [&[u8]; 2]) {
    output.put(b"Content-Type: ");
    output.put(PARTS_TYPE.as_bytes());
    boundary.into_iter().for_each(|piece| output.put(piece));
    output.put(b"\r\n");
}

fn put_location(output: &mut Output, location: &Location<'_>, status: u16, fields: &ServerFields) {
    output.put(b"Location: ");
    location.for_each_piece(&mut |bytes| output.put(bytes));
    output.put(b"\r\n");
    put_line(output, b"Cache-Control: ", redirect_caching(status, fields));
}

/// What ends a head.
#[inline(always)]
fn put_end(
    output: &mut Output,
    answer: &Answer<'_>,
    fields: &ServerFields,
    connection: Option<&str>,
    overrides: u8,
) {
    if let Some(length) = answer.content_length {
        put_content_length(output, length);
    }
    if let Some(option) = connection {
        output.put(b"Connection: ");
        output.put(option.as_bytes());
        output.put(b"\r\n");
    }
    output.put(fields.end_of_head(overrides));
}

#[inline]
fn put_body(output: &mut Output, body: &Body<'_>, archive: &[u8]) {
    match body {
        Body::Empty => {}
        Body::BuiltIn(page) => page.for_each_piece(&mut |piece| output.put(piece)),
        Body::Archive(extent) => put_extent(output, *extent, archive),
        Body::Multipart(multipart) => multipart.for_each_piece(&mut |piece| match piece {
            MultipartPiece::Text(text) => output.put(text),
            MultipartPiece::Number(number) => output.put_number(number),
            MultipartPiece::Archive(extent) => put_extent(output, extent, archive),
        }),
    }
}

#[inline]
fn put_extent(output: &mut Output, extent: Extent, archive: &[u8]) {
    if extent.length > COPIED_BODY_BYTES_MAX {
        output.put_archive(extent);
    } else if let Some(bytes) = slice(archive, extent) {
        output.put(bytes);
    }
}

// Nearly every answer has them.
#[inline(always)]
fn put_validators(output: &mut Output, validators: Validators<'_>, fields: &ServerFields) {
    if let Some(etag) = validators.etag {
        let mut line = *b"ETag: \"0123456789abcdef\"\r\n";
        line[7..23].copy_from_slice(etag);
        output.put(&line);
    }
    if let Some(modified) = validators.modified {
        output.put(b"Last-Modified: ");
        // RFC 9110 §8.8.2.1: never later than the answer.
        output.put(&format_http_date(modified.min(fields.seconds())));
        output.put(b"\r\n");
    }
}

/// The line in one piece, for most of what a piece costs does not depend on its length.
#[inline]
fn put_content_length(output: &mut Output, length: u64) {
    const NAME: &[u8; 16] = b"Content-Length: ";
    let mut line = *b"Content-Length: 01234567890123456789\r\n";
    let end = line.len() - 2;
    // Up to its digits.
    let first = put_digits(&mut line[..end], length) - NAME.len();
    line[first..][..NAME.len()].copy_from_slice(NAME);
    output.put(&line[first..]);
}

fn put_content_range(output: &mut Output, range: ContentRange) {
    output.put(b"Content-Range: bytes ");
    output.put_number(range.first);
    output.put(b"-");
    output.put_number(range.last);
    output.put(b"/");
    output.put_number(range.complete_length);
    output.put(b"\r\n");
}

fn put_line(output: &mut Output, name: &[u8], value: &str) {
    output.put(name);
    output.put(value.as_bytes());
    output.put(b"\r\n");
}

fn put_status_line(output: &mut Output, status: u16) {
    output.put(b"HTTP/1.1 ");
    output.put_number(status.into());
    output.put(b" ");
    output.put(reason_phrase(status).as_bytes());
    output.put(b"\r\n");
}

/// A head under another status than the one that it was spelled for. An error is kept by nobody, whatever holds for
/// the page that stands in for it.
#[cold]
fn put_other_status(output: &mut Output, status: u16, head: &Head<'_>) {
    put_status_line(output, status);
    output.put(head.content_type());
    output.put(head.representation());
    if status < 400 {
        return output.put(head.resource());
    }
    for line in head.resource().split_inclusive(|byte| *byte == b'\n') {
        let is_caching = line.starts_with(b"Cache-Control:");
        output.put(if is_caching { b"Cache-Control: no-store\r\n" } else { line });
    }
}

/// The fields of an answer of the server itself that its status needs.
fn put_own(output: &mut Output, status: u16, page: Option<Page<'_>>, complete_length: Option<u64>) {
    put_status_line(output, status);
    match status {
        // RFC 9110 §9.3.7: what can be asked for besides.
        204 => {
            put_line(output, b"Allow: ", ALLOWED);
            put_line(output, b"Accept-Ranges: ", "bytes");
        }
        // RFC 9110 §15.5.6: 405 must say what is allowed.
        405 | 501 => put_line(output, b"Allow: ", ALLOWED),
        // A page that varies itself says so already.
        406 | 416 if !page.is_some_and(|page| varies(page.head.resource())) => {
            output.put(b"Vary: Accept-Encoding\r\n");
        }
        _ => {}
    }
    if let Some(length) = complete_length {
        output.put(b"Content-Range: bytes */");
        output.put_number(length);
        output.put(b"\r\n");
    }
}

/// What describes a page that is built in.
fn put_page_fields(output: &mut Output, status: u16) {
    if status != 204 {
        put_line(output, b"Content-Type: ", PAGE_TYPE);
        put_line(output, b"Cache-Control: ", "no-store");
    }
}

/// The whole answer of `--dummy`: the status line, the length, the body.
#[must_use]
pub fn dummy_response(body: &[u8], connection: Option<&str>) -> Vec<u8> {
    let option = connection.map_or(String::new(), |option| format!("Connection: {option}\r\n"));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{option}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
