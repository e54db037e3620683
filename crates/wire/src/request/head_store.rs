//! Reads request heads in HTTP/2 and HTTP/3 and validates their fields (RFC 9113 §8.2, §8.3; RFC 9114 §4.2, §4.3).
//!
//! All connections of a worker share the buffers. Once these are large enough, requests no longer need to allocate. This module
//! knows nothing about frames, streams or header compression.

use std::time::Instant;

use cannery_site::{Intent, Method, Request, Values};

use super::head::{RequestHead, Version};
use super::priority::Priority;
use super::refusal::Refusal;
use crate::compression::hpack::{Field, List, Name};
use crate::ground::grammar::{elements, is_host, is_token_byte, parse_length};
use crate::ground::scan::is_target;
use crate::limits::{FIELD_LIST_BYTES_MAX, FIELDS_MAX, METHOD_BYTES_MAX, TARGET_BYTES_MAX};

/// The time, plus buffers for one request head (shared by a worker's connections).
#[derive(Debug)]
pub struct HeadStore {
    /// Temporary space for the decoder.
    strings: Vec<u8>,
    /// All field values in one place.
    bytes: Vec<u8>,
    /// The fields that all requests must have.
    required: RequiredPlaces,
    /// All others.
    fields: Vec<StoredField>,
    /// Field lines in HTTP/1 syntax.
    lines: Vec<u8>,
    kept_lines: KeptLines,
    intent: Intent,
    version: Version,
    seconds: u64,
    /// Time when we received the bytes we are reading.
    time: Option<Instant>,
}

/// Selects the fields we keep as lines in HTTP/1 syntax ([`RequestHead::field_lines`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptLines {
    /// Only those of proxies. We log them.
    Proxies,
    /// All of them. Handlers need this.
    All,
}

/// A field that not all requests have.
#[derive(Debug, Clone, Copy)]
struct StoredField {
    name: Name,
    value: Place,
}

/// The place of a value in [`HeadStore::bytes`].
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u16,
    end: u16,
}

/// The places of the fields that all requests must have. If there are several with the same name, the first one counts.
#[derive(Debug, Clone, Copy, Default)]
struct RequiredPlaces {
    method: Option<Place>,
    scheme: Option<Place>,
    path: Option<Place>,
    authority: Option<Place>,
    host: Option<Place>,
}

const _: () = assert!(FIELD_LIST_BYTES_MAX <= u16::MAX as usize, "positions of values are two bytes wide");

/// Whether a new stream starts with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does.
    Request(RequestInfo),
    /// It does, but we will refuse it with a status.
    Refused(RequestInfo, Refusal),
    /// It does not, so this is a stream error (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
    Malformed,
}

/// Whether fields on an open stream are trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// They are.
    Valid,
    /// There are too many of them, or there are fields that must not be in trailers.
    Malformed,
}

/// Everything that a connection has to know about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Whether the method is `HEAD`. If so, the response must not have content.
    pub(crate) is_head: bool,
    pub(crate) priority: Priority,
    /// Announced length of the content, in bytes.
    pub(crate) content_length: Option<u64>,
    /// Whether the client waits until it is asked to send the content.
    pub(crate) expects_continue: bool,
}

impl HeadStore {
    /// Creates empty buffers.
    #[must_use]
    pub fn new() -> HeadStore {
        HeadStore {
            strings: Vec::new(),
            bytes: Vec::new(),
            required: RequiredPlaces::default(),
            fields: Vec::new(),
            lines: Vec::new(),
            kept_lines: KeptLines::Proxies,
            intent: Intent::UNKNOWN,
            version: Version::Http2,
            seconds: 0,
            time: None,
        }
    }

    /// Sets which fields we keep as lines.
    pub fn keep_lines(&mut self, kept_lines: KeptLines) {
        self.kept_lines = kept_lines;
    }

