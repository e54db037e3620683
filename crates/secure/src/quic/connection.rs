//! One connection: takes datagrams and timeouts, and returns events, stream data and datagrams to send.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    ConnectionError, ConnectionHandle, ConnectionStats, Dir, ReadError, StreamEvent, VarInt, WriteError,
};

use super::addresses::Addresses;
use super::budget::{Budget, TokenBucket, Work};
use super::buffers::BUFFERED_BYTES_MIN;
use super::datagram::Transmit;
use super::records::{Records, SealLimit};
use super::session::SessionState;
use super::stream::{Direction, ReadOutcome, StreamClosed, StreamId, WriteOutcome, error_code};
use super::unread::{Unread, table_bytes};
use crate::HandshakeKind;
use crate::limits::{
    QUIC_AMPLIFICATION_MAX, QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST, QUIC_BIDIRECTIONAL_STREAMS_MAX,
    QUIC_FOREIGN_DATAGRAMS_MAX, QUIC_FOREIGN_DATAGRAMS_PER_SECOND, QUIC_HANDSHAKE_DATAGRAM_BYTES,
    QUIC_HANDSHAKE_GAP_BYTES_MAX, QUIC_RECEIVED_DATAGRAM_BYTES_MAX,
};

/// A connection that an endpoint accepted.
///
/// After each call that changes it, the caller takes its [events](Self::next_event), calls
/// [`Endpoint::maintain`](super::Endpoint::maintain), sends its [datagrams](Self::poll_transmit), and sets a timer for its
/// [timeout](Self::timeout). It is dropped once it [is drained](Self::is_drained), or passed to
/// [`Endpoint::remove`](super::Endpoint::remove) before.
pub struct Connection {
    pub(super) quinn: Box<quinn_proto::Connection>,
    pub(super) key: ConnectionKey,
    /// Whether the endpoint still routes to this connection. Its key may be reused once it doesn't.
    pub(super) is_registered: bool,
    /// The records of the session.
    records: Arc<Records>,
    /// The length of the datagram that started the connection, or `None` once the peer's address is validated.
    ///
    /// An address that may be forged is sent at most three times as much as it has sent (RFC 9000 §8.1). `quinn-proto` has
    /// this limit too, but exceeds it by up to a datagram.
    unvalidated_first_bytes: Option<u64>,
    addresses: Addresses,
    /// For datagrams from addresses that the peer hasn't proved to have. Such a datagram may be the first after a migration, or a
    /// probe of a new path (RFC 9000 §8.2, §9.3).
    foreign: TokenBucket,
    budget: Budget,
    unread: Unread,
    /// Reads of streams that have returned data, or their end. Each [`READ_BYTES`] count as another one.
    reads: u64,
    migrations: u32,
    /// How many bidirectional streams the peer may have open at once.
    streams_permitted: u32,
    /// How many unidirectional streams we have opened. They stay open.
    own_streams: usize,
    /// How many bidirectional streams were accepted.
    streams_accepted: u64,
    /// Whether the peer's address has changed since the last transmission.
    has_moved: bool,
    /// Whether to send a short PATH_CHALLENGE, because the address has less than a full datagram of allowance.
    needs_challenge: bool,
    /// Whether the connection is dropped without waiting for late datagrams once its last one was sent.
    pub(super) is_abandoned: bool,
    /// Whether the peer has closed the connection, and the event for it was returned.
    pub(super) is_closed_by_peer: bool,
}

/// Content in one packet, about.
const READ_BYTES: usize = 1024;

/// Datagrams to addresses that may be forged that are lost in one call.
const LOST_DATAGRAMS_MAX: usize = 8;

/// Memory of handshake messages that wait for earlier ones, in bytes: at three levels, and what `quinn-proto` keeps before it copies them
/// together.
const HANDSHAKE_MEMORY_MAX: u64 = 3 * (QUIC_HANDSHAKE_GAP_BYTES_MAX as u64 + 32 * 1024);

/// Memory of a sent packet until it is acknowledged, in bytes.
const SENT_PACKET_BYTES: u64 = 200;

/// Memory of a range of stream data that the peer has acknowledged before earlier data, in bytes, with the gap before it.
const ACKNOWLEDGED_RANGE_BYTES: u64 = 40;

