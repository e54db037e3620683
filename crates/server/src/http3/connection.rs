//! An HTTP/3 connection: reads requests from QUIC streams and writes the responses to them.
//!
//! ```text
//! Handshake ──▶ Open ──▶ Closed
//! ```
//!
//! Early data (0-RTT) opens a connection before the handshake is complete.
//!
//! Note that an attacker might have recorded and repeated early data, even though this server does not read
//! it twice ([`EarlyData`](cannery_transport::quic::EarlyData)). For this reason, only GET and HEAD requests get
//! an immediate response. For other methods, the response has to wait until the handshake is complete, just
//! like a response that does not fit into the client's windows.

// Reasons to wait, and their deadlines.
mod deadlines;

// Requests that are answered by handlers.
mod handled;

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use cannery_site::Method;
use cannery_transport::Version;
use cannery_transport::quic::{
    self, ConnectionEvent, ConnectionKey, Direction, Event, ReadOutcome, Stats, StreamId, WriteOutcome,
};
use cannery_wire::h3::{self, ErrorCode, Reading, RequestEnd, Step};
use cannery_wire::{Priority, Refusal, RequestHead, Segment};

pub(super) use self::deadlines::Late;
use self::handled::Handled;
use super::bodies::Bodies;
use super::liveness::Liveness;
use super::own_stream::{OwnStream, QpackStream};
use super::send_order::send_order;
use crate::content::{IncomingRequest, OnStream};
use crate::context::{ConnectionMemory, DRAIN_GRACE, RequestContext, ResponseContext, WorkerContext};
use crate::deadlines::{OLD_RELEASE_TIMEOUT, Progress, Wait};
use crate::observe::{CloseReason, Http3Metric, Observer};
use crate::routes::StreamOutcome;
use crate::routes::limits::HANDLED_SEND_WINDOW_BYTES;

/// Memory of an idle connection, in bytes. Most of it is `quinn-proto` state.
const IDLE_BYTES: u32 = 18 * 1024;

/// Memory of an unfinished response in addition to its pieces, in bytes.
const RESPONSE_BYTES: usize = 256;

/// An HTTP/3 connection.
pub(super) struct Connection {
    quic: quic::Connection,
    http: h3::Connection,
    phase: Phase,
    /// The socket that received the client's last datagram.
    socket: usize,
    /// Responses that have to wait, either for room in the client's windows or for the end of the
    /// handshake.
    responses: Vec<Response>,
    /// Whether there might be room for waiting responses.
    may_continue: bool,
    /// For each stream with unacknowledged response bytes in memory, the number of these bytes. Ordered by
    /// stream.
    unacknowledged: Vec<(StreamId, usize)>,
    /// Whether early requests are waiting until we know that the client's address is genuine.
    has_early_requests: bool,
    /// Requests for handlers.
    handled: Handled,
    wait: Wait,
    /// The time when `wait` must be over.
    deadline: Option<Instant>,
    /// Tracks how fast the client receives. `None` if all responses have been acknowledged.
    progress: Option<Box<Progress>>,
    /// Whether a request was received or a response acknowledged since the deadline was set.
    is_active: bool,
    liveness: Liveness,
    /// Streams of responses that refer to an archive, along with the time when we started to serve the
    /// archive's release.
    archive_streams: Vec<(StreamId, Instant)>,
    /// When we decided to end the connection because it keeps an old release.
    retiring_since: Option<Instant>,
    close_reason: CloseReason,
    counted: CountedPackets,
    /// Whether the connection has run since we last counted its packets.
    has_run: bool,
    /// Whether the connection has run since we last freed its unused memory.
    may_have_unused: bool,
    memory: u32,
}

/// Packets and migrations that were added to the metrics.
#[derive(Debug, Default)]
struct CountedPackets {
    sent: u64,
    lost: u64,
    migrations: u32,
}

enum Phase {
    Handshake,
    Open(OwnStreams),
    Closed,
}

/// Unidirectional streams that we have opened.
struct OwnStreams {
    control: OwnStream,
    qpack_encoder: QpackStream,
    qpack_decoder: QpackStream,
    shutdown: Shutdown,
}

