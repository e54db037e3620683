//! Admits new connections. Their datagrams and handshakes have to wait until responses have been
//! sent.
//!
//! ```text
//! datagram ──▶ waits ──▶ endpoint ──▶ Retry packet, refusal
//!                                └──▶ waits ──▶ handshake ──▶ connection
//!
//! datagram of a half-open connection ──▶ waits ──▶ rest of the handshake
//! ```
//!
//! A few of each are processed per iteration. If a ClientHello comes in several datagrams, the expensive
//! signature is made once we have the last one; therefore, all but the first have to wait for the handshake
//! budget as well. When there are as many half-open connections as the endpoint allows, datagrams have to
//! wait until one of them ends. Once too many datagrams are waiting, any further ones are dropped and their
//! clients will have to send them again.

use std::collections::VecDeque;

use cannery_eventloop::DatagramSocket;
use cannery_transport::quic::{AcceptError, Arrival, Incoming, PacketType};

use super::attempts::{Attempts, Full};
use super::connection::Connection;
use super::limits::{
    ATTEMPTS_LOOKED_THROUGH_MAX, ATTEMPTS_PER_ITERATION_MAX, ATTEMPTS_WITH_HANDSHAKE_MAX,
    INCOMING_WAITING_MAX,
};
use super::{Http3, Running};
use crate::connection::WorkerContext;
use crate::observe::Http3Metric;

/// Datagrams and handshakes that are waiting for admission.
#[derive(Default)]
pub(super) struct Admission {
    /// Datagrams of connection attempts. They are waiting for later iterations.
    attempts: Attempts,
    /// Datagrams of half-open connections. They are waiting for the handshake budget.
    continuations: Attempts,
    /// Connection attempts processed in this iteration: admitted, answered or invalid.
    processed: usize,
    /// Connection attempts that are waiting for the handshake budget, oldest first, along with the number of
    /// their socket.
    incoming: VecDeque<(Incoming, usize)>,
}

impl Admission {
    /// Returns the number of datagrams waiting for admission.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.attempts.len() + self.continuations.len()
    }

    /// Frees memory that was needed for a burst of connection attempts.
    pub(super) fn free_unused(&mut self) {
        self.attempts.free_unused();
        self.continuations.free_unused();
        if self.incoming.is_empty() && self.attempts.is_freed() {
            self.incoming = VecDeque::new();
        }
    }

    /// Counts a connection attempt that was admitted, answered or invalid.
    pub(super) fn count_processed(&mut self) {
        self.processed += 1;
    }
}

impl<D: DatagramSocket> Http3<D> {
    /// Returns `true` if the next iteration can make progress with connection attempts.
    pub(super) fn has_attempts_to_process(&self) -> bool {
        !self.admission.incoming.is_empty()
            || !self.admission.continuations.is_empty()
            || (!self.admission.attempts.is_empty() && self.has_room_for_attempts())
    }

    /// Returns `true` if the endpoint has room for another connection attempt.
    fn has_room_for_attempts(&self) -> bool {
        self.admission.incoming.len() < INCOMING_WAITING_MAX && !self.endpoint.is_saturated()
    }

    /// Processes connection attempts. Since each of them takes longer than a response, this should be called
    /// after sending responses. New connections will run in the next iteration.
    pub(super) fn process_attempts(&mut self, cx: &mut WorkerContext) {
        self.process_attempts_with_room(cx);
        self.continue_handshakes(cx);
        self.admission.processed = 0;
        // Accept at least one because otherwise others could use up the whole budget in every iteration.
        for _ in 0..cx.budget.handshakes.max(1) {
            let Some((incoming, number)) = self.admission.incoming.pop_front() else { break };
            self.accept(incoming, number, cx);
        }
    }

    /// Passes datagrams of connection attempts to the endpoint while it has room.
    fn process_attempts_with_room(&mut self, cx: &mut WorkerContext) {
        if !self.admission.attempts.is_empty() {
            // Take them because the datagrams borrow from them.
            let mut attempts = std::mem::take(&mut self.admission.attempts);

            for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
                if !self.has_room_for_attempts() {
                    break;
                }
                let Some((number, arrival)) = attempts.pop() else { break };
                if self.endpoint.is_of_half_open(arrival.bytes) {
                    self.keep_continuation(number, &arrival, cx);
                } else {
                    self.pass(number, &arrival, cx);
                }
            }
            // Some datagrams have to wait until a half-open connection ends, however that connection might
            // itself need a datagram that arrived after them, so look for these.
            if !self.has_room_for_attempts() {
                attempts.remove_first_if(ATTEMPTS_LOOKED_THROUGH_MAX, |number, arrival| {
                    let is_needed = self.endpoint.is_of_half_open(arrival.bytes);
                    if is_needed {
                        self.keep_continuation(number, arrival, cx);
                    }
                    is_needed
                });
            }
            self.admission.attempts = attempts;
        }
    }

    /// Passes datagrams to half-open connections for as long as the handshake budget allows. Any of them
    /// may complete a ClientHello.
    fn continue_handshakes(&mut self, cx: &mut WorkerContext) {
        if !self.admission.continuations.is_empty() {
            // Take them because the datagrams borrow from them.
            let mut continuations = std::mem::take(&mut self.admission.continuations);
            // Allow at least one, as for new connections.
            let mut permits = cx.budget.handshakes.max(1);

            for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
                if permits == 0 {
                    break;
                }
                let Some((number, arrival)) = continuations.pop() else { break };
                // If the connection has not been accepted yet, the endpoint keeps the datagram.
                if self.pass(number, &arrival, cx) {
                    permits -= 1;
                    cx.budget.handshakes = cx.budget.handshakes.saturating_sub(1);
                }
            }

            self.admission.continuations = continuations;
        }
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
        (processed < ATTEMPTS_PER_ITERATION_MAX && self.has_room_for_attempts())
            || (processed < ATTEMPTS_WITH_HANDSHAKE_MAX && has_handshake_packet(datagram))
    }

    /// Stores a datagram of a connection attempt until the connections have run.
    pub(super) fn keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        // A half-open connection needs all datagrams of its ClientHello, so it would never end if these
        // waited for it.
        if self.endpoint.is_of_half_open(arrival.bytes) {
            self.keep_continuation(number, arrival, cx);
        } else if let Err(Full) = self.admission.attempts.push(number, arrival) {
            cx.observer.count_http3(Http3Metric::AttemptsDropped, 1);
        }
    }

    fn keep_continuation(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        if let Err(Full) = self.admission.continuations.push(number, arrival) {
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
        } else if self.admission.incoming.len() < INCOMING_WAITING_MAX {
            self.admission.incoming.push_back((incoming, number));
        } else {
            // When we passed the datagram to the endpoint, it had room, except if its Handshake packet does
            // not belong to any connection.
            self.endpoint.ignore(incoming);
            cx.observer.count_http3(Http3Metric::AttemptsDropped, 1);
        }
    }

    /// Ignores all connection attempts that are waiting for the handshake budget. The clients will try again.
    pub(super) fn ignore_incoming(&mut self) {
        for (incoming, _) in std::mem::take(&mut self.admission.incoming) {
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
