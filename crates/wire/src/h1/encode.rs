//! HTTP/1.1 response encoder: the pre-rendered head from the archive, then the fields that only the server
//! knows.
//!
//! Copies runs of lines that the archiver rendered, and formats only numbers and dates. Large bodies are
//! never copied.

use cannery_archive::{Extent, Head};
use cannery_base::date::format_http_date;
use cannery_site::{
    Answer, Body, ContentRange, Fields, Location, MultipartPiece, Page, SiteFields, Validators,
};

use crate::archive_ref::slice;
use crate::builtin_fields::{
    ALLOWED, PAGE_TYPE, PARTS_TYPE, is_success_sent_as_error, redirect_caching, varies_by_encoding,
};
use crate::decimal::put_digits;
use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::output::Output;
use crate::response::Response;
use crate::response_head::reason_phrase;
use crate::server_fields::ServerFields;

/// Appends a response, with this value of `Connection`.
pub(crate) fn put_response(output: &mut Output, response: &Response<'_>, connection: Option<&str>) {
    let Response { answer, archive, fields } = *response;
    output.set_archive(archive.number);

    let overrides = match answer.site_fields {
        Some(site_fields) => {
            put_fields_with_rules(output, response, site_fields);
            site_fields.overrides()
        }
        None => put_fields(output, answer, fields),
    };

    put_end_of_head(output, response, connection, overrides);
    put_body(output, &answer.body, archive.bytes);
}

/// Appends the head of an answer up to its length. Returns which of the server's fields the site sets.
// Always inlined, because every response has a head, and it has no other caller.
#[inline(always)]
fn put_fields(output: &mut Output, answer: &Answer<'_>, fields: &ServerFields) -> u8 {
    match &answer.fields {
        Fields::Canned { head, validators } => {
            if answer.status == head.status {
                output.put(head.text);
            } else {
                put_with_other_status(output, answer.status, head);
            }
            put_validators(output, *validators, fields);
            head.overrides
        }
        Fields::Partial { head, validators, range } => {
            put_status_line(output, answer.status);
            output.put(head.lines());
            put_validators(output, *validators, fields);
            put_content_range(output, *range);
            head.overrides
        }
        Fields::Multipart { multipart, validators } => {
            put_status_line(output, answer.status);
            put_multipart_type(output, multipart.boundary());
            output.put(multipart.head().resource());
            put_validators(output, *validators, fields);
            multipart.head().overrides
        }
        Fields::NotModified { head, validators } => {
            put_status_line(output, answer.status);
            output.put(head.resource());
            put_validators(output, *validators, fields);
            head.overrides
        }
        Fields::Redirect(location) => {
            put_status_line(output, answer.status);
            put_location(output, location, answer.status, fields);
            0
        }
        Fields::BuiltIn { page, complete_length } => {
            put_builtin_head(output, answer.status, *page, *complete_length);
            match page {
                Some(Page { head, .. }) => {
                    output.put(head.content_type());
                    output.put(head.representation());
                    output.put(head.resource());
                }
                None => put_builtin_page_fields(output, answer.status),
            }
            page.map_or(0, |page| page.head.overrides)
        }
    }
}

/// Appends the head of a response, without `Connection`, for servers that send HTTP by other means.
pub fn put_head(output: &mut Output, response: &Response<'_>) {
    let answer = response.answer.without_body();
    put_response(output, &Response { answer: &answer, ..*response }, None);
}

