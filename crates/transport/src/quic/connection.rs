//! A QUIC connection, which takes datagrams and timeouts, and returns events, stream data, and datagrams to
//! be sent.

// Addresses that may be forged.
mod addresses;

// Limits the work that a peer can cause.
pub(super) mod budget;

// Counts the memory of data that waits for earlier data.
mod unread;

// Buffers for received datagrams.
pub(super) mod buffers;

// Datagrams, with their addresses.
pub(super) mod datagram;

// Identifiers of streams, and results of using them.
pub(super) mod stream;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    ConnectionError, ConnectionHandle, ConnectionStats, Dir, ReadError, StreamEvent, VarInt, WriteError,
};

use self::addresses::Addresses;
use self::budget::{Budget, TokenBucket, Work};
use self::buffers::buffer_bytes;
use self::datagram::Transmit;
use self::stream::{Direction, ReadOutcome, StreamClosed, StreamId, WriteOutcome, error_code};
use self::unread::{Unread, table_bytes};
use super::crypto::session::SessionState;
use super::packets::records::{Records, SealLimit};
use crate::HandshakeKind;
use crate::limits::{
    QUIC_AMPLIFICATION_MAX, QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST, QUIC_BIDIRECTIONAL_STREAMS_MAX,
    QUIC_CONNECTION_WINDOW_BYTES, QUIC_FOREIGN_DATAGRAMS_MAX, QUIC_FOREIGN_DATAGRAMS_PER_SECOND,
    QUIC_HANDSHAKE_DATAGRAM_BYTES, QUIC_HANDSHAKE_GAP_BYTES_MAX,
};

/// A connection accepted by an endpoint.
///
/// After each call that changes the connection, callers should take its [events](Self::next_event), call
/// [`Endpoint::maintain`](super::Endpoint::maintain), send its [datagrams](Self::poll_transmit), and set a
/// timer for its [timeout](Self::timeout). The connection can be dropped once it [is
/// drained](Self::is_drained); in order to drop it earlier, pass it to
/// [`Endpoint::remove`](super::Endpoint::remove).
pub struct Connection {
    pub(super) quinn: Box<quinn_proto::Connection>,
    pub(super) key: ConnectionKey,
    /// `true` while the endpoint routes datagrams to this connection. After that, the key can be reused.
    pub(super) is_registered: bool,
    /// Records of the session.
    records: Arc<Records>,
    /// Length of the datagram that started the connection. `None` once the peer's address is validated.
    ///
    /// While an address may be forged, we MUST NOT send it more than three times as much as it has sent to
    /// us (RFC 9000 §8.1). `quinn-proto` also has this limit, but may exceed it by up to one datagram.
    unvalidated_first_bytes: Option<u64>,
    addresses: Addresses,
    /// Limits datagrams from addresses that the peer has not proved. Such a datagram may be the first after a
    /// migration or probe a new path (RFC 9000 §8.2, §9.3). `None` before the first one.
    foreign: Option<Box<TokenBucket>>,
    budget: Budget,
    unread: Unread,
    /// Reads that have returned some data or the end of a stream. Every [`READ_BYTES`] count as another
    /// one.
    reads: u64,
    migrations: u32,
    /// Maximum number of bidirectional streams that the peer may have open at the same time.
    streams_permitted: u32,
    /// Limit for what the peer may send on all streams together.
    receive_window: VarInt,
    /// Unidirectional streams that we have opened (these are never closed).
    own_streams: usize,
    /// Bidirectional streams that we have accepted.
    streams_accepted: u64,
    /// Whether the peer's address has changed since we last sent something.
    has_moved: bool,
    /// `true` if we should send a short PATH_CHALLENGE because the address's allowance is less than a
    /// full datagram.
    needs_challenge: bool,
    /// Whether the connection should be dropped immediately after sending its last datagram, without
    /// waiting for late ones.
    pub(super) is_abandoned: bool,
    /// Whether the peer has closed the connection, and we have returned an event for that.
    pub(super) is_closed_by_peer: bool,
}

