//! What comes before the first request: the PROXY header, and the handshake of TLS.
//!
//! Never answers a request, but one that came in the clear where TLS is spoken.

use std::io;

use cannery_eventloop::Socket;
use cannery_wire::Refusal;
use cannery_wire::proxy::{self, Source};

use super::context::Shared;
use super::deadlines::Waits;
use super::protocol::Protocol;
use super::tls_stream::Secured;
use super::{Connection, State};
use crate::config::ListenerKind;

impl<S: Socket> Connection<S> {
    /// Takes the PROXY header off the front of `rest`; tells whether it was there. Fails if it never will be: then
    /// the connection ends without an answer, as the specification wants it.
    #[cold]
    pub(super) fn read_proxy_header(&mut self, rest: &mut &[u8], shared: &mut Shared) -> io::Result<bool> {
        match proxy::parse(rest) {
            proxy::Parsed::Header(source, length) => {
                match source {
                    Source::Connection => {}
                    Source::Internet(client) => self.peer = Some(client),
                    Source::Local => self.peer = None,
                }
                self.state = State::Open;
                *rest = &rest[length..];
                Ok(true)
            }
            proxy::Parsed::More => Ok(false),
            proxy::Parsed::Malformed => {
                shared.observer.unnamed();
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Goes on by TLS, with its first bytes.
    #[cold]
    pub(super) fn secure(&mut self, begun: &[u8], shared: &mut Shared) -> io::Result<()> {
        let session = shared.tls.as_ref().map(|tls| tls.session());
        let session = session.ok_or(io::ErrorKind::Unsupported)?.map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.transport.secure(session, begun);
        self.waits = Waits::Handshake;
        self.count_memory(shared);
        Ok(())
    }

    /// Whether the first bytes of a handshake are there, and nobody has looked at them yet.
    #[inline]
    pub(super) fn has_begun_handshake(&self) -> bool {
        self.transport.secured().is_some_and(Secured::is_put_off)
    }

    /// Begins to speak what was agreed on, if the handshake is done; tells whether what is said first is sent, or goes out
    /// with the answers to what has come already.
    #[cold]
    pub(super) fn establish(&mut self, has_bytes: bool, shared: &mut Shared) -> io::Result<bool> {
        let Some(secured) = self.transport.secured().filter(|secured| secured.is_established()) else {
            return Ok(true);
        };
        shared.observer.shaken(secured.is_resumed());
        if secured.protocol() == Some(cannery_secure::Protocol::Http2) {
            self.protocol = Protocol::h2();
        }
        self.count_memory(shared);
        if shared.is_draining {
            self.protocol.end_after_next();
        }
        self.waits = Waits::Request;
        self.deadline = shared.idle_until;
        self.protocol.begin(shared);
        if !has_bytes {
            self.unsent = self.send_output(shared)?;
        }
        Ok(has_bytes || !self.is_sending())
    }

    /// Ends a connection whose TLS failed, after the alert. A request in the clear is answered in the clear, by a page that
    /// says what is wrong. Returns whether all of it is sent.
    #[cold]
    pub(super) fn fail(&mut self, is_plain_http: bool, shared: &mut Shared) -> io::Result<bool> {
        shared.observer.not_secured();
        self.held = Vec::new();
        self.state = State::Ending;
        if is_plain_http {
            self.transport.give_up_tls();
            self.kind = ListenerKind::Plain;
            self.protocol = Protocol::new(false, shared);
            self.refuse(Refusal::PlainHttp, shared);
            self.unsent = self.send_output(shared)?;
        }
        Ok(!self.is_sending())
    }
}
