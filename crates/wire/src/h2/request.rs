//! The fields of a header block to the head of a request (RFC 9113 §8.2, §8.3), or to what is wrong with them.
//!
//! Holds the bytes that the head borrows, in room that all connections of a worker use in turn: nothing is allocated
//! once it has grown. Never knows frames or streams, nor how fields were compressed.

use cannery_site::{Method, Request, Values};

use super::priority::Priority;
use crate::grammar::{elements, is_host, is_token_byte, parse_length};
use crate::hpack::{DecodeError, Decoder, Field, List, Name};
use crate::limits::{FIELD_LIST_BYTES_MAX, FIELDS_MAX, METHOD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::refusal::Refusal;
use crate::request_head::{RequestHead, Version};
use crate::scan::target_end;

/// Room for the head of a request of HTTP/2, and the time: what the connections of a worker use in turn.
#[derive(Debug, Default)]
pub struct HeadStore {
    /// For the decoder.
    strings: Vec<u8>,
    /// The values that a head is made of.
    bytes: Vec<u8>,
    /// Whose values they are, and where.
    kept: Vec<Kept>,
    /// Lines of proxies, as HTTP/1 has them.
    forwarded: Vec<u8>,
    seconds: u64,
}

/// A value: so many bytes from a place on.
#[derive(Debug, Clone, Copy)]
struct Kept {
    name: Name,
    start: u16,
    bytes: u16,
}

const _: () = assert!(FIELD_LIST_BYTES_MAX <= u16::MAX as usize, "places of values are two bytes wide");

/// What a header block is that begins a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A request.
    Request(About),
    /// One that has an answer of its own.
    Refused(About, Refusal),
    /// None: the stream ends (RFC 9113 §8.1.1).
    Malformed,
}

/// What the connection has to know of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct About {
    /// Whether it is `HEAD`, to which no answer has content.
    pub(super) is_head: bool,
    pub(super) priority: Priority,
    /// How long its content is, if it says so.
    pub(super) content_length: Option<u64>,
}

impl HeadStore {
    /// Empty room.
    #[must_use]
    pub fn new() -> HeadStore {
        HeadStore::default()
    }

    /// Sets the time that budgets against abuse fill by, in seconds since 1970.
    pub fn set_now(&mut self, seconds: u64) {
        self.seconds = seconds;
    }

    pub(super) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// The head of the request that [`super::Step::Request`] told of last.
    #[must_use]
    #[inline]
    pub fn head(&self) -> RequestHead<'_> {
        let mut head =
            RequestHead { version: Version::Http2, field_lines: &self.forwarded, ..RequestHead::EMPTY };
        let request = &mut head.request;
        for kept in &self.kept {
            let value = self.value(*kept);
            match kept.name {
                Name::Method => head.method_name = value,
                Name::Path => request.target = value,
                // RFC 9113 §8.3.1: where both are there, they say the same.
                Name::Authority | Name::Host => request.host = Some(value),
                Name::AcceptEncoding => push(&mut request.accept_encoding, value),
                Name::Referer => head.referer = Some(value),
                Name::UserAgent => head.user_agent = Some(value),
                name => take_condition(request, name, value),
            }
        }
        request.method = Method::of(head.method_name);
        // RFC 9113 §8.5: what is asked for is the authority.
        if head.method_name == b"CONNECT" {
            request.target = request.host.unwrap_or_default();
        }
        head
    }

    /// Reads the block that begins a stream; `ended` says that no content follows.
    pub(super) fn read(
        &mut self,
        decoder: &mut Decoder,
        block: &[u8],
        ended: bool,
    ) -> Result<Verdict, DecodeError> {
        let HeadStore { strings, bytes, kept, forwarded, .. } = self;
        bytes.clear();
        kept.clear();
        forwarded.clear();
        let mut reader = Reader::new(bytes, kept, forwarded);
        let list = decoder.decode(block, strings, |field| reader.take(field))?;
        let Reader { is_malformed, refusal, priority, content_length, .. } = reader;
        let wrong = self.check();
        let about = About { is_head: self.find(Name::Method) == Some(b"HEAD"), priority, content_length };
        // RFC 9113 §8.1.1: a request without content must not say that it has some.
        let lacks_content = ended && content_length.is_some_and(|length| length > 0);
        Ok(match (list, wrong) {
            _ if is_malformed || lacks_content => Verdict::Malformed,
            // Who sends too much may have sent what is missing behind it.
            (List::TooLarge, _) => Verdict::Refused(about, Refusal::HeadTooLarge),
            (_, Err(Wrong::Malformed)) => Verdict::Malformed,
            (_, Err(Wrong::Refused(wrong))) => Verdict::Refused(about, refusal.unwrap_or(wrong)),
            (_, Ok(())) => {
                refusal.map_or(Verdict::Request(about), |refusal| Verdict::Refused(about, refusal))
            }
        })
    }

    /// Reads a block of trailers, or of a stream that has ended, for the decoder has to see it; tells whether its
    /// fields are such as may stand in trailers (RFC 9113 §8.1).
    pub(super) fn read_trailers(&mut self, decoder: &mut Decoder, block: &[u8]) -> Result<bool, DecodeError> {
        let mut may = true;
        let list = decoder.decode(block, &mut self.strings, |field| {
            may &= field.is_well_formed && !field.name.is_pseudo() && !is_of_connections(&field);
        })?;
        Ok(may && list == List::Whole)
    }

    /// Holds together what only the whole head tells.
    fn check(&self) -> Result<(), Wrong> {
        let method = self.find(Name::Method).ok_or(Wrong::Malformed)?;
        if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
            return Err(Wrong::Malformed);
        }
        let (scheme, path) = (self.find(Name::Scheme), self.find(Name::Path));
        let (authority, host) = (self.find(Name::Authority), self.find(Name::Host));
        match (scheme, path) {
            // RFC 9113 §8.5.
            (None, None) if method == b"CONNECT" && authority.is_some() => {}
            _ if method == b"CONNECT" => return Err(Wrong::Malformed),
            (Some(scheme), Some(path)) => check_target(scheme, path)?,
            _ => return Err(Wrong::Malformed),
        }
        if method.len() > METHOD_BYTES_MAX {
            return Err(Wrong::Refused(Refusal::Method));
        }
        let agree = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            (authority, host) => authority.is_some() || host.is_some(),
        };
        // RFC 9113 §8.3.1: neither may be empty, for the schemes that we answer.
        let names_one = |value: &[u8]| is_host(value) && !value.is_empty() && !value.starts_with(b":");
        let are_hosts = [authority, host].into_iter().flatten().all(names_one);
        if agree && are_hosts { Ok(()) } else { Err(Wrong::Refused(Refusal::Host)) }
    }

    fn find(&self, name: Name) -> Option<&[u8]> {
        self.kept.iter().find(|kept| kept.name == name).map(|kept| self.value(*kept))
    }

    #[inline]
    fn value(&self, kept: Kept) -> &[u8] {
        &self.bytes[usize::from(kept.start)..][..usize::from(kept.bytes)]
    }
}

