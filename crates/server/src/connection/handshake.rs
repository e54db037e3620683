//! Start of a connection: PROXY header and TLS handshake.

use std::io;

use cannery_eventloop::Socket;
use cannery_wire::Refusal;
use cannery_wire::proxy::{self, Source};

use super::flow::Flow;
use super::protocol::Protocol;
use super::tls_stream::TlsStream;
use super::{Connection, Phase};
use crate::config::ListenerKind;
use crate::context::WorkerContext;
use crate::deadlines::Wait;

impl<S: Socket> Connection<S> {
    /// Reads the PROXY header at the start of `input`. Returns the header's length, or `None` if it
    /// is incomplete.
    ///
    /// # Errors
    ///
    /// Returns an error if `input` does not start with a PROXY header, in which case the specification says
    /// that we must close the connection without a response.
    #[cold]
    pub(super) fn read_proxy_header(
        &mut self,
        input: &[u8],
        cx: &mut WorkerContext,
    ) -> io::Result<Option<usize>> {
        match proxy::parse(input) {
            proxy::Parsed::Header(source, length) => {
                match source {
                    Source::Connection => {}
                    Source::Internet(client) => self.client = Some(client),
                    Source::Local => self.client = None,
                }
                self.phase = Phase::after_proxy_header(self.kind);
                Ok(Some(length))
            }
            proxy::Parsed::More => Ok(None),
            proxy::Parsed::Malformed => {
                cx.observer.bad_proxy_header();
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Starts TLS. `received` is the start of the handshake.
    #[cold]
    pub(super) fn start_tls(&mut self, received: &[u8], cx: &mut WorkerContext) -> io::Result<()> {
        let session = cx.policy.tls.as_ref().map(|tls| tls.session());
        let session = session.ok_or(io::ErrorKind::Unsupported)?.map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.transport.start_tls(session, received);
        self.count_memory(cx);
        Ok(())
    }

    /// Returns `true` if the handshake can continue without more data.
    #[inline]
    pub(super) fn has_deferred_handshake(&self) -> bool {
        self.transport.tls().is_some_and(TlsStream::is_handshake_deferred)
    }

    /// Starts HTTP if the TLS handshake is complete.
    ///
    /// If some data has already been received, HTTP/2 SETTINGS will be sent together with the responses to
    /// it.
    #[cold]
    pub(super) fn complete_handshake(&mut self, has_data: bool, cx: &mut WorkerContext) -> io::Result<Flow> {
        let Some(tls) = self.transport.tls().filter(|tls| tls.is_established()) else {
            return Ok(Flow::Done);
        };

        cx.observer.handshake_done(tls.handshake_kind());
        if tls.protocol() == Some(cannery_transport::Protocol::Http2) {
            self.protocol = Protocol::h2();
        }
        self.count_memory(cx);
        if cx.is_draining() {
            self.protocol.close_after_next();
        }

        self.phase = Phase::Open;
        self.wait = Wait::Request;
        self.deadline = cx.clock.idle_until;

        self.protocol.begin(&mut cx.responder.output);
        if has_data {
            return Ok(Flow::Done);
        }
        self.send_output(cx)
    }

    /// Closes a connection after TLS has failed. At this point, the alert has already been sent.
    ///
    /// If the client has sent a plain HTTP request, we also respond in plain HTTP in order to explain the
    /// mistake.
    #[cold]
    pub(super) fn fail_tls(&mut self, is_plain_http: bool, cx: &mut WorkerContext) -> io::Result<Flow> {
        cx.observer.tls_failed();
        self.unprocessed = Vec::new();
        self.phase = Phase::Draining { is_peer_done: false };

        if is_plain_http {
            self.transport.drop_tls();
            self.kind = ListenerKind::Plain;
            self.protocol = Protocol::new(ListenerKind::Plain, &cx.policy, cx.routes.is_some());
            self.refuse(Refusal::PlainHttp, cx);
            return self.send_output(cx);
        }
        Ok(self.output_flow())
    }
}
