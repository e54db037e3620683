//! HTTP/1.1 responses. We encode the head into the output, and send large bodies from the archive without
//! copying them.

use cannery_archive::Extent;
use cannery_site::{Body, MultipartPiece};

use crate::ground::archive_ref::slice;
use crate::limits::COPIED_BODY_BYTES_MAX;
use crate::response::Response;
use crate::response::fields::{Text, field_section};
use crate::response::output::Output;

/// Appends a response. `connection` is the value of the `Connection` field.
pub(crate) fn put_response(output: &mut Output, response: &Response<'_>, connection: Option<&str>) {
    output.set_archive(response.archive.number);
    field_section(&mut Text { connection }, response, output.inline_mut());
    put_body(output, &response.answer.body, response.archive.bytes);
}

/// Appends a response head without `Connection`. This is used by servers that do not send HTTP/1 themselves.
pub fn put_head(output: &mut Output, response: &Response<'_>) {
    let answer = response.answer.without_body();
    put_response(output, &Response { answer: &answer, ..*response }, None);
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

/// Returns the complete response for `--dummy`: status line, length, `Connection` and `Alt-Svc` (if they have
/// values), and the body.
#[must_use]
pub fn dummy_response(body: &[u8], connection: Option<&str>, alternative: Option<&str>) -> Vec<u8> {
    let line =
        |name, value: Option<&str>| value.map_or(String::new(), |value| format!("{name}: {value}\r\n"));
    let fields = line("Connection", connection) + &line("Alt-Svc", alternative);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
