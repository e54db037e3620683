//! Admits new connections. Their datagrams and handshakes have to wait until responses have been
//! sent.
//!
//! An attempt has up to three stages, and each waits in a queue for the next step:
//!
//! ```text
//! datagram ──▶ new ──▶ endpoint ──▶ Retry packet, refusal
//!                         └──▶ admitted ──▶ handshake ──▶ connection
//!
//! datagram of a half-open connection ──▶ continuation ──▶ rest of the handshake
//! ```
//!
//! A few of each advance per iteration. If a ClientHello comes in several datagrams, the expensive
//! signature is made once we have the last one; therefore, all but the first have to wait for the handshake
//! budget as well. When there are as many half-open connections as the endpoint allows, datagrams have to
//! wait until one of them ends. Once too many datagrams are waiting, any further ones are dropped and their
//! clients will have to send them again.

use std::net::{IpAddr, SocketAddr};

use cannery_eventloop::DatagramSocket;
use cannery_transport::limits::QUIC_RECEIVED_DATAGRAM_BYTES_MAX;
use cannery_transport::quic::{AcceptError, Arrival, Incoming, PacketType};

use super::bounded_queue::{BoundedQueue, Full};
use super::connection::Connection;
use super::limits::{ATTEMPTS_PER_ITERATION_MAX, ATTEMPTS_WAITING_MAX, HANDSHAKES_WAITING_MAX};
use super::{Http3, Passed, Running};
use crate::context::WorkerContext;
use crate::observe::Http3Metric;

/// Connection attempts that wait for their next step, by their stage.
pub(super) struct Admission {
    /// Datagrams that may start a connection. They wait for room at the endpoint.
    new: BoundedQueue<WaitingDatagram>,
    /// Datagrams of half-open connections. They wait for the handshake budget.
    continuations: BoundedQueue<WaitingDatagram>,
    /// Clients that the endpoint has admitted, with the number of their socket. They wait for the handshake budget.
    admitted: BoundedQueue<(Incoming, usize)>,
    /// Connection attempts that the endpoint got in this iteration: admitted, answered or invalid.
    processed: usize,
}

/// Stage of the attempt that a datagram belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Continuation,
}

/// A datagram that waits.
#[derive(Debug)]
struct WaitingDatagram {
    /// Number of the socket that received it.
    socket: usize,
    source: SocketAddr,
    destination: Option<IpAddr>,
    ecn: u8,
    length: usize,
    bytes: [u8; QUIC_RECEIVED_DATAGRAM_BYTES_MAX as usize],
}

impl WaitingDatagram {
    /// Copies a datagram, unless it is longer than we have announced.
    fn new(socket: usize, arrival: &Arrival<'_>) -> Option<Self> {
        let &Arrival { source, destination, ecn, bytes: content } = arrival;
        let mut bytes = [0; QUIC_RECEIVED_DATAGRAM_BYTES_MAX as usize];
        bytes.get_mut(..content.len())?.copy_from_slice(content);
        Some(Self { socket, source, destination, ecn, length: content.len(), bytes })
    }

    fn arrival(&self) -> Arrival<'_> {
        let &Self { source, destination, ecn, .. } = self;
        Arrival { source, destination, ecn, bytes: &self.bytes[..self.length] }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            new: BoundedQueue::new(ATTEMPTS_WAITING_MAX),
            continuations: BoundedQueue::new(ATTEMPTS_WAITING_MAX),
            admitted: BoundedQueue::new(HANDSHAKES_WAITING_MAX),
            processed: 0,
        }
    }
}

impl Admission {
    /// Returns the number of datagrams waiting for admission.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.new.len() + self.continuations.len()
    }

    /// Frees memory that was needed for a burst of connection attempts.
    pub(super) fn free_unused(&mut self) {
        self.new.free_unused();
        self.continuations.free_unused();
        self.admitted.free_unused();
    }

    /// Counts a connection attempt that was admitted, answered or invalid.
    pub(super) fn count_processed(&mut self) {
        self.processed += 1;
    }
}

impl<D: DatagramSocket> Http3<D> {
    /// Returns `true` if the next iteration can make progress with connection attempts.
    pub(super) fn has_attempts_to_advance(&self) -> bool {
        !self.admission.admitted.is_empty()
            || !self.admission.continuations.is_empty()
            || (!self.admission.new.is_empty() && self.has_room_for_attempts())
    }