/// Approximate amount of content in a packet.
const READ_BYTES: usize = 1024;

/// Maximum number of datagrams to addresses that may be forged which we let `quinn-proto` lose per
/// call.
const LOST_DATAGRAMS_MAX: usize = 8;

/// Upper bound, in bytes, for the memory of handshake messages that are waiting for earlier ones. They
/// have three levels, and `quinn-proto` also keeps some before it copies them together.
const HANDSHAKE_MEMORY_MAX: u64 = 3 * (QUIC_HANDSHAKE_GAP_BYTES_MAX as u64 + 32 * 1024);

/// Memory that a packet takes until it is acknowledged, in bytes.
const SENT_PACKET_BYTES: u64 = 200;

/// Memory, in bytes, of a range of stream data that was acknowledged before earlier data, including the
/// gap before it.
const ACKNOWLEDGED_RANGE_BYTES: u64 = 40;

/// Maximum number of packets that an idle connection may have sent since the last one that was
/// acknowledged.
const SENT_PACKETS_WHEN_IDLE: u64 = 16;

/// Identifies a connection for as long as it is registered with an endpoint, which will reuse the key after
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionKey(pub(super) usize);

/// A datagram for a connection.
#[derive(Debug)]
pub struct ConnectionEvent {
    pub(super) quinn: quinn_proto::ConnectionEvent,
    pub(super) source: SocketAddr,
    pub(super) now: Instant,
    /// Length of the datagram.
    pub(super) bytes: usize,
}

impl ConnectionKey {
    /// Returns the key as an index. The indexes of an endpoint are dense.
    pub const fn index(self) -> usize {
        self.0
    }

    pub(super) fn to_quinn(self) -> ConnectionHandle {
        ConnectionHandle(self.0)
    }
}

/// Something that callers need to react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Established,
    /// The peer has opened streams. Callers should accept and read them because there will be no events for
    /// data that has already arrived.
    StreamsOpened(Direction),
    /// Data has arrived on a stream, or the end.
    Readable(StreamId),
    /// A blocked write can continue.
    Writable(StreamId),
    /// The peer does not want any more data on a stream, and gave us this code.
    Stopped(StreamId, u64),
    /// The peer has acknowledged everything on a stream.
    Finished(StreamId),
    /// More streams can be opened.
    StreamsAvailable(Direction),
    /// The peer has sent too many packets without any effect. Callers should close the connection, after
    /// which any further datagrams are ignored.
    BudgetExceeded,
    /// The connection has ended. This event does not follow [`Connection::close`].
    Closed(CloseReason),
}

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer was silent for longer than the idle timeout.
    #[error("the peer was silent for too long")]
    TimedOut,
    /// The peer's application has closed the connection with this code.
    #[error("the peer closed the connection with application code {0:#x}")]
    ByApplication(u64),
    /// The peer's transport has closed the connection with this code (RFC 9000 §20.1).
    #[error("the peer closed the connection with transport code {0:#x}")]
    ByTransport(u64),
    /// The peer does not remember the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer has violated the protocol, or both sides have no cryptography in common. It was sent this
    /// code.
    #[error("the peer violated the QUIC protocol: {reason} ({code:#x})")]
    Violation {
        /// The transport error code.
        code: u64,
        /// Describes the violation, in words of the library.
        reason: String,
    },
    /// We could not create the connection.
    #[error("internal QUIC error: {0}")]
    Internal(String),
}

/// Measurements of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Smoothed round trip time.
    pub round_trip: Duration,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that were declared lost.
    pub lost_packets: u64,
    /// Bytes sent, in datagrams.
    pub sent_bytes: u64,
    /// Bytes received, in datagrams.
    pub received_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// STREAM frames received. Datagrams without any are cheap for the peer, but expensive for us.
    pub received_stream_frames: u64,
    /// Congestion window in bytes.
    pub congestion_window_bytes: u64,
    /// Maximum datagram size of the path, in bytes.
    pub path_bytes_max: u16,
    /// Changes of the peer's address.
    pub migrations: u32,
}