/// Packets that an idle connection has sent after the last one that was acknowledged.
const SENT_PACKETS_WHEN_IDLE: u64 = 16;

/// Returns the memory of a received datagram, in bytes.
fn datagram_memory(bytes: usize) -> usize {
    if bytes < BUFFERED_BYTES_MIN { bytes } else { usize::from(QUIC_RECEIVED_DATAGRAM_BYTES_MAX) }
}

/// Refers to a connection of an endpoint while it is registered there. The endpoint reuses it after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionKey(pub(super) usize);

/// A datagram for a connection.
#[derive(Debug)]
pub struct ConnectionEvent {
    pub(super) quinn: quinn_proto::ConnectionEvent,
    pub(super) source: SocketAddr,
    pub(super) now: Instant,
    /// The length of the datagram.
    pub(super) bytes: usize,
}

impl ConnectionKey {
    /// Returns the key as an index: those of an endpoint are dense.
    pub const fn index(self) -> usize {
        self.0
    }

    pub(super) fn to_quinn(self) -> ConnectionHandle {
        ConnectionHandle(self.0)
    }
}

/// Something that the caller must react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done.
    Established,
    /// The peer opened streams. Each is to be accepted and read: data on it causes no event before.
    StreamsOpened(Direction),
    /// Data on a stream has arrived, or its end.
    Readable(StreamId),
    /// A write that was blocked can continue.
    Writable(StreamId),
    /// The peer wants no more data on a stream, and gave this code.
    Stopped(StreamId, u64),
    /// The peer has acknowledged all of a stream.
    Finished(StreamId),
    /// More streams may be opened.
    StreamsAvailable(Direction),
    /// The peer has sent too many packets without effect. The caller closes the connection, which ignores further datagrams.
    BudgetExceeded,
    /// The connection has ended. Not reported after [`Connection::close`].
    Closed(CloseReason),
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer was silent for longer than the idle timeout.
    #[error("the peer was silent for too long")]
    TimedOut,
    /// The peer's application closed the connection with this code.
    #[error("the peer closed the connection with application code {0:#x}")]
    ByApplication(u64),
    /// The peer's transport closed the connection with this code (RFC 9000 §20.1).
    #[error("the peer closed the connection with transport code {0:#x}")]
    ByTransport(u64),
    /// The peer has lost the connection's state.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer violated the protocol or shares no cryptography with us, and was sent this code.
    #[error("the peer violated the QUIC protocol: {reason} ({code:#x})")]
    Violation {
        /// The error code of the transport.
        code: u64,
        /// The violation, in words of the library.
        reason: String,
    },
    /// The connection could not be created.
    #[error("internal QUIC error: {0}")]
    Internal(String),
}

/// Measurements of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The smoothed round trip time.
    pub round_trip: Duration,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes of datagrams sent.
    pub sent_bytes: u64,
    /// Bytes of datagrams received.
    pub received_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// STREAM frames received. Datagrams without any cost the peer little and us more.
    pub received_stream_frames: u64,
    /// The congestion window in bytes.
    pub congestion_window_bytes: u64,
    /// The longest datagram that the path carries, in bytes.
    pub path_bytes_max: u16,
    /// How often the peer's address has changed.
    pub migrations: u32,
}

/// Stream data in the packets of a connection. The end of a stream counts as a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes that the peer has acknowledged. They count twice if they were sent twice, and both packets have arrived.
    pub acknowledged_bytes: u64,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub unacknowledged_bytes: u64,
}

