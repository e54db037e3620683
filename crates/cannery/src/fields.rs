//! Fields of requests and responses, between the types of `http` and ours.

use bytes::{Bytes, BytesMut};
use cannery_site::{Conditions, Full, Request, Single, Values};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Size of a block of memory for the fields of responses, in bytes: about forty heads.
const BLOCK_BYTES: usize = 16 << 10;

/// Capacity of a response's field map. Nearly all heads fit into the map's first two allocations.
const FIELDS_EXPECTED: usize = 12;

/// Copies the fields that can change the answer into `request`.
///
/// # Errors
///
/// Returns [`Full`] if a list-based field has too many field lines.
pub(crate) fn read<'a>(fields: &'a HeaderMap, request: &mut Request<'a>) -> Result<(), Full> {
    if fields.is_empty() {
        return Ok(());
    }
    if request.host.is_none() {
        request.host = fields.get(header::HOST).map(HeaderValue::as_bytes);
    }
    request.accept_encoding = list(fields, &header::ACCEPT_ENCODING)?;

    let mut conditions = Conditions {
        any: false,
        if_match: list(fields, &header::IF_MATCH)?,
        if_none_match: list(fields, &header::IF_NONE_MATCH)?,
        if_modified_since: single(fields, &header::IF_MODIFIED_SINCE),
        if_unmodified_since: single(fields, &header::IF_UNMODIFIED_SINCE),
        if_range: single(fields, &header::IF_RANGE),
        range: single(fields, &header::RANGE),
    };
    conditions.any = !conditions.if_match.is_absent()
        || !conditions.if_none_match.is_absent()
        || [
            conditions.if_modified_since,
            conditions.if_unmodified_since,
            conditions.if_range,
            conditions.range,
        ]
        .iter()
        .any(|field| *field != Single::Absent);
    request.conditions = conditions;
    Ok(())
}

/// Returns the lines of a list-based field.
fn list<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Result<Values<'a>, Full> {
    let mut values = Values::NONE;
    for value in fields.get_all(name) {
        values.push(value.as_bytes())?;
    }
    Ok(values)
}

/// Returns a field that must have one line.
fn single<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Single<'a> {
    let mut field = Single::Absent;
    for value in fields.get_all(name) {
        field.push(value.as_bytes());
    }
    field
}

/// Turns the text of a response head into a map.
///
/// The values share a block of memory, so that most responses need no allocation for them.
#[derive(Default)]
pub(crate) struct FieldMaker {
    block: BytesMut,
}

impl FieldMaker {
    /// Returns the fields of a head in the syntax of HTTP/1, except `Date`, which servers add themselves.
    ///
    /// A `Location` on the same origin gets `prefix`.
    pub(crate) fn fields(&mut self, head: &[u8], prefix: &str) -> HeaderMap {
        if self.block.capacity() < head.len() {
            self.block = BytesMut::with_capacity(BLOCK_BYTES.max(head.len()));
        }
        self.block.extend_from_slice(head);
        let head = self.block.split().freeze();

        let mut fields = HeaderMap::with_capacity(FIELDS_EXPECTED);
        let mut end = 0;
        // The first line is the status line.
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
}

/// Returns a location on the same origin with the path that the site is mounted at before it.
fn below(prefix: &str, location: Bytes) -> Bytes {
    let is_path = location.starts_with(b"/") && !location.starts_with(b"//");
    if is_path && !prefix.is_empty() { [prefix.as_bytes(), &location].concat().into() } else { location }
}
