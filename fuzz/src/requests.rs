//! A stream of bytes as requests on one HTTP/1 connection.
//!
//! Three promises: the same requests come out however the stream is split into reads; each of them is one
//! that `httparse` reads in the same way, at the place where a plain reading of the framing says that it
//! begins, so that content is never taken for a request; and what has to be kept between reads is bounded.

use cannery_site::{Answer, Reason};
use cannery_wire::h1::{Connection, Framing, Head, Step};
use cannery_wire::limits::HEAD_BYTES_MAX;
use cannery_wire::{Output, Refusal, ServerFields, Version};

use crate::twins::{ForeignRequest, foreign_requests};

/// A request as far as it matters here.
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
    /// All bytes were read, and more may come.
    Open,
    /// Behind an answer: the peer wished it, or the request's content is too long.
    Closed,
    /// What came is no request.
    Refused(Refusal),
    /// The content of the last request breaks the grammar, or is too long.
    BadContent,
}

/// The first eight bytes say how the rest is split.
pub fn requests(data: &[u8]) {
    let Some((split, stream)) = data.split_at_checked(8) else { return };
    let whole = receive(stream, &[u8::MAX; 8]);
    for pieces in [split, &[1; 8]] {
        let pieced = receive(stream, pieces);
        assert_alike(&whole, &pieced, pieces);
    }
    assert_foreign(&whole.0, stream);
}

/// Bytes in a read: small ones for most numbers, the rest of the stream for the largest.
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
    let (mut held, mut seen, mut rest) = (Vec::new(), Vec::new(), stream);
    for number in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at(piece_bytes(*number).min(rest.len()));
        rest = behind;
        held.extend_from_slice(piece);
        loop {
            let mut head = Head::EMPTY;
            let (used, step) = connection.next_request(&held, &mut head);
            assert!(used <= held.len(), "no more is used than there is");
            match step {
                Step::Request => {
                    seen.push(Seen::of(&head));
                    connection.respond_with_bytes(&head, b"answer", &mut output);
                    assert!(connection.is_closing() || head.keep_alive, "who wants to go may go");
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
                    connection.refuse(&answer, b"", &fields, &mut output);
                    assert!(connection.is_closing() && !output.is_empty(), "a refusal is said, and final");
                    return (seen, End::Refused(refusal));
                }
                Step::End => {
                    assert!(connection.is_closing(), "the end is final");
                    return (seen, End::BadContent);
                }
            }
            held.drain(..used);
        }
        assert!(held.len() < HEAD_BYTES_MAX, "{} bytes are kept", held.len());
    }
    (seen, End::Open)
}

/// The same requests; only what is wrong may be noticed earlier in one case than in the other.
fn assert_alike(whole: &(Vec<Seen>, End), pieced: &(Vec<Seen>, End), pieces: &[u8]) {
    let ((requests, end), (others, other_end)) = (whole, pieced);
    let told = || format!("whole {whole:?}, in pieces of {pieces:?} {pieced:?}");
    match (end, other_end) {
        // A head that is wrong is refused when it is looked at again, which may be at its end alone.
        (End::Refused(_), End::Open) => assert_eq!(requests, others, "{}", told()),
        // Bad content that comes with its head refuses the request; later, the request is answered already.
        (End::Refused(Refusal::Framing), End::BadContent) => {
            assert_eq!(requests[..], others[..others.len() - 1], "{}", told());
        }
        // The head said that the connection ends, and the answer was sent before the content came.
        (End::Refused(Refusal::Framing), End::Closed) => {
            assert_eq!(requests[..], others[..others.len() - 1], "{}", told());
        }
        _ => assert_eq!(whole, pieced, "{}", told()),
    }
}

/// What we take for requests is what `httparse` and a plain reading of the framing find.
fn assert_foreign(requests: &[Seen], stream: &[u8]) {
    let mut foreign = foreign_requests(stream);
    for request in requests {
        // `httparse` wants targets in UTF-8; to us they are bytes.
        if std::str::from_utf8(&request.target).is_err() {
            return;
        }
        let Some(other) = foreign.next() else { panic!("{request:?} is none to httparse") };
        // A minor version beyond 1 is one to us (RFC 9110 §2.5), and none to `httparse`.
        let ForeignRequest::Read { method, target, host, minor_version, is_chunked, length } = other else {
            return;
        };
        assert_eq!(request.method, method);
        assert_eq!(request.target, target);
        assert_eq!(request.host, host);
        assert_eq!(request.is_http10, minor_version == 0);
        assert_eq!(request.framing, if is_chunked { Framing::Chunked } else { Framing::Length(length) });
    }
}
