//! Tests for HTTP/3 connections. They do not need QUIC.

use std::time::{Duration, Instant};

use crate::compression::qpack::{Decoder, put_field};
use crate::h3::frame::{kind, put_head};
use crate::h3::{Connection, ErrorCode, Reading, RequestEnd, Step, StreamId};
use crate::limits::{CREDIT_MAX, FIELD_SECTION_BYTES_MAX, RESETS_MAX};
use crate::request::head_store::HeadStore;
use crate::request::priority::Priority;
use crate::request::refusal::Refusal;
use crate::response::multiplexed::{Multiplexed, OwnHead};
use crate::response::output::Output;

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];

/// A client. On its streams, bytes arrive in pieces of `piece` bytes.
struct Client {
    connection: Connection,
    store: HeadStore,
    output: Output,
    piece: usize,
}

impl Client {
    fn new() -> Client {
        Client { connection: Connection::new(), store: HeadStore::new(), output: Output::new(), piece: 1000 }
    }

    /// Sends bytes on a unidirectional stream.
    fn send_unidirectional(&mut self, stream: u64, bytes: &[u8]) -> Result<Reading, ErrorCode> {
        let stream = StreamId::new(stream);
        let mut reading = Reading::Continues;
        for piece in bytes.chunks(self.piece) {
            reading = self.connection.read_unidirectional(stream, piece, &mut self.store)?;
        }
        Ok(reading)
    }

    /// Sends bytes on a request stream, answering the request if there is one. Returns the last outcome other than [`Step::More`].
    fn send(&mut self, stream: u64, bytes: &[u8]) -> Result<Step, ErrorCode> {
        let stream = StreamId::new(stream);
        let mut last = Step::More;
        for mut piece in bytes.chunks(self.piece) {
            loop {
                let step = self.connection.next_request(stream, &mut piece, &mut self.store)?;
                if step == Step::More {
                    break;
                }
                if matches!(step, Step::Request(_) | Step::Refused(..)) {
                    let fields: [(&str, &[u8]); 1] = [(":status", b"200")];
                    self.connection.respond_with_head(
                        stream,
                        &OwnHead::new(&fields),
                        b"body",
                        &mut self.output,
                    );
                }

                last = step;
            }
        }
        Ok(last)
    }

    /// Sends a complete request on a new stream.
    fn request(&mut self, stream: u64, bytes: &[u8]) -> Result<(Step, RequestEnd), ErrorCode> {
        self.connection.open(StreamId::new(stream), Instant::now());
        let step = self.send(stream, bytes)?;
        Ok((step, self.connection.end_request(StreamId::new(stream))?))
    }
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, kind, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        put_field(&mut section, name, value.as_bytes());
    }
    frame(kind::HEADERS, &section)
}

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<u8> {
    headers(&[GET, more].concat())
}

const DEFAULT: Step = Step::Request(Priority::DEFAULT);

#[test]
fn requests_are_answered_however_they_arrive() {
    let bytes = [
        frame(0x21, b"grease"),
        with(&[("content-length", "3")]),
        frame(kind::DATA, b"ab"),
        frame(kind::DATA, b"c"),
        headers(&[("x-checksum", "1")]),
    ]
    .concat();
    for piece in 1..=bytes.len() {
        let mut client = Client { piece, ..Client::new() };
        assert_eq!(client.request(0, &bytes), Ok((DEFAULT, RequestEnd::Complete)), "{piece}");
        let head = client.store.head();
        assert_eq!(head.request.target, b"/");
        assert_eq!(head.version.name(), "3.0");
        assert!(client.connection.incomplete_since().is_none());
        assert_eq!(client.output.parts().0, b"\x01\x40\x03\0\0\xd9\x00\x04body");
    }
}

