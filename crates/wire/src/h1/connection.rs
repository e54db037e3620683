//! State machine of one HTTP/1 connection: pipelining, keep-alive, close.
//!
//! Its state between calls is small, because it is all that an idle connection keeps.

use cannery_site::Method;

use super::content::{Content, SKIPPED_BYTES_MAX, Unreadable};
use super::encode::put_response;
use super::parse::{Framing, Head, Parsed, parse};
use crate::limits::HEAD_BYTES_MAX;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::request_head::Version;
use crate::response::Response;

/// One HTTP/1 connection.
#[derive(Debug, Default)]
pub struct Connection {
    reading: Reading,
    close: Close,
    /// Whether any request was answered.
    has_responded: bool,
    /// Whether the connection is encrypted, so that it serves targets of the scheme `https` (RFC 9110 §7.4).
    is_secured: bool,
    /// Whether the caller decides about the content of each request.
    leaves_content: bool,
}

/// The part of a message that the next bytes belong to.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// A request head, of which `scanned` bytes have arrived that don't contain its end.
    ///
    /// `is_head` is set if the incomplete or refused request is for `HEAD`.
    Head { scanned: usize, is_head: bool },
    /// The content of the last request. Never [`Content::Done`].
    Content(Content),
    /// The end: the content of the last request cannot be read completely, or is not worth it.
    Closed,
}

/// When the connection closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Close {
    /// Not yet.
    #[default]
    No,
    /// After the next response, which announces it.
    AfterNext,
    /// After the output, because the peer requested it or for a reason of ours.
    Now { by_peer: bool },
}

/// The bytes that the peer has to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Its next request, or none.
    Request,
    /// The rest of a request head.
    Head,
    /// The rest of a request's content.
    Content,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A request, to be answered by [`Connection::respond`].
    Request,
    /// An incomplete request.
    More,
    /// Something that cannot be answered as a request: see [`Connection::refuse`].
    Refused(Refusal),
    /// Invalid content of a request that was already answered: the connection closes.
    End,
}

/// The content of a request is longer than its handler accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentTooLong;

/// Why the content of a request cannot be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentError {
    /// It is longer than its handler accepts.
    TooLong,
    /// It breaks the grammar of RFC 9112 §7.1, or its chunks are tiny.
    Invalid,
}

/// The least that the heads of all chunks of a request's content may take, in bytes.
const CHUNK_HEADS_BYTES_MIN: u32 = 1024;

impl Reading {
    /// The next request head, before its first byte.
    const NEXT_HEAD: Reading = Reading::Head { scanned: 0, is_head: false };
}

impl Default for Reading {
    fn default() -> Self {
        Reading::NEXT_HEAD
    }
}

impl Connection {
    /// Creates a new connection.
    #[must_use]
    pub fn new(is_secured: bool) -> Connection {
        Connection { is_secured, ..Connection::default() }
    }

    /// Lets the caller decide about the content of each request, by [`Connection::skip_content`] or
    /// [`Connection::receive_content`], before it answers.
    #[must_use]
    pub fn leaving_content(self) -> Connection {
        Connection { leaves_content: true, ..self }
    }