impl OwnStreams {
    /// Returns the number of our streams, which are never closed.
    fn count(&self) -> usize {
        1 + usize::from(self.qpack_encoder.is_open()) + usize::from(self.qpack_decoder.is_open())
    }
}

/// Progress of a graceful shutdown (RFC 9114 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    NotBegun,
    /// We have notified the client. Requests that it has sent before will be answered.
    Announced,
    /// Requests that have not been received will not be answered.
    Final,
}

/// A response that has not been written completely.
struct Response {
    stream: StreamId,
    pieces: Vec<Bytes>,
    /// Length of the pieces that are not archive ranges, in bytes.
    copied_bytes: usize,
    sending: SendTime,
    /// Whether we wrote some of it when responses were last continued.
    is_continued: bool,
}

impl Response {
    /// Returns the number of bytes that have not been written yet.
    fn length(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// Result of continuing a response.
#[derive(Debug, PartialEq, Eq)]
enum Continued {
    Waits,
    Ended,
}

impl Connection {
    pub(super) fn new(mut quic: quic::Connection, socket: usize, cx: &WorkerContext) -> Connection {
        if cx.routes.is_some() {
            quic.set_send_window(HANDLED_SEND_WINDOW_BYTES);
        }

        Connection {
            quic,
            http: h3::Connection::new(),
            phase: Phase::Handshake,
            socket,
            responses: Vec::new(),
            may_continue: false,
            unacknowledged: Vec::new(),
            has_early_requests: false,
            handled: Handled::default(),
            wait: Wait::Start,
            deadline: cx.policy.timeouts.map(|timeouts| cx.clock.now + timeouts.head),
            progress: None,
            is_active: false,
            liveness: Liveness::default(),
            archive_streams: Vec::new(),
            retiring_since: None,
            close_reason: CloseReason::InOrder,
            counted: CountedPackets::default(),
            has_run: false,
            may_have_unused: false,
            memory: IDLE_BYTES,
        }
    }

    pub(super) fn key(&self) -> ConnectionKey {
        self.quic.key()
    }

    pub(super) fn quic(&mut self) -> &mut quic::Connection {
        &mut self.quic
    }

    pub(super) fn into_quic(self) -> quic::Connection {
        self.quic
    }

    /// Returns the number of the socket that we can reach the client with.
    pub(super) fn socket(&self) -> usize {
        self.socket
    }

    /// Returns `true` if either side has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Returns why the connection was closed.
    pub(super) fn close_reason(&self) -> CloseReason {
        self.close_reason
    }

    /// Returns the memory that the connection takes, in bytes, as it was last counted.
    pub(super) fn memory(&self) -> u32 {
        self.memory
    }

    /// Like [`memory`](Self::memory), plus responses that handlers have written. They can add more at any time.
    pub(super) fn total_memory(&self) -> ConnectionMemory {
        let handled = u32::try_from(self.handled.kept_bytes()).unwrap_or(u32::MAX);
        ConnectionMemory { total: self.memory.saturating_add(handled), handled }
    }

    /// Updates the memory of the connection.
    pub(super) fn count_memory(&mut self) {
        let own = match &self.phase {
            Phase::Open(own) => own.qpack_encoder.pending_bytes() + own.qpack_decoder.pending_bytes(),
            Phase::Handshake | Phase::Closed => 0,
        };

        let copied: usize = self.responses.iter().map(|response| response.copied_bytes).sum();
        // Bodies from handlers can be endless, however only this much can be unacknowledged.
        let written: usize = self.unacknowledged.iter().map(|(_, bytes)| *bytes).sum();
        let window = usize::try_from(HANDLED_SEND_WINDOW_BYTES).unwrap_or(usize::MAX);
        let written = written.min(copied.saturating_add(window));
        let responses = copied.max(written) + self.responses.len() * RESPONSE_BYTES;

        let received = usize::try_from(self.quic.kept_bytes()).unwrap_or(usize::MAX);
        let bytes = (self.http.memory() + self.handled.memory() + own + responses).saturating_add(received);
        self.memory = IDLE_BYTES.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Processes a datagram that was received by this socket.
    pub(super) fn receive(&mut self, event: ConnectionEvent, socket: usize) {
        self.socket = socket;
        self.quic.receive(event);
    }

    /// Handles QUIC events, and makes progress with responses.
    pub(super) fn run(&mut self, cx: &mut WorkerContext, bodies: &mut Bodies) {
        self.has_run = true;
        self.may_have_unused = true;
        while let Some(event) = self.quic.next_event() {
            // A closed connection accepts no more requests.
            if !self.is_closed()
                && let Err(code) = self.handle(event, cx, bodies)
            {
                self.fail(code, cx);
            }
        }
        self.continue_responses();
        if self.handled.is_used() {
            self.write_handled(cx, bodies);
            // If we have written the last bytes of a body, its handler might have more.
            while self.may_continue {
                self.continue_responses();
                self.write_handled(cx, bodies);
            }
            if let Err(code) = self.pass_content(cx, bodies) {
                self.fail(code, cx);
            }
        }

        if let Err(code) = self.flush_qpack() {
            self.fail(code, cx);
        }
        self.set_deadline(cx);
    }

    fn handle(&mut self, event: Event, cx: &mut WorkerContext, bodies: &mut Bodies) -> Result<(), ErrorCode> {
        match event {
            Event::Established => {
                cx.observer.count_http3(Http3Metric::Connections, 1);
                cx.observer.handshake_done(self.quic.handshake_kind());
                self.may_continue = true;
                self.begin(cx)?;
                if self.has_early_requests { self.accept_requests(cx, bodies) } else { Ok(()) }
            }
            Event::StreamsOpened(direction) => {
                // If the handshake is not complete, this is early data.
                self.begin(cx)?;
                match direction {
                    Direction::Bidirectional => self.accept_requests(cx, bodies),
                    Direction::Unidirectional => self.accept(direction, cx, bodies),
                }
            }

            // The rest of a request that has to wait.
            Event::Readable(stream) if self.is_held_back(stream) => self.accept_requests(cx, bodies),
            Event::Readable(stream) => self.read(stream, cx, bodies),
            // Writing the response will fail later on, but the request still needs to be read because its
            // head can change the QPACK table.
            Event::Stopped(stream, _) if self.is_held_back(stream) => self.http.stop_response(),
            Event::Stopped(stream, _) => self.stop_response(stream),

            Event::Finished(stream) => {
                self.is_active = true;
                self.forget_response(stream);
                self.http.finish_response();
                Ok(())
            }

            Event::Writable(stream) if stream.direction() == Direction::Unidirectional => {
                self.flush_own(stream);
                Ok(())
            }
            Event::Writable(_) => {
                self.may_continue = true;
                Ok(())
            }

            Event::StreamsAvailable(_) => Ok(()),
            Event::BudgetExceeded => Err(ErrorCode::ExcessiveLoad),
            Event::Closed(reason) => {
                self.drop_responses();
                self.close_reason = match reason {
                    quic::CloseReason::TimedOut => CloseReason::TimedOut,
                    quic::CloseReason::ByApplication(_) => CloseReason::InOrder,
                    _ => CloseReason::Broken,
                };
                Ok(())
            }
        }
    }

    /// Opens our control stream, unless it is already open.
    fn begin(&mut self, cx: &WorkerContext) -> Result<(), ErrorCode> {
        if !matches!(self.phase, Phase::Handshake) {
            return Ok(());
        }

        let streams = OwnStreams {
            control: OwnStream::open(&mut self.quic, h3::Connection::control_stream_start())?,
            qpack_encoder: QpackStream::default(),
            qpack_decoder: QpackStream::default(),
            shutdown: Shutdown::NotBegun,
        };

        self.phase = Phase::Open(streams);
        if cx.is_draining() {
            self.announce_end();
        }
        Ok(())
    }

    /// Accepts and reads requests.
    ///
    /// If the client has sent early data without a token, its address could be forged. Requests will have to
    /// wait in that case if we need the address.
    fn accept_requests(&mut self, cx: &mut WorkerContext, bodies: &mut Bodies) -> Result<(), ErrorCode> {
        self.has_early_requests = needs_address(cx) && self.quic.validated_address().is_none();
        if self.has_early_requests {
            return Ok(());
        }
        self.accept(Direction::Bidirectional, cx, bodies)
    }

    /// Whether the stream is a request that has to wait. As soon as one of them does, all of them have to.
    fn is_held_back(&self, stream: StreamId) -> bool {
        self.has_early_requests && stream.direction() == Direction::Bidirectional
    }

    /// Accepts and reads streams opened by the client.
    fn accept(
        &mut self,
        direction: Direction,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) -> Result<(), ErrorCode> {
        while let Some(stream) = self.quic.accept(direction) {
            if direction == Direction::Bidirectional {
                self.http.open(http_id(stream), cx.clock.now);
            }
            self.read(stream, cx, bodies)?;
        }
        Ok(())
    }

    /// Reads a client stream.
    fn read(
        &mut self,
        stream: StreamId,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) -> Result<(), ErrorCode> {
        match stream.direction() {
            Direction::Bidirectional => self.read_request(stream, cx, bodies),
            Direction::Unidirectional => self.read_unidirectional(stream, cx),
        }
    }

    /// Reads a request stream. Writes the response once the head is complete.
    fn read_request(
        &mut self,
        stream: StreamId,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) -> Result<(), ErrorCode> {
        let id = http_id(stream);
        let key = self.quic.key();
        // QUIC keeps what arrives, up to the window of the stream.
        if self.handled.is_held(id) {
            return Ok(());
        }

        let now = cx.clock.now;
        cx.http3().heads.set_time(now);

        // Without validation, the address could be forged.
        let client = if needs_address(cx) { self.quic.validated_address() } else { None };
        let is_early = self.quic.is_handshaking();
        let has_routes = cx.routes.is_some();
        let http = &mut self.http;
        let handled = &mut self.handled;

        // Read the frames that have arrived. The closure borrows the connection and can therefore only
        // write the response to the worker's output; the rest is done below.
        let mut progress = Ok(RequestProgress::Continues);
        let mut urgency = None;
        let mut is_answered = false;
        let mut sending = SendTime::Now;
        let outcome = self.quic.read(stream, |mut bytes| {
            // Once the input is used up, there is nothing more to find out.
            while progress == Ok(RequestProgress::Continues) && !bytes.is_empty() {
                match http.next_request(id, &mut bytes, cx.http3().heads) {
                    Ok(Step::More) => return,

                    // The head is complete, so the request can be passed to its handler or the site.
                    Ok(Step::Request(priority)) => {
                        if is_early {
                            sending = SendTime::from_early_request(cx);
                        }
                        let outcome = if has_routes {
                            handled::begin(http, id, key, &client, handled, cx)
                        } else {
                            StreamOutcome::Site
                        };
                        is_answered = match outcome {
                            StreamOutcome::Site => {
                                respond(http, id, None, &client, cx);
                                true
                            }
                            StreamOutcome::Answered => true,
                            StreamOutcome::Later => false,
                        };
                        urgency = Some(priority);
                    }
                    Ok(Step::Refused(priority, refusal)) => {
                        respond(http, id, Some(refusal), &client, cx);
                        is_answered = true;
                        urgency = Some(priority);
                    }

                    // The content is too long for the handler. We are going to respond with an error, so the
                    // rest of the stream is not needed.
                    Ok(Step::TooLong) => {
                        let outcome = handled::finish_content(http, id, key, &client, false, handled, cx);
                        is_answered = outcome == StreamOutcome::Answered;
                        progress = Ok(RequestProgress::Stopped);
                    }

                    // Either the rest is not worth reading, or an error ends the stream or the connection.
                    Ok(Step::Stop) => progress = Ok(RequestProgress::Stopped),
                    Ok(Step::Reset(code)) => progress = Ok(RequestProgress::Reset(code)),
                    Err(code) => progress = Err(code),
                }
            }
        });

        // Set the priority first because it decides when the response is sent.
        if let Some(priority) = urgency {
            self.is_active = true;
            set_priority(&mut self.quic, stream, priority);
        }
        if is_answered {
            self.write_response(stream, sending, cx, bodies);
        } else {
            self.write_interim(stream, cx, bodies);
        }

        // End the request if its frames require that. Otherwise, see if the stream has ended.
        match progress? {
            RequestProgress::Continues => {}
            RequestProgress::Stopped => {
                // The response might still follow.
                let _ = self.quic.stop(stream, ErrorCode::None.number());
                return Ok(());
            }
            RequestProgress::Reset(code) => {
                self.reset(stream, code);
                return Ok(());
            }
        }

        match outcome {
            ReadOutcome::Blocked | ReadOutcome::Closed => Ok(()),
            ReadOutcome::Finished => self.end_request(stream, &client, cx, bodies),
            ReadOutcome::Reset(_) => {
                self.reset(stream, ErrorCode::RequestCancelled);
                self.http.cancel_request(id)
            }
        }
    }

    /// Handles the end of a request stream. This may write the response of a handler that was waiting
    /// for the content.
    fn end_request(
        &mut self,
        stream: StreamId,
        client: &Option<SocketAddr>,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) -> Result<(), ErrorCode> {
        let id = http_id(stream);
        match self.http.end_request(id)? {
            RequestEnd::Complete => {}
            RequestEnd::Received => {
                let key = self.quic.key();
                let handled = &mut self.handled;
                let outcome = handled::finish_content(&mut self.http, id, key, client, true, handled, cx);
                if outcome == StreamOutcome::Answered {
                    self.write_response(stream, SendTime::Now, cx, bodies);
                }
            }
            RequestEnd::Reset(code) => self.reset(stream, code),
        }
        Ok(())
    }

    fn read_unidirectional(&mut self, stream: StreamId, cx: &mut WorkerContext) -> Result<(), ErrorCode> {
        let id = http_id(stream);
        self.http.set_stream_limit(self.quic.stream_limit());
        let http = &mut self.http;
        let mut reading = Ok(Reading::Continues);
        let outcome = self.quic.read(stream, |bytes| {
            if reading == Ok(Reading::Continues) {
                reading = http.read_unidirectional(id, bytes, cx.http3().heads);
            }
        });

        if let Reading::Stops(code) = reading? {
            self.stop(stream, code);
            return Ok(());
        }

        for (id, priority) in self.http.take_priorities() {
            set_priority(&mut self.quic, StreamId::new(id.number()), priority);
        }

        match outcome {
            ReadOutcome::Blocked | ReadOutcome::Closed => Ok(()),
            ReadOutcome::Finished | ReadOutcome::Reset(_) => self.http.end_unidirectional(id),
        }
    }

    /// Writes the response in the worker's output, as far as it fits into the client's windows. It has
    /// to wait if other responses are already waiting for room, since these may come first.
    fn write_response(
        &mut self,
        stream: StreamId,
        sending: SendTime,
        cx: &mut WorkerContext,
        bodies: &mut Bodies,
    ) {
        let since = cx.release.since;
        let ResponseContext { output, content, .. } = cx.http3().response;
        let (inline, segments) = output.parts();
        let copied_bytes = inline.len();

        if segments.iter().any(|segment| matches!(segment, Segment::Archive(..))) {
            self.archive_streams.push((stream, since));
        }
        // Most requests are answered in order, and each of them once.
        if self.unacknowledged.last().is_none_or(|(last, _)| *last < stream) {
            self.unacknowledged.push((stream, copied_bytes));
        } else {
            match self.find_unacknowledged(stream) {
                Ok(index) => {
                    let bytes = &mut self.unacknowledged[index].1;
                    *bytes = bytes.saturating_add(copied_bytes);
                }
                Err(index) => self.unacknowledged.insert(index, (stream, copied_bytes)),
            }
        }

        let pieces = bodies.pieces(output, content);
        let outcome = match sending {
            SendTime::Now if self.responses.is_empty() => self.quic.write(stream, pieces),
            SendTime::Now => {
                self.may_continue = true;
                WriteOutcome::Blocked
            }
            SendTime::AfterHandshake => WriteOutcome::Blocked,
        };

        match outcome {
            WriteOutcome::Complete => self.finish(stream),
            WriteOutcome::Blocked => {
                pieces.retain(|piece| !piece.is_empty());
                let pieces = std::mem::take(pieces);
                self.responses.push(Response { stream, pieces, copied_bytes, sending, is_continued: false });
            }
            WriteOutcome::Stopped(_) => self.reset(stream, ErrorCode::RequestCancelled),
            WriteOutcome::Closed => self.forget_response(stream),
        }
        pieces.clear();
    }

    /// Writes an interim response that is in the worker's output, if there is one.
    fn write_interim(&mut self, stream: StreamId, cx: &mut WorkerContext, bodies: &mut Bodies) {
        let ResponseContext { output, content, .. } = cx.http3().response;
        if output.is_empty() {
            return;
        }
        let pieces = bodies.pieces(output, content);
        let length = |pieces: &[Bytes]| pieces.iter().map(Bytes::len).sum::<usize>();
        let before = length(pieces);
        let outcome = self.quic.write(stream, pieces);
        let left = length(pieces);
        pieces.clear();
        // The client may do without an interim response, but not with a part of one. It takes a strange window to get there.
        if outcome == WriteOutcome::Blocked && left < before {
            self.reset(stream, ErrorCode::Internal);
        }
    }

    /// Continues the responses that are waiting, in order, if there might be room for them.
    ///
    /// If there is only room for one and several responses take turns, then we start with one that was not
    /// continued the last time.
    fn continue_responses(&mut self) {
        if !std::mem::take(&mut self.may_continue) {
            return;
        }
        let mut responses = std::mem::take(&mut self.responses);
        responses.sort_by_cached_key(|response| std::cmp::Reverse(self.quic.priority(response.stream)));
        responses.retain_mut(|response| self.continue_response(response) == Continued::Waits);
        responses.sort_by_key(|response| response.is_continued);
        self.responses = responses;
    }

    /// Continues a response if it is not waiting for the end of the handshake.
    fn continue_response(&mut self, response: &mut Response) -> Continued {
        let Response { stream, sending, .. } = *response;
        response.is_continued = false;
        if sending == SendTime::AfterHandshake && self.quic.is_handshaking() {
            return Continued::Waits;
        }

        let before = response.length();
        match self.quic.write(stream, &mut response.pieces) {
            WriteOutcome::Complete => self.finish(stream),
            WriteOutcome::Blocked => {
                response.pieces.retain(|piece| !piece.is_empty());
                response.is_continued = response.length() < before;
                return Continued::Waits;
            }
            WriteOutcome::Stopped(_) => self.reset(stream, ErrorCode::RequestCancelled),
            WriteOutcome::Closed => self.forget_response(stream),
        }
        Continued::Ended
    }

    /// Ends a response once all of it was written. Does nothing if a handler might still have more of the
    /// body.
    fn finish(&mut self, stream: StreamId) {
        if self.has_open_body(stream) {
            return;
        }
        // This only fails if the client is not interested any more.
        let _ = self.quic.finish(stream);
    }

    /// Must be called when the client is not interested in a response any more.
    fn stop_response(&mut self, stream: StreamId) -> Result<(), ErrorCode> {
        if stream.direction() == Direction::Unidirectional {
            // Our own streams must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2).
            return Err(ErrorCode::ClosedCriticalStream);
        }
        self.reset(stream, ErrorCode::RequestCancelled);
        self.http.stop_response()
    }

    /// Ends a request stream early, in both directions.
    fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        self.responses.retain(|response| response.stream != stream);
        self.forget_response(stream);
        if self.handled.is_used() {
            self.handled.bodies.retain(|(open, _)| open.number() != stream.number());
        }
        // These fail if the direction has already ended.
        let _ = self.quic.reset(stream, code.number());
        self.stop(stream, code);
    }

    /// Must be called when no more of a response will be sent and its archive and memory are no longer
    /// needed.
    fn forget_response(&mut self, stream: StreamId) {
        if let Some(index) = self.archive_streams.iter().position(|(open, _)| *open == stream) {
            self.archive_streams.swap_remove(index);
        }
        if let Ok(index) = self.find_unacknowledged(stream) {
            self.unacknowledged.remove(index);
        }
    }

    /// Returns the index of a stream, or where it would be inserted.
    fn find_unacknowledged(&self, stream: StreamId) -> Result<usize, usize> {
        self.unacknowledged.binary_search_by_key(&stream, |(known, _)| *known)
    }

    /// Stops reading a stream.
    fn stop(&mut self, stream: StreamId, code: ErrorCode) {
        // This only fails if all of the stream was read.
        let _ = self.quic.stop(stream, code.number());
        self.http.stop_reading(http_id(stream));
    }

    /// Sends QPACK instructions caused by requests and responses.
    fn flush_qpack(&mut self) -> Result<(), ErrorCode> {
        if let Phase::Open(own) = &mut self.phase {
            let (quic, start) = (&mut self.quic, h3::Connection::encoder_stream_start);
            own.qpack_encoder.write(quic, self.http.take_encoder_stream(), start)?;
            let start = h3::Connection::decoder_stream_start;
            own.qpack_decoder.write(quic, self.http.take_decoder_stream(), start)?;
        }
        Ok(())
    }

    fn flush_own(&mut self, stream: StreamId) {
        if let Phase::Open(own) = &mut self.phase {
            own.control.flush(&mut self.quic, stream);
            own.qpack_encoder.flush(&mut self.quic, stream);
            own.qpack_decoder.flush(&mut self.quic, stream);
        }
    }

    /// Closes the connection because of a client error (RFC 9114 §8).
    #[cold]
    fn fail(&mut self, code: ErrorCode, cx: &mut WorkerContext) {
        cx.http3().response.output.clear();
        self.close(code, CloseReason::Broken, cx);
    }

    fn close(&mut self, code: ErrorCode, reason: CloseReason, cx: &WorkerContext) {
        if !self.is_closed() {
            self.quic.close(cx.clock.now, code.number(), b"");
            self.drop_responses();
            self.close_reason = reason;
        }
    }

    /// Frees memory that an idle connection does not need. Must be called every second, before counting
    /// packets.
    pub(super) fn free_unused(&mut self) {
        // While the connection is in use, it would have to allocate the memory again.
        if self.has_run || !std::mem::replace(&mut self.may_have_unused, false) {
            return;
        }
        self.quic.free_unused();
        self.http.free_unused();
        self.responses.shrink_to_fit();
        self.unacknowledged.shrink_to_fit();
        self.archive_streams.shrink_to_fit();
    }

    /// Begins the last phase, in which nothing is sent any more. Handlers learn that their clients are gone.
    fn drop_responses(&mut self) {
        self.phase = Phase::Closed;
        self.responses = Vec::new();
        self.archive_streams = Vec::new();
        self.handled = Handled::default();
    }

    /// Counts packets since the last call.
    pub(super) fn count_packets(&mut self, observer: &mut Observer) {
        if !std::mem::replace(&mut self.has_run, false) {
            return;
        }
        let Stats { sent_packets: sent, lost_packets: lost, migrations, .. } = self.quic.stats();
        let before = std::mem::replace(&mut self.counted, CountedPackets { sent, lost, migrations });
        observer.count_http3(Http3Metric::PacketsSent, sent.saturating_sub(before.sent));
        observer.count_http3(Http3Metric::PacketsLost, lost.saturating_sub(before.lost));
        observer.count_http3(Http3Metric::Migrations, migrations.saturating_sub(before.migrations).into());
    }

    /// Closes a connection without any requests.
    pub(super) fn end_idle(&mut self, cx: &WorkerContext) {
        let reason = if cx.is_draining() { CloseReason::InOrder } else { CloseReason::TimedOut };
        self.close(ErrorCode::None, reason, cx);
    }

    /// Closes the connection because the client is too slow.
    pub(super) fn time_out(&mut self, cx: &WorkerContext) {
        self.close(ErrorCode::None, CloseReason::TimedOut, cx);
    }

    /// Closes the connection to free memory. It will be removed in its next run.
    pub(super) fn shed(&mut self, cx: &WorkerContext) {
        self.close(ErrorCode::ExcessiveLoad, CloseReason::Shed, cx);
        self.quic.abandon(cx.clock.now, ErrorCode::ExcessiveLoad.number());
    }

    /// Starts a graceful shutdown. Requests that the client has already sent will be answered.
    pub(super) fn begin_drain(&mut self, cx: &WorkerContext) {
        self.announce_end();
        if self.wait == Wait::Request {
            self.deadline = cx.clock.idle_until;
        }
    }

    fn announce_end(&mut self) {
        if let Phase::Open(own) = &mut self.phase
            && own.shutdown == Shutdown::NotBegun
        {
            own.shutdown = Shutdown::Announced;
            let mut goaway = Vec::new();
            self.http.announce_end(&mut goaway);
            own.control.write(&mut self.quic, goaway);
        }
    }

    /// Announces the end of the connection if it has been sending from an old release for too long.
    /// Otherwise, a client could pin a release by stalling one response while reading others.
    fn retire(&mut self, cx: &WorkerContext) {
        let is_outdated = cx.clock.now >= cx.release.since + OLD_RELEASE_TIMEOUT
            && self.archive_streams.iter().any(|(_, since)| *since < cx.release.since);
        if is_outdated && self.retiring_since.is_none() {
            self.retiring_since = Some(cx.clock.now);
            self.announce_end();
        }
    }

    /// Once the shutdown has been announced for a second, refuses further requests.
    fn continue_drain(&mut self, cx: &WorkerContext) {
        let is_known = self.retiring_since.is_some_and(|since| cx.clock.now >= since + DRAIN_GRACE);
        if let Phase::Open(own) = &mut self.phase
            && own.shutdown == Shutdown::Announced
            && (is_known || cx.is_drain_known())
        {
            own.shutdown = Shutdown::Final;
            let mut goaway = Vec::new();
            self.http.stop_requests(&mut goaway);
            own.control.write(&mut self.quic, goaway);
        }
    }
}

/// Progress of reading a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestProgress {
    /// There may be more.
    Continues,
    /// The rest of the content is not worth reading.
    Stopped,
    /// The stream must be reset with this code.
    Reset(ErrorCode),
}

/// When to send a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendTime {
    Now,
    AfterHandshake,
}