/// Appends the head of an answer to which rules of `_headers` add fields: the lines that the rules don't
/// replace, then the fields of the rules.
#[cold]
fn put_fields_with_rules(output: &mut Output, response: &Response<'_>, site_fields: &SiteFields) {
    let Response { answer, fields, .. } = *response;
    let archive = response.archive.bytes;
    let status = answer.status;
    let is_of_success = is_success_sent_as_error(answer);
    let put_lines = |output: &mut Output, lines: &[u8]| {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let is_caching = line.starts_with(b"Cache-Control:");
            if line.starts_with(b"Content-Type:") && site_fields.replaces_content_type()
                || is_caching && site_fields.replaces_caching()
            {
                continue;
            }
            output.put(if is_caching && is_of_success { b"Cache-Control: no-store\r\n" } else { line });
        }
    };

    // A built-in head begins with its status line.
    if !matches!(answer.fields, Fields::BuiltIn { .. }) {
        put_status_line(output, status);
    }

    let mut has_content = true;
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
            put_multipart_type(output, multipart.boundary());
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
            put_builtin_head(output, status, *page, *complete_length);
            match page {
                Some(Page { head, .. }) => put_lines(output, head.lines()),
                None => {
                    put_builtin_page_fields(output, status);
                    has_content = false;
                }
            }
        }
    }

    let is_multipart = matches!(answer.fields, Fields::Multipart { .. });
    for line in site_fields.lines(archive, has_content) {
        let name = line.name(archive);
        // The response has the type of its parts, and a rule sets that of the resource.
        if is_multipart && name == b"Content-Type" {
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

fn put_multipart_type(output: &mut Output, boundary: [&[u8]; 2]) {
    output.put(b"Content-Type: ");
    output.put(PARTS_TYPE.as_bytes());
    for piece in boundary {
        output.put(piece);
    }
    output.put(b"\r\n");
}

fn put_location(output: &mut Output, location: &Location<'_>, status: u16, fields: &ServerFields) {
    output.put(b"Location: ");
    location.for_each_piece(&mut |bytes| output.put(bytes));
    output.put(b"\r\n");
    put_line(output, b"Cache-Control: ", redirect_caching(status, location, fields));
}

/// Appends the length, the connection option, the server's fields and the empty line.
#[inline(always)]
fn put_end_of_head(output: &mut Output, response: &Response<'_>, connection: Option<&str>, overrides: u8) {
    if let Some(length) = response.answer.content_length {
        put_content_length(output, length);
    }
    if let Some(option) = connection {
        output.put(b"Connection: ");
        output.put(option.as_bytes());
        output.put(b"\r\n");
    }
    output.put(response.fields.end_of_head(overrides));
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

// Always inlined, because nearly every response has validators.
#[inline(always)]
fn put_validators(output: &mut Output, validators: Validators<'_>, fields: &ServerFields) {
    if let Some(etag) = validators.etag {
        let mut line = *b"ETag: \"0123456789abcdef\"\r\n";
        line[7..23].copy_from_slice(etag);
        output.put(&line);
    }
    if let Some(modified) = validators.modified {
        output.put(b"Last-Modified: ");
        // RFC 9110 §8.8.2.1: never later than the response.
        output.put(&format_http_date(modified.min(fields.seconds())));
        output.put(b"\r\n");
    }
}

/// Appends `Content-Length` as one slice, because most of the cost of appending a slice doesn't depend on its
/// length.
#[inline]
fn put_content_length(output: &mut Output, length: u64) {
    const NAME: &[u8; 16] = b"Content-Length: ";
    let mut line = *b"Content-Length: 01234567890123456789\r\n";

    // The digits are right-aligned, and the name is moved up to them.
    let end = line.len() - 2;
    let start = put_digits(&mut line[..end], length) - NAME.len();
    line[start..][..NAME.len()].copy_from_slice(NAME);
    output.put(&line[start..]);
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

/// Appends a head under a status other than the one that it was rendered for.
///
/// Errors are never cached, even if the page that is shown for them is.
#[cold]
fn put_with_other_status(output: &mut Output, status: u16, head: &Head<'_>) {
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

/// Appends the status line of a response that the server makes itself, and the fields that its status
/// requires.
fn put_builtin_head(output: &mut Output, status: u16, page: Option<Page<'_>>, complete_length: Option<u64>) {
    put_status_line(output, status);
    match status {
        // RFC 9110 §9.3.7: the methods and features that a client can use.
        204 => {
            put_line(output, b"Allow: ", ALLOWED);
            put_line(output, b"Accept-Ranges: ", "bytes");
        }
        // RFC 9110 §15.5.6 requires `Allow` for 405.
        405 | 501 => put_line(output, b"Allow: ", ALLOWED),
        // The head of a page that varies has this line already.
        406 | 416 if !page.is_some_and(|page| varies_by_encoding(page.head.resource())) => {
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

/// Appends the fields that describe a built-in page.
fn put_builtin_page_fields(output: &mut Output, status: u16) {
    if status != 204 {
        put_line(output, b"Content-Type: ", PAGE_TYPE);
        put_line(output, b"Cache-Control: ", "no-store");
    }
}

/// Returns the whole response of `--dummy`: the status line, the length, the values of `Connection` and `Alt-Svc` if there are
/// any, and the body.
#[must_use]
pub fn dummy_response(body: &[u8], connection: Option<&str>, alternative: Option<&str>) -> Vec<u8> {
    let line =
        |name, value: Option<&str>| value.map_or(String::new(), |value| format!("{name}: {value}\r\n"));
    let fields = line("Connection", connection) + &line("Alt-Svc", alternative);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