#[test]
fn malformed_requests_are_stream_errors() {
    for request in [
        headers(&GET[1..]),
        with(&[("white space", "")]),
        with(&[("connection", "close")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "x")]),
        with(&[(":path", "/")]),
        [with(&[("content-length", "2")]), frame(kind::DATA, b"abc")].concat(),
        [with(&[]), headers(&[(":path", "/")])].concat(),
        [with(&[]), headers(&[("connection", "close")])].concat(),
        [with(&[]), frame(kind::HEADERS, &vec![0; 20_000])].concat(),
    ] {
        let outcome = Client::new().request(0, &request);
        assert_eq!(outcome, Ok((Step::Reset(ErrorCode::Message), RequestEnd::Complete)), "{request:?}");
    }

    let short = [with(&[("content-length", "4")]), frame(kind::DATA, b"abc")].concat();
    assert_eq!(Client::new().request(0, &short), Ok((DEFAULT, RequestEnd::Reset(ErrorCode::Message))));
    let incomplete = Ok((Step::More, RequestEnd::Reset(ErrorCode::RequestIncomplete)));
    assert_eq!(Client::new().request(0, b""), incomplete);
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let refused = Ok((Step::Refused(Priority::DEFAULT, Refusal::HeadTooLarge), RequestEnd::Complete));
    let encoded = frame(kind::HEADERS, &vec![0; usize::try_from(FIELD_SECTION_BYTES_MAX).unwrap() + 1]);
    let mut client = Client::new();
    assert_eq!(client.request(4, &encoded), refused);
    assert_eq!(client.connection.take_decoder_stream(), [0x44], "the section is cancelled");

    let fields: Vec<_> = (0..500).map(|_| ("x-some-name", "with a value of its own")).collect();
    assert_eq!(Client::new().request(0, &with(&fields)), refused);
}

#[test]
fn unidirectional_streams_are_distinguished_by_type() {
    for piece in [1, 1000] {
        let mut client = Client { piece, ..Client::new() };
        let settings = frame(kind::SETTINGS, b"");
        let control = [&[0x40, 0x00], &settings[..]].concat();
        assert_eq!(client.send_unidirectional(2, &control), Ok(Reading::Continues));
        assert_eq!(client.send_unidirectional(6, &[2]), Ok(Reading::Continues));
        assert_eq!(client.send_unidirectional(10, &[3]), Ok(Reading::Continues));
        let unknown = client.send_unidirectional(14, &[0x40, 0x54]);
        assert_eq!(unknown, Ok(Reading::Stops(ErrorCode::StreamCreation)));
        for stream in [2, 6, 10] {
            let closed = client.connection.end_unidirectional(StreamId::new(stream));
            assert_eq!(closed, Err(ErrorCode::ClosedCriticalStream));
        }
        assert_eq!(client.connection.end_unidirectional(StreamId::new(14)), Ok(()));
    }
}

#[test]
fn streams_that_must_not_exist_are_connection_errors() {
    for kind in [0, 2, 3] {
        let mut client = Client::new();
        assert!(client.send_unidirectional(2, &[kind]).is_ok());
        assert_eq!(client.send_unidirectional(6, &[kind]), Err(ErrorCode::StreamCreation), "{kind}");
    }
    assert_eq!(Client::new().send_unidirectional(2, &[1]), Err(ErrorCode::StreamCreation));
}

#[test]
fn fields_come_from_the_table_of_the_peer() {
    let mut client = Client::new();
    // Set the capacity to 220 and insert `:path: /a` (RFC 9204 §4.3.1, §4.3.2).
    client.send_unidirectional(6, b"\x02\x3f\xbd\x01\xc1\x02/a").unwrap();
    assert_eq!(client.connection.take_decoder_stream(), [1], "one insertion");

    let section = b"\x02\x00\xd1\xd7\x80\x50\x01a";
    let outcome = client.request(0, &frame(kind::HEADERS, section));
    assert_eq!(outcome, Ok((DEFAULT, RequestEnd::Complete)));
    assert_eq!(client.store.head().request.target, b"/a");
}

