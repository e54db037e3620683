//! One TCP connection: receives requests and sends responses.
//!
//! Parsing is the job of the `wire` and `site` crates. An idle connection does not own any buffers: data is
//! received into buffers that belong to the worker, and a connection only stores incomplete requests or
//! responses that the peer is slow to receive.
//!
//! ```text
//! ProxyHeader ──▶ Handshake ──▶ Open ──▶ Draining ──▶ Lingering ──▶ closed
//! ```

// From the first byte to the last: PROXY header, TLS handshake, deadlines, closing.
mod handshake;

mod deadlines;

mod close;

// HTTP/1 and HTTP/2, between received bytes and the worker's output.
mod protocol;

// Receiving and sending, with and without TLS.
mod recv;
mod tls_stream;
mod transport;

// Output that is batched with other connections, or sent later.
mod flow;
mod pending_write;

// Memory accounting, and tracking the peer's progress.
mod ack_tracker;
mod memory;

#[cfg(test)]
mod limits_page;

#[cfg(test)]
pub(crate) use close::LINGER;
pub(crate) use recv::ReadUntil;

use std::io;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Readiness, Socket};
use cannery_wire::Refusal;
use cannery_wire::limits::HEAD_BYTES_MAX;

use crate::config::ListenerKind;
use crate::context::{Body, Client, Renewal, SendBatch, WorkerContext};
use crate::deadlines::Wait;
use crate::routes::DeliveryContent;
use deadlines::Processed;
use flow::Flow;
use pending_write::PendingWrite;
use protocol::{Progress, Protocol};
use recv::RecvOutcome;
use transport::Transport;

/// Maximum number of bytes that a connection may receive and send in one loop iteration.
///
/// Transferring this much takes about 0.1 ms. Without a limit, a peer with a fast network would delay
/// all other connections until its download is complete.
pub(crate) const ITERATION_BYTES_MAX: u64 = 256 * 1024;

/// Idle time after which TLS records start small again, similar to the time after which kernels reset their
/// congestion window.
const RECORD_SIZE_RESET: Duration = Duration::from_secs(1);

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    transport: Transport<S>,
    protocol: Protocol,
    /// Client address, if the access log needs it.
    client: Option<SocketAddr>,
    /// Received data that we have not responded to yet.
    unprocessed: Vec<u8>,
    /// Responses that did not fit into the socket. While we have any, the connection does not receive.
    pending: Option<Box<PendingWrite>>,
    /// Kind of the listener that accepted the connection. Decides if we use TLS.
    kind: ListenerKind,
    phase: Phase,
    schedule: Schedule,
    wait: Wait,
    /// The time when `wait` must be over.
    deadline: Option<Instant>,
    /// Whether the connection is being closed because of a missed deadline.
    has_timed_out: bool,
    /// Bytes that this connection has reserved in the worker's [`MemoryBudget`].
    ///
    /// [`MemoryBudget`]: crate::context::MemoryBudget
    memory: u32,
    /// Bytes that this connection needs while it is idle.
    idle_memory: u32,
    /// Bytes of `idle_memory` that the HPACK table takes.
    table_memory: u32,
}

/// Connection phases, in order. Connections can skip some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// We have not received the whole PROXY header yet, so we do not know the client.
    ProxyHeader,
    /// The TLS handshake is not complete.
    Handshake,
    /// Requests are being answered.
    Open,
    /// The last response is written. As soon as it is sent, we shut down our sending direction.
    Draining {
        /// Whether the client has announced the end of its requests and has not sent anything since.
        is_peer_done: bool,
    },
    /// Our sending direction is shut down. Anything the peer still sends is discarded.
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

/// The trigger that will run the connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// The next event.
    Event,
    /// The worker, in a later iteration.
    Iteration { until: ReadUntil },
    /// The worker, when it sends the batch that contains our response.
    Batch,
}

/// When to send responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// Immediately.
    Direct,
    /// Together with the responses of other connections, if they are small.
    Batched,
}

/// The next step of a connection that has just run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for the next event.
    Event,
    /// Continue in the next iteration without an event: the connection has used up its budget.
    Iteration,
    /// Continue as soon as the budget allows for the TLS handshake.
    Handshake,
    /// Send the response together with the batch.
    Batch,
    /// Close the connection.
    Close,
}

impl<S: Socket> Connection<S> {
    pub(crate) fn new(accepted: Accepted<S>, kind: ListenerKind, cx: &WorkerContext) -> Connection<S> {
        let phase =
            if cx.policy.expects_proxy_header { Phase::ProxyHeader } else { Phase::after_proxy_header(kind) };
        let wait = if phase == Phase::Open { Wait::Request } else { Wait::Start };

        // The timeout for a request head also covers the PROXY header or TLS handshake that a connection can
        // start with.
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

    /// Returns `true` if the connection is being closed because of a missed deadline.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.has_timed_out
    }

