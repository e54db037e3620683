//! The state of one HTTP/1 connection between calls: small, because an idle connection is nothing else.

use cannery_site::Answer;

use super::parse::{Framing, Parsed, RequestHead, parse};
use super::spell;
use crate::limits::CONTENT_SKIPPED_BYTES_MAX;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::server_fields::ServerFields;

/// One HTTP/1 connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// Bytes of a head that were looked at already, and do not hold its end.
    scanned: usize,
    /// Bytes of the last request's content that are still to be thrown away.
    skip: u64,
    /// Whether nothing more is read: what is spelled is the last answer.
    closing: bool,
}

/// What the bytes at hand are.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// A request, to be answered by [`Connection::answer`].
    Request(RequestHead<'a>),
    /// Not a whole one yet.
    More,
    /// Nothing that can be answered as a request: see [`Connection::refuse`].
    Refused(Refusal),
}

impl Connection {
    /// Whether the connection ends behind what was spelled so far.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether part of a request has arrived.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        self.scanned > 0 || self.skip > 0
    }

    /// The next request in `input`, which begins where the last call left off, and how many bytes of it
    /// are done with.
    #[inline]
    pub fn next_request<'a>(&mut self, input: &'a [u8]) -> (usize, Step<'a>) {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(input.len());
        self.skip -= skipped as u64;
        let input = &input[skipped..];
        if input.is_empty() {
            return (skipped, Step::More);
        }
        if self.scanned > 0 && !has_end_of_head(&input[self.scanned.saturating_sub(3).min(input.len())..]) {
            let too_large = input.len() >= crate::limits::HEAD_BYTES_MAX;
            self.scanned = input.len();
            // The whole parser tells which limit was passed.
            if !too_large {
                return (skipped, Step::More);
            }
        }
        match parse(input) {
            Parsed::Head(head, length) => {
                self.scanned = 0;
                (skipped + length, Step::Request(head))
            }
            Parsed::More => {
                self.scanned = input.len();
                (skipped, Step::More)
            }
            Parsed::Refused(refusal) => (skipped, Step::Refused(refusal)),
        }
    }

    /// Spells the answer to the request that came last.
    #[inline]
    pub fn answer(
        &mut self,
        head: &RequestHead<'_>,
        answer: &Answer<'_>,
        archive: &[u8],
        fields: &ServerFields,
        output: &mut Output,
    ) {
        let keeps = self.begin_answer(head, output);
        spell::answer(output, answer, archive, fields, connection_option(keeps, head));
    }

    /// Answers the request that came last with bytes that are spelled already: `--dummy`.
    pub fn answer_spelled(&mut self, head: &RequestHead<'_>, bytes: &[u8], output: &mut Output) {
        self.begin_answer(head, output);
        output.put(bytes);
    }

    /// Spells the answer to what is no request, and ends the connection.
    pub fn refuse(&mut self, refusal: Refusal, fields: &ServerFields, output: &mut Output) {
        self.closing = true;
        let answer = Answer::own(refusal.status(), cannery_site::Reason::Target);
        spell::answer(output, &answer, b"", fields, Some("close"));
    }

    /// Decides what becomes of the request's content and of the connection; tells whether it stays open.
    fn begin_answer(&mut self, head: &RequestHead<'_>, output: &mut Output) -> bool {
        let skip = match head.framing {
            Framing::Length(length) if length <= CONTENT_SKIPPED_BYTES_MAX => Some(length),
            // Too long to be worth reading, or of unknown length: the connection ends instead.
            Framing::Length(_) | Framing::Chunked => None,
        };
        if head.expects_continue && skip.is_some_and(|length| length > 0) {
            output.put(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.skip = skip.unwrap_or(0);
        self.closing = !head.keep_alive || skip.is_none();
        !self.closing
    }
}

/// The value of `Connection`, where one is needed: HTTP/1.1 stays open and HTTP/1.0 ends by default.
fn connection_option(keeps: bool, head: &RequestHead<'_>) -> Option<&'static str> {
    match (keeps, head.is_http10) {
        (false, _) => Some("close"),
        (true, true) => Some("keep-alive"),
        (true, false) => None,
    }
}

fn has_end_of_head(bytes: &[u8]) -> bool {
    // Bare line feeds as well: the parser shall refuse them at once, not wait for more.
    bytes.windows(4).any(|window| window == b"\r\n\r\n") || bytes.windows(2).any(|window| window == b"\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands a connection `input` in pieces of `piece` bytes, and gives the targets that came out.
    fn targets(input: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut connection = Connection::default();
        let (mut held, mut targets) = (Vec::new(), Vec::new());
        let mut output = Output::new();
        for bytes in input.chunks(piece) {
            held.extend_from_slice(bytes);
            loop {
                let (used, step) = connection.next_request(&held);
                let done = match step {
                    Step::Request(head) => {
                        targets.push(head.request.target.to_vec());
                        connection.answer_spelled(&head, b"", &mut output);
                        false
                    }
                    Step::More => true,
                    Step::Refused(refusal) => return Err(refusal),
                };
                held.drain(..used);
                if done {
                    break;
                }
            }
        }
        Ok(targets)
    }

    #[test]
    fn pipelined_requests_come_out_in_order_however_they_are_split() {
        let input = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n\
            GET /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nGET /x HTTP/1.1\r\n\r\n!\
            \r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n";
        for piece in 1..=input.len() {
            assert_eq!(targets(input, piece).unwrap(), [b"/1", b"/2", b"/3"], "in pieces of {piece}");
        }
    }

    #[test]
    fn a_refusal_does_not_depend_on_the_split() {
        let input = b"GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n";
        for piece in 1..=input.len() {
            assert_eq!(targets(input, piece), Err(Refusal::FieldLine), "in pieces of {piece}");
        }
    }

    #[test]
    fn content_that_is_not_read_ends_the_connection() {
        for fields in ["Content-Length: 70000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let input = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let mut connection = Connection::default();
            let (_, Step::Request(head)) = connection.next_request(input.as_bytes()) else {
                panic!("{fields}")
            };
            connection.answer_spelled(&head, b"", &mut Output::new());
            assert!(connection.is_closing(), "{fields}");
        }
    }

    #[test]
    fn who_waits_to_continue_is_told_to() {
        let input = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
        let mut connection = Connection::default();
        let mut output = Output::new();
        let (_, Step::Request(head)) = connection.next_request(input) else { panic!("no request") };
        connection.answer_spelled(&head, b"answer", &mut output);
        assert_eq!(output.parts().0, b"HTTP/1.1 100 Continue\r\n\r\nanswer");
    }
}