/// Stream data in a connection's packets. The end of a stream counts as a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes that the peer has acknowledged. They count twice if they were sent twice and both packets
    /// arrived.
    pub acknowledged_bytes: u64,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub unacknowledged_bytes: u64,
}

impl Connection {
    /// Creates a connection. `first_bytes` is the number of bytes that the peer has sent, or `None` if its
    /// address is already validated.
    pub(super) fn new(
        key: ConnectionKey,
        quinn: quinn_proto::Connection,
        first_bytes: Option<usize>,
    ) -> Self {
        let quinn = Box::new(quinn);
        let records = session_state(&quinn).map(|state| state.records).unwrap_or_default();
        let mut addresses = Addresses::default();
        if first_bytes.is_none() {
            addresses.validate(quinn.remote_address());
        }

        Self {
            quinn,
            key,
            is_registered: true,
            records,
            unvalidated_first_bytes: first_bytes.map(|first_bytes| first_bytes as u64),
            addresses,
            foreign: None,
            budget: Budget::new(),
            unread: Unread::default(),
            reads: 0,
            migrations: 0,
            streams_permitted: QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST,
            receive_window: VarInt::from_u32(QUIC_CONNECTION_WINDOW_BYTES),
            own_streams: 0,
            streams_accepted: 0,
            has_moved: false,
            needs_challenge: false,
            is_abandoned: false,
            is_closed_by_peer: false,
        }
    }

    /// Returns the key that the endpoint uses for this connection.
    pub fn key(&self) -> ConnectionKey {
        self.key
    }

    /// Processes a datagram that the endpoint has routed to this connection.
    pub fn receive(&mut self, event: ConnectionEvent) {
        if self.budget.is_exceeded() {
            return;
        }
        let ConnectionEvent { source, now, bytes, .. } = event;
        self.note_validation();
        let address = self.remote_address();
        if source != address {
            // Clients MUST NOT migrate before the handshake is complete (RFC 9000 §9). While `quinn-proto`
            // would drop these packets, it would also count their bytes as if the client had sent them, and
            // could then send too much before the address is validated.
            if self.is_handshaking() {
                return;
            }
            if !self.addresses.is_validated(source) {
                let new = || TokenBucket::new(QUIC_FOREIGN_DATAGRAMS_MAX, QUIC_FOREIGN_DATAGRAMS_PER_SECOND);
                let foreign = self.foreign.get_or_insert_with(|| Box::new(new()));
                foreign.refill(now);
                if foreign.take(1).is_err() {
                    return;
                }
            }
        }

        // The address used for the handshake has its own limit.
        if self.unvalidated_first_bytes.is_none() && !self.addresses.is_validated(source) {
            self.addresses.receive(now, source, bytes, address);
        }

        self.records.begin_datagram(buffer_bytes(bytes));
        self.quinn.handle_event(event.quinn);
        self.look_at_packets();

        if self.remote_address() != address {
            self.migrations += 1;
            self.has_moved = true;
            self.needs_challenge = true;
        } else if source == address && !self.addresses.are_validated() {
            self.needs_challenge |= self.addresses.may_challenge(source);
        }

        self.budget.count_datagram();
        if self.budget.needs_settlement() {
            self.budget.settle(now, self.work());
        }
    }

    /// Looks at the contents of a datagram's packets.
    fn look_at_packets(&mut self) {
        let mut packets = self.records.lock();
        let mut is_excessive = false;
        for piece in &packets.pieces {
            is_excessive |= self.unread.add(piece).is_err();
        }
        packets.pieces.clear();
        for response in packets.take_path_responses() {
            self.addresses.answer(response);
        }
        if is_excessive {
            self.budget.exceed();
        }
    }

