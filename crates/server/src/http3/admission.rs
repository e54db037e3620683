//! Admission of new connections: their datagrams and handshakes wait, so that responses leave first.
//!
//! ```text
//! datagram ──▶ waits ──▶ endpoint ──▶ Retry packet, refusal
//!                                └──▶ waits ──▶ handshake ──▶ connection
//!
//! datagram of a half-open connection ──▶ waits ──▶ rest of the handshake
//! ```
//!
//! An iteration processes a few of each. A ClientHello may come in several datagrams: the server signs when it has the last one, so
//! all but the first wait for the handshake budget, too. While as many connections are half-open as the endpoint keeps, datagrams
//! wait for one of those to end. If too many wait, further ones are dropped, and their clients send them again.

use std::collections::VecDeque;

use cannery_eventloop::DatagramSocket;
use cannery_secure::quic::{AcceptError, Arrival, Incoming, PacketType};

use super::attempts::{Attempts, Full};
use super::connection::Connection;
use super::limits::{
    ATTEMPTS_LOOKED_THROUGH_MAX, ATTEMPTS_PER_ITERATION_MAX, ATTEMPTS_WITH_HANDSHAKE_MAX,
    INCOMING_WAITING_MAX,
};
use super::{Http3, Running};
use crate::connection::WorkerContext;
use crate::observe::Http3Metric;

/// Datagrams and handshakes that wait for admission.
#[derive(Default)]
pub(super) struct Admission {
    /// Datagrams of connection attempts that wait for further iterations.
    attempts: Attempts,
    /// Datagrams of half-open connections that wait for the handshake budget.
    continuations: Attempts,
    /// The number of datagrams in this iteration that belong to no connection, and that the endpoint has admitted, answered, or found
    /// invalid.
    processed: usize,
    /// Connection attempts that wait for the handshake budget, with the numbers of their sockets, oldest first.
    incoming: VecDeque<(Incoming, usize)>,
}

impl Admission {
    /// Returns the number of datagrams of connection attempts that wait for further iterations.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.attempts.len() + self.continuations.len()
    }

    /// Frees memory that a burst of connection attempts has needed.
    pub(super) fn free_unused(&mut self) {
        self.attempts.free_unused();
        self.continuations.free_unused();
        if self.incoming.is_empty() && self.attempts.is_freed() {
            self.incoming = VecDeque::new();
        }
    }

    /// Counts a datagram that belongs to no connection, and that the endpoint has admitted, answered, or found invalid.
    pub(super) fn count_processed(&mut self) {
        self.processed += 1;
    }
}

impl<D: DatagramSocket> Http3<D> {
    /// Returns `true` if connection attempts wait for the next iteration, and not for others to end.
    pub(super) fn has_attempts_to_process(&self) -> bool {
        !self.admission.incoming.is_empty()
            || !self.admission.continuations.is_empty()
            || (!self.admission.attempts.is_empty() && self.has_room_for_attempts())
    }

    /// Returns `true` if the endpoint would keep another connection attempt.
    fn has_room_for_attempts(&self) -> bool {
        self.admission.incoming.len() < INCOMING_WAITING_MAX && !self.endpoint.is_saturated()
    }

    /// Processes connection attempts. Each takes longer than a response, so responses leave first. A new connection runs in the
    /// next iteration.
    pub(super) fn process_attempts(&mut self, cx: &mut WorkerContext) {
        self.process_attempts_with_room(cx);
        self.continue_handshakes(cx);
        self.admission.processed = 0;
        // At least one, so that others can't take the whole budget of every iteration.
        for _ in 0..cx.budget.handshakes.max(1) {
            let Some((incoming, number)) = self.admission.incoming.pop_front() else { break };
            self.accept(incoming, number, cx);
        }
    }

