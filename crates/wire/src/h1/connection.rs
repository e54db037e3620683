//! The state of one HTTP/1 connection between calls: small, because an idle connection is nothing else.

use cannery_site::{Answer, Method};

use super::content::{Content, Unreadable};
use super::encode;
use super::parse::{Framing, Head, Parsed, parse};
use crate::output::Output;
use crate::refusal::Refusal;
use crate::request_head::Version;
use crate::server_fields::ServerFields;

/// One HTTP/1 connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// Bytes of a head that were looked at already, and do not hold its end.
    scanned: usize,
    /// What is still to come of the last request's content, and to be thrown away.
    content: Content,
    /// Whether the last request's content, or some of it, came with its head.
    content_came: bool,
    /// Whether the last request's content is read to its end.
    reads_content: bool,
    /// Whether nothing more is read: what is spelled is the last answer.
    closing: bool,
    /// Whether the next answer is the last one.
    last: bool,
    /// Whether the peer has said that it asks no more.
    is_peers_last: bool,
    /// Whether any request was answered.
    answered: bool,
    /// Whether it can be asked for what is at `https` (RFC 9110 §7.4).
    is_secured: bool,
    /// Whether what came last and is no request, or not yet, asks for no content: `HEAD`.
    is_head: bool,
}

/// What a peer owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing: its next request, if it likes.
    Request,
    /// The rest of a head.
    Head,
    /// The rest of a request's content.
    Content,
}

/// What the bytes at hand are.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A request, to be answered by [`Connection::respond`].
    Request,
    /// Not a whole one yet.
    More,
    /// Nothing that can be answered as a request: see [`Connection::refuse`].
    Refused(Refusal),
    /// The content of a request that was answered cannot be read to its end: the connection ends.
    End,
}

impl Connection {
    /// A connection of which nothing is read yet, in the clear or not.
    #[must_use]
    pub fn new(is_secured: bool) -> Connection {
        Connection { is_secured, ..Connection::default() }
    }

    /// Whether the connection ends behind what was spelled so far.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether the connection ends because the peer wants it, who has said all that it has to say.
    #[must_use]
    pub fn is_closed_by_peer(&self) -> bool {
        self.closing && self.is_peers_last && self.content.is_done()
    }

    /// Whether any request was answered so far.
    #[must_use]
    pub fn has_responded(&self) -> bool {
        self.answered
    }

    /// Whether the connection stays open behind the answer to the request that came last.
    #[must_use]
    pub fn keeps_open(&self, head: &Head<'_>) -> bool {
        // Content that is too long to be worth reading ends the connection instead.
        head.keep_alive && self.reads_content && !self.last
    }

    /// Lets the next answer be the last one, which says so.
    pub fn close_after_next(&mut self) {
        self.last = true;
    }

    /// What the peer owes, if anything.
    #[must_use]
    pub fn awaits(&self) -> Awaits {
        if !self.content.is_done() {
            Awaits::Content
        } else if self.scanned > 0 {
            Awaits::Head
        } else {
            Awaits::Request
        }
    }

