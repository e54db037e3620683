//! What is spoken on a connection, and the answers in its words.
//!
//! Knows no socket: requests are read from bytes, and answers go into the worker's output.

use std::net::SocketAddr;
use std::sync::Arc;

use cannery_secure::Version;
use cannery_wire::{Output, Refusal, RequestLine, h1, h2};

use super::context::Shared;
use crate::content::{Asked, Content, OnH1, OnH2};
use crate::observe::RefusedRequest;

/// What is spoken on a connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// HTTP/1.
    H1(h1::Connection),
    /// HTTP/2.
    H2(Box<Http2>),
}

/// HTTP/2 on a connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    http: h2::Connection,
    /// The release that bodies come from which wait: all of them come from one. Nothing while none waits.
    content: Option<Arc<Content>>,
    /// Whether our settings were said, which come first.
    begun: bool,
    /// Whether the peer is to be told that we go.
    goes: bool,
    /// Bytes of bodies that the peer had room for since it was last looked at.
    taken: u64,
}

/// Who asks, and by what kind of connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'p> {
    pub(crate) peer: &'p Option<SocketAddr>,
    /// Whether nobody between can read what is said.
    pub(super) is_secured: bool,
    /// By which version of TLS.
    pub(crate) tls: Option<Version>,
}

/// What a peer owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// Nothing: its next request, if it likes.
    Request,
    /// The rest of a head.
    Head,
    /// The rest of a request's content.
    Content,
    /// Room for the rest of an answer, in a window of its own (RFC 9113 §5.2).
    Window,
}

/// What came of reading requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelled {
    /// There is no more to answer at present.
    All,
    /// What is in the output is to be sent first: there may be more.
    Full,
    /// What is spelled is the last that is said.
    Last,
}

impl Protocol {
    /// What everybody begins with who has not agreed on anything else.
    pub(crate) fn new(is_secured: bool, shared: &Shared) -> Protocol {
        if shared.http1 { Protocol::H1(h1::Connection::new(is_secured)) } else { Protocol::h2() }
    }

    /// HTTP/2, of which nothing is said yet.
    pub(crate) fn h2() -> Protocol {
        Protocol::H2(Box::new(Http2::new()))
    }

    /// Says what is said before any request.
    pub(crate) fn begin(&mut self, shared: &mut Shared) {
        if let Protocol::H2(http2) = self {
            http2.begin(&mut shared.output);
        }
    }

    /// What the peer owes, if anything.
    #[inline]
    pub(super) fn awaits(&self) -> Awaits {
        match self {
            Protocol::H1(http) => match http.awaits() {
                h1::Awaits::Request => Awaits::Request,
                h1::Awaits::Head => Awaits::Head,
                h1::Awaits::Content => Awaits::Content,
            },
            Protocol::H2(http2) => match http2.http.awaits() {
                h2::Awaits::Request => Awaits::Request,
                h2::Awaits::Head => Awaits::Head,
                h2::Awaits::Content => Awaits::Content,
                h2::Awaits::Window => Awaits::Window,
            },
        }
    }

    /// Whether the peer has said that it sends no more, and has sent all that it owes.
    pub(super) fn is_ended_by_peer(&self) -> bool {
        match self {
            Protocol::H1(http) => http.is_closed_by_peer(),
            Protocol::H2(_) => false,
        }
    }

    /// Lets the next answer be the last one, which says so; HTTP/2 says so at once, and answers what the peer has asked
    /// before it knows.
    pub(super) fn end_after_next(&mut self) {
        match self {
            Protocol::H1(http) => http.close_after_next(),
            Protocol::H2(http2) => http2.goes = true,
        }
    }

    /// Spells what is said when a connection ends that owes nothing.
    pub(crate) fn end(&mut self, shared: &mut Shared) {
        if let Protocol::H2(http2) = self {
            // Nothing may come before our settings, nor the end (RFC 9113 §3.4).
            http2.begin(&mut shared.output);
            http2.http.end(&mut shared.output);
        }
    }

    /// The release that what is spelled comes from, if it is not the current one.
    #[inline]
    pub(crate) fn content(&self) -> Option<&Arc<Content>> {
        match self {
            Protocol::H1(_) => None,
            Protocol::H2(http2) => http2.content.as_ref(),
        }
    }

    /// What was spelled is sent, or kept to be: lets go of a release from which nothing waits.
    #[inline]
    pub(super) fn let_go(&mut self) {
        if let Protocol::H2(http2) = self
            && !http2.http.has_bodies()
        {
            http2.content = None;
        }
    }

    /// Whether it answers from a release that was replaced, and has not told its peer to go elsewhere.
    pub(super) fn is_behind(&self, shared: &Shared) -> bool {
        let Protocol::H2(http2) = self else { return false };
        !http2.goes && http2.content.as_ref().is_some_and(|content| !Arc::ptr_eq(content, &shared.content))
    }