#[test]
fn acknowledgments_are_sent_together() {
    let section = b"\x02\x00\xd1\xd7\x80\x50\x01a";
    let insertion = b"\x02\x3f\xbd\x01\xc1\x02/a";
    let request = |client: &mut Client, number: u64| {
        let outcome = client.request(4 * number, &frame(kind::HEADERS, section));
        assert_eq!(outcome, Ok((DEFAULT, RequestEnd::Complete)));
        client.connection.take_decoder_stream()
    };

    let mut client = Client::new();
    client.send_unidirectional(6, insertion).unwrap();
    assert_eq!(client.connection.take_decoder_stream(), [1], "one insertion");
    for number in 0..31 {
        assert_eq!(request(&mut client, number), [], "section {number}");
    }
    let all: Vec<u8> = (0..32).map(|number| 0x80 | (4 * number)).collect();
    assert_eq!(request(&mut client, 31), all);

    // An insertion cannot wait, because the client must not use it before that.
    assert_eq!(request(&mut client, 0), []);
    client.send_unidirectional(6, &insertion[4..]).unwrap();
    assert_eq!(client.connection.take_decoder_stream(), [0x80, 1]);
}

#[test]
fn errors_of_qpack_are_connection_errors() {
    let blocked = frame(kind::HEADERS, b"\x02\x00\x80");
    assert_eq!(Client::new().request(0, &blocked), Err(ErrorCode::QpackDecompression));
    let unknown_name = Client::new().send_unidirectional(2, b"\x02\x80\x01a");
    assert_eq!(unknown_name, Err(ErrorCode::QpackEncoderStream));
}

#[test]
fn priorities_come_from_fields_and_frames() {
    let urgent = Priority { urgency: 1, incremental: true };
    let mut client = Client::new();
    let settings = frame(kind::SETTINGS, b"");
    client.send_unidirectional(2, &[&[0], &settings[..]].concat()).unwrap();

    let by_field = client.request(0, &with(&[("priority", "u=1, i")]));
    assert_eq!(by_field, Ok((Step::Request(urgent), RequestEnd::Complete)));

    client.send_unidirectional(2, &frame(kind::PRIORITY_UPDATE, b"\x04u=1, i")).unwrap();
    assert_eq!(client.connection.take_priorities().next(), None, "the stream is not open yet");
    let by_frame = client.request(4, &with(&[("priority", "u=5")]));
    assert_eq!(by_frame, Ok((Step::Request(urgent), RequestEnd::Complete)));

    client.send_unidirectional(2, &frame(kind::PRIORITY_UPDATE, b"\x00u=1, i")).unwrap();
    assert_eq!(client.connection.take_priorities().collect::<Vec<_>>(), [(StreamId::new(0), urgent)]);
}

#[test]
fn priority_beyond_the_stream_limit_is_an_error() {
    let mut client = Client::new();
    client.send_unidirectional(2, &[&[0], &frame(kind::SETTINGS, b"")[..]].concat()).unwrap();
    client.connection.set_stream_limit(3);
    client.send_unidirectional(2, &frame(kind::PRIORITY_UPDATE, b"\x08u=1")).unwrap();
    let beyond = frame(kind::PRIORITY_UPDATE, b"\x0cu=1");
    assert_eq!(client.send_unidirectional(2, &beyond), Err(ErrorCode::Id));
    // As streams end, the limit grows.
    client.connection.set_stream_limit(4);
    client.send_unidirectional(2, &beyond).unwrap();
    client.connection.set_stream_limit(u64::MAX);
    client.send_unidirectional(2, &frame(kind::PRIORITY_UPDATE, b"\xbf\xff\xff\xfcu=1")).unwrap();
}

#[test]
fn age_of_the_oldest_incomplete_request_counts() {
    let mut client = Client::new();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    client.connection.open(StreamId::new(0), at(0));
    client.connection.open(StreamId::new(4), at(3));
    client.send(0, &with(&[])).unwrap();
    client.send(4, &with(&[])).unwrap();
    assert_eq!(client.connection.incomplete_since(), Some(at(0)), "the response changes nothing");
    client.connection.end_request(StreamId::new(0)).unwrap();
    assert_eq!(client.connection.incomplete_since(), Some(at(3)));
    client.connection.end_request(StreamId::new(4)).unwrap();
    assert_eq!(client.connection.incomplete_since(), None);
}

