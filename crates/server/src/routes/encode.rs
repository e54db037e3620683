//! Encodes heads and bodies of handler responses (bytes for HTTP/1, fields for HTTP/2 and HTTP/3).

use std::borrow::Cow;

use cannery_routes::Response;
use cannery_wire::response_head::{override_bit, reason_phrase};
use cannery_wire::{Output, OwnHead, ServerFields};

/// The way in which an HTTP/1 client finds the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// By length.
    Length(usize),
    /// By the chunked transfer coding (RFC 9112 §7.1).
    Chunked,
    /// By the end of the connection (HTTP/1.0).
    Close,
}

/// Returns `true` if responses with this status are sent without a field about the length of their content (RFC 9110 §8.6). The
/// content is empty then.
fn has_no_length(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Appends the head of an HTTP/1 response.
pub(crate) fn put_h1_head(
    response: &Response,
    framing: BodyFraming,
    connection: Option<&str>,
    fields: &ServerFields,
    output: &mut Output,
) {
    output.put(b"HTTP/1.1 ");
    output.put_number(response.status().into());
    output.put(b" ");
    output.put(reason_phrase(response.status()).as_bytes());
    output.put(b"\r\n");

    for (name, value) in response.headers() {
        put_line(output, name, value);
    }
    match framing {
        BodyFraming::Length(_) if has_no_length(response.status()) => {}
        BodyFraming::Length(length) => {
            output.put(b"Content-Length: ");
            output.put_number(length as u64);
            output.put(b"\r\n");
        }
        BodyFraming::Chunked => put_line(output, "Transfer-Encoding", "chunked"),
        BodyFraming::Close => {}
    }

    if let Some(option) = connection {
        put_line(output, "Connection", option);
    }
    output.put(fields.end_of_head(overrides(response)));
}

fn put_line(output: &mut Output, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        output.put(part.as_bytes());
    }
}

/// Appends a chunk (RFC 9112 §7.1). An empty one marks the end of the body.
pub(crate) fn put_chunk(bytes: &[u8], output: &mut Output) {
    output.put(format!("{:x}\r\n", bytes.len()).as_bytes());
    output.put(bytes);
    output.put(b"\r\n");
}

/// Calls `put` with the head of an HTTP/2 or HTTP/3 response. `length` is the body length, if known.
pub(super) fn with_head<R>(
    response: &Response,
    length: Option<usize>,
    server_fields: &ServerFields,
    put: impl FnOnce(&OwnHead<'_>) -> R,
) -> R {
    let status = response.status().to_string();
    let length = length.filter(|_| !has_no_length(response.status())).map(|length| length.to_string());
    let names: Vec<Cow<'_, str>> = response.headers().map(|(name, _)| lowercase(name)).collect();

    let mut fields: Vec<(&str, &[u8])> = Vec::with_capacity(names.len() + 2);
    fields.push((":status", status.as_bytes()));
    for (name, (_, value)) in names.iter().zip(response.headers()) {
        fields.push((name, value.as_bytes()));
    }
    if let Some(length) = &length {
        fields.push(("content-length", length.as_bytes()));
    }
    put(&OwnHead { fields: &fields, server_fields: Some((server_fields, overrides(response))) })
}

fn lowercase(name: &str) -> Cow<'_, str> {
    match name {
        "Content-Type" => Cow::Borrowed("content-type"),
        name if name.bytes().any(|byte| byte.is_ascii_uppercase()) => Cow::Owned(name.to_ascii_lowercase()),
        name => Cow::Borrowed(name),
    }
}

/// Returns the server fields that the handler overrides. `Content-Security-Policy` is never among these since
/// several policies can apply together (CSP3 §8.1).
fn overrides(response: &Response) -> u8 {
    let fields = response.headers().filter(|(name, _)| !name.eq_ignore_ascii_case("Content-Security-Policy"));
    fields.map(|(name, _)| override_bit(name)).fold(0, |all, bit| all | bit)
}
