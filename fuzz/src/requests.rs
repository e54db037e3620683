//! HTTP/1 requests on one connection, from any stream of bytes.
//!
//! It checks three promises: the requests don't depend on how the stream is split into reads; `httparse`
//! parses the same requests, at the positions that a simple parser of the framing finds, so that content
//! never becomes a request (request smuggling); and the bytes kept between reads are bounded.

use cannery_site::{Answer, Reason};
use cannery_wire::h1::{Connection, Framing, Head, Step};
use cannery_wire::limits::HEAD_BYTES_MAX;
use cannery_wire::{ArchiveRef, Output, Refusal, Response, ServerFields, Version};

use crate::reference::{HttparseRequest, httparse_requests};

/// The compared parts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    method: Vec<u8>,
    target: Vec<u8>,
    host: Option<Vec<u8>>,
    is_http10: bool,
    keep_alive: bool,
    framing: Framing,
}

impl Seen {
    fn of(head: &Head<'_>) -> Seen {
        Seen {
            method: head.common.method_name.to_vec(),
            target: head.common.request.target.to_vec(),
            host: head.common.request.host.map(<[u8]>::to_vec),
            is_http10: head.common.version == Version::Http10,
            keep_alive: head.keep_alive,
            framing: head.framing,
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Open: all bytes were read, and more may follow.
    Open,
    /// Closed after a response: the peer requested it, or the request's content is too long.
    Closed,
    /// Closed by a refusal.
    Refused(Refusal),
    /// Closed within the content of the last request, which is invalid or too long.
    BadContent,
}

/// Parses a stream of requests. The first eight bytes determine how the rest is split.
pub fn requests(data: &[u8]) {
    let Some((split, stream)) = data.split_at_checked(8) else { return };
    let whole = receive(stream, &[u8::MAX; 8]);
    for pieces in [split, &[1; 8]] {
        let pieced = receive(stream, pieces);
        assert_alike(&whole, &pieced, pieces);
    }
    assert_like_httparse(&whole.0, stream);
}

/// Returns the length of a read: the number itself, or the rest of the stream for the largest number.
fn piece_bytes(number: u8) -> usize {
    match number {
        u8::MAX => usize::MAX,
        _ => usize::from(number).max(1),
    }
}

fn receive(stream: &[u8], pieces: &[u8]) -> (Vec<Seen>, End) {
    let fields = ServerFields::new(&[("Server", "x")], 0);
    let mut connection = Connection::default();
    let mut output = Output::new();
    let mut held = Vec::new();
    let mut seen = Vec::new();
    let mut rest = stream;

    for number in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(piece_bytes(*number).min(rest.len()));
        rest = after;
        held.extend_from_slice(piece);
        loop {
            let mut head = Head::EMPTY;
            let (used, step) = connection.next_request(&held, &mut head);
            assert!(used <= held.len(), "consumed more than the input");
            match step {
                Step::Request => {
                    seen.push(Seen::of(&head));
                    connection.respond_with_bytes(&head, b"answer", &mut output);
                    assert!(connection.is_closing() || head.keep_alive, "the client requested to close");
                    output.clear();
                    if connection.is_closing() {
                        return (seen, End::Closed);
                    }
                }
                Step::More => {
                    held.drain(..used);
                    break;
                }
                Step::Refused(refusal) => {
                    let answer = Answer::built_in(refusal.status(), Reason::BadRequest);
                    let response = Response { answer: &answer, archive: ArchiveRef::NONE, fields: &fields };
                    connection.refuse(&response, &mut output);
                    assert!(
                        connection.is_closing() && !output.is_empty(),
                        "a refusal has a response and closes"
                    );
                    return (seen, End::Refused(refusal));
                }
                Step::End => {
                    assert!(connection.is_closing(), "the connection closes");
                    return (seen, End::BadContent);
                }
            }
            held.drain(..used);
        }
        assert!(held.len() < HEAD_BYTES_MAX, "{} bytes are kept", held.len());
    }

    (seen, End::Open)
}

/// Asserts that two splits have the same requests. Only errors may be detected earlier with one split than
/// with the other.
fn assert_alike(whole: &(Vec<Seen>, End), pieced: &(Vec<Seen>, End), pieces: &[u8]) {
    let ((requests, end), (others, other_end)) = (whole, pieced);
    let context = || format!("whole {whole:?}, in pieces of {pieces:?} {pieced:?}");
    match (end, other_end) {
        // An invalid head is refused when it is parsed again, possibly only at its end.
        (End::Refused(_), End::Open) => assert_eq!(requests, others, "{}", context()),
        // Invalid content that arrives with its head refuses the request. If it arrives later, the request is
        // already answered.
        (End::Refused(Refusal::Framing), End::BadContent) => {
            assert_eq!(requests[..], others[..others.len() - 1], "{}", context());
        }
        // The head closes the connection, and the response was sent before the content arrived.
        (End::Refused(Refusal::Framing), End::Closed) => {
            assert_eq!(requests[..], others[..others.len() - 1], "{}", context());
        }
        _ => assert_eq!(whole, pieced, "{}", context()),
    }
}

/// Asserts that `httparse` and a simple parser of the framing find the same requests.
fn assert_like_httparse(requests: &[Seen], stream: &[u8]) {
    let mut others = httparse_requests(stream);
    for request in requests {
        // `httparse` requires targets in UTF-8; we don't.
        if std::str::from_utf8(&request.target).is_err() {
            return;
        }
        let Some(other) = others.next() else { panic!("httparse finds no {request:?}") };
        // We accept minor versions above 1 (RFC 9110 §2.5); `httparse` doesn't.
        let HttparseRequest::Parsed { method, target, host, minor_version, is_chunked, length } = other
        else {
            return;
        };
        assert_eq!(request.method, method);
        assert_eq!(request.target, target);
        assert_eq!(request.host, host);
        assert_eq!(request.is_http10, minor_version == 0);
        assert_eq!(request.framing, if is_chunked { Framing::Chunked } else { Framing::Length(length) });
    }
}