#[test]
fn last_priority_of_a_stream_counts() {
    let mut client = Client::new();
    client.send_unidirectional(2, &[&[0], &frame(kind::SETTINGS, b"")[..]].concat()).unwrap();
    client.request(0, &with(&[])).unwrap();

    let updates = [b"\x00u=1", b"\x00u=6"].map(|value| frame(kind::PRIORITY_UPDATE, value)).concat();
    client.send_unidirectional(2, &updates).unwrap();
    let urgencies: Vec<_> =
        client.connection.take_priorities().map(|(_, priority)| priority.urgency).collect();
    assert_eq!(urgencies, [1, 6], "in the order of their arrival");
}

#[test]
fn requests_after_goaway_are_rejected() {
    let mut client = Client::new();
    client.request(0, &with(&[])).unwrap();
    let mut control = Vec::new();
    client.connection.announce_end(&mut control);
    assert_eq!(client.request(4, &with(&[])), Ok((DEFAULT, RequestEnd::Complete)));
    client.connection.stop_requests(&mut control);
    let rejected = client.request(8, &with(&[])).unwrap();
    assert_eq!(rejected.0, Step::Reset(ErrorCode::RequestRejected));
    assert_eq!(control, b"\x07\x08\xff\xff\xff\xff\xff\xff\xff\xfc\x07\x01\x08");
}

/// Returns the number of times a client can do something after a request, and the error that stops it.
fn times(mut act: impl FnMut(&mut Client, u64) -> Result<(), ErrorCode>) -> Option<(u64, ErrorCode)> {
    let mut client = Client::new();
    client.connection.open(StreamId::new(0), Instant::now());
    client.send(0, &with(&[])).unwrap();
    (0..2 * u64::from(CREDIT_MAX)).find_map(|number| Some((number, act(&mut client, number).err()?)))
}

#[test]
fn work_without_requests_is_bounded() {
    let frames = times(|client, _| client.send(0, &frame(kind::DATA, b"")).map(drop));
    assert_eq!(frames, Some((CREDIT_MAX.into(), ErrorCode::ExcessiveLoad)), "DATA without content");
    let resets = times(|client, number| {
        let stream = StreamId::new(4 * number);
        client.connection.open(stream, Instant::now());
        client.connection.cancel_request(stream)
    });
    assert_eq!(resets, Some((RESETS_MAX.into(), ErrorCode::ExcessiveLoad)), "requests that are cancelled");
    let streams = times(|client, number| client.send_unidirectional(4 * number + 2, &[0x21]).map(drop));
    assert_eq!(streams, Some((CREDIT_MAX.into(), ErrorCode::ExcessiveLoad)), "streams of unknown types");
}

#[test]
fn heads_of_responses_are_decoded_by_qpack() {
    let mut client = Client::new();
    client.connection.open(StreamId::new(0), Instant::now());
    let mut input = &with(&[])[..];
    client.connection.next_request(StreamId::new(0), &mut input, &mut client.store).unwrap();
    let fields: [(&str, &[u8]); 2] = [(":status", b"404"), ("content-type", b"text/plain")];
    client.connection.respond_with_head(StreamId::new(0), &OwnHead::new(&fields), b"", &mut client.output);

    let section = client.output.parts().0[3..].to_vec();
    let mut decoded = Vec::new();
    let mut strings = Vec::new();
    let take = |field: crate::compression::hpack::Field<'_>| {
        decoded.push((field.name_text.to_vec(), field.value.to_vec()));
    };
    Decoder::new().decode(&section, &mut strings, take).unwrap();
    assert_eq!(decoded, fields.map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())));
}
