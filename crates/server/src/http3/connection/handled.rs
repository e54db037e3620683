//! Requests of an HTTP/3 connection that are answered by handlers, and the bodies that handlers write.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use cannery_routes::BodyProgress;
use cannery_transport::limits::{QUIC_CONNECTION_WINDOW_BYTES, QUIC_STREAM_WINDOW_BYTES};
use cannery_transport::quic::{ConnectionKey, StreamId};
use cannery_wire::Multiplexed;
use cannery_wire::h3::{self, ErrorCode};

use super::{Connection, SendTime};
use crate::context::{Client, RequestContext, WorkerContext};
use crate::http3::bodies::Bodies;
use crate::routes::{ConnectionAddress, DeliveryContent, Dispatch, StreamOutcome, StreamRoutes};

impl Connection {
    /// Takes output from a handler. It will be written in the next run.
    pub(in crate::http3) fn deliver(&mut self, delivered: DeliveryContent) {
        self.handled.deliver(delivered);
    }

    /// Writes responses from handlers, and more of their bodies.
    #[cold]
    pub(super) fn write_handled(&mut self, cx: &mut WorkerContext, bodies: &mut Bodies) {
        let key = self.quic.key();
        let client = self.quic.validated_address();
        self.handled.forget_cancelled(&mut self.http);
        loop {
            let Some(mut dispatch) = dispatch(key, &client, cx) else { return };
            let Some(id) = self.handled.write_next(&mut self.http, &mut dispatch) else { break };
            self.write_response(StreamId::new(id.number()), SendTime::Now, cx, bodies);
        }

        let mut index = 0;
        // Take more of each body, unless an earlier part is still waiting for the client's windows.
        while let Some((id, body)) = self.handled.bodies.get(index) {
            let stream = StreamId::new(id.number());
            if self.responses.iter().any(|response| response.stream == stream) {
                index += 1;
                continue;
            }
            let mut bytes = Vec::new();
            let progress = body.take(&mut bytes);
            match progress {
                BodyProgress::Open => index += 1,
                BodyProgress::Complete | BodyProgress::Broken => _ = self.handled.bodies.swap_remove(index),
            }
            if progress == BodyProgress::Broken {
                self.reset(stream, ErrorCode::Internal);
            } else if !bytes.is_empty() {
                h3::Connection::put_body(&bytes, cx.http3().response.output);
                self.write_response(stream, SendTime::Now, cx, bodies);
            } else if progress == BodyProgress::Complete {
                self.finish(stream);
            }
        }
    }

    /// Passes on content to handlers that read it while it arrives.
    #[cold]
    pub(super) fn pass_content(
        &mut self,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) -> Result<(), ErrorCode> {
        loop {
            let now = cx.clock.now;
            let passed = self.handled.pass_content(&mut self.http, now, cx.http3().response.output);
            // Streams on which clients must not send more keep a part of the connection's window, which the others need.
            let held = self.handled.held() as u64;
            self.quic.set_receive_window(
                u64::from(QUIC_CONNECTION_WINDOW_BYTES) + held * u64::from(QUIC_STREAM_WINDOW_BYTES),
            );
            for id in passed.asked {
                self.http.put_continue(id, cx.http3().response.output);
                self.write_interim(StreamId::new(id.number()), cx, bodies);
            }
            for id in passed.unwanted {
                // This only fails if all of the stream was read.
                let _ = self.quic.stop(StreamId::new(id.number()), ErrorCode::None.number());
            }
            if passed.released.is_empty() {
                return Ok(());
            }
            for id in passed.released {
                self.read(StreamId::new(id.number()), cx, bodies)?;
            }
        }
    }

    /// Returns `true` if a handler may write more of the response's body.
    pub(super) fn has_open_body(&self, stream: StreamId) -> bool {
        self.handled.bodies.iter().any(|(open, _)| open.number() == stream.number())
    }
}

/// A connection's requests for handlers. Most servers have no handlers, so it takes no memory before its first use.
#[derive(Default)]
pub(super) struct Handled(Option<Box<StreamRoutes<h3::StreamId>>>);

impl Handled {
    /// Returns the memory that it takes, in bytes.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |routes| size_of::<StreamRoutes<h3::StreamId>>() + routes.memory())
    }
}

impl Deref for Handled {
    type Target = StreamRoutes<h3::StreamId>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(const { &StreamRoutes::new() })
    }
}

impl DerefMut for Handled {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

/// Returns the parts that a handler's response depends on, or `None` if the server has no handlers.
fn dispatch<'a>(
    key: ConnectionKey,
    client: &Option<SocketAddr>,
    cx: &'a mut WorkerContext,
) -> Option<Dispatch<'a>> {
    let response = cx.http3().response;
    let content = response.content;
    response.into_dispatch(Some(ConnectionAddress::Quic(key)), Client::quic(client), content)
}

/// Passes a request to its handler (if any).
pub(super) fn begin(
    http: &mut h3::Connection,
    stream: h3::StreamId,
    key: ConnectionKey,
    client: &Option<SocketAddr>,
    handled: &mut StreamRoutes<h3::StreamId>,
    cx: &mut WorkerContext,
) -> StreamOutcome {
    let RequestContext { heads, mut response, .. } = cx.http3();
    let content = response.content;
    let dispatch = response.dispatch(Some(ConnectionAddress::Quic(key)), Client::quic(client), content);
    let Some(mut dispatch) = dispatch else { return StreamOutcome::Site };
    handled.begin(http, stream, &heads.head(), &mut dispatch)
}

/// Passes a request to the handler once the content has arrived or turned out to be too long.
#[cold]
pub(super) fn finish_content(
    http: &mut h3::Connection,
    stream: h3::StreamId,
    key: ConnectionKey,
    client: &Option<SocketAddr>,
    is_whole: bool,
    handled: &mut StreamRoutes<h3::StreamId>,
    cx: &mut WorkerContext,
) -> StreamOutcome {
    let Some(mut dispatch) = dispatch(key, client, cx) else { return StreamOutcome::Later };
    handled.receive(http, stream, is_whole, &mut dispatch)
}
