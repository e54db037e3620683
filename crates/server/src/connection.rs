//! One TCP connection: bytes in, requests through `wire` and `site`, responses out.
//!
//! It never parses a byte itself. An idle connection has no buffer: data is received into the worker's buffers, and a
//! connection keeps only an incomplete request, or responses that its peer is slow to receive.
//!
//! ```text
//! ProxyHeader ──▶ Handshake ──▶ Open ──▶ Draining ──▶ Lingering ──▶ closed
//! ```

// The state of the worker that its connections use in turn.
mod context;
pub(crate) mod memory_budget;

// From the first byte to the last: PROXY header and TLS, deadlines, the end.
mod handshake;

mod deadlines;

mod close;

// HTTP/1 and HTTP/2, between received bytes and the worker's output.
mod protocol;

// Receiving and sending, with and without TLS.
mod recv;
mod tls_stream;
mod transport;

// Output that is sent together with that of other connections, or later.
mod flow;
mod pending_write;
mod send_batch;

// The memory of a connection, and the progress of its peer.
mod ack_tracker;
mod memory;

#[cfg(test)]
mod limits_page;

#[cfg(test)]
pub(crate) use close::LINGER;
pub(crate) use context::{AddedFields, DRAIN_GRACE, Http3Context, Policy, WorkerContext};
pub(crate) use deadlines::OLD_RELEASE_TIMEOUT;
pub(crate) use recv::ReadUntil;

use std::io;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Readiness, Socket};
use cannery_wire::Refusal;
use cannery_wire::limits::HEAD_BYTES_MAX;

use crate::config::ListenerKind;
use crate::deadlines::Wait;
use crate::routes::DeliveryContent;
use deadlines::Processed;
use flow::Flow;
use pending_write::PendingWrite;
use protocol::{Client, Progress, Protocol};
use recv::RecvOutcome;
use send_batch::{Body, SendBatch};
use transport::Transport;

/// Bytes that one connection may receive and send in a loop iteration. Without this limit, a peer with a fast network would
/// delay all other connections by its whole download. Moving this many takes a tenth of a millisecond.
pub(crate) const ITERATION_BYTES_MAX: u64 = 256 * 1024;

/// Idle time after which the first TLS records are small again. A kernel resets its congestion window after about as long.
const RECORD_SIZE_RESET: Duration = Duration::from_secs(1);

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    transport: Transport<S>,
    protocol: Protocol,
    /// The client's address, if the access log needs it.
    client: Option<SocketAddr>,
    /// Received data that no response covers yet.
    unprocessed: Vec<u8>,
    /// Responses that the socket has no room for. While there are any, the connection doesn't receive.
    pending: Option<Box<PendingWrite>>,
    /// The listener that has accepted the connection decides about TLS.
    kind: ListenerKind,
    phase: Phase,
    schedule: Schedule,
    wait: Wait,
    /// When the wait must be over.
    deadline: Option<Instant>,
    /// Whether the connection ends because a deadline has passed.
    has_timed_out: bool,
    /// Memory of this connection in the worker's [`MemoryBudget`], in bytes.
    ///
    /// [`MemoryBudget`]: memory_budget::MemoryBudget
    memory: u32,
    /// Memory of this connection while it is idle, in bytes.
    idle_memory: u32,
    /// The part of it that is the HPACK table.
    table_memory: u32,
}

/// The phase of a connection. Phases follow each other in this order; some are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The PROXY header is incomplete, so the client is unknown.
    ProxyHeader,
    /// The TLS handshake is incomplete.
    Handshake,
    /// Requests get responses.
    Open,
    /// The last response is written. When it is sent, the sending direction closes.
    Draining {
        /// Whether the client has announced that its last request was the last, and has sent no bytes after it.
        is_peer_done: bool,
    },
    /// The sending direction is closed. Further data of the peer is dropped.
    Lingering,
}

impl Phase {
    fn after_proxy_header(kind: ListenerKind) -> Phase {
        match kind {
            ListenerKind::Plain => Phase::Open,
            ListenerKind::Tls => Phase::Handshake,
        }
    }
}

/// The trigger that runs a connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// An event.
    Event,
    /// The worker, in a later loop iteration.
    Iteration { until: ReadUntil },
    /// The worker, by sending the batch with the connection's response.
    Batch,
}