    /// Receives, responds and sends as far as the socket and the byte budget allow.
    pub(crate) fn run(&mut self, until: ReadUntil, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        let next = self.try_run(until, cx);
        self.count_tls_memory(cx);

        match next {
            // Without budget, `try_run` pretends to be waiting for an event.
            Ok(Next::Event) if cx.budget.bytes == 0 => Next::Iteration,
            Ok(Next::Close) => self.close(cx),
            Ok(next) => next,
            // Peers disappear all the time, so this is not worth reporting.
            Err(_) => Next::Close,
        }
    }

    fn try_run(&mut self, until: ReadUntil, cx: &mut WorkerContext) -> io::Result<Next> {
        if self.flush(cx)?.is_blocked() {
            return Ok(Next::Event);
        }

        loop {
            // The rest stays in the socket, so that flow control slows down the client.
            if self.keeps_enough() {
                return Ok(Next::Event);
            }
            // The last response has been sent.
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
            // The handshake may have been completed either by the data we just received or by a reply that
            // is sent now.
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
            // The next receive would only tell us that the socket is empty, so skip that system call.
            if self.is_reading() && is_drained && !self.has_deferred_handshake() {
                return Ok(Next::Event);
            }
        }
    }

    /// Returns `true` if the connection may be waiting for a page of a
    /// [`LiveFolder`](crate::config::LiveFolder).
    pub(crate) fn has_unprocessed_request(&self) -> bool {
        self.wait == Wait::Request && !self.unprocessed.is_empty() && !self.is_sending()
    }

    /// Takes output from a handler and sends it.
    pub(crate) fn deliver(&mut self, delivered: DeliveryContent, cx: &mut WorkerContext) -> Next {
        self.protocol.deliver(delivered);
        if self.is_sending() || self.phase != Phase::Open {
            // It will be sent after what is being sent now.
            return Next::Event;
        }
        if self.is_deferred() {
            // Process the request only: the connection is going to run in the next iteration anyway.
            cx.renew_byte_budget();
            return if self.process_kept(cx).is_ok() { Next::Event } else { Next::Close };
        }
        self.process_again(cx)
    }

    /// Processes a request that we were not able to answer before.
    pub(crate) fn process_again(&mut self, cx: &mut WorkerContext) -> Next {
        cx.renew_byte_budget();
        // While we did not receive, an event may have reported the end of the stream.
        let until = if self.protocol.holds_content() { ReadUntil::Eof } else { ReadUntil::Blocked };
        match self.process_kept(cx) {
            Ok(()) => self.run(until, cx),
            Err(_) => Next::Close,
        }
    }

    /// Whether our response is in the batch. If so, the connection must not run until the batch is
    /// sent.
    #[inline]
    pub(crate) fn is_batched(&self) -> bool {
        self.schedule == Schedule::Batch
    }

    /// Sends our response, which was in the batch.
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
            // Peers disappear all the time, so this is not worth reporting.
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

    /// Stores the rest of a batched response. The socket has taken the first `sent` bytes.
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

