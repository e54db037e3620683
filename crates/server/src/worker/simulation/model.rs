//! Reference model of an HTTP/1 connection. It knows the responses that a peer should receive unless a
//! timeout, reset or shutdown intervenes.

use cannery_eventloop::simulated::{ConnectionState, ReadRate, UNIX_SECONDS};
use cannery_site::Scratch;
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{Output, Refusal, Response, Segment, ServerFields};

use super::script::{Ending, Script};
use super::site::Releases;
use crate::config::SecurityHeaders;
use crate::content::{Content, IncomingRequest, OnH1};
use crate::observe::Observer;

/// Compares the bytes that a peer received with the model.
///
/// # Errors
///
/// Returns an error unless they are the model's responses, or a prefix that is explained by `script` or a
/// shutdown.
pub(super) fn check(
    script: &Script,
    received: &[u8],
    state: ConnectionState,
    releases: &Releases,
    stopped: bool,
) -> Result<(), String> {
    // A peer without a valid PROXY header, or without requests, receives no bytes.
    if script.request_bytes.is_empty() && !received.is_empty() {
        return Err(format!("received without a request: {}", excerpt(received)));
    }

    let mut first = Responses::to(&script.request_bytes, &releases.first);
    let mut second = Responses::to(&script.request_bytes, &releases.second);
    let received = if stopped {
        // The server adds `Connection: close` to the last response before it stops.
        first.remove_connection_field();
        second.remove_connection_field();
        without_connection_field(received)
    } else {
        received.to_vec()
    };

    let mut rest = received.as_slice();
    let mut is_newer = false;
    for (number, (old, new)) in first.responses.iter().zip(&second.responses).enumerate() {
        // Responses switch from the old release to the new one at most once.
        let response = if !is_newer && rest.starts_with(old) { old } else { new };
        is_newer |= response == new && old != new;
        if let Some(others) = rest.strip_prefix(response.as_slice()) {
            rest = others;
            continue;
        }
        if !old.starts_with(rest) && !new.starts_with(rest) && !is_timeout(rest, &first, &second) {
            return Err(format!("response {number} is {}, not {}", excerpt(rest), excerpt(response)));
        }
        // An incomplete request may be refused for its syntax, or else when it times out.
        let is_late = script.is_cut && is_timeout(rest, &first, &second);
        return if is_late || may_be_cut(script, stopped) {
            Ok(())
        } else {
            Err(format!("response {number} is incomplete: {} ({state:?})", excerpt(rest)))
        };
    }

    let is_late = script.may_time_out || script.is_cut;
    let is_complete = rest.is_empty() || is_late && is_timeout(rest, &first, &second);
    if !is_complete {
        return Err(format!("after the last response: {}", excerpt(rest)));
    }

    if state == ConnectionState::Open && script.read_rate == ReadRate::Unlimited && !stopped {
        return Err("the connection was left open".into());
    }
    Ok(())
}

/// Returns `true` if the peer may receive fewer than all responses.
fn may_be_cut(script: &Script, stopped: bool) -> bool {
    stopped
        || script.may_time_out
        || script.ending == Ending::Reset
        || script.read_rate != ReadRate::Unlimited
}

/// Returns `true` if `rest` is a prefix of the response to a request that timed out.
fn is_timeout(rest: &[u8], first: &Responses, second: &Responses) -> bool {
    first.timeout.starts_with(rest) || second.timeout.starts_with(rest)
}

/// Responses of one release to the requests of a peer.
pub(super) struct Responses {
    pub(super) responses: Vec<Vec<u8>>,
    /// The response to a request that timed out.
    timeout: Vec<u8>,
}

impl Responses {
    fn remove_connection_field(&mut self) {
        self.responses
            .iter_mut()
            .chain([&mut self.timeout])
            .for_each(|response| *response = without_connection_field(response));
    }

    pub(super) fn to(request_bytes: &[u8], content: &Content) -> Responses {
        let fields = ServerFields::new(&SecurityHeaders::BASIC.fields(), UNIX_SECONDS);
        let mut http = Connection::default();
        let mut scratch = Scratch::default();
        let mut rest = request_bytes;
        let mut responses = Vec::new();
        let mut observer = Observer::default();

        while !http.is_closing() {
            let mut output = Output::new();
            let mut head = Head::EMPTY;
            let (used, step) = http.next_request(rest, &mut head);
            rest = &rest[used..];
            match step {
                Step::Request => {
                    let exchange = OnH1 { http: &mut http, head: &head };
                    let incoming = IncomingRequest {
                        exchange,
                        peer: &None,
                        tls: None,
                        https_port: None,
                        fields: &fields,
                    };
                    content.answer(incoming, &mut scratch, &mut output, &mut observer);
                }
                Step::Refused(refusal) => refuse(&mut http, content, refusal, &fields, &mut output),
                Step::More | Step::End => break,
            }
            responses.push(bytes_of(&mut output, content));
        }

        let mut output = Output::new();
        let timeout = Refusal::Timeout;
        refuse(&mut Connection::default(), content, timeout, &fields, &mut output);
        let timeout = bytes_of(&mut output, content);
        Responses { responses, timeout }
    }
}

fn refuse(
    http: &mut Connection,
    content: &Content,
    refusal: Refusal,
    fields: &ServerFields,
    output: &mut Output,
) {
    let (answer, archive) = content.refusal(refusal);
    http.refuse(&Response { answer: &answer, archive, fields }, output);
}

/// Returns `bytes` without `Connection` fields, including an incomplete one at the end.
fn without_connection_field(bytes: &[u8]) -> Vec<u8> {
    let mut kept = bytes.to_vec();
    for words in [b"Connection: close\r\n".as_slice(), b"Connection: keep-alive\r\n"] {
        while let Some(at) = kept.windows(words.len()).position(|window| window == words) {
            kept.drain(at..at + words.len());
        }
        let line = [b"\r\n", words].concat();
        if let Some(cut) = (3..line.len()).find(|cut| kept.ends_with(&line[..*cut])) {
            kept.truncate(kept.len() - (cut - 2));
        }
    }
    kept
}

/// Returns the bytes of all segments of `output`.
fn bytes_of(output: &mut Output, content: &Content) -> Vec<u8> {
    let (mut own, segments) = output.parts();
    let mut bytes = Vec::new();
    for segment in segments {
        match segment {
            Segment::Inline(length) => {
                let (run, others) = own.split_at(*length);
                bytes.extend_from_slice(run);
                own = others;
            }
            Segment::Archive(archive, extent) => {
                bytes.extend_from_slice(content.range(*archive, *extent, 0));
            }
        }
    }
    bytes
}

fn excerpt(bytes: &[u8]) -> String {
    let beginning = &bytes[..bytes.len().min(300)];
    format!("{} bytes {:?}", bytes.len(), String::from_utf8_lossy(beginning))
}