    /// Sets the time in seconds since 1970. Limits against abuse depend on it.
    pub fn set_now(&mut self, seconds: u64) {
        self.seconds = seconds;
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Sets when we received the bytes that we will read next. Incomplete requests remember this.
    #[inline]
    pub fn set_time(&mut self, time: Instant) {
        self.time = Some(time);
    }

    pub(crate) fn time(&self) -> Option<Instant> {
        self.time
    }

    /// Returns the head of the connection's last request. Parts of it may be missing if the request was refused.
    #[must_use]
    pub fn head(&self) -> RequestHead<'_> {
        let mut head = RequestHead::EMPTY;
        self.put_head(&mut head);
        head
    }

    /// Like [`HeadStore::head`], for an empty head of the caller: it has half a kilobyte, which would be copied to return it.
    #[inline]
    pub fn put_head<'s>(&'s self, head: &mut RequestHead<'s>) {
        head.version = self.version;
        head.field_lines = &self.lines;
        let RequiredFields { method, path, authority, host, .. } = self.required_fields();
        head.method_name = method.unwrap_or_default();
        let request = &mut head.request;
        request.intent = self.intent;
        request.target = path.unwrap_or_default();
        // If there are both, they are equal (RFC 9113 §8.3.1).
        request.host = host.or(authority);

        for field in &self.fields {
            let value = self.value(field.value);
            match field.name {
                Name::AcceptEncoding => push(&mut request.accept_encoding, value),
                Name::Referer => head.referer = Some(value),
                Name::UserAgent => head.user_agent = Some(value),
                name => take_condition(request, name, value),
            }
        }

        request.method = Method::of(head.method_name);
        // For CONNECT, the target is the authority (RFC 9113 §8.5).
        if head.method_name == b"CONNECT" {
            request.target = request.host.unwrap_or_default();
        }
    }

    /// Reads the fields that a stream starts with.
    ///
    /// `decode` will be called with a temporary buffer and should pass each field to the reader.
    #[inline]
    pub(crate) fn read_request<E>(
        &mut self,
        version: Version,
        decode: impl FnOnce(&mut Vec<u8>, &mut HeadReader<'_>) -> Result<List, E>,
    ) -> Result<Verdict, E> {
        self.version = version;
        let HeadStore { strings, bytes, fields, lines, kept_lines, .. } = self;
        bytes.clear();
        fields.clear();
        lines.clear();

        let mut reader = HeadReader::new(bytes, fields, lines, *kept_lines);
        let list = match decode(strings, &mut reader) {
            Ok(list) => list,
            Err(error) => {
                // Places in the previous request no longer fit the bytes.
                let _ = self.refuse_request(version);
                return Err(error);
            }
        };

        let HeadReader { is_malformed, refusal, priority, content_length, expects_continue, .. } = reader;
        (self.required, self.intent) = (reader.required, reader.intent);

        let required = self.required_fields();
        let checked = required.check();
        let is_head = required.method == Some(b"HEAD");
        let info = RequestInfo { is_head, priority, content_length, expects_continue };
        Ok(match (list, checked) {
            _ if is_malformed => Verdict::Malformed,
            // We don't know if required fields are missing, since the list is incomplete.
            (List::TooLarge, _) => Verdict::Refused(info, Refusal::HeadTooLarge),
            (List::Whole, Err(HeadError::Malformed)) => Verdict::Malformed,
            (List::Whole, Err(HeadError::Refused(later))) => Verdict::Refused(info, refusal.unwrap_or(later)),
            (List::Whole, Ok(())) => {
                refusal.map_or(Verdict::Request(info), |refusal| Verdict::Refused(info, refusal))
            }
        })
    }

    /// Starts the head of a request we refuse without decoding it.
    pub(crate) fn refuse_request(&mut self, version: Version) -> RequestInfo {
        self.version = version;
        self.bytes.clear();
        self.required = RequiredPlaces::default();
        self.fields.clear();
        self.lines.clear();
        self.intent = Intent::UNKNOWN;

        RequestInfo {
            is_head: false,
            priority: Priority::DEFAULT,
            content_length: None,
            expects_continue: false,
        }
    }

    /// Returns the temporary buffer for decoders.
    pub(crate) fn strings(&mut self) -> &mut Vec<u8> {
        &mut self.strings
    }

    /// Reads fields on a stream that is already open, checking that they are trailers (RFC 9113 §8.1, RFC 9114 §4.1).
    pub(crate) fn read_trailers<E>(
        &mut self,
        decode: impl FnOnce(&mut Vec<u8>, &mut TrailerReader) -> Result<List, E>,
    ) -> Result<Trailers, E> {
        let mut reader = TrailerReader { is_malformed: false };
        let list = decode(&mut self.strings, &mut reader)?;
        let is_valid = !reader.is_malformed && list == List::Whole;
        Ok(if is_valid { Trailers::Valid } else { Trailers::Malformed })
    }

    /// Returns the values of the fields that all requests must have.
    // Neither caller needs all of them.
    #[inline(always)]
    fn required_fields(&self) -> RequiredFields<'_> {
        let value = |place: Option<Place>| place.map(|place| self.value(place));
        let RequiredPlaces { method, scheme, path, authority, host } = self.required;
        RequiredFields {
            method: value(method),
            scheme: value(scheme),
            path: value(path),
            authority: value(authority),
            host: value(host),
        }
    }

    #[inline]
    fn value(&self, place: Place) -> &[u8] {
        &self.bytes[usize::from(place.start)..usize::from(place.end)]
    }
}