/// How responses are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// At once.
    Direct,
    /// With the batch, if they are small.
    Batched,
}

/// The next step for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It waits for the next event.
    Event,
    /// It continues in the next loop iteration without an event, because it has used up its budget.
    Iteration,
    /// It continues as soon as the worker has budget for its TLS handshake.
    Handshake,
    /// Its response is sent with the batch.
    Batch,
    /// It closes.
    Close,
}

impl<S: Socket> Connection<S> {
    pub(crate) fn new(accepted: Accepted<S>, kind: ListenerKind, cx: &WorkerContext) -> Connection<S> {
        let phase =
            if cx.policy.expects_proxy_header { Phase::ProxyHeader } else { Phase::after_proxy_header(kind) };
        let wait = if phase == Phase::Open { Wait::Request } else { Wait::Start };
        let deadline = cx
            .policy
            .timeouts
            .map(|timeouts| cx.clock.now + if wait == Wait::Request { timeouts.idle } else { timeouts.head });
        Connection {
            transport: Transport::new(accepted.socket),
            protocol: Protocol::new(kind, &cx.policy, cx.routes.is_some()),
            client: accepted.peer,
            unprocessed: Vec::new(),
            pending: None,
            kind,
            phase,
            schedule: Schedule::Event,
            wait,
            deadline,
            has_timed_out: false,
            memory: memory::PLAIN_BYTES,
            idle_memory: memory::PLAIN_BYTES,
            table_memory: 0,
        }
    }

    pub(crate) fn socket(&self) -> &S {
        self.transport.socket()
    }

