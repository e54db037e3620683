//! Converts header fields between `http` types and ours.

use bytes::Bytes;
use cannery_site::{Conditions, Full, Request, Single, Values};
use cannery_wire::{Refusal, is_host};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Initial capacity of the header map, chosen so that almost all heads will fit without another allocation.
const FIELDS_EXPECTED: usize = 12;

/// Copies all fields that can affect the answer to `request`. If the target contains a host, it must have been
/// set already.
///
/// # Errors
///
/// Returns a [`Refusal`] if a host is invalid or repeated, or if a list field has too many lines.
pub(crate) fn read<'a>(fields: &'a HeaderMap, request: &mut Request<'a>) -> Result<(), Refusal> {
    if request.host.is_some_and(|authority| !is_host(authority) || authority.starts_with(b":")) {
        return Err(Refusal::RequestLine);
    }

    let mut has_host = false;
    // Requests typically have few fields, so a single pass is faster than looking up each of these names.
    for (name, value) in fields {
        let value = value.as_bytes();
        let conditions = &mut request.conditions;
        match name.as_str() {
            "host" => {
                if has_host || !is_host(value) {
                    return Err(Refusal::Host);
                }
                has_host = true;
                request.host.get_or_insert(value);
            }
            "accept" => request.intent.take_accept(value),
            "sec-fetch-dest" => request.intent.take_destination(value),
            "accept-encoding" => push(&mut request.accept_encoding, value)?,
            "if-match" => push(&mut conditions.if_match, value)?,
            "if-none-match" => push(&mut conditions.if_none_match, value)?,
            "if-modified-since" => conditions.if_modified_since.push(value),
            "if-unmodified-since" => conditions.if_unmodified_since.push(value),
            "if-range" => conditions.if_range.push(value),
            "range" => conditions.range.push(value),
            _ => {}
        }
    }

    let Conditions { if_match, if_none_match, .. } = &request.conditions;
    let Conditions { if_modified_since, if_unmodified_since, if_range, range, .. } = request.conditions;
    request.conditions.any = !if_match.is_absent()
        || !if_none_match.is_absent()
        || [if_modified_since, if_unmodified_since, if_range, range]
            .iter()
            .any(|field| *field != Single::Absent);
    Ok(())
}

/// Adds a line to a list field.
fn push<'a>(values: &mut Values<'a>, value: &'a [u8]) -> Result<(), Refusal> {
    values.push(value).map_err(|Full| Refusal::HeadTooLarge)
}

/// Parses a head in HTTP/1 syntax. Servers will add `Date` themselves, so we have to drop it here.
///
/// If `Location` is on the same origin, `prefix` is added to it.
pub(crate) fn of_head(head: &[u8], prefix: &str) -> HeaderMap {
    // Copy the head only once. All values share this copy.
    let head = Bytes::copy_from_slice(head);
    let mut fields = HeaderMap::with_capacity(FIELDS_EXPECTED);

    let mut end = 0;

    // The first line is the status line, which has no colon.
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let start = end;
        end += line.len();
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let Ok(name) = HeaderName::from_bytes(&line[..colon]) else { continue };
        if name == header::DATE {
            continue;
        }
        let value = head.slice(start + colon + ": ".len()..end - "\r\n".len());
        let value = if name == header::LOCATION { below(prefix, value) } else { value };
        if let Ok(value) = HeaderValue::from_maybe_shared(value) {
            fields.append(name, value);
        }
    }
    fields
}

/// Prepends the path at which the site is mounted to locations on the same origin.
fn below(prefix: &str, location: Bytes) -> Bytes {
    let is_path = location.starts_with(b"/") && !location.starts_with(b"//");
    if is_path && !prefix.is_empty() { [prefix.as_bytes(), &location].concat().into() } else { location }
}