/// The values of the fields that all requests must have.
#[derive(Debug)]
struct RequiredFields<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl RequiredFields<'_> {
    /// Checks fields against each other.
    fn check(&self) -> Result<(), HeadError> {
        let RequiredFields { authority, host, .. } = *self;
        let method = self.method.ok_or(HeadError::Malformed)?;
        if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
            return Err(HeadError::Malformed);
        }

        match (self.scheme, self.path) {
            // Allowed by RFC 9113 §8.5.
            (None, None) if method == b"CONNECT" && authority.is_some() => {}
            _ if method == b"CONNECT" => return Err(HeadError::Malformed),
            (Some(scheme), Some(path)) => check_target(scheme, path)?,
            _ => return Err(HeadError::Malformed),
        }
        if method.len() > METHOD_BYTES_MAX {
            return Err(HeadError::Refused(Refusal::Method));
        }

        // RFC 9113 §8.3.1: if both are given, they must be the same.
        let has_one_host = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            (authority, host) => authority.is_some() || host.is_some(),
        };
        // With `http` and `https`, neither may be empty (RFC 9113 §8.3.1).
        let is_named = |value: &[u8]| is_host(value) && !value.is_empty() && !value.starts_with(b":");
        let are_hosts = authority.is_none_or(is_named) && host.is_none_or(is_named);
        if has_one_host && are_hosts { Ok(()) } else { Err(HeadError::Refused(Refusal::Host)) }
    }
}

/// Reasons why a head is not a valid request.
enum HeadError {
    Malformed,
    Refused(Refusal),
}

/// Checks `:path` and `:scheme`. A path can have a query or be `*`, but must not be empty (RFC 9113 §8.3.1).
fn check_target(scheme: &[u8], path: &[u8]) -> Result<(), HeadError> {
    if !(path.starts_with(b"/") || path == b"*") || !is_target(path) {
        return Err(HeadError::Malformed);
    }
    if path.len() > TARGET_BYTES_MAX {
        return Err(HeadError::Refused(Refusal::TargetTooLong));
    }
    // We accept both schemes on all connections, because a proxy will forward the scheme that the client has used. Nearly all
    // clients use lower case.
    let is_known = matches!(scheme, b"https" | b"http");
    if is_known || scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http") {
        Ok(())
    } else {
        Err(HeadError::Refused(Refusal::Scheme))
    }
}