    /// Returns `true` if the connection closes once the output was sent.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.close, Close::Now { .. })
    }

    /// Returns `true` if the connection closes because the peer asked for it, and everything that the peer
    /// announced has arrived.
    #[must_use]
    pub fn is_closed_by_peer(&self) -> bool {
        self.close == Close::Now { by_peer: true } && !matches!(self.reading, Reading::Content(_))
    }

    /// Returns `true` after the first response.
    #[must_use]
    pub fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Returns `true` if the connection stays open after the response to the last request.
    #[must_use]
    pub fn keeps_open(&self, head: &Head<'_>) -> bool {
        // Content that is too long to be worth reading closes the connection instead.
        head.keep_alive && self.close == Close::No && !matches!(self.reading, Reading::Closed)
    }

    /// Closes the connection once the output was sent, because the response cannot be completed.
    pub fn break_off(&mut self) {
        self.reading = Reading::Closed;
        self.close = Close::Now { by_peer: false };
    }

    /// Closes the connection after the next response, which announces it.
    pub fn close_after_next(&mut self) {
        if self.close == Close::No {
            self.close = Close::AfterNext;
        }
    }

    /// Returns the part of a request that the peer has to send next.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        match self.reading {
            Reading::Content(_) => Awaits::Content,
            Reading::Head { scanned: 1.., .. } => Awaits::Head,
            Reading::Head { .. } | Reading::Closed => Awaits::Request,
        }
    }

    /// Reads the next request from `input`, which starts with the first byte that the last call didn't
    /// consume.
    ///
    /// Returns the number of bytes consumed: up to the end of a request, and up to the start of one that is refused. `head`
    /// is valid only after [`Step::Request`].
    #[inline]
    pub fn next_request<'a>(&mut self, input: &'a [u8], head: &mut Head<'a>) -> (usize, Step) {
        let (skipped, scanned) = match &mut self.reading {
            Reading::Head { scanned, .. } => (0, *scanned),
            Reading::Content(content) => match content.skip(input) {
                Ok(skipped) => {
                    if content.is_done() {
                        self.reading = Reading::NEXT_HEAD;
                    }
                    (skipped, 0)
                }
                Err(Unreadable) => {
                    self.reading = Reading::Closed;
                    self.close = Close::Now { by_peer: false };
                    return (input.len(), Step::End);
                }
            },
            Reading::Closed => return (input.len(), Step::End),
        };

        let input = &input[skipped..];
        if input.is_empty() {
            return (skipped, Step::More);
        }

        // Looks for the end of a head among the new bytes before parsing it again. A head that is too large
        // is parsed in any case, because the parser reports which limit it exceeds.
        if scanned > 0 && input.len() < HEAD_BYTES_MAX {
            let unscanned = scanned.saturating_sub(3).min(input.len());
            if !has_end_of_head(&input[unscanned..]) {
                return (skipped, self.await_rest(input));
            }
        }

        match parse(input, head, self.is_secured) {
            Parsed::Head(length) => match self.begin_content(head, &input[length..]) {
                Ok(content_bytes) => (skipped + length + content_bytes, Step::Request),
                Err(refusal) => (skipped, Step::Refused(refusal)),
            },
            Parsed::More => (skipped, self.await_rest(input)),
            Parsed::Refused(refusal) => {
                self.reading = Reading::Head { scanned, is_head: begins_as_head(input) };
                (skipped, Step::Refused(refusal))
            }
        }
    }

    /// Remembers that `input` is the beginning of a request head.
    fn await_rest(&mut self, input: &[u8]) -> Step {
        self.reading = Reading::Head { scanned: input.len(), is_head: begins_as_head(input) };
        Step::More
    }

    /// Discards the content of a request, unless the caller decides about it. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// The content is invalid, and with it the request.
    #[inline]
    fn begin_content(&mut self, head: &Head<'_>, rest: &[u8]) -> Result<usize, Refusal> {
        self.reading = Reading::NEXT_HEAD;
        if head.framing == Framing::Length(0) || self.leaves_content {
            return Ok(0);
        }
        self.skip_content(head, rest)
    }

    /// Discards the content of the last request as far as it has arrived with its head.
    ///
    /// Returns the number of bytes consumed.
    ///
    /// # Errors
    /// The content is invalid, and with it the request.
    pub fn skip_content(&mut self, head: &Head<'_>, rest: &[u8]) -> Result<usize, Refusal> {
        let Some(mut content) = Content::new(head.framing, SKIPPED_BYTES_MAX) else {
            self.reading = Reading::Closed;
            return Ok(0);
        };
        match content.skip(rest) {
            Ok(skipped) => {
                if !content.is_done() {
                    self.reading = Reading::Content(content);
                }
                Ok(skipped)
            }
            Err(Unreadable) => {
                let is_head = head.common.request.method == Method::Head;
                self.reading = Reading::Head { scanned: 0, is_head };
                Err(Refusal::Framing)
            }
        }
    }

    /// Begins to receive the content of a request, which [`Connection::read_content`] continues, and asks for it if the client
    /// holds it back.
    ///
    /// # Errors
    /// The announced length is more than `bytes_max`. The connection closes after the response.
    pub fn receive_content(
        &mut self,
        head: &Head<'_>,
        bytes_max: u32,
        output: &mut Output,
    ) -> Result<(), ContentTooLong> {
        // Chunks have heads, which are a part of the content here.
        let bytes_max = if head.framing == Framing::Chunked {
            bytes_max.saturating_mul(2).saturating_add(CHUNK_HEADS_BYTES_MIN)
        } else {
            bytes_max
        };
        let Some(content) = Content::new(head.framing, bytes_max) else {
            self.reading = Reading::Closed;
            return Err(ContentTooLong);
        };
        self.reading = if content.is_done() { Reading::NEXT_HEAD } else { Reading::Content(content) };
        if head.expects_continue && !content.is_done() {
            output.put(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        Ok(())
    }

    /// Returns `true` while the content of the last request is incomplete.
    #[must_use]
    pub fn awaits_content(&self) -> bool {
        matches!(self.reading, Reading::Content(_))
    }

    /// Removes the content of the last request from the front of `input`, and appends it to `content`.
    ///
    /// # Errors
    /// The content is longer than `bytes_max` or invalid. No request can follow, so the connection closes after the response.
    pub fn read_content(
        &mut self,
        input: &mut &[u8],
        bytes_max: u32,
        content: &mut Vec<u8>,
    ) -> Result<(), ContentError> {
        let Reading::Content(reading) = &mut self.reading else { return Ok(()) };
        let read = reading.read(input, |bytes| content.extend_from_slice(bytes));
        let outcome = match read {
            _ if content.len() > bytes_max as usize => Err(ContentError::TooLong),
            Ok(used) => {
                *input = &input[used..];
                if reading.is_done() {
                    self.reading = Reading::NEXT_HEAD;
                }
                return Ok(());
            }
            Err(Unreadable) => Err(ContentError::Invalid),
        };
        self.reading = Reading::Closed;
        outcome
    }

    /// Writes the response to the last request.
    #[inline]
    pub fn respond(&mut self, head: &Head<'_>, response: &Response<'_>, output: &mut Output) {
        self.begin_response(head, output);
        let option = connection_option(!self.is_closing(), head);
        put_response(output, response, option);
    }

    /// Begins the response to the last request, which the caller writes. Returns its [`connection_option`].
    pub fn begin(&mut self, head: &Head<'_>, output: &mut Output) -> Option<&'static str> {
        self.begin_response(head, output);
        connection_option(!self.is_closing(), head)
    }

    /// Responds to the last request with bytes that are already encoded, [`connection_option`] included.
    pub fn respond_with_bytes(&mut self, head: &Head<'_>, bytes: &[u8], output: &mut Output) {
        self.begin_response(head, output);
        output.put(bytes);
    }

    /// Writes the response to something that is not a request, and closes the connection.
    ///
    /// The status of the answer is [`Refusal::status`]. Returns the length of the content that is sent, in bytes.
    pub fn refuse(&mut self, response: &Response<'_>, output: &mut Output) -> u64 {
        self.close = Close::Now { by_peer: false };
        // RFC 9110 §9.3.2 has no exception for errors.
        let is_head = matches!(self.reading, Reading::Head { is_head: true, .. });
        let answer = if is_head { response.answer.without_body() } else { *response.answer };
        put_response(output, &Response { answer: &answer, ..*response }, Some("close"));
        answer.sent_content_bytes()
    }

    /// Decides whether the connection stays open after this response, and asks for content that the client
    /// holds back.
    fn begin_response(&mut self, head: &Head<'_>, output: &mut Output) {
        if head.expects_continue && self.has_no_content_yet(head) {
            output.put(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.has_responded = true;
        if !self.keeps_open(head) {
            let by_peer = !head.keep_alive && !matches!(self.reading, Reading::Closed);
            self.close = Close::Now { by_peer };
        }
    }

    /// Returns `true` if the content of the last request is awaited, and no byte of it has arrived.
    fn has_no_content_yet(&self, head: &Head<'_>) -> bool {
        let whole = Content::new(head.framing, SKIPPED_BYTES_MAX);
        matches!(self.reading, Reading::Content(content) if whole == Some(content))
    }
}

/// Returns the value of `Connection`, or `None` if the version's default holds: HTTP/1.1 connections stay
/// open, HTTP/1.0 connections close.
#[must_use]
pub fn connection_option(keeps_open: bool, head: &Head<'_>) -> Option<&'static str> {
    match (keeps_open, head.common.version) {
        (false, _) => Some("close"),
        (true, Version::Http10) => Some("keep-alive"),
        (true, _) => None,
    }
}

/// Returns `true` if an incomplete or invalid request begins like a `HEAD` request.
///
/// Skips empty lines as the parser does, so that the result doesn't depend on how the request is split.
fn begins_as_head(input: &[u8]) -> bool {
    let mut line = input;
    while let Some(rest) = line.strip_prefix(b"\r\n") {
        line = rest;
    }
    line.starts_with(b"HEAD ")
}

/// Returns `true` if `bytes` contain an empty line.
///
/// Bare line feeds count as well, so that the parser refuses them at once instead of waiting for more.
fn has_end_of_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|window| window == b"\r\n\r\n") || bytes.windows(2).any(|window| window == b"\n\n")
}

#[cfg(test)]
mod tests;