    /// Remembers the client's address once the handshake has proved it.
    fn note_validation(&mut self) {
        if self.unvalidated_first_bytes.is_some() {
            let is_established = !self.is_handshaking() && !self.is_closed();
            if is_established || self.records.has_opened_handshake() {
                self.unvalidated_first_bytes = None;
                self.addresses.validate(self.remote_address());
            }
        }
    }

    /// The memory that the peer's packets take, in bytes.
    ///
    /// This includes data that has not been read, handshake messages that are waiting for earlier ones,
    /// packets of ours that have not been acknowledged, and ranges of our data with gaps in between. For an
    /// idle connection, it is zero.
    pub fn kept_bytes(&mut self) -> u64 {
        let quinn = &mut self.quinn;
        let unread = self.unread.bytes(|id| {
            let id = StreamId::new(id);
            id.is_readable() && quinn.recv_stream(id.to_quinn()).read(true).is_ok()
        });

        let mut packets = self.records.lock();
        let (pieces, bytes) = packets.waiting_handshake();
        let handshake = u64::from(bytes).min(HANDSHAKE_MEMORY_MAX) + table_bytes(pieces);
        let sent = packets.unacknowledged().saturating_sub(SENT_PACKETS_WHEN_IDLE);

        // Upper bound for the number of ranges of our data that the peer has acknowledged before earlier
        // data, e.g. by leaving out every second packet.
        if packets.delivery.lost() > 0 && self.quinn.streams().send_streams() <= self.own_streams {
            packets.delivery.forget_lost();
        }
        let ranges = packets.delivery.lost();
        drop(packets);

        // During the handshake, few packets are acknowledged.
        let in_handshake = if self.is_handshaking() { self.quinn.stats().path.sent_packets } else { 0 };
        unread + handshake + (sent + in_handshake) * SENT_PACKET_BYTES + ranges * ACKNOWLEDGED_RANGE_BYTES
    }

    /// Frees memory that the connection does not need until more packets arrive. Callers should do this once
    /// the connection is idle.
    pub fn free_unused(&mut self) {
        self.unread.free_unused();
        self.records.lock().free_unused();
    }

    /// Returns the work that the connection and its peer have done so far.
    fn work(&self) -> Work {
        let stats = self.quinn.stats();
        Work {
            packets: self.records.packets(),
            received_frames: received_frames(&stats),
            key_phases: self.records.key_phases(),
            reads: self.reads,
            sent_stream_frames: stats.frame_tx.stream,
            sent_bytes: stats.udp_tx.bytes,
        }
    }

    /// Processes expired timers (if any). However, this does nothing while some datagrams must be sent
    /// first.
    pub fn handle_timeout(&mut self, now: Instant) {
        // The timer for lost packets still belongs to the peer's previous address. When it expires, a debug
        // assertion in `quinn-proto` requires a packet in flight to the new address, which will only be true
        // after we have sent something.
        if self.has_moved {
            return;
        }
        let address = self.remote_address();
        self.quinn.handle_timeout(now);
        if self.remote_address() != address {
            // The new address has not answered, so we are using the old one again. The timer now belongs to a
            // different address, for the same reason as above.
            self.has_moved = true;
            self.quinn.ping();
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next. Any other call may change this.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.quinn.poll_timeout()
    }

    /// Clears `buffer` and writes up to `segments_max` datagrams of the same length to it.
    ///
    /// Callers should repeat this until it returns `None`, which means that the connection is waiting for a
    /// datagram, a timeout, or another call.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buffer.clear();
        // `quinn-proto` would respond with CONNECTION_CLOSE, which is optional (RFC 9000 §10.2.2). A client
        // that has already closed its socket would then respond with ICMP.
        if self.is_closed_by_peer {
            return None;
        }

        let segments_max = segments_max.min(self.segments_allowed()?);
        if self.addresses.are_validated() && !self.has_moved {
            return self.quinn.poll_transmit(now, segments_max.get(), buffer).map(Transmit::from);
        }
        self.poll_limited_transmit(now, segments_max, buffer)
    }

