//! End of a connection: after the pending output, and with a notice to the peer if the protocol has one.

use std::time::Duration;

use cannery_eventloop::Socket;

use super::context::WorkerContext;
use super::{Connection, Next, Phase, ReadUntil};
use crate::deadlines::Wait;

/// How long a peer may go on sending after the last response before the connection is closed. If we closed with unread
/// data, the kernel would send a reset, and the peer's kernel would drop the response.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Bytes that an iteration may have received and sent so that the connection closes without lingering.
const CLOSE_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

impl<S: Socket> Connection<S> {
    /// Ends an idle connection after its deadline. HTTP/2 sends GOAWAY first, and lingers: a request of the client
    /// may be on its way.
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
        self.run(ReadUntil::Blocked, cx)
    }

    /// Sends GOAWAY. The connection ends when all requests that the client has sent by then have their responses.
    pub(super) fn go_away(&mut self, cx: &mut WorkerContext) -> Next {
        self.protocol.close_after_next();
        if !self.is_sending() && self.process_kept(cx).is_err() {
            return Next::Close;
        }
        if self.is_draining() {
            return self.run(ReadUntil::Blocked, cx);
        }
        // No event announces data beyond the budget.
        if cx.budget.bytes == 0 { Next::Iteration } else { Next::Event }
    }

    /// Closes the connection now, after `close_notify` if there is room for it.
    pub(super) fn close(&mut self, cx: &mut WorkerContext) -> Next {
        // A peer that doesn't get it sees the end of the connection.
        let _ = self.transport.send_close_notify(&mut cx.buffers);
        Next::Close
    }

    /// Returns `true` if the connection may close without lingering, which saves two system calls. Data that arrived later
    /// would make the kernel drop the response, but the client has announced that it sends none. For large responses we
    /// linger nevertheless, because a slow client may not have read them.
    pub(super) fn may_close_at_once(&self, cx: &WorkerContext) -> bool {
        let moved = cx.policy.iteration_bytes_max - cx.budget.bytes;
        self.phase == Phase::Draining { is_peer_done: true }
            && moved <= CLOSE_AT_ONCE_BYTES_MAX
            && self.transport.tls().is_none()
    }

    /// Waits until the peer closes its direction, and drops the data that it still sends.
    pub(super) fn linger(&mut self, cx: &WorkerContext) {
        self.phase = Phase::Lingering;
        self.wait = Wait::PeerClose;
        self.deadline = Some(cx.clock.now + LINGER);
    }

    /// Begins a graceful shutdown: the connection closes after the response to the request that is under way, or after
    /// [`DRAIN_GRACE`] if none arrives. A response that is being sent may not have announced the end, so a request may
    /// follow it.
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
        // The rest of a request has a deadline of its own, and so have a handler and a peer that receives a response.
        let has_own_deadline =
            matches!(self.wait, Wait::Head | Wait::Content { .. } | Wait::Handler | Wait::Body);
        if !self.is_sending() && !has_own_deadline {
            self.shorten_deadline(cx);
        }
        Next::Event
    }
}