        let waited = cx.observer.response_deferred();
        let since = cx.clock.now.checked_sub(waited).unwrap_or(cx.clock.now);
        self.pending = Some(PendingWrite::from_rest(output, sent, &cx.release.content, since));
        output.clear();
        self.set_deadline(Processed::Requests, cx);
        Next::Event
    }

    /// Returns `true` if the connection will continue in a later iteration even without an event.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.schedule, Schedule::Iteration { .. })
    }

    #[cold]
    pub(crate) fn defer(&mut self, until: ReadUntil) {
        debug_assert!(!self.is_batched(), "a batched response is sent first");
        // Keep an earlier EOF in mind because no further event will report it.
        let was_eof = self.schedule == Schedule::Iteration { until: ReadUntil::Eof };
        self.schedule = Schedule::Iteration { until: if was_eof { ReadUntil::Eof } else { until } };
    }

    /// Ends the deferral. Returns the readiness that events have reported in the meantime.
    pub(crate) fn take_deferred_readiness(&mut self) -> Readiness {
        let Schedule::Iteration { until } = self.schedule else { return Readiness::default() };
        self.schedule = Schedule::Event;
        Readiness { read_closed: until == ReadUntil::Eof, ..Readiness::default() }
    }

    /// Whether the client has already sent so much that we should not receive more until a handler
    /// responds or reads.
    #[inline]
    fn keeps_enough(&self) -> bool {
        self.protocol.is_handled_h1()
            && (self.unprocessed.len() >= HEAD_BYTES_MAX || self.protocol.holds_content())
            && self.phase == Phase::Open
    }

    /// Returns `true` if received data will be processed rather than discarded.
    fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::ProxyHeader | Phase::Handshake | Phase::Open)
    }

    fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Returns `true` if some output is waiting for room in the socket or for the next iteration.
    #[inline]
    fn is_sending(&self) -> bool {
        self.pending.is_some() || self.transport.is_blocked()
    }

    #[inline]
    fn output_flow(&self) -> Flow {
        if self.is_sending() { Flow::Blocked } else { Flow::Done }
    }

    /// Sends pending output and then processes any data that we kept in the meantime.
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
            // Responding to the next requests may leave new pending output, so keep looping.
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

    /// Processes the data that we kept while output was pending.
    fn process_kept(&mut self, cx: &mut WorkerContext) -> io::Result<()> {
        let kept = std::mem::take(&mut self.unprocessed);
        self.process(&kept, Sending::Direct, cx)
    }

    /// Responds to the requests in the first `len` received bytes.
    ///
    /// `is_drained` means that the socket is empty and the connection has nothing else to do in this
    /// iteration. In this case, the responses can be batched.
    #[inline]
    fn process_received(&mut self, len: usize, is_drained: bool, cx: &mut WorkerContext) -> io::Result<Flow> {
        if let Some(tls) = self.transport.tls() {
            // Let the client reconnect before the TLS keys wear out.
            if tls.is_near_key_limit() {
                self.protocol.close_after_next();
            }
            self.reset_record_size_after_pause(cx);
        }

        let mut sending = if is_drained { Sending::Batched } else { Sending::Direct };
        if cx.before_requests() == Renewal::Possible {
            // The batch refers to the previous release.
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

    /// Goes back to small records if the connection was idle for [`RECORD_SIZE_RESET`].
    #[inline]
    fn reset_record_size_after_pause(&mut self, cx: &WorkerContext) {
        if self.wait == Wait::Request
            && let (Some(deadline), Some(timeouts)) = (self.deadline, cx.policy.timeouts)
            && cx.clock.now + timeouts.idle > deadline + RECORD_SIZE_RESET
        {
            self.transport.reset_record_size();
        }
    }

    /// Responds to all complete requests in `input` unless sending blocks. Any remaining input is kept for
    /// later.
    fn process(&mut self, input: &[u8], sending: Sending, cx: &mut WorkerContext) -> io::Result<()> {
        let mut rest = input;
        if self.phase == Phase::ProxyHeader {
            // The header is incomplete, so wait for more.
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
                // If the client has closed its side, we do not need to linger.
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
            if let Some(pending) = &mut self.pending {
                pending.has_waited(cx.observer.response_deferred());
                if self.is_draining() {
                    self.phase = Phase::Draining { is_peer_done: false };
                }
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

    /// Moves the output to the batch if it is small. Breaks if it was moved.
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

    /// Like [`Connection::batch_output`], for a response with its body in an archive.
    fn batch_output_with_body(&mut self, cx: &mut WorkerContext) -> ControlFlow<()> {
        let Some((inline, archive, extent)) = cx.responder.output.inline_and_range() else {
            return ControlFlow::Continue(());
        };

        let length = inline.len() as u64 + extent.length;
        // The batch may only refer to archives of the current release.
        if self.protocol.content().is_some() || !self.may_batch(inline, length, cx) {
            return ControlFlow::Continue(());
        }
        cx.batch.push(inline);
        cx.batch.push_body(Body { archive, extent });
        self.finish_batching(length, cx);
        ControlFlow::Break(())
    }

    /// Whether a response of `length` bytes (including the inline ones) can be batched. With TLS, this
    /// is not possible since the connections share one buffer for encrypted records.
    #[inline]
    fn may_batch(&self, inline: &[u8], length: u64, cx: &WorkerContext) -> bool {
        SendBatch::fits(inline.len()) && length < cx.budget.bytes && self.transport.tls().is_none()
    }

    /// Clears the output, which is now in the batch.
    #[inline]
    fn finish_batching(&mut self, length: u64, cx: &mut WorkerContext) {
        cx.budget.bytes -= length;
        cx.responder.output.clear();
        self.protocol.release_content();
        self.schedule = Schedule::Batch;
    }

    /// Sends the output. Keeps the rest if it does not fit into the socket or the budget.
    fn send_output(&mut self, cx: &mut WorkerContext) -> io::Result<Flow> {
        self.pending = self.write_output(cx)?;
        Ok(self.output_flow())
    }

    /// Sends the output. Returns the rest if it does not fit into the socket or the budget.
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
        // The buffers of an idle connection are empty. The slab adds a generation.
        assert!(size_of::<Connection<KernelSocket>>() <= 192, "{}", size_of::<Connection<KernelSocket>>());
    }
}