impl Connection {
    /// Creates a connection. Its peer has sent `first_bytes` bytes, or has a validated address.
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
            foreign: TokenBucket::new(QUIC_FOREIGN_DATAGRAMS_MAX, QUIC_FOREIGN_DATAGRAMS_PER_SECOND),
            budget: Budget::new(),
            unread: Unread::default(),
            reads: 0,
            migrations: 0,
            streams_permitted: QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST,
            own_streams: 0,
            streams_accepted: 0,
            has_moved: false,
            needs_challenge: false,
            is_abandoned: false,
            is_closed_by_peer: false,
        }
    }

    /// Returns the key by which the endpoint refers to this connection.
    pub fn key(&self) -> ConnectionKey {
        self.key
    }

    /// Processes a datagram that the endpoint has routed to this connection.
    pub fn receive(&mut self, event: ConnectionEvent) {
        if self.budget.is_exceeded() {
            return;
        }
        let ConnectionEvent { quinn, source, now, bytes } = event;
        self.note_validation();
        let address = self.remote_address();
        if source != address {
            // A client may not move before the handshake is done (RFC 9000 §9). `quinn-proto` would drop the packets, but count
            // their bytes as if they came from the client, and send it more before its address is validated.
            if self.is_handshaking() {
                return;
            }
            if !self.addresses.is_validated(source) {
                self.foreign.refill(now);
                if self.foreign.take(1).is_err() {
                    return;
                }
            }
        }
        // The address in the handshake has a limit of its own.
        if self.unvalidated_first_bytes.is_none() && !self.addresses.is_validated(source) {
            self.addresses.receive(now, source, bytes, address);
        }

        self.records.lock().datagram_bytes = datagram_memory(bytes);
        self.quinn.handle_event(quinn);
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

    /// Looks at what the packets of a datagram contained.
    fn look_at_packets(&mut self) {
        let mut packets = self.records.lock();
        let mut is_excessive = false;
        for piece in packets.pieces.drain(..) {
            is_excessive |= self.unread.add(&piece).is_err();
        }
        for response in packets.path_responses.drain(..) {
            self.addresses.answer(response);
        }
        if is_excessive {
            self.budget.exceed();
        }
    }

    /// Remembers the client's address once the handshake shows that the client has it.
    fn note_validation(&mut self) {
        if self.unvalidated_first_bytes.is_some() {
            let is_established = !self.is_handshaking() && !self.is_closed();
            if is_established || self.records.has_opened_handshake() {
                self.unvalidated_first_bytes = None;
                self.addresses.validate(self.remote_address());
            }
        }
    }

    /// Returns the memory that the peer's packets take, in bytes: data that was not read, handshake messages that wait for earlier ones,
    /// packets of ours that were not acknowledged, and ranges of our data between which some is not. An idle connection has none.
    pub fn kept_bytes(&mut self) -> u64 {
        let quinn = &mut self.quinn;
        let unread = self.unread.bytes(|id| {
            let id = StreamId::new(id);
            id.is_readable() && quinn.recv_stream(id.to_quinn()).read(true).is_ok()
        });
        let (pieces, bytes) = self.records.waiting_handshake();
        let handshake = u64::from(bytes).min(HANDSHAKE_MEMORY_MAX) + table_bytes(pieces);
        // Of the packets in the handshake, few are acknowledged.
        let in_handshake = if self.is_handshaking() { self.quinn.stats().path.sent_packets } else { 0 };
        let sent =
            self.records.unacknowledged_packets().saturating_sub(SENT_PACKETS_WHEN_IDLE) + in_handshake;
        let ranges = self.acknowledged_ranges_max();
        unread + handshake + sent * SENT_PACKET_BYTES + ranges * ACKNOWLEDGED_RANGE_BYTES
    }

    /// Returns an upper bound of the ranges of our data that the peer has acknowledged before earlier data. A peer can leave out each
    /// second packet of all responses.
    fn acknowledged_ranges_max(&mut self) -> u64 {
        let mut delivery = self.records.delivery();
        if delivery.lost() > 0 && self.quinn.streams().send_streams() <= self.own_streams {
            delivery.forget_lost();
        }
        delivery.lost()
    }

    /// Returns the activity of the connection and its peer.
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

    /// Processes the timers that have expired. Has no effect if none has, or if datagrams must be sent before.
    pub fn handle_timeout(&mut self, now: Instant) {
        // The timer of lost packets still belongs to the peer's previous address. When it expires, `quinn-proto` expects a packet in
        // flight to the new one, a debug assertion. There is one after the next transmission.
        if self.has_moved {
            return;
        }
        let address = self.remote_address();
        self.quinn.handle_timeout(now);
        if self.remote_address() != address {
            // The new address hasn't answered, so that the old one is used again. The same timer belongs to the new address now.
            self.has_moved = true;
            self.quinn.ping();
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called next. It may change with every other call.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.quinn.poll_timeout()
    }

    /// Writes up to `segments_max` datagrams of the same length into `buffer`, which is cleared before. To be called until
    /// it returns `None`; then the connection waits for a datagram, a timeout or the caller.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buffer.clear();
        // `quinn-proto` would answer with CONNECTION_CLOSE, which is optional (RFC 9000 §10.2.2). Clients that have closed their socket
        // would answer that with ICMP.
        if self.is_closed_by_peer {
            return None;
        }
        let segments_max = segments_max.min(self.segments_allowed()?);
        if self.addresses.are_validated() && !self.has_moved {
            return self.quinn.poll_transmit(now, segments_max.get(), buffer).map(Transmit::from);
        }
        self.poll_limited_transmit(now, segments_max, buffer)
    }

    /// Writes datagrams while the peer has addresses that may be forged. Each datagram that may not be sent counts as lost.
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
                    // `quinn-proto` is asked at least once after each move: its timers expect a packet on the new path.
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
            let sealed = self.records.lock().sealed.take();
            self.records.set_limit(SealLimit::None);
            let Some(transmit) = transmit else {
                self.needs_challenge = false;
                return None;
            };

            let mut transmit = Transmit::from(transmit);
            let mut challenge = None;
            let mut is_mtu_probe = false;
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

    /// Returns the last address that the peer has proved to have: it has received something there, or has shown a token. Returns
    /// `None` before that.
    pub fn validated_address(&mut self) -> Option<SocketAddr> {
        self.note_validation();
        self.addresses.last_validated()
    }

    /// Returns how many datagrams may be sent to the peer's address in the handshake, or `None` if it must send more first.
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
                // Handshake data is available on request, and datagrams are disabled.
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => continue,
            };
            return Some(event);
        }
    }

    /// Accepts the next stream that the peer has opened. The caller reads it at once, since data may have arrived before.
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

    /// Returns how many bidirectional streams the peer may open in all, those that are closed included. All that it has opened were
    /// accepted.
    pub fn stream_limit(&mut self) -> u64 {
        let open = self.quinn.streams().remote_open_streams(Dir::Bi);
        let permitted = self.quinn.max_concurrent_streams(Dir::Bi);
        self.streams_accepted.saturating_sub(open) + permitted
    }

    /// Opens a stream. Returns `None` if the peer permits no more, or the connection has ended.
    pub fn open(&mut self, direction: Direction) -> Option<StreamId> {
        let stream = self.quinn.streams().open(direction.to_quinn()).map(StreamId::from);
        self.own_streams += usize::from(stream.is_some() && direction == Direction::Unidirectional);
        stream
    }

    /// Reads the data that has arrived on a stream in order, in pieces as the peer's packets had it. The peer may then send more.
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
        // The caller asks for datagrams after every call, so it learns of a new window there.
        let _ = chunks.finalize();
        if matches!(outcome, ReadOutcome::Finished | ReadOutcome::Reset(_)) {
            self.unread.end(id.number());
        }
        if bytes > 0 || outcome == ReadOutcome::Finished {
            self.reads += 1 + (bytes / READ_BYTES) as u64;
        }
        outcome
    }

    /// Takes as much of `data` as the peer's windows permit, without a copy, and removes it from the start. Pieces that were
    /// taken entirely are empty then.
    pub fn write(&mut self, id: StreamId, data: &mut [Bytes]) -> WriteOutcome {
        if !id.is_writable() {
            return WriteOutcome::Closed;
        }
        let mut stream = self.quinn.send_stream(id.to_quinn());
        let mut rest = data;
        while !rest.is_empty() {
            // After a partial write, only another one registers the stream for an event.
            match stream.write_chunks(rest) {
                Ok(written) => rest = &mut rest[written.chunks..],
                Err(WriteError::Blocked) => return WriteOutcome::Blocked,
                Err(WriteError::Stopped(code)) => return WriteOutcome::Stopped(code.into_inner()),
                Err(WriteError::ClosedStream) => return WriteOutcome::Closed,
            }
        }
        WriteOutcome::Complete
    }

    /// Limits the bytes that are written and not acknowledged. Without a limit, the client's windows alone bound them.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.quinn.set_send_window(bytes);
    }

    /// Ends a stream after all that was written to it.
    ///
    /// # Errors
    /// The stream was finished, reset, or stopped by the peer before.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).finish().map_err(|_| StreamClosed)
    }

    /// Abandons sending on a stream, with an error code of the application (RESET_STREAM).
    ///
    /// # Errors
    /// The stream was reset or acknowledged entirely before.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).reset(error_code(code)).map_err(|_| StreamClosed)
    }

    /// Discards the data that the peer sends on a stream, and requests that it stops, with an error code of the application
    /// (STOP_SENDING).
    ///
    /// # Errors
    /// The stream was read to its end or stopped before.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), StreamClosed> {
        if !id.is_readable() {
            return Err(StreamClosed);
        }
        self.unread.end(id.number());
        self.quinn.recv_stream(id.to_quinn()).stop(error_code(code)).map_err(|_| StreamClosed)
    }

    /// Sends data of streams with a higher priority before that of others; streams of the same priority take turns.
    ///
    /// # Errors
    /// The stream was reset or acknowledged entirely before.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), StreamClosed> {
        if !id.is_writable() {
            return Err(StreamClosed);
        }
        self.quinn.send_stream(id.to_quinn()).set_priority(priority).map_err(|_| StreamClosed)
    }

    /// Returns the priority of a stream, or `None` if it was reset or acknowledged entirely.
    pub fn priority(&mut self, id: StreamId) -> Option<i32> {
        if !id.is_writable() {
            return None;
        }
        self.quinn.send_stream(id.to_quinn()).priority().ok()
    }

    /// Returns the number of streams on which data is not acknowledged.
    pub fn unacknowledged_streams(&mut self) -> usize {
        self.quinn.streams().send_streams()
    }

    /// Returns how much stream data the peer has acknowledged, and how much is in packets that are neither acknowledged nor lost.
    pub fn delivery(&self) -> Delivery {
        let delivery = self.records.delivery();
        Delivery {
            acknowledged_bytes: delivery.acknowledged(),
            unacknowledged_bytes: delivery.unacknowledged(),
        }
    }

    /// Requests that the peer acknowledges a packet (PING). To be followed by a call of
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn ping(&mut self) {
        self.quinn.ping();
    }

    /// Ends the connection with an error code of the application. It is drained after three probe timeouts.
    pub fn close(&mut self, now: Instant, code: u64, reason: &'static [u8]) {
        self.quinn.close(now, error_code(code), Bytes::from_static(reason));
    }

    /// Ends the connection like [`close`](Self::close), and frees its memory as soon as its last datagram was sent. Late datagrams of the
    /// peer get a stateless reset.
    pub fn abandon(&mut self, now: Instant, code: u64) {
        self.close(now, code, b"");
        self.is_abandoned = true;
    }

    /// Returns the address that the peer's datagrams come from. It may be forged after a migration.
    pub fn remote_address(&self) -> SocketAddr {
        self.quinn.remote_address()
    }

    /// Returns `true` until the handshake is done or the connection has ended.
    pub fn is_handshaking(&self) -> bool {
        self.quinn.is_handshaking()
    }

    /// Returns `true` once either side has ended the connection. Nothing can be read or written then.
    pub fn is_closed(&self) -> bool {
        self.quinn.is_closed()
    }

    /// Returns `true` if the connection needs no more datagrams or timeouts, and can be dropped after a call of
    /// [`Endpoint::maintain`](super::Endpoint::maintain): three probe timeouts after this side has closed it, at once after the peer has, or after it was
    /// [abandoned](Self::abandon) and its last datagram was sent.
    pub fn is_drained(&self) -> bool {
        self.is_closed_by_peer || self.is_abandoned || self.quinn.is_drained()
    }

    /// Returns the server name that the client requested (SNI).
    pub fn server_name(&self) -> Option<String> {
        session_state(&self.quinn)?.server_name
    }

    /// Returns the kind of the handshake; `Full` before it is done.
    pub fn handshake_kind(&self) -> HandshakeKind {
        session_state(&self.quinn).map(|state| state.handshake_kind).unwrap_or_default()
    }

    /// Returns measurements.
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

/// Returns the number of frames that have arrived, except PADDING, which is not counted.
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