    /// Like `poll_transmit`, but while the peer has addresses that may be forged. Datagrams that must not
    /// be sent are treated as lost.
    #[cold]
    fn poll_limited_transmit(
        &mut self,
        now: Instant,
        segments_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for _ in 0..LOST_DATAGRAMS_MAX {
            let address = self.remote_address();
            let allowance = self.addresses.allowance(address);
            let (limit, segments) = match allowance {
                None => {
                    let others = self.addresses.least_allowance_of_others(address);
                    let bytes = others.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
                    (bytes.map_or(SealLimit::None, SealLimit::OtherAddress), segments_max.get())
                }
                Some(allowance) => {
                    // After each move, we need to ask `quinn-proto` at least once because its timers expect
                    // a packet on the new path.
                    let is_enough = allowance >= u64::from(self.quinn.current_mtu());
                    if !is_enough && !self.has_moved && !self.needs_challenge {
                        return None;
                    }
                    (SealLimit::Bytes(usize::try_from(allowance).unwrap_or(usize::MAX)), 1)
                }
            };

            self.has_moved = false;
            self.records.set_limit(limit);
            buffer.clear();
            let transmit = self.quinn.poll_transmit(now, segments, buffer);
            let sealed = self.records.lock().take_sealed();
            self.records.set_limit(SealLimit::None);
            let Some(transmit) = transmit else {
                self.needs_challenge = false;
                return None;
            };

            let mut transmit = Transmit::from(transmit);
            let mut challenge = None;
            let mut is_mtu_probe = false;
            // We might have shortened the packet while it was sealed.
            if let Some(sealed) = sealed
                && transmit.segment_bytes.is_none()
                && transmit.bytes == sealed.assumed_bytes
            {
                transmit.bytes = sealed.bytes;
                buffer.truncate(sealed.bytes);
                challenge = sealed.challenge;
                is_mtu_probe = sealed.is_mtu_probe;
            }

            let is_validated = self.addresses.is_validated(transmit.destination);
            if challenge.is_some() && !is_validated {
                self.needs_challenge = false;
            }
            if is_mtu_probe && !is_validated {
                continue;
            }

            if self.addresses.send(transmit.destination, transmit.bytes, challenge) {
                return Some(transmit);
            }
        }
        self.needs_challenge = false;
        buffer.clear();
        None
    }

    /// The last address that the peer has proved (either by receiving something there or with a token),
    /// or `None` if there is none yet.
    pub fn validated_address(&mut self) -> Option<SocketAddr> {
        self.note_validation();
        self.addresses.last_validated()
    }

    /// The number of datagrams that may be sent to the peer's address during the handshake, or `None` if the
    /// peer must send more first.
    fn segments_allowed(&mut self) -> Option<NonZeroUsize> {
        self.note_validation();
        let Some(first_bytes) = self.unvalidated_first_bytes else { return Some(NonZeroUsize::MAX) };

        let stats = self.quinn.stats();
        let received = first_bytes + stats.udp_rx.bytes;
        let allowed = (QUIC_AMPLIFICATION_MAX * received).saturating_sub(stats.udp_tx.bytes);
        let segments = allowed / u64::from(QUIC_HANDSHAKE_DATAGRAM_BYTES);
        NonZeroUsize::new(usize::try_from(segments).unwrap_or(usize::MAX))
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.budget.take_report().is_some() && !self.is_closed() {
            return Some(Event::BudgetExceeded);
        }

        loop {
            let event = match self.quinn.poll()? {
                quinn_proto::Event::Connected => Event::Established,
                quinn_proto::Event::ConnectionLost { reason } => {
                    let reason = CloseReason::from(reason);
                    self.is_closed_by_peer =
                        matches!(reason, CloseReason::ByApplication(_) | CloseReason::ByTransport(_));
                    Event::Closed(reason)
                }
                quinn_proto::Event::Stream(event) => event.into(),
                // Handshake data is available on request, and we have disabled datagrams.
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => continue,
            };
            return Some(event);
        }
    }

