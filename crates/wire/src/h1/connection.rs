//! HTTP/1 connection state machine: pipelining, keep-alive, close.
//!
//! An idle connection keeps nothing but this state. We should keep it small.

use cannery_site::{Body as AnswerBody, Method};

use super::content::{Content, Unreadable};
use super::encode::put_response;
use super::parse::{Framing, Head, Parsed, parse};
use crate::limits::{CONTENT_SKIPPED_BYTES_MAX, HEAD_BYTES_MAX};
use crate::request::head::Version;
use crate::request::refusal::Refusal;
use crate::response::Response;
use crate::response::output::Output;

/// An HTTP/1 connection.
#[derive(Debug, Default)]
pub struct Connection {
    reading: Reading,
    close: Close,
    /// Whether we have written at least one response.
    has_responded: bool,
    /// Whether the connection is encrypted. If so, `https` targets can be requested on it (RFC 9110 §7.4).
    is_secured: bool,
    /// Whether the caller will decide, for each request, to receive or discard the content.
    leaves_content: bool,
}

/// The part of a message that the next bytes belong to.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// A request head. Its end is not among the first `scanned` bytes that have arrived so far.
    ///
    /// `is_head` is set if the incomplete or refused request uses the method `HEAD`.
    Head { scanned: usize, is_head: bool },
    /// The content of the last request. Never [`Content::Done`].
    Content(Content),
    /// Nothing more will be read, since the last request's content is either invalid or too long to be worth reading.
    Closed,
}

/// When the connection closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Close {
    /// The connection stays open.
    #[default]
    No,
    /// After the next response, which will say `Connection: close`.
    AfterNext,
    /// Once the output is sent, because the peer asked for it or because we cannot continue.
    Now { by_peer: bool },
}

/// The next thing the peer should send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// A new request. Idle peers may never send another.
    Request,
    /// The rest of a request head.
    Head,
    /// The rest of the request content.
    Content,
}

/// Outcome of [`Connection::next_request`].
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A request, which the caller should answer with [`Connection::respond`].
    Request,
    /// The request is incomplete: call again with more input.
    More,
    /// A request that cannot be answered normally: see [`Connection::refuse`].
    Refused(Refusal),
    /// The content of a request that we have already answered is invalid, so the connection will close.
    End,
}

/// Request content is longer than its handler accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentTooLong;

/// Reasons why request content cannot be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentError {
    /// It is longer than its handler accepts.
    TooLong,
    /// It violates the chunked grammar (RFC 9112 §7.1), or it comes in many tiny chunks.
    Invalid,
}

/// Allowance for chunk heads in addition to the content itself, in bytes.
const CHUNK_HEADS_BYTES_MIN: u64 = 1024;

impl Reading {
    /// Waiting for a new request head.
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

    /// Allows the caller to decide about request content before it responds, using [`Connection::skip_content`] or
    /// [`Connection::receive_content`].
    #[must_use]
    pub fn leaving_content(self) -> Connection {
        Connection { leaves_content: true, ..self }
    }