    /// Passes datagrams of connection attempts to the endpoint, as long as it has room for them.
    fn process_attempts_with_room(&mut self, cx: &mut WorkerContext) {
        if !self.admission.attempts.is_empty() {
            // They are taken out, because their datagrams borrow them.
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
            // A half-open connection may need what has arrived after attempts that wait for it.
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

    /// Passes datagrams of half-open connections to them, within the budget of an iteration. Any of them may complete a ClientHello.
    fn continue_handshakes(&mut self, cx: &mut WorkerContext) {
        if !self.admission.continuations.is_empty() {
            // They are taken out, because their datagrams borrow them.
            let mut continuations = std::mem::take(&mut self.admission.continuations);
            // At least one, as of new connections.
            let mut permits = cx.budget.handshakes.max(1);
            for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
                if permits == 0 {
                    break;
                }
                let Some((number, arrival)) = continuations.pop() else { break };
                // If the connection isn't accepted yet, the endpoint keeps the datagram.
                if self.pass(number, &arrival, cx) {
                    permits -= 1;
                    cx.budget.handshakes = cx.budget.handshakes.saturating_sub(1);
                }
            }
            self.admission.continuations = continuations;
        }
    }

    /// Passes a datagram with a connection ID that we have issued to its connection.
    ///
    /// Clients that answer a Retry packet use such an ID, too, and an attacker can repeat one. Their Initial packets wait like those
    /// with an ID of the client's if they are of a half-open connection, or if there is no budget for them in this iteration, or no
    /// room.
    pub(super) fn pass_or_keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        let is_initial = PacketType::of(arrival.bytes) == Some(PacketType::Initial);
        if is_initial && !self.may_pass_initial(arrival.bytes) {
            self.keep(number, arrival, cx);
        } else {
            self.pass(number, arrival, cx);
        }
    }

    fn may_pass_initial(&self, datagram: &[u8]) -> bool {
        // Also if a Handshake packet follows, which is then forged: a client has keys for it only after it has changed the ID.
        if self.endpoint.is_of_half_open(datagram) {
            return false;
        }
        let processed = self.admission.processed;
        (processed < ATTEMPTS_PER_ITERATION_MAX && self.has_room_for_attempts())
            || (processed < ATTEMPTS_WITH_HANDSHAKE_MAX && has_handshake_packet(datagram))
    }

    /// Keeps a datagram of a connection attempt until the connections have run.
    pub(super) fn keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        // A half-open connection needs all datagrams of its ClientHello, so they don't wait for it to end.
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

    /// Keeps a connection attempt until there is budget to accept it, or answers it otherwise.
    pub(super) fn admit(&mut self, incoming: Incoming, number: usize, cx: &mut WorkerContext) {
        let Some(incoming) = self.retry_during_takeover(incoming, number, cx) else { return };
        if cx.is_draining() {
            // The client tries again, and a program that takes over gets it.
            self.endpoint.ignore(incoming);
        } else if self.is_full(cx) {
            self.refuse(incoming, number);
        } else if self.admission.incoming.len() < INCOMING_WAITING_MAX {
            self.admission.incoming.push_back((incoming, number));
        } else {
            // There was room when it was passed, unless its datagram had a Handshake packet of no connection.
            self.endpoint.ignore(incoming);
            cx.observer.count_http3(Http3Metric::AttemptsDropped, 1);
        }
    }

    /// Ignores the connection attempts that wait for the handshake budget. Their clients try again.
    pub(super) fn ignore_incoming(&mut self) {
        for (incoming, _) in std::mem::take(&mut self.admission.incoming) {
            self.endpoint.ignore(incoming);
        }
    }

    /// Answers a connection attempt by a Retry packet while a predecessor may read the sockets too. Returns the attempt if it
    /// is to be admitted.
    ///
    /// A long ClientHello comes in two datagrams. If each program got one, the client would have two servers, and some clients
    /// acknowledge packets of one to the other, so that the handshake never ends. After a Retry packet, the client begins
    /// again with a connection ID of this program. If the predecessor has answered before, the client discards the Retry packet
    /// and goes on with the predecessor (RFC 9000 §17.2.5.2).
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
            // It has answered one.
            Err(incoming) => Some(*incoming),
        }
    }

    /// Returns `true` if there is no room for another connection.
    fn is_full(&self, cx: &WorkerContext) -> bool {
        self.open >= self.open_max || cx.memory.is_tight()
    }

    fn refuse(&mut self, incoming: Incoming, number: usize) {
        self.has_refused |= self.open >= self.open_max;
        let transmit = self.endpoint.refuse(incoming, &mut self.reply);
        self.reply(number, &transmit);
    }

    fn accept(&mut self, incoming: Incoming, number: usize, cx: &mut WorkerContext) {
        // Others may have been accepted since it was admitted.
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

/// Returns `true` if a datagram continues a handshake: a client that begins one has no keys for a Handshake packet.
fn has_handshake_packet(datagram: &[u8]) -> bool {
    PacketType::all_of(datagram).any(|packet| packet == PacketType::Handshake)
}