    /// Reads the next request in `input`, which begins where the last call left off, into `head`, which is worth
    /// nothing unless there is one. Tells how many bytes are done with.
    #[inline]
    pub fn next_request<'a>(&mut self, input: &'a [u8], head: &mut Head<'a>) -> (usize, Step) {
        let skipped = if self.content.is_done() {
            0
        } else {
            match self.content.skip(input) {
                Ok(skipped) => skipped,
                Err(Unreadable) => {
                    self.closing = true;
                    return (input.len(), Step::End);
                }
            }
        };
        let input = &input[skipped..];
        if input.is_empty() {
            return (skipped, Step::More);
        }
        if self.scanned > 0 && !has_end_of_head(&input[self.scanned.saturating_sub(3).min(input.len())..]) {
            let too_large = input.len() >= crate::limits::HEAD_BYTES_MAX;
            self.scanned = input.len();
            // The whole parser tells which limit was passed.
            if !too_large {
                self.is_head = asks_for_no_content(input);
                return (skipped, Step::More);
            }
        }
        match parse(input, head, self.is_secured) {
            Parsed::Head(length) => {
                self.scanned = 0;
                let (used, step) = self.begin_content(head, &input[length..]);
                (skipped + length + used, step)
            }
            Parsed::More => {
                self.scanned = input.len();
                self.is_head = asks_for_no_content(input);
                (skipped, Step::More)
            }
            Parsed::Refused(refusal) => {
                self.is_head = asks_for_no_content(input);
                (skipped, Step::Refused(refusal))
            }
        }
    }

    /// Looks at what is there of a request's content already: where it is bad, so is the request.
    #[inline]
    fn begin_content(&mut self, head: &Head<'_>, rest: &[u8]) -> (usize, Step) {
        self.content_came = !rest.is_empty();
        self.reads_content = true;
        if head.framing == Framing::Length(0) {
            return (0, Step::Request);
        }
        let Some(content) = Content::of(head.framing) else {
            self.reads_content = false;
            return (0, Step::Request);
        };
        self.content = content;
        match self.content.skip(rest) {
            Ok(used) => (used, Step::Request),
            Err(Unreadable) => {
                self.content = Content::Done;
                self.is_head = head.common.request.method == Method::Head;
                (0, Step::Refused(Refusal::Framing))
            }
        }
    }

    /// Spells the answer to the request that came last.
    #[inline]
    pub fn respond(
        &mut self,
        head: &Head<'_>,
        answer: &Answer<'_>,
        archive: &[u8],
        fields: &ServerFields,
        output: &mut Output,
    ) {
        let keeps = self.begin_response(head, output);
        encode::answer(output, answer, archive, fields, connection_option(keeps, head));
    }

    /// Answers the request that came last with bytes that are spelled already, [`connection_option`] among them.
    pub fn respond_with_bytes(&mut self, head: &Head<'_>, bytes: &[u8], output: &mut Output) {
        self.begin_response(head, output);
        output.put(bytes);
    }

    /// Spells the answer to what is no request, whose status is [`Refusal::status`], and ends the connection.
    pub fn refuse(
        &mut self,
        answer: &Answer<'_>,
        archive: &[u8],
        fields: &ServerFields,
        output: &mut Output,
    ) {
        self.closing = true;
        // RFC 9110 §9.3.2 knows no exception.
        let answer = if self.is_head { answer.without_body() } else { *answer };
        encode::answer(output, &answer, archive, fields, Some("close"));
    }

    /// Decides whether the connection stays open, and tells.
    fn begin_response(&mut self, head: &Head<'_>, output: &mut Output) -> bool {
        if head.expects_continue && !self.content_came && !self.content.is_done() {
            output.put(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.closing = !self.keeps_open(head);
        self.is_peers_last = !head.keep_alive && self.reads_content;
        self.answered = true;
        !self.closing
    }
}

/// The value of `Connection`, where one is needed: HTTP/1.1 stays open and HTTP/1.0 ends by default.
#[must_use]
pub fn connection_option(keeps: bool, head: &Head<'_>) -> Option<&'static str> {
    match (keeps, head.common.version) {
        (false, _) => Some("close"),
        (true, Version::Http10) => Some("keep-alive"),
        (true, _) => None,
    }
}

/// Whether bytes that are no request, or not yet, begin as one for `HEAD` does: read as the parser reads them, so
/// that it makes no difference how many of them are there already.
fn asks_for_no_content(input: &[u8]) -> bool {
    let mut line = input;
    while let Some(rest) = line.strip_prefix(b"\r\n") {
        line = rest;
    }
    line.starts_with(b"HEAD ")
}

fn has_end_of_head(bytes: &[u8]) -> bool {
    // Bare line feeds as well: the parser shall refuse them at once, not wait for more.
    bytes.windows(4).any(|window| window == b"\r\n\r\n") || bytes.windows(2).any(|window| window == b"\n\n")
}

#[cfg(test)]
mod tests;
