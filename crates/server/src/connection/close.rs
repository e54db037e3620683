//! Closes connections once any pending output is sent, notifying the peer if the protocol has a way to
//! do so.

use std::time::Duration;

use cannery_eventloop::Socket;

use super::{Connection, Next, Phase, ReadUntil};
use crate::context::WorkerContext;
use crate::deadlines::Wait;

/// Time for which a peer may keep sending after our last response.
///
/// Closing a socket with unread data would make the kernel send a reset, after which the peer's kernel may
/// drop the response.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// We close without lingering if a connection has not moved more than this in an iteration.
const CLOSE_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

impl<S: Socket> Connection<S> {
    /// Closes an idle connection after its deadline. With HTTP/2, a request might be on its way, so send
    /// GOAWAY and linger first.
    pub(super) fn end_idle(&mut self, cx: &mut WorkerContext) -> Next {
        self.has_timed_out = true;
        self.protocol.end(&mut cx.responder.output);
        if cx.responder.output.is_empty() {
            return self.close(cx);
        }
        if self.send_output(cx).is_err() {
            return Next::Close;
        }

        self.phase = Phase::Draining { is_peer_done: false };
        self.unprocessed = Vec::new();
        self.wait = Wait::PeerClose;
        self.deadline = Some(cx.clock.now + LINGER);
        self.count_memory(cx);
        self.run(ReadUntil::Blocked, cx)
    }

    /// Sends GOAWAY. The connection will close once we have answered all requests that the client sends
    /// before receiving it.
    pub(super) fn go_away(&mut self, cx: &mut WorkerContext) -> Next {
        self.protocol.close_after_next();
        if !self.is_sending() && self.process_kept(cx).is_err() {
            return Next::Close;
        }
        if self.is_draining() {
            return self.run(ReadUntil::Blocked, cx);
        }
        // We will not get an event for data that exceeds the budget.
        if cx.budget.bytes == 0 { Next::Iteration } else { Next::Event }
    }

    /// Closes the connection immediately, after sending `close_notify` if possible.
    pub(super) fn close(&mut self, cx: &mut WorkerContext) -> Next {
        // If the peer does not get it, it will still see that the connection is closed.
        let _ = self.transport.send_close_notify(&mut cx.buffers);
        Next::Close
    }

    /// Whether we can close without lingering in order to save two system calls.
    ///
    /// Lingering prevents late data from making the kernel drop the response. In this case, however, the
    /// client has told us that it will not send any more. Large responses linger anyway as a slow client
    /// might not have read them yet.
    pub(super) fn may_close_at_once(&self, cx: &WorkerContext) -> bool {
        let moved = cx.policy.iteration_bytes_max - cx.budget.bytes;
        self.phase == Phase::Draining { is_peer_done: true }
            && moved <= CLOSE_AT_ONCE_BYTES_MAX
            && self.transport.tls().is_none()
    }

    /// Waits until the peer closes its direction. Anything it still sends is discarded.
    pub(super) fn linger(&mut self, cx: &WorkerContext) {
        self.phase = Phase::Lingering;
        self.wait = Wait::PeerClose;
        self.deadline = Some(cx.clock.now + LINGER);
    }

    /// Starts a graceful shutdown of the connection. It will close after answering the current request, or
    /// after [`DRAIN_GRACE`] if there is no request.
    ///
    /// Note that a response that is already being sent might not have announced the close, in which case the
    /// client may still send another request.
    ///
    /// [`DRAIN_GRACE`]: super::context::DRAIN_GRACE
    pub(crate) fn drain(&mut self, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        if !self.is_reading() {
            return Next::Event;
        }
        if self.protocol.is_h2() {
            let next = self.go_away(cx);
            if self.wait == Wait::Request {
                self.shorten_deadline(cx);
            }
            return next;
        }

        self.protocol.close_after_next();
        // The rest of a request has its own deadline, and so do handlers and peers that are currently
        // receiving a response.
        let has_own_deadline =
            matches!(self.wait, Wait::Head | Wait::Content { .. } | Wait::Handler | Wait::Body);
        if !self.is_sending() && !has_own_deadline {
            self.shorten_deadline(cx);
        }
        Next::Event
    }
}