/// Returns `true` if the field only concerns a connection. Such fields are not allowed in HTTP/2 and HTTP/3 (RFC 9113 §8.2.2, RFC
/// 9114 §4.2).
fn is_connection_specific(field: &Field<'_>) -> bool {
    match field.name {
        Name::Connection
        | Name::KeepAlive
        | Name::ProxyConnection
        | Name::TransferEncoding
        | Name::Upgrade => true,
        Name::Te => !field.value.eq_ignore_ascii_case(b"trailers"),
        _ => false,
    }
}

fn push<'a>(values: &mut Values<'a>, value: &'a [u8]) {
    let pushed = values.push(value);
    debug_assert!(pushed.is_ok(), "`HeadReader::take` counted the lines");
}

/// Stores a field that conditional and range requests have.
#[cold]
fn take_condition<'a>(request: &mut Request<'a>, name: Name, value: &'a [u8]) {
    let conditions = &mut request.conditions;
    match name {
        Name::Range => conditions.range.push(value),
        Name::IfMatch => push(&mut conditions.if_match, value),
        Name::IfRange => conditions.if_range.push(value),
        Name::IfNoneMatch => push(&mut conditions.if_none_match, value),
        Name::IfModifiedSince => conditions.if_modified_since.push(value),
        Name::IfUnmodifiedSince => conditions.if_unmodified_since.push(value),
        _ => return,
    }

    conditions.any = true;
}

/// Reads the fields of a request head, one at a time.
pub(crate) struct HeadReader<'s> {
    bytes: &'s mut Vec<u8>,
    required: RequiredPlaces,
    fields: &'s mut Vec<StoredField>,
    lines: &'s mut Vec<u8>,
    kept_lines: KeptLines,
    /// Number of fields so far, including ignored ones.
    count: usize,
    /// Whether there was a regular field, after which pseudo-header fields are not allowed (RFC 9113 §8.3).
    has_regular_field: bool,
    is_malformed: bool,
    refusal: Option<Refusal>,
    priority: Priority,
    content_length: Option<u64>,
    expects_continue: bool,
    intent: Intent,
}