    /// The memory of what waits, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Protocol::H1(_) => 0,
            Protocol::H2(http2) => http2.http.memory(),
        }
    }

    /// Bytes of bodies that the peer had room for since this was last asked.
    pub(super) fn taken_since_last(&mut self) -> u64 {
        match self {
            Protocol::H1(_) => 0,
            Protocol::H2(http2) => std::mem::take(&mut http2.taken),
        }
    }

    /// Spells answers until the requests in `rest` end or the output is full, and takes off `rest` what is done with.
    #[inline]
    pub(super) fn spell_answers(
        &mut self,
        rest: &mut &[u8],
        asker: Asker<'_>,
        shared: &mut Shared,
    ) -> Spelled {
        match self {
            Protocol::H1(http) => match spell_h1(http, rest, asker, shared) {
                Some(spelled) => spelled,
                None => self.go_on_with_h2(rest, asker, shared),
            },
            Protocol::H2(http2) => http2.spell(rest, asker, shared),
        }
    }

    /// Speaks HTTP/2 from here on, with a peer that has begun with it.
    #[cold]
    fn go_on_with_h2(&mut self, rest: &mut &[u8], asker: Asker<'_>, shared: &mut Shared) -> Spelled {
        let mut http2 = Box::new(Http2::new());
        let spelled = http2.spell(rest, asker, shared);
        *self = Protocol::H2(http2);
        spelled
    }

    /// Spells the answer to what is no request, and ends; false where nothing can be said to it.
    pub(crate) fn refuse(
        &mut self,
        refusal: Refusal,
        input: &[u8],
        asker: Asker<'_>,
        shared: &mut Shared,
    ) -> bool {
        match self {
            Protocol::H1(http) => {
                refuse(http, refusal, input, asker, shared);
                true
            }
            Protocol::H2(_) => false,
        }
    }
}

/// Nothing if the peer begins with HTTP/2 by prior knowledge (RFC 9113 §3.3).
#[inline]
fn spell_h1(
    http: &mut h1::Connection,
    rest: &mut &[u8],
    asker: Asker<'_>,
    shared: &mut Shared,
) -> Option<Spelled> {
    let mut head = h1::Head::EMPTY;
    while shared.output.has_room() {
        let (used, step) = http.next_request(rest, &mut head);
        match step {
            h1::Step::Request => {
                let Shared { content, fields, scratch, output, observer, https_port, .. } = &mut *shared;
                let fields = fields.of(asker.is_secured);
                let https_port = if asker.is_secured { None } else { *https_port };
                let Asker { peer, tls, .. } = asker;
                let asked = Asked { exchange: OnH1 { http, head: &head }, peer, tls, https_port };
                content.answer(asked, scratch, fields, output, observer);
            }
            h1::Step::More => {
                *rest = &rest[used..];
                return Some(Spelled::All);
            }
            h1::Step::Refused(refusal) => {
                let may_begin = refusal == Refusal::Version && shared.http2 && !asker.is_secured;
                if may_begin && !http.has_responded() && rest.starts_with(BEGINS_HTTP2) {
                    return None;
                }
                refuse(http, refusal, &rest[used..], asker, shared);
            }
            // The answer went out before: there is nothing to say.
            h1::Step::End => {}
        }
        *rest = &rest[used..];
        if http.is_closing() {
            return Some(Spelled::Last);
        }
    }
    Some(Spelled::Full)
}

/// The line of the client's preface that no version of HTTP/1 takes for a request.
const BEGINS_HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";

#[cold]
fn refuse(http: &mut h1::Connection, refusal: Refusal, input: &[u8], asker: Asker<'_>, shared: &mut Shared) {
    let fields = shared.fields.of(asker.is_secured);
    let (answer, archive) = shared.content.refusal(refusal);
    shared.output.set_archive(archive.number);
    let content_bytes = http.refuse(&answer, archive.bytes, fields, &mut shared.output);
    shared.observer.refused(&RefusedRequest {
        peer: *asker.peer,
        tls: asker.tls,
        refusal,
        line: RequestLine::of_http1(input),
        head: None,
        content_bytes,
    });
}

impl Http2 {
    fn new() -> Http2 {
        Http2 { http: h2::Connection::new(), content: None, begun: false, goes: false, taken: 0 }
    }

    fn begin(&mut self, output: &mut Output) {
        if !std::mem::replace(&mut self.begun, true) {
            self.http.begin(output);
        }
    }

    // Within its caller it would make HTTP/1 save the registers that only HTTP/2 needs.
    #[inline(never)]
    fn spell(&mut self, rest: &mut &[u8], asker: Asker<'_>, shared: &mut Shared) -> Spelled {
        let Shared { content, fields, scratch, heads, output, observer, https_port, .. } = &mut *shared;
        let fields = fields.of(asker.is_secured);
        let https_port = if asker.is_secured { None } else { *https_port };
        self.begin(output);
        if self.goes {
            self.http.go_away(output);
        }
        let pinned = self.content.take();
        let of_release = pinned.as_ref().unwrap_or(content);
        let last = loop {
            let (used, step) = self.http.next_request(rest, heads, output);
            *rest = &rest[used..];
            match step {
                h2::Step::Request(stream) => {
                    let head = heads.head();
                    let exchange = OnH2 { http: &mut self.http, stream, head: &head };
                    let asked = Asked { exchange, peer: asker.peer, tls: asker.tls, https_port };
                    of_release.answer(asked, scratch, fields, output, observer);
                }
                h2::Step::Refused(stream, refusal) => {
                    let (answer, archive) = of_release.refusal(refusal);
                    let content_bytes = self.http.refuse(stream, &answer, archive, fields, output);
                    let head = heads.head();
                    observer.refused(&RefusedRequest {
                        peer: *asker.peer,
                        tls: asker.tls,
                        refusal,
                        line: RequestLine::of_refused_head(&head),
                        head: Some(&head),
                        content_bytes,
                    });
                }
                step => break step,
            }
        };
        if self.http.has_bodies() {
            let before = output.length();
            self.http.fill(output);
            self.taken += output.length() - before;
            self.content = pinned.or_else(|| Some(Arc::clone(content)));
        }
        if self.http.has_ended() {
            Spelled::Last
        } else if last == h2::Step::Full || self.content.is_some() && !output.is_empty() {
            Spelled::Full
        } else {
            Spelled::All
        }
    }
}
