//! Tests for HTTP/1 connections.

use super::*;

/// Gives `input` to a connection in pieces of `piece` bytes and returns the targets of all requests.
fn targets(input: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut connection = Connection::default();
    let mut held = Vec::new();
    let mut targets = Vec::new();
    let mut output = Output::new();

    for bytes in input.chunks(piece) {
        held.extend_from_slice(bytes);
        loop {
            let mut head = Head::EMPTY;
            let (used, step) = connection.next_request(&held, &mut head);
            let done = match step {
                Step::Request => {
                    targets.push(head.common.request.target.to_vec());
                    connection.respond_with_bytes(&head, b"", &mut output);
                    false
                }
                Step::More => true,
                Step::Refused(refusal) => return Err(refusal),
                Step::End => return Ok(targets),
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
fn pipelined_requests_are_read_at_any_split() {
    let input = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nGET /x HTTP/1.1\r\n\r\n!\
        \r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n";
    for piece in 1..=input.len() {
        assert_eq!(targets(input, piece).unwrap(), [b"/1", b"/2", b"/3"], "in pieces of {piece}");
    }
}

#[test]
fn refusal_does_not_depend_on_the_split() {
    let input = b"GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n";
    for piece in 1..=input.len() {
        assert_eq!(targets(input, piece), Err(Refusal::FieldLine), "in pieces of {piece}");
    }
}

#[test]
fn chunked_content_is_skipped_at_any_split() {
    let input = b"GET /1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
        13\r\nGET /x HTTP/1.1\r\n\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
    for piece in 1..=input.len() {
        assert_eq!(targets(input, piece).unwrap(), [b"/1", b"/2"], "in pieces of {piece}");
    }
}

#[test]
fn invalid_content_is_refused_or_closes() {
    let input = b"GET /1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
        zz\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(targets(input, input.len()), Err(Refusal::Framing));
    for piece in 1..62 {
        let outcome = targets(input, piece);
        assert!(outcome == Ok(vec![b"/1".to_vec()]) || outcome == Err(Refusal::Framing), "{piece}");
    }
}

#[test]
fn long_content_closes_the_connection() {
    let input = b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n";
    let mut connection = Connection::default();
    let mut head = Head::EMPTY;
    let (_, Step::Request) = connection.next_request(input, &mut head) else { panic!("no request") };
    connection.respond_with_bytes(&head, b"", &mut Output::new());
    assert!(connection.is_closing());
}

#[test]
fn expect_continue_is_honored() {
    let input = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut connection = Connection::default();
    let mut output = Output::new();
    let mut head = Head::EMPTY;
    let (_, Step::Request) = connection.next_request(input, &mut head) else { panic!("no request") };
    connection.respond_with_bytes(&head, b"answer", &mut output);
    assert_eq!(output.parts().0, b"HTTP/1.1 100 Continue\r\n\r\nanswer");
}

/// Reads a head and leaves its content to the caller. Returns the connection and the rest of `input`.
fn begin<'i>(input: &'i [u8], head: &mut Head<'i>) -> (Connection, &'i [u8]) {
    let mut connection = Connection::default().leaving_content();
    let (used, Step::Request) = connection.next_request(input, head) else { panic!("no request") };
    (connection, &input[used..])
}

#[test]
fn content_is_passed_on_up_to_its_limit() {
    let input =
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET";
    for (bytes_max, expected) in [(5, Ok(())), (4, Err(ContentError::TooLong))] {
        let mut head = Head::EMPTY;
        let (mut connection, mut rest) = begin(input, &mut head);
        connection.accept_content(&head, bytes_max).unwrap();
        let mut content = Vec::new();
        let read = connection.read_content(&mut rest, bytes_max, |part| content.extend_from_slice(part));
        assert_eq!(read, expected);
        if read.is_ok() {
            assert_eq!((content.as_slice(), rest), (b"abcde".as_slice(), b"GET".as_slice()));
        }
        assert_eq!(connection.keeps_open(&head), expected.is_ok());
        assert!(!connection.awaits_content());
    }
}

/// The next request is found only if the rest of the content is worth reading.
#[test]
fn rest_of_content_may_close_the_connection() {
    for (length, keeps_open) in [(65_536 + 3, true), (65_536 + 4, false), (5 << 30, false)] {
        let input = format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\nabc");
        let mut head = Head::EMPTY;
        let (mut connection, mut rest) = begin(input.as_bytes(), &mut head);
        connection.accept_content(&head, u64::MAX).unwrap();
        connection.read_content(&mut rest, u64::MAX, |_| {}).unwrap();
        assert_eq!(connection.discard_content().is_ok(), keeps_open, "{length}");
        assert_eq!(connection.keeps_open(&head), keeps_open, "{length}");
    }
}

#[test]
fn content_that_was_not_asked_for_closes_the_connection() {
    let input = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut head = Head::EMPTY;
    let (mut connection, _) = begin(input, &mut head);
    connection.accept_content(&head, 3).unwrap();
    connection.refuse_content();
    let mut output = Output::new();
    connection.respond_with_bytes(&head, b"answer", &mut output);
    assert_eq!(output.parts().0, b"answer");
    assert!(connection.is_closing());
}