    /// Returns `true` if the connection should be closed once the output is sent.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(self.close, Close::Now { .. })
    }

    /// Returns `true` if the peer asked us to close the connection and has sent all request content it announced.
    #[must_use]
    pub fn is_closed_by_peer(&self) -> bool {
        self.close == Close::Now { by_peer: true } && !matches!(self.reading, Reading::Content(_))
    }

    /// Returns `true` after the first response.
    #[must_use]
    pub fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Returns `true` if the connection will stay open after the response to the last request.
    #[must_use]
    pub fn keeps_open(&self, head: &Head<'_>) -> bool {
        // If content was too long to be worth reading, there is no way to find the next request.
        head.keep_alive && self.close == Close::No && !matches!(self.reading, Reading::Closed)
    }

    /// Gives up on a response that cannot be completed. The connection will close once the output is sent.
    pub fn break_off(&mut self) {
        self.reading = Reading::Closed;
        self.close = Close::Now { by_peer: false };
    }

    /// Closes the connection after the next response, which will say `Connection: close`.
    pub fn close_after_next(&mut self) {
        if self.close == Close::No {
            self.close = Close::AfterNext;
        }
    }

    /// Returns what we are waiting for the peer to send.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        match self.reading {
            Reading::Content(_) => Awaits::Content,
            Reading::Head { scanned: 1.., .. } => Awaits::Head,
            Reading::Head { .. } | Reading::Closed => Awaits::Request,
        }
    }

    /// Reads the next request from `input`, which must start with the first byte that the last call did not
    /// consume.
    ///
    /// Returns the number of bytes consumed. A request is consumed to its end, whereas a refused request is not consumed at all.
    /// `head` is valid only after [`Step::Request`].
    #[inline]
    pub fn next_request<'a>(&mut self, input: &'a [u8], head: &mut Head<'a>) -> (usize, Step) {
        // If we have answered a request whose content is still arriving, skip that content first.
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

        // A slow client might send its head in many small pieces. To avoid parsing everything again each time, we first look for
        // the end of the head among the new bytes. We parse a head that is too large in any case, because only the parser knows
        // which limit was exceeded.
        if scanned > 0 && input.len() < HEAD_BYTES_MAX {
            // The end of the head is four bytes long, up to three of which might have arrived before.
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

    /// Discards request content unless the caller wants to decide. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// Fails if the content is invalid. The request must be refused in this case.
    #[inline]
    fn begin_content(&mut self, head: &Head<'_>, rest: &[u8]) -> Result<usize, Refusal> {
        self.reading = Reading::NEXT_HEAD;
        if head.framing == Framing::Length(0) || self.leaves_content {
            return Ok(0);
        }
        self.skip_content(head, rest)
    }

    /// Discards the last request's content as far as it has arrived. [`Connection::next_request`] will skip the rest.
    ///
    /// `rest` is the input that follows the head. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// Fails if the content is invalid. The request must be refused in this case.
    pub fn skip_content(&mut self, head: &Head<'_>, rest: &[u8]) -> Result<usize, Refusal> {
        let Some(mut content) = Content::new(head.framing, CONTENT_SKIPPED_BYTES_MAX) else {
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

    /// Starts receiving request content, which the caller should read with [`Connection::read_content`]. If the client sent
    /// `Expect: 100-continue`, this asks it to go ahead.
    ///
    /// # Errors
    /// Fails if the announced length exceeds `bytes_max`. The connection will then close after the response.
    pub fn receive_content(
        &mut self,
        head: &Head<'_>,
        bytes_max: u64,
        output: &mut Output,
    ) -> Result<(), ContentTooLong> {
        self.accept_content(head, bytes_max)?;
        if head.expects_continue && self.awaits_content() {
            Connection::put_continue(output);
        }
        Ok(())
    }

    /// Like [`Connection::receive_content`], but leaves it to the caller to ask for the content, with [`Connection::put_continue`].
    ///
    /// # Errors
    /// Fails if the announced length exceeds `bytes_max`. The connection will then close after the response.
    pub fn accept_content(&mut self, head: &Head<'_>, bytes_max: u64) -> Result<(), ContentTooLong> {
        // Chunk heads count as content here, so allow as much for them as for the content itself.
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
        Ok(())
    }

    /// Asks a client that has sent `Expect: 100-continue` to send the content (RFC 9110 §15.2.1).
    pub fn put_continue(output: &mut Output) {
        output.put(b"HTTP/1.1 100 Continue\r\n\r\n");
    }

    /// Returns `true` while some of the last request's content is missing.
    #[must_use]
    pub fn awaits_content(&self) -> bool {
        matches!(self.reading, Reading::Content(_))
    }

    /// Passes request content from the front of `input` to `take`.
    ///
    /// # Errors
    /// Fails if the content is invalid or longer than the `bytes_max` bytes that may still come. There is no way to find the next
    /// request then, and the connection will close after the response.
    pub fn read_content(
        &mut self,
        input: &mut &[u8],
        bytes_max: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), ContentError> {
        let Reading::Content(reading) = &mut self.reading else { return Ok(()) };
        let mut bytes = 0;
        let read = reading.read(input, |part| {
            bytes += part.len() as u64;
            if bytes <= bytes_max {
                take(part);
            }
        });
        let outcome = match read {
            _ if bytes > bytes_max => Err(ContentError::TooLong),
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

    /// Receives no request content, since the client was not asked for it and may send either the content or another request. The
    /// connection will close after the response.
    pub fn refuse_content(&mut self) {
        self.reading = Reading::Closed;
    }

    /// Stops receiving request content, and discards the rest.
    ///
    /// # Errors
    /// Fails if the rest is invalid, or too long to be worth reading. The connection will then close after the response. If that was
    /// written before, callers should [`break_off`](Connection::break_off) the connection.
    pub fn discard_content(&mut self) -> Result<(), ContentTooLong> {
        match self.reading {
            Reading::Head { .. } => Ok(()),
            Reading::Closed => Err(ContentTooLong),
            Reading::Content(content) => {
                let rest = content.limited(CONTENT_SKIPPED_BYTES_MAX);
                self.reading = rest.map_or(Reading::Closed, Reading::Content);
                rest.map(|_| ()).ok_or(ContentTooLong)
            }
        }
    }

    /// Writes the response to the last request.
    #[inline]
    pub fn respond(&mut self, head: &Head<'_>, response: &Response<'_>, output: &mut Output) {
        let is_head = head.common.request.method == Method::Head;
        debug_assert!(!is_head || matches!(response.answer.body, AnswerBody::Empty));
        self.begin_response(head, output);
        let option = connection_option(!self.is_closing(), head);
        put_response(output, response, option);
    }

    /// Prepares for a response the caller writes. Returns its [`connection_option`].
    pub fn begin(&mut self, head: &Head<'_>, output: &mut Output) -> Option<&'static str> {
        self.begin_response(head, output);
        connection_option(!self.is_closing(), head)
    }

    /// Writes an encoded response to the last request, which must include the [`connection_option`].
    pub fn respond_with_bytes(&mut self, head: &Head<'_>, bytes: &[u8], output: &mut Output) {
        self.begin_response(head, output);
        output.put(bytes);
    }

    /// Writes an error response to a malformed or unsupported request and then closes the connection.
    ///
    /// The response should have [`Refusal::status`]. Returns the number of content bytes written.
    pub fn refuse(&mut self, response: &Response<'_>, output: &mut Output) -> u64 {
        self.close = Close::Now { by_peer: false };
        // Responses to HEAD MUST NOT have a body, and RFC 9110 §9.3.2 does not make an exception for errors.
        let is_head = matches!(self.reading, Reading::Head { is_head: true, .. });
        let answer = if is_head { response.answer.without_body() } else { *response.answer };
        put_response(output, &Response { answer: &answer, ..*response }, Some("close"));
        answer.sent_content_bytes()
    }

    /// Decides if the connection will stay open after this response. If the client is holding back content, asks for it.
    fn begin_response(&mut self, head: &Head<'_>, output: &mut Output) {
        if head.expects_continue && self.has_no_content_yet(head) {
            Connection::put_continue(output);
        }
        self.has_responded = true;
        if !self.keeps_open(head) {
            let by_peer = !head.keep_alive && !matches!(self.reading, Reading::Closed);
            self.close = Close::Now { by_peer };
        }
    }

    /// Returns `true` if we are waiting for request content and have not received any of it yet.
    fn has_no_content_yet(&self, head: &Head<'_>) -> bool {
        let whole = Content::new(head.framing, CONTENT_SKIPPED_BYTES_MAX);
        matches!(self.reading, Reading::Content(content) if whole == Some(content))
    }
}

/// Returns the value for the `Connection` field, or `None` if the version's default is fine: HTTP/1.1 connections stay open,
/// HTTP/1.0 connections close.
#[must_use]
pub fn connection_option(keeps_open: bool, head: &Head<'_>) -> Option<&'static str> {
    match (keeps_open, head.common.version) {
        (false, _) => Some("close"),
        (true, Version::Http10) => Some("keep-alive"),
        (true, _) => None,
    }
}

/// Returns `true` if an incomplete or invalid request looks like a `HEAD` request.
///
/// Skip empty lines, as the parser does. Otherwise, the result would depend on how the request is split.
fn begins_as_head(input: &[u8]) -> bool {
    let mut line = input;
    while let Some(rest) = line.strip_prefix(b"\r\n") {
        line = rest;
    }
    line.starts_with(b"HEAD ")
}

/// Returns `true` if `bytes` contains an empty line.
///
/// Bare line feeds count too. This way, the parser will refuse them at once instead of waiting for more input.
fn has_end_of_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|window| window == b"\r\n\r\n") || bytes.windows(2).any(|window| window == b"\n\n")
}

#[cfg(test)]
mod tests;