impl<'s> HeadReader<'s> {
    fn new(
        bytes: &'s mut Vec<u8>,
        fields: &'s mut Vec<StoredField>,
        lines: &'s mut Vec<u8>,
        kept_lines: KeptLines,
    ) -> HeadReader<'s> {
        HeadReader {
            bytes,
            required: RequiredPlaces::default(),
            fields,
            lines,
            kept_lines,
            count: 0,
            has_regular_field: false,
            is_malformed: false,
            refusal: None,
            priority: Priority::DEFAULT,
            content_length: None,
            expects_continue: false,
            intent: Intent::UNKNOWN,
        }
    }

    /// Checks a field. If requests need it, stores it.
    // Without inlining this into the decoders of HPACK and QPACK, the calls would cost 2 % of a browser's request.
    #[inline(always)]
    pub(crate) fn take(&mut self, field: Field<'_>) {
        self.count += 1;
        self.is_malformed |= !field.is_well_formed;
        let place = match field.name {
            Name::Method => &mut self.required.method,
            Name::Scheme => &mut self.required.scheme,
            Name::Path => &mut self.required.path,
            Name::Authority => &mut self.required.authority,
            _ => return self.take_regular(field),
        };

        self.is_malformed |= self.has_regular_field || place.is_some();
        if place.is_none() {
            *place = put(self.bytes, field.value);
        }
    }

    #[inline(always)]
    fn take_regular(&mut self, field: Field<'_>) {
        self.has_regular_field = true;
        if self.count > FIELDS_MAX {
            return self.refuse(Refusal::HeadTooLarge);
        }
        if self.kept_lines == KeptLines::All {
            self.store_line(&field);
        }

        match field.name {
            Name::Other => {}
            Name::Accept => self.intent.take_accept(field.value),
            Name::SecFetchDest => self.intent.take_destination(field.value),
            Name::Referer | Name::UserAgent => self.store(&field),
            Name::Forwarded | Name::XForwardedFor => {
                if self.kept_lines == KeptLines::Proxies {
                    self.store_line(&field);
                }
            }
            Name::AcceptEncoding | Name::IfMatch | Name::IfNoneMatch => {
                if self.count_of(field.name) == Values::LINES_MAX {
                    return self.refuse(Refusal::HeadTooLarge);
                }
                self.store(&field);
            }
            Name::Range | Name::IfRange | Name::IfModifiedSince | Name::IfUnmodifiedSince => {
                self.store(&field);
            }
            Name::Host if self.required.host.is_some() => self.refuse(Refusal::Host),
            Name::Host => self.required.host = put(self.bytes, field.value),
            Name::Priority => self.priority = Priority::parse(field.value),
            Name::ContentLength => {
                let length = parse_length(field.value);
                self.is_malformed |= length.is_none() || self.content_length.is_some();
                self.content_length = length;
            }
            Name::Expect => {
                let is_known = |expectation: &[u8]| expectation.eq_ignore_ascii_case(b"100-continue");
                if !elements(field.value).all(is_known) {
                    self.refuse(Refusal::Expectation);
                }
                self.expects_continue = true;
            }
            _ => self.is_malformed |= is_connection_specific(&field),
        }
    }

    /// Returns the number of stored fields with this name.
    fn count_of(&self, name: Name) -> usize {
        self.fields.iter().filter(|field| field.name == name).count()
    }

    /// Refuses the request. Only the first reason counts.
    fn refuse(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
    }

    /// Stores a field as an HTTP/1 line. In total, the lines cannot exceed the limit for field lists.
    #[cold]
    fn store_line(&mut self, field: &Field<'_>) {
        for part in [field.name_text, b": ", field.value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
    }

    #[inline]
    fn store(&mut self, field: &Field<'_>) {
        match put(self.bytes, field.value) {
            Some(value) => self.fields.push(StoredField { name: field.name, value }),
            None => self.refuse(Refusal::HeadTooLarge),
        }
    }
}

/// Appends a value. In total, the values cannot get longer than the limit for field lists, so this is never `None`.
#[inline]
fn put(bytes: &mut Vec<u8>, value: &[u8]) -> Option<Place> {
    let (start, end) = (bytes.len(), bytes.len() + value.len());
    debug_assert!(end <= FIELD_LIST_BYTES_MAX, "the decoder passes on no more");
    let place = Place { start: u16::try_from(start).ok()?, end: u16::try_from(end).ok()? };
    bytes.extend_from_slice(value);
    Some(place)
}

/// Checks the fields of trailers, one at a time.
pub(crate) struct TrailerReader {
    is_malformed: bool,
}

impl TrailerReader {
    /// Checks a field.
    pub(crate) fn take(&mut self, field: &Field<'_>) {
        self.is_malformed |= !field.is_well_formed || field.name.is_pseudo() || is_connection_specific(field);
    }
}

impl Default for HeadStore {
    fn default() -> Self {
        HeadStore::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_request_is_left_after_a_decoding_error() {
        let mut store = HeadStore::new();
        let field = |text: &'static [u8], value: &'static [u8]| Field {
            name: Name::from_bytes(text),
            name_text: text,
            value,
            is_well_formed: true,
        };
        let read = store.read_request(Version::Http2, |_, reader| {
            for (name, value) in [
                (b":method".as_slice(), b"GET".as_slice()),
                (b":scheme", b"https"),
                (b":path", b"/a"),
                (b"host", b"a"),
            ] {
                reader.take(field(name, value));
            }
            Ok::<_, ()>(List::Whole)
        });
        assert!(matches!(read, Ok(Verdict::Request(_))), "{read:?}");
        assert_eq!(store.head().request.target, b"/a");

        assert!(store.read_request(Version::Http2, |_, _| Err::<List, _>(())).is_err());
        let head = store.head();
        assert_eq!((head.method_name, head.request.target, head.request.host), (&b""[..], &b""[..], None));
    }
}