    /// Returns `true` if the connection ends because a deadline has passed.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.has_timed_out
    }

    /// Receives, responds and sends, as far as the socket and the budget of a loop iteration allow.
    pub(crate) fn run(&mut self, until: ReadUntil, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        let next = self.try_run(until, cx);
        self.count_tls_memory(cx);
        match next {
            Ok(Next::Event) if cx.budget.bytes == 0 => Next::Iteration,
            Ok(Next::Close) => self.close(cx),
            Ok(next) => next,
            // Peers disappear all the time: that isn't worth a report.
            Err(_) => Next::Close,
        }
    }

    fn try_run(&mut self, until: ReadUntil, cx: &mut WorkerContext) -> io::Result<Next> {
        if self.flush(cx)?.is_blocked() {
            return Ok(Next::Event);
        }
        loop {
            if self.keeps_enough() {
                return Ok(Next::Event);
            }
            if self.is_draining() {
                if self.may_close_at_once(cx) {
                    return Ok(Next::Close);
                }
                if self.transport.end_sending(&mut cx.buffers)?.is_blocked() {
                    return Ok(Next::Event);
                }
                self.linger(cx);
            }
            if cx.budget.bytes == 0 {
                return Ok(Next::Event);
            }

            let received = self.transport.receive(until, &mut cx.buffers, &mut cx.budget)?;
            if self.phase == Phase::Handshake {
                let has_data = matches!(received, RecvOutcome::Data { .. });
                if self.complete_handshake(has_data, cx)?.is_blocked() {
                    return Ok(Next::Event);
                }
            }

            let (len, is_drained) = match received {
                RecvOutcome::Data { len, is_drained } => (len, is_drained),
                RecvOutcome::Blocked => return Ok(Next::Event),
                RecvOutcome::HandshakeDeferred => return Ok(Next::Handshake),
                RecvOutcome::Eof => return Ok(Next::Close),
                RecvOutcome::TlsFailed { is_plain_http } => {
                    if self.fail_tls(is_plain_http, cx)?.is_blocked() {
                        return Ok(Next::Event);
                    }
                    continue;
                }
            };

            if self.is_reading() && self.process_received(len, is_drained, cx)?.is_blocked() {
                return Ok(Next::Event);
            }
            if self.is_batched() {
                return Ok(Next::Batch);
            }
            if self.is_reading() && is_drained && !self.has_deferred_handshake() {
                return Ok(Next::Event);
            }
        }
    }

    /// Returns `true` if the connection may wait for a page of a [`LiveFolder`](crate::config::LiveFolder).
    pub(crate) fn has_unprocessed_request(&self) -> bool {
        self.wait == Wait::Request && !self.unprocessed.is_empty() && !self.is_sending()
    }

    /// Takes what a handler has made, and sends it.
    pub(crate) fn deliver(&mut self, delivered: DeliveryContent, cx: &mut WorkerContext) -> Next {
        self.protocol.deliver(delivered);
        if self.is_sending() || self.phase != Phase::Open {
            // It follows what is being sent.
            return Next::Event;
        }
        if self.is_deferred() {
            // The connection runs in the next loop iteration.
            cx.renew_byte_budget();
            return if self.process_kept(cx).is_ok() { Next::Event } else { Next::Close };
        }
        self.process_again(cx)
    }

    /// Processes a request again that could not be answered before.
    pub(crate) fn process_again(&mut self, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        match self.process_kept(cx) {
            Ok(()) => self.run(ReadUntil::Blocked, cx),
            Err(_) => Next::Close,
        }
    }

    /// Returns `true` if the connection's response is in the batch. Until it is sent, the connection must not run.
    #[inline]
    pub(crate) fn is_batched(&self) -> bool {
        self.schedule == Schedule::Batch
    }

    /// Sends the connection's response from the batch.
    #[inline]
    pub(crate) fn send_batched(
        &mut self,
        inline: Range<usize>,
        body: Option<Body>,
        cx: &mut WorkerContext,
    ) -> Next {
        self.schedule = Schedule::Event;
        if let Some(body) = body {
            return self.send_batched_body(inline, body, cx);
        }

        let length = inline.len();
        match self.transport.send_plain(cx.batch.bytes(inline.clone())) {
            Ok(sent) if sent == length => Next::Event,
            Ok(sent) => self.keep_batched(inline, None, sent as u64, cx),
            // Peers disappear all the time: that isn't worth a report.
            Err(_) => Next::Close,
        }
    }

    #[inline(never)]
    fn send_batched_body(&mut self, inline: Range<usize>, body: Body, cx: &mut WorkerContext) -> Next {
        let length = inline.len() as u64 + body.extent.length;
        let writer = &mut self.transport.writer(&mut cx.buffers);
        let bytes = cx.batch.bytes(inline.clone());
        match pending_write::send_with_body(writer, bytes, body, &cx.release.content) {
            Ok(sent) if sent == length => Next::Event,
            Ok(sent) => self.keep_batched(inline, Some(body), sent, cx),
            Err(_) => Next::Close,
        }
    }

    /// Keeps the rest of a batched response after its first `sent` bytes, which the socket has taken.
    #[cold]
    fn keep_batched(
        &mut self,
        inline: Range<usize>,
        body: Option<Body>,
        sent: u64,
        cx: &mut WorkerContext,
    ) -> Next {
        let output = &mut cx.responder.output;
        output.put(cx.batch.bytes(inline));
        if let Some(Body { archive, extent }) = body {
            output.set_archive(archive);
            output.put_archive(extent);
        }
        self.pending = Some(PendingWrite::from_rest(output, sent, &cx.release.content, cx.clock.now));
        output.clear();
        cx.observer.response_deferred();
        self.set_deadline(Processed::Requests, cx);
        Next::Event
    }

    /// Returns `true` if the connection continues in a later loop iteration without an event.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.schedule, Schedule::Iteration { .. })
    }

    /// Schedules the connection for a later loop iteration.
    #[cold]
    pub(crate) fn defer(&mut self, until: ReadUntil) {
        debug_assert!(!self.is_batched(), "a batched response is sent first");
        let was_eof = self.schedule == Schedule::Iteration { until: ReadUntil::Eof };
        self.schedule = Schedule::Iteration { until: if was_eof { ReadUntil::Eof } else { until } };
    }

    /// Ends the deferral, and returns the readiness that events have reported meanwhile.
    pub(crate) fn take_deferred_readiness(&mut self) -> Readiness {
        let Schedule::Iteration { until } = self.schedule else { return Readiness::default() };
        self.schedule = Schedule::Event;
        Readiness { read_closed: until == ReadUntil::Eof, ..Readiness::default() }
    }

    /// Returns `true` if the client has sent much while a handler makes a response. The rest stays in the socket.
    #[inline]
    fn keeps_enough(&self) -> bool {
        self.unprocessed.len() >= HEAD_BYTES_MAX && self.protocol.is_handled_h1() && self.phase == Phase::Open
    }

    /// Returns `true` if received data is processed, and not dropped.
    fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::ProxyHeader | Phase::Handshake | Phase::Open)
    }

    fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Returns `true` if output waits for room in the socket, or for the next loop iteration.
    #[inline]
    fn is_sending(&self) -> bool {
        self.pending.is_some() || self.transport.is_blocked()
    }

    /// Returns [`Flow::Blocked`] while the connection is sending.
    #[inline]
    fn output_flow(&self) -> Flow {
        if self.is_sending() { Flow::Blocked } else { Flow::Done }
    }

    /// Sends pending output, and processes the data that was kept meanwhile.
    fn flush(&mut self, cx: &mut WorkerContext) -> io::Result<Flow> {
        if self.transport.is_blocked() {
            if self.transport.flush()?.is_blocked() {
                return Ok(Flow::Blocked);
            }
            if self.pending.is_none() {
                self.process_kept(cx)?;
            }
        }
        while let Some(pending) = &mut self.pending {
            if cx.budget.bytes == 0 {
                return Ok(Flow::Blocked);
            }
            let sent = pending.send(&mut self.transport.writer(&mut cx.buffers), &mut cx.budget.bytes)?;
            if pending.is_done() {
                cx.observer.deferred_response_sent(cx.clock.now.saturating_duration_since(pending.since()));
                self.pending = None;
                if !self.transport.is_blocked() {
                    self.process_kept(cx)?;
                }
            } else if sent == 0 {
                return Ok(Flow::Blocked);
            }
        }
        Ok(if self.transport.is_blocked() { Flow::Blocked } else { Flow::Done })
    }

    /// Processes the data that was kept while output was pending.
    fn process_kept(&mut self, cx: &mut WorkerContext) -> io::Result<()> {
        let kept = std::mem::take(&mut self.unprocessed);
        self.process(&kept, Sending::Direct, cx)
    }

    /// Responds to the requests in the first `len` bytes that were just received. If the socket `is_drained`, the connection has
    /// no other work in this iteration, and the responses may be batched.
    #[inline]
    fn process_received(&mut self, len: usize, is_drained: bool, cx: &mut WorkerContext) -> io::Result<Flow> {
        if let Some(tls) = self.transport.tls() {
            if tls.is_near_key_limit() {
                self.protocol.close_after_next();
            }
            self.reset_record_size_after_pause(cx);
        }

        let mut sending = if is_drained { Sending::Batched } else { Sending::Direct };
        if cx.policy.live_folder.is_some() {
            cx.refresh_folder();
            // A release may be adopted while others are in the batch.
            sending = Sending::Direct;
        }
        let received = self.transport.take_received(&mut cx.buffers);
        let processed = if self.unprocessed.is_empty() {
            self.process(&received.bytes[..len], sending, cx)
        } else {
            let mut data = std::mem::take(&mut self.unprocessed);
            data.extend_from_slice(&received.bytes[..len]);
            self.process(&data, sending, cx)
        };

        cx.buffers.restore(received);
        processed?;
        Ok(self.output_flow())
    }

    /// Resets the record size of a connection that was idle for [`RECORD_SIZE_RESET`].
    #[inline]
    fn reset_record_size_after_pause(&mut self, cx: &WorkerContext) {
        if self.wait == Wait::Request
            && let (Some(deadline), Some(timeouts)) = (self.deadline, cx.policy.timeouts)
            && cx.clock.now + timeouts.idle > deadline + RECORD_SIZE_RESET
        {
            self.transport.reset_record_size();
        }
    }

    /// Responds to the requests in `input` until it holds no complete one or sending blocks, and keeps the rest.
    fn process(&mut self, input: &[u8], sending: Sending, cx: &mut WorkerContext) -> io::Result<()> {
        let mut rest = input;
        if self.phase == Phase::ProxyHeader {
            let Some(length) = self.read_proxy_header(rest, cx)? else {
                self.unprocessed = rest.to_vec();
                return Ok(());
            };
            rest = &rest[length..];
        }
        if self.phase == Phase::Handshake {
            return if self.transport.tls().is_none() { self.start_tls(rest, cx) } else { Ok(()) };
        }

        let mut processed = Processed::Part;
        while self.phase == Phase::Open && !self.is_sending() {
            let client = Client {
                address: &self.client,
                has_tls: self.kind == ListenerKind::Tls,
                tls_version: self.transport.tls_version(),
            };
            let progress = self.protocol.respond(&mut rest, client, cx);
            if progress == Progress::Closing {
                let is_peer_done = rest.is_empty() && self.protocol.is_closed_by_peer();
                self.phase = Phase::Draining { is_peer_done };
            }
            if !cx.responder.output.is_empty() {
                processed = Processed::Requests;
            }

            let may_batch = sending == Sending::Batched && progress == Progress::Complete;
            if may_batch && self.batch_output(cx).is_break() {
                break;
            }
            self.pending = self.write_output(cx)?;
            self.protocol.release_content();
            if self.pending.is_some() {
                if self.is_draining() {
                    self.phase = Phase::Draining { is_peer_done: false };
                }
                cx.observer.response_deferred();
            }
            if progress != Progress::OutputFull {
                break;
            }
        }

        if self.phase == Phase::Open && !rest.is_empty() {
            self.unprocessed = rest.to_vec();
        }
        self.set_deadline(processed, cx);
        Ok(())
    }

    /// Moves the output to the batch if it is small. Breaks if it did.
    #[inline]
    fn batch_output(&mut self, cx: &mut WorkerContext) -> ControlFlow<()> {
        let Some(inline) = cx.responder.output.inline_only() else { return self.batch_output_with_body(cx) };
        let length = inline.len() as u64;
        if !self.may_batch(inline, length, cx) {
            return ControlFlow::Continue(());
        }
        cx.batch.push(inline);
        self.finish_batching(length, cx);
        ControlFlow::Break(())
    }

    /// Implements [`Connection::batch_output`] for a response with its body in the archive.
    fn batch_output_with_body(&mut self, cx: &mut WorkerContext) -> ControlFlow<()> {
        let Some((inline, archive, extent)) = cx.responder.output.inline_and_range() else {
            return ControlFlow::Continue(());
        };
        let length = inline.len() as u64 + extent.length;
        // The batch refers to archives of the current release only.
        if self.protocol.content().is_some() || !self.may_batch(inline, length, cx) {
            return ControlFlow::Continue(());
        }
        cx.batch.push(inline);
        cx.batch.push_body(Body { archive, extent });
        self.finish_batching(length, cx);
        ControlFlow::Break(())
    }

    /// Returns `true` if a response of `length` bytes, some of them inline, may be batched. With TLS it may not, because
    /// connections share the buffer of encrypted records.
    #[inline]
    fn may_batch(&self, inline: &[u8], length: u64, cx: &WorkerContext) -> bool {
        SendBatch::fits(inline.len()) && length < cx.budget.bytes && self.transport.tls().is_none()
    }

    /// Clears the output after it was moved to the batch.
    #[inline]
    fn finish_batching(&mut self, length: u64, cx: &mut WorkerContext) {
        cx.budget.bytes -= length;
        cx.responder.output.clear();
        self.protocol.release_content();
        self.schedule = Schedule::Batch;
    }

    /// Sends the output, and keeps the rest if the socket or the budget has no room for it.
    fn send_output(&mut self, cx: &mut WorkerContext) -> io::Result<Flow> {
        self.pending = self.write_output(cx)?;
        Ok(self.output_flow())
    }

    /// Sends the output, and returns the rest if the socket or the budget has no room for it.
    #[inline]
    fn write_output(&mut self, cx: &mut WorkerContext) -> io::Result<Option<Box<PendingWrite>>> {
        let content = self.protocol.content().unwrap_or(&cx.release.content);
        pending_write::send_output(
            &mut self.transport.writer(&mut cx.buffers),
            &mut cx.responder.output,
            content,
            cx.clock.now,
            &mut cx.budget.bytes,
        )
    }

    /// Writes the response to invalid data. See [`Protocol::refuse`].
    fn refuse(&mut self, refusal: Refusal, cx: &mut WorkerContext) {
        let client = Client {
            address: &self.client,
            has_tls: self.kind == ListenerKind::Tls,
            tls_version: self.transport.tls_version(),
        };
        self.protocol.refuse(refusal, &self.unprocessed, client, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_eventloop::KernelSocket;

    #[test]
    fn idle_connection_takes_200_bytes_at_most() {
        // The buffers of an idle connection are empty, and the slab adds a generation.
        assert!(size_of::<Connection<KernelSocket>>() <= 192, "{}", size_of::<Connection<KernelSocket>>());
    }
}
