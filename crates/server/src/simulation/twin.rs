//! What a peer must have received: the answers of a connection that nothing disturbs.

use cannery_eventloop::simulated::{ConnectionState, ReadRate, UNIX_SECONDS};
use cannery_site::Scratch;
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{Output, Refusal, Segment, ServerFields};

use super::script::{Ending, Script};
use super::site::Releases;
use crate::config::SecurityHeaders;
use crate::content::{Asked, Content, OnH1};
use crate::observe::Observer;

/// Holds what a peer received against what it must have.
pub(super) fn check(
    script: &Script,
    received: &[u8],
    fate: ConnectionState,
    releases: &Releases,
    stopped: bool,
) -> Result<(), String> {
    // Who is not named, or asks nothing, is told nothing.
    if script.sends.is_empty() && !received.is_empty() {
        return Err(format!("to no request: {}", shown(received)));
    }
    let mut first = Answers::to(&script.sends, &releases.first);
    let mut second = Answers::to(&script.sends, &releases.second);
    let received = if stopped {
        // The last answer before the end says that it is the last one.
        first.forget_closing();
        second.forget_closing();
        without_closing(received)
    } else {
        received.to_vec()
    };
    let mut rest = received.as_slice();
    let mut newer = false;
    for (number, (old, new)) in first.answers.iter().zip(&second.answers).enumerate() {
        // The old release before the new one, and never the old one again.
        let answer = if !newer && rest.starts_with(old) { old } else { new };
        newer |= answer == new && old != new;
        if let Some(others) = rest.strip_prefix(answer.as_slice()) {
            rest = others;
            continue;
        }
        if !old.starts_with(rest) && !new.starts_with(rest) && !is_timeout(rest, &first, &second) {
            return Err(format!("answer {number} is {}, not {}", shown(rest), shown(answer)));
        }
        // What is bad in a request that never ends may be seen at once, or not before it is late.
        let is_late = script.is_cut && is_timeout(rest, &first, &second);
        return if is_late || may_be_cut(script, stopped) {
            Ok(())
        } else {
            Err(format!("answer {number} is cut: {} ({fate:?})", shown(rest)))
        };
    }
    let is_late = script.dawdles || script.is_cut;
    let is_complete = rest.is_empty() || is_late && is_timeout(rest, &first, &second);
    if !is_complete {
        return Err(format!("behind the last answer: {}", shown(rest)));
    }
    if fate == ConnectionState::Open && script.appetite == ReadRate::Unlimited && !stopped {
        return Err("the connection was left open".into());
    }
    Ok(())
}

/// Whether a peer may see less than all answers.
fn may_be_cut(script: &Script, stopped: bool) -> bool {
    stopped || script.dawdles || script.ending == Ending::Resets || script.appetite != ReadRate::Unlimited
}

/// Whether this is what a peer that is too slow is told, as far as it took it.
fn is_timeout(rest: &[u8], first: &Answers, second: &Answers) -> bool {
    first.timeout.starts_with(rest) || second.timeout.starts_with(rest)
}

/// The answers to what a peer sends.
pub(super) struct Answers {
    pub(super) answers: Vec<Vec<u8>>,
    /// What a peer that is too slow is told.
    timeout: Vec<u8>,
}

impl Answers {
    fn forget_closing(&mut self) {
        self.answers
            .iter_mut()
            .chain([&mut self.timeout])
            .for_each(|answer| *answer = without_closing(answer));
    }

    pub(super) fn to(sends: &[u8], content: &Content) -> Answers {
        let fields = ServerFields::new(&SecurityHeaders { basic: true, tls: false }.fields(), UNIX_SECONDS);
        let (mut http, mut scratch) = (Connection::default(), Scratch::default());
        let (mut rest, mut answers) = (sends, Vec::new());
        let mut observer = Observer::default();
        while !http.is_closing() {
            let mut output = Output::new();
            let mut head = Head::EMPTY;
            let (used, step) = http.next_request(rest, &mut head);
            rest = &rest[used..];
            match step {
                Step::Request => {
                    let exchange = OnH1 { http: &mut http, head: &head };
                    let asked = Asked { exchange, peer: &None, tls: None, https_port: None };
                    content.answer(asked, &mut scratch, &fields, &mut output, &mut observer);
                }
                Step::Refused(refusal) => refuse(&mut http, content, refusal, &fields, &mut output),
                Step::More | Step::End => break,
            }
            answers.push(bytes_of(&mut output, content));
        }
        let mut output = Output::new();
        let timeout = Refusal::Timeout;
        refuse(&mut Connection::default(), content, timeout, &fields, &mut output);
        let timeout = bytes_of(&mut output, content);
        Answers { answers, timeout }
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
    output.set_archive(archive.number);
    http.refuse(&answer, archive.bytes, fields, output);
}

/// The same bytes without the words on whether the connection ends, also where the bytes end within them.
fn without_closing(bytes: &[u8]) -> Vec<u8> {
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

/// The bytes that an output stands for.
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

fn shown(bytes: &[u8]) -> String {
    let beginning = &bytes[..bytes.len().min(300)];
    format!("{} bytes {:?}", bytes.len(), String::from_utf8_lossy(beginning))
}
