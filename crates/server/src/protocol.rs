//! What is spoken on a connection, and the answers in its words.
//!
//! Knows no socket: requests are read from bytes, and answers go into the worker's output.

use std::net::SocketAddr;

use cannery_wire::h1::{self, Awaits, Step};
use cannery_wire::{Refusal, ServerFields};

use crate::content::Asked;
use crate::exchange::OnH1;
use crate::shared::Shared;

/// What is spoken on a connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// HTTP/1.
    H1(h1::Connection),
}

/// Who asks, and by what kind of connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) peer: Option<SocketAddr>,
    /// Whether nobody between can read what is said.
    pub(crate) is_secured: bool,
}

/// What came of reading requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelled {
    /// There is no more to answer at present.
    All,
    /// The output is full: what is in it is to be sent first.
    Full,
    /// What is spelled is the last that is said.
    Last,
}

impl Protocol {
    /// HTTP/1, which everybody begins with who has not agreed on anything else.
    pub(crate) fn new() -> Protocol {
        Protocol::H1(h1::Connection::default())
    }

    /// What the peer owes, if anything.
    #[inline]
    pub(crate) fn awaits(&self) -> Awaits {
        match self {
            Protocol::H1(http) => http.awaits(),
        }
    }

    /// Whether any request was answered so far.
    pub(crate) fn has_answered(&self) -> bool {
        match self {
            Protocol::H1(http) => http.has_answered(),
        }
    }

    /// Lets the next answer be the last one, which says so.
    pub(crate) fn end_after_next(&mut self) {
        match self {
            Protocol::H1(http) => http.end_after_next(),
        }
    }

    /// Spells answers until the requests in `rest` end or the output is full, and takes off `rest` what is done with.
    #[inline]
    pub(crate) fn spell_answers(&mut self, rest: &mut &[u8], asker: Asker, shared: &mut Shared) -> Spelled {
        match self {
            Protocol::H1(http) => spell_answers(http, rest, asker, shared),
        }
    }

    /// Spells the answer to what is no request.
    pub(crate) fn refuse(&mut self, refusal: Refusal, asker: Asker, shared: &mut Shared) {
        match self {
            Protocol::H1(http) => refuse(http, refusal, asker, shared),
        }
    }
}

#[inline]
fn spell_answers(http: &mut h1::Connection, rest: &mut &[u8], asker: Asker, shared: &mut Shared) -> Spelled {
    let mut head = h1::Head::EMPTY;
    while shared.output.has_room() {
        let (used, step) = http.next_request(rest, &mut head);
        match step {
            Step::Request => {
                let Shared { content, fields, scratch, output, observer, https_port, .. } = &mut *shared;
                let fields = fields.of(asker.is_secured);
                let https_port = if asker.is_secured { None } else { *https_port };
                let asked = Asked { exchange: OnH1 { http, head: &head }, peer: asker.peer, https_port };
                content.answer(asked, scratch, fields, output, observer);
            }
            Step::More => {
                *rest = &rest[used..];
                return Spelled::All;
            }
            Step::Refused(refusal) => refuse(http, refusal, asker, shared),
            // The answer went out before: there is nothing to say.
            Step::End => {}
        }
        *rest = &rest[used..];
        if http.is_closing() {
            return Spelled::Last;
        }
    }
    Spelled::Full
}

fn refuse(http: &mut h1::Connection, refusal: Refusal, asker: Asker, shared: &mut Shared) {
    let fields: &ServerFields = shared.fields.of(asker.is_secured);
    shared.content.refuse(http, refusal, fields, &mut shared.output);
    shared.observer.refused(asker.peer, refusal);
}