    /// Accepts the next stream opened by the peer. There may already be some data, so callers should
    /// read it immediately.
    pub fn accept(&mut self, direction: Direction) -> Option<StreamId> {
        let mut streams = self.quinn.streams();
        let stream = StreamId::from(streams.accept(direction.to_quinn())?);
        self.streams_accepted += u64::from(direction == Direction::Bidirectional);

        let permitted = self.streams_permitted;
        if direction == Direction::Bidirectional
            && permitted < QUIC_BIDIRECTIONAL_STREAMS_MAX
            && streams.remote_open_streams(Dir::Bi) >= u64::from(permitted / 2)
        {
            self.streams_permitted = QUIC_BIDIRECTIONAL_STREAMS_MAX;
            self.quinn.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(QUIC_BIDIRECTIONAL_STREAMS_MAX));
        }
        Some(stream)
    }

    /// The total number of bidirectional streams that the peer may open, including those that are closed.
    /// Callers should first accept all streams that it has opened.
    pub fn stream_limit(&mut self) -> u64 {
        let open = self.quinn.streams().remote_open_streams(Dir::Bi);
        let permitted = self.quinn.max_concurrent_streams(Dir::Bi);
        self.streams_accepted.saturating_sub(open) + permitted
    }

    /// Opens a stream. Returns `None` if the peer does not allow any more of them or if the connection has
    /// ended.
    pub fn open(&mut self, direction: Direction) -> Option<StreamId> {
        let stream = self.quinn.streams().open(direction.to_quinn()).map(StreamId::from);
        self.own_streams += usize::from(stream.is_some() && direction == Direction::Unidirectional);
        stream
    }

    /// Reads data that has arrived on a stream, in order and in the same pieces as in the peer's packets.
    /// Reading allows the peer to send more.
    pub fn read(&mut self, id: StreamId, mut consume: impl FnMut(&[u8])) -> ReadOutcome {
        if !id.is_readable() {
            return ReadOutcome::Closed;
        }
        let mut stream = self.quinn.recv_stream(id.to_quinn());
        let Ok(mut chunks) = stream.read(true) else { return ReadOutcome::Closed };

        let mut unread = self.unread.stream(id.number());
        let mut bytes = 0;
        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    bytes += chunk.bytes.len();
                    if let Some(unread) = &mut unread {
                        unread.read(chunk.bytes.len(), chunk.offset + chunk.bytes.len() as u64);
                    }
                    consume(&chunk.bytes);
                }
                Ok(None) => break ReadOutcome::Finished,
                Err(ReadError::Blocked) => break ReadOutcome::Blocked,
                Err(ReadError::Reset(code)) => break ReadOutcome::Reset(code.into_inner()),
            }
        };
        // Since callers ask for datagrams after each call, we do not need to tell them about a new window
        // here.
        let _ = chunks.finalize();
        if matches!(outcome, ReadOutcome::Finished | ReadOutcome::Reset(_)) {
            self.unread.end(id.number());
        }
        if bytes > 0 || outcome == ReadOutcome::Finished {
            self.reads += 1 + (bytes / READ_BYTES) as u64;
        }
        outcome
    }

    /// Takes as much of `data` as the peer's windows allow without copying it. The taken bytes are removed
    /// from the start, which might leave some pieces empty.
    pub fn write(&mut self, id: StreamId, data: &mut [Bytes]) -> WriteOutcome {
        if !id.is_writable() {
            return WriteOutcome::Closed;
        }
        let mut stream = self.quinn.send_stream(id.to_quinn());
        let mut rest = data;
        while !rest.is_empty() {
            // A partial write needs to be followed by another one in order to register the stream for an
            // event.
            match stream.write_chunks(rest) {
                Ok(written) => rest = &mut rest[written.chunks..],
                Err(WriteError::Blocked) => return WriteOutcome::Blocked,
                Err(WriteError::Stopped(code)) => return WriteOutcome::Stopped(code.into_inner()),
                Err(WriteError::ClosedStream) => return WriteOutcome::Closed,
            }
        }
        WriteOutcome::Complete
    }

    /// Limits the number of bytes that can be written without being acknowledged. The default is to only
    /// bound them by the client's windows.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.quinn.set_send_window(bytes);
    }

    /// Limits the number of bytes that the peer may send on all streams together beyond what was read.
    pub fn set_receive_window(&mut self, bytes: u64) {
        let window = VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
        if self.receive_window != window {
            self.receive_window = window;
            self.quinn.set_receive_window(window);
        }
    }

    /// Ends a stream after everything that was written to it.
    ///
    /// # Errors
    /// Returns an error if the stream was already finished or reset, or if the peer has stopped it.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).finish().map_err(|_| StreamClosed)
    }

    /// Stops sending on a stream, with an application error code (RESET_STREAM).
    ///
    /// # Errors
    /// Returns an error if the stream was already reset, or if all of it was acknowledged.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).reset(error_code(code)).map_err(|_| StreamClosed)
    }

    /// Discards any data that the peer sends on a stream and asks the peer to stop, using an application
    /// error code (STOP_SENDING).
    ///
    /// # Errors
    /// Returns an error if the stream was already stopped, or if all of it was read.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), StreamClosed> {
        if !id.is_readable() {
            return Err(StreamClosed);
        }
        self.unread.end(id.number());
        self.quinn.recv_stream(id.to_quinn()).stop(error_code(code)).map_err(|_| StreamClosed)
    }

    /// Sets the priority of a stream. Data with a higher priority is sent first, while streams with the
    /// same priority take turns.
    ///
    /// # Errors
    /// Returns an error if the stream was already reset, or if all of it was acknowledged.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).set_priority(priority).map_err(|_| StreamClosed)
    }

    /// Returns the priority of a stream, or `None` if the stream was reset or all of it was
    /// acknowledged.
    pub fn priority(&mut self, id: StreamId) -> Option<i32> {
        if !id.is_writable() {
            return None;
        }
        self.quinn.send_stream(id.to_quinn()).priority().ok()
    }

    /// Returns the number of streams with unacknowledged data.
    pub fn unacknowledged_streams(&mut self) -> usize {
        self.quinn.streams().send_streams()
    }

    /// Returns the amount of stream data that is acknowledged, followed by the amount in flight.
    pub fn delivery(&self) -> Delivery {
        let packets = self.records.lock();
        Delivery {
            acknowledged_bytes: packets.delivery.acknowledged(),
            unacknowledged_bytes: packets.delivery.unacknowledged(),
        }
    }

    /// Asks the peer to acknowledge a packet (PING). Callers should then call
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn ping(&mut self) {
        self.quinn.ping();
    }

    /// Ends the connection with an application error code. It will be drained after three probe timeouts.
    pub fn close(&mut self, now: Instant, code: u64, reason: &'static [u8]) {
        self.quinn.close(now, error_code(code), Bytes::from_static(reason));
    }

    /// Like [`close`](Self::close), but frees the connection's memory as soon as the last datagram is sent.
    /// Any late datagrams from the peer will be answered with a stateless reset.
    pub fn abandon(&mut self, now: Instant, code: u64) {
        self.close(now, code, b"");
        self.is_abandoned = true;
    }

    /// Returns the address that the peer's datagrams come from. After a migration, it may be forged.
    pub fn remote_address(&self) -> SocketAddr {
        self.quinn.remote_address()
    }

    /// Returns `true` until the handshake is complete or the connection has ended.
    pub fn is_handshaking(&self) -> bool {
        self.quinn.is_handshaking()
    }

    /// Returns `true` if either side has ended the connection. It can no longer be read or written.
    pub fn is_closed(&self) -> bool {
        self.quinn.is_closed()
    }

    /// Whether the connection does not need any more datagrams or timeouts. It can then be dropped after a
    /// call of [`Endpoint::maintain`](super::Endpoint::maintain).
    ///
    /// If we have closed the connection, this takes three probe timeouts. It is the case immediately if the
    /// peer has closed the connection, or if it was [abandoned](Self::abandon) and its last datagram was
    /// sent.
    pub fn is_drained(&self) -> bool {
        self.is_closed_by_peer || self.is_abandoned || self.quinn.is_drained()
    }

    /// Returns the server name requested by the client (SNI).
    pub fn server_name(&self) -> Option<String> {
        session_state(&self.quinn)?.server_name
    }

    /// Returns the kind of the handshake. This is `Full` until it is complete.
    pub fn handshake_kind(&self) -> HandshakeKind {
        session_state(&self.quinn).map(|state| state.handshake_kind).unwrap_or_default()
    }

    /// Returns measurements of the connection.
    pub fn stats(&self) -> Stats {
        let stats = self.quinn.stats();
        Stats {
            round_trip: stats.path.rtt,
            sent_packets: stats.path.sent_packets,
            lost_packets: stats.path.lost_packets,
            sent_bytes: stats.udp_tx.bytes,
            received_bytes: stats.udp_rx.bytes,
            received_datagrams: stats.udp_rx.datagrams,
            received_stream_frames: stats.frame_rx.stream,
            congestion_window_bytes: stats.path.cwnd,
            path_bytes_max: stats.path.current_mtu,
            migrations: self.migrations,
        }
    }
}