impl SendTime {
    /// Returns when to respond to the early request that was just read.
    #[cold]
    fn from_early_request(cx: &mut WorkerContext) -> SendTime {
        if !matches!(cx.http3().heads.head().request.method, Method::Get | Method::Head) {
            return SendTime::AfterHandshake;
        }
        cx.observer.count_http3(Http3Metric::EarlyRequests, 1);
        SendTime::Now
    }
}

/// Returns `true` if we need client addresses. Only handlers and some observers use them.
fn needs_address(cx: &WorkerContext) -> bool {
    cx.observer.needs_peer_addresses() || cx.routes.is_some()
}

/// Returns the ID that the HTTP/3 state machine uses for a stream.
fn http_id(stream: StreamId) -> h3::StreamId {
    h3::StreamId::new(stream.number())
}

fn set_priority(quic: &mut quic::Connection, stream: StreamId, priority: Priority) {
    // This only fails if the response is complete.
    let _ = quic.set_priority(stream, send_order(stream, priority));
}

/// Writes the response to a request to the worker's output. The request may have been refused.
fn respond(
    http: &mut h3::Connection,
    stream: h3::StreamId,
    refusal: Option<Refusal>,
    client: &Option<SocketAddr>,
    cx: &mut WorkerContext,
) {
    let RequestContext { heads, scratch, response } = cx.http3();
    let ResponseContext { content, fields, output, observer, .. } = response;
    let mut head = RequestHead::EMPTY;
    heads.put_head(&mut head);
    let incoming = IncomingRequest {
        exchange: OnStream { http, stream, head: &head },
        peer: client,
        tls: Some(Version::Tls13),
        https_port: None,
        fields,
    };
    match refusal {
        None => content.answer(incoming, scratch, output, observer),
        Some(refusal) => content.refuse(refusal, incoming, output, observer),
    }
}