/// What only the whole head tells.
enum Wrong {
    Malformed,
    Refused(Refusal),
}

/// RFC 9113 §8.3.1: a path and a query, or `*`; never empty.
fn check_target(scheme: &[u8], path: &[u8]) -> Result<(), Wrong> {
    if !(path.starts_with(b"/") || path == b"*") || target_end(path).is_some() {
        return Err(Wrong::Malformed);
    }
    if path.len() > TARGET_BYTES_MAX {
        return Err(Wrong::Refused(Refusal::TargetTooLong));
    }
    // Which of the two says nothing here: a proxy hands on what it was asked with.
    if scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http") {
        Ok(())
    } else {
        Err(Wrong::Refused(Refusal::Scheme))
    }
}

/// Whether a field is about a connection, which HTTP/2 has other means for (RFC 9113 §8.2.2).
fn is_of_connections(field: &Field<'_>) -> bool {
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
    let has_room = values.push(value);
    debug_assert!(has_room, "lines were counted as they came");
}

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

/// What the fields said so far.
struct Reader<'s> {
    bytes: &'s mut Vec<u8>,
    kept: &'s mut Vec<Kept>,
    forwarded: &'s mut Vec<u8>,
    fields: usize,
    /// Whether a field came that is no pseudo-field: none of those may follow (RFC 9113 §8.3).
    past_pseudo: bool,
    is_malformed: bool,
    refusal: Option<Refusal>,
    priority: Priority,
    content_length: Option<u64>,
}

impl<'s> Reader<'s> {
    fn new(bytes: &'s mut Vec<u8>, kept: &'s mut Vec<Kept>, forwarded: &'s mut Vec<u8>) -> Reader<'s> {
        Reader {
            bytes,
            kept,
            forwarded,
            fields: 0,
            past_pseudo: false,
            is_malformed: false,
            refusal: None,
            priority: Priority::DEFAULT,
            content_length: None,
        }
    }

    #[inline]
    fn take(&mut self, field: Field<'_>) {
        self.fields += 1;
        self.is_malformed |= !field.is_well_formed;
        if field.name.is_pseudo() {
            self.is_malformed |= self.past_pseudo || self.count(field.name) > 0;
            return self.keep(&field);
        }
        self.past_pseudo = true;
        if self.fields > FIELDS_MAX {
            return self.refuse(Refusal::HeadTooLarge);
        }
        match field.name {
            Name::Other => {}
            Name::Referer | Name::UserAgent => self.keep(&field),
            Name::Forwarded | Name::XForwardedFor => self.keep_line(&field),
            Name::AcceptEncoding | Name::IfMatch | Name::IfNoneMatch => {
                if self.count(field.name) == Values::LINES_MAX {
                    return self.refuse(Refusal::HeadTooLarge);
                }
                self.keep(&field);
            }
            Name::Range | Name::IfRange | Name::IfModifiedSince | Name::IfUnmodifiedSince => {
                self.keep(&field);
            }
            Name::Host if self.count(Name::Host) > 0 => self.refuse(Refusal::Host),
            Name::Host => self.keep(&field),
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
            }
            _ => self.is_malformed |= is_of_connections(&field),
        }
    }

    fn count(&self, name: Name) -> usize {
        self.kept.iter().filter(|kept| kept.name == name).count()
    }

    /// The first fault is the one that the peer is told.
    fn refuse(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
    }

    /// Keeps a field as a line of HTTP/1. All lines together are no longer than a list may be.
    #[cold]
    fn keep_line(&mut self, field: &Field<'_>) {
        for part in [field.name.text(), b": ", field.value, b"\r\n"] {
            self.forwarded.extend_from_slice(part);
        }
    }

    #[inline]
    fn keep(&mut self, field: &Field<'_>) {
        // All values together are no longer than a list may be.
        let (Ok(start), Ok(bytes)) = (u16::try_from(self.bytes.len()), u16::try_from(field.value.len()))
        else {
            return self.refuse(Refusal::HeadTooLarge);
        };
        self.bytes.extend_from_slice(field.value);
        self.kept.push(Kept { name: field.name, start, bytes });
    }
}