    /// Returns `true` if the endpoint has room for another connection attempt.
    fn has_room_for_attempts(&self) -> bool {
        !self.admission.admitted.is_full() && !self.endpoint.is_saturated()
    }

    /// Lets connection attempts of each stage take their next step, as far as room and budgets allow. Since a step
    /// takes longer than a response, this should be called after sending responses. New connections will run in the
    /// next iteration.
    pub(super) fn advance_attempts(&mut self, cx: &mut WorkerContext) {
        for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
            if !self.has_room_for_attempts() {
                break;
            }
            let Some(datagram) = self.admission.new.pop() else { break };
            // An earlier datagram of the same client may have been admitted in the meantime.
            match self.stage(&datagram) {
                Stage::New => {
                    self.pass(datagram.socket, &datagram.arrival(), cx);
                }
                Stage::Continuation => self.keep_for(Stage::Continuation, datagram, cx),
            }
        }
        self.find_continuations(cx);

        // Any datagram may complete a ClientHello. Allow at least one because otherwise others could use up the whole
        // budget in every iteration.
        let mut permits = cx.budget.handshakes.max(1);
        for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
            if permits == 0 {
                break;
            }
            let Some(datagram) = self.admission.continuations.pop() else { break };
            // If the connection has not been accepted yet, the endpoint keeps the datagram.
            if self.pass(datagram.socket, &datagram.arrival(), cx) == Passed::ToConnection {
                permits -= 1;
                cx.budget.handshakes = cx.budget.handshakes.saturating_sub(1);
            }
        }
        self.admission.processed = 0;

        for _ in 0..cx.budget.handshakes.max(1) {
            let Some((incoming, number)) = self.admission.admitted.pop() else { break };
            self.accept(incoming, number, cx);
        }
    }

    /// Moves datagrams that half-open connections need from among those that wait until such a connection ends.
    ///
    /// The datagrams of one ClientHello arrive one after the other, with few from other clients in between. We
    /// therefore only look at the first of those that wait: no more than clients that can be admitted at once, and
    /// until we have as many as advance in an iteration. The clients of others will send them again.
    fn find_continuations(&mut self, cx: &mut WorkerContext) {
        if self.has_room_for_attempts() {
            return;
        }
        let (mut index, mut found) = (0, 0);
        while index + found < HANDSHAKES_WAITING_MAX
            && found < ATTEMPTS_PER_ITERATION_MAX
            && let Some(datagram) = self.admission.new.get(index)
        {
            if self.stage(datagram) == Stage::New {
                index += 1;
            } else if let Some(datagram) = self.admission.new.remove(index) {
                found += 1;
                self.keep_for(Stage::Continuation, datagram, cx);
            }
        }
    }

    /// A half-open connection needs all datagrams of its ClientHello, so it would never end if these waited for it.
    fn stage(&self, datagram: &WaitingDatagram) -> Stage {
        if self.endpoint.is_of_half_open(datagram.arrival().bytes) { Stage::Continuation } else { Stage::New }
    }

    /// Passes a datagram to its connection. We must have issued the connection ID.
    ///
    /// Note that clients also use such an ID to respond to a Retry packet, and that attackers may copy one.
    /// An Initial packet may therefore have to wait like those with a client's ID, namely if it belongs to a
    /// half-open connection or if there is no room or budget for it in this iteration.
    pub(super) fn pass_or_keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        let is_initial = PacketType::of(arrival.bytes) == Some(PacketType::Initial);
        if is_initial && !self.may_pass_initial(arrival.bytes) {
            self.keep(number, arrival, cx);
        } else {
            self.pass(number, arrival, cx);
        }
    }

    fn may_pass_initial(&self, datagram: &[u8]) -> bool {
        // This holds even if there is also a Handshake packet. That one must be forged because clients do
        // not have the keys for it until they have changed the ID.
        if self.endpoint.is_of_half_open(datagram) {
            return false;
        }
        let processed = self.admission.processed;
        // Typically, a Handshake packet shows that the datagram belongs to a connection. However, an attacker might
        // have appended a forged one, so this may at most double the number.
        (processed < ATTEMPTS_PER_ITERATION_MAX && self.has_room_for_attempts())
            || (processed < 2 * ATTEMPTS_PER_ITERATION_MAX && has_handshake_packet(datagram))
    }

    /// Stores a datagram of a connection attempt until the connections have run.
    pub(super) fn keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        // A worker that forwards a datagram has checked its length.
        let Some(datagram) = WaitingDatagram::new(number, arrival) else { return };
        let stage = self.stage(&datagram);
        self.keep_for(stage, datagram, cx);
    }

    /// Stores a datagram with the others of its stage, unless too many are waiting.
    fn keep_for(&mut self, stage: Stage, datagram: WaitingDatagram, cx: &mut WorkerContext) {
        let queue = match stage {
            Stage::New => &mut self.admission.new,
            Stage::Continuation => &mut self.admission.continuations,
        };
        if let Err(Full) = queue.push(datagram) {
            cx.observer.count_http3(Http3Metric::AttemptsDropped, 1);
        }
    }

    /// Stores a connection attempt until there is budget to accept it, unless it has to be answered in some
    /// other way.
    pub(super) fn admit(&mut self, incoming: Incoming, number: usize, cx: &mut WorkerContext) {
        let Some(incoming) = self.retry_during_takeover(incoming, number, cx) else { return };
        if cx.is_draining() {
            // The client will try again. A process that takes over will then get the datagram.
            self.endpoint.ignore(incoming);
        } else if self.is_full(cx) {
            self.refuse(incoming, number);
        } else if !self.admission.admitted.is_full() {
            let _ = self.admission.admitted.push((incoming, number));
        } else {
            // When we passed the datagram to the endpoint, it had room, except if its Handshake packet does
            // not belong to any connection.
            self.endpoint.ignore(incoming);
            cx.observer.count_http3(Http3Metric::AttemptsDropped, 1);
        }
    }

    /// Ignores all connection attempts that are waiting for the handshake budget. The clients will try again.
    pub(super) fn ignore_admitted(&mut self) {
        while let Some((incoming, _)) = self.admission.admitted.pop() {
            self.endpoint.ignore(incoming);
        }
    }

    /// While a predecessor may be reading the sockets, responds to a connection attempt with a Retry packet.
    /// Returns the attempt if it should be admitted.
    ///
    /// A long ClientHello takes two datagrams. If each process got one of them, the client would be talking
    /// to two servers, and some clients would then acknowledge packets of one server to the other, so that
    /// the handshake never completes. A Retry packet, however, makes the client start over with one of our
    /// connection IDs. If the predecessor has already answered, the client will discard the Retry packet and
    /// continue with the predecessor (RFC 9000 §17.2.5.2).
    fn retry_during_takeover(
        &mut self,
        incoming: Incoming,
        number: usize,
        cx: &mut WorkerContext,
    ) -> Option<Incoming> {
        if cx.is_draining() || !self.router.shares_sockets(cx.clock.now) {
            return Some(incoming);
        }
        match self.endpoint.retry(incoming, &mut self.reply) {
            Ok(transmit) => {
                cx.observer.count_http3(Http3Metric::Retries, 1);
                self.reply(number, &transmit);
                None
            }
            // This attempt already is the response to a Retry packet.
            Err(incoming) => Some(*incoming),
        }
    }

    /// Returns `true` if we cannot accept another connection.
    fn is_full(&self, cx: &WorkerContext) -> bool {
        self.open >= self.open_max || cx.memory.is_tight()
    }

    fn refuse(&mut self, incoming: Incoming, number: usize) {
        self.has_refused |= self.open >= self.open_max;
        let transmit = self.endpoint.refuse(incoming, &mut self.reply);
        self.reply(number, &transmit);
    }

    fn accept(&mut self, incoming: Incoming, number: usize, cx: &mut WorkerContext) {
        // We may have accepted others since this one was admitted.
        if self.is_full(cx) {
            return self.refuse(incoming, number);
        }

        cx.budget.handshakes = cx.budget.handshakes.saturating_sub(1);
        self.running = Running::Endpoint;
        let accepted = self.endpoint.accept(cx.clock.now, incoming, &mut self.reply);
        self.running = Running::Nothing;

        match accepted {
            Ok(quic) => {
                let key = quic.key();
                let connection = Connection::new(quic, number, cx);
                cx.memory.change(0, connection.memory());
                cx.observer.connection_accepted();
                self.connections.insert(connection);
                self.open += 1;
                self.mark(key);
            }
            Err(AcceptError { reply, .. }) => {
                cx.observer.tls_failed();
                if let Some(transmit) = reply {
                    self.reply(number, &transmit);
                }
            }
        }
    }
}

/// Whether the datagram continues a handshake. When a client is only starting one, it cannot have keys for
/// a Handshake packet.
fn has_handshake_packet(datagram: &[u8]) -> bool {
    PacketType::all_of(datagram).any(|packet| packet == PacketType::Handshake)
}