/// Returns the number of frames received. PADDING is not counted.
fn received_frames(stats: &ConnectionStats) -> u64 {
    let frames = &stats.frame_rx;
    let on_streams = [
        frames.stream,
        frames.reset_stream,
        frames.stop_sending,
        frames.stream_data_blocked,
        frames.streams_blocked_bidi,
        frames.streams_blocked_uni,
        frames.max_stream_data,
        frames.max_streams_bidi,
        frames.max_streams_uni,
    ];

    let others = [
        frames.acks,
        frames.ack_frequency,
        frames.immediate_ack,
        frames.crypto,
        frames.connection_close,
        frames.data_blocked,
        frames.datagram,
        frames.max_data,
        frames.new_connection_id,
        frames.retire_connection_id,
        frames.path_challenge,
        frames.path_response,
        frames.ping,
    ];

    on_streams.iter().chain(&others).sum()
}

fn session_state(quinn: &quinn_proto::Connection) -> Option<Box<SessionState>> {
    quinn.crypto_session().handshake_data()?.downcast().ok()
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("key", &self.key)
            .field("remote_address", &self.remote_address())
            .field("is_handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

impl From<StreamEvent> for Event {
    fn from(event: StreamEvent) -> Self {
        match event {
            StreamEvent::Opened { dir } => Self::StreamsOpened(dir.into()),
            StreamEvent::Readable { id } => Self::Readable(id.into()),
            StreamEvent::Writable { id } => Self::Writable(id.into()),
            StreamEvent::Finished { id } => Self::Finished(id.into()),
            StreamEvent::Stopped { id, error_code } => Self::Stopped(id.into(), error_code.into_inner()),
            StreamEvent::Available { dir } => Self::StreamsAvailable(dir.into()),
        }
    }
}

impl From<ConnectionError> for CloseReason {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::ApplicationClosed(close) => Self::ByApplication(close.error_code.into_inner()),
            ConnectionError::ConnectionClosed(close) => Self::ByTransport(close.error_code.into()),
            ConnectionError::TransportError(error) => {
                Self::Violation { code: error.code.into(), reason: error.to_string() }
            }
            ConnectionError::VersionMismatch
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted => Self::Internal(error.to_string()),
        }
    }
}
