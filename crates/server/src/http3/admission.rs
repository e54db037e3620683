//! Admission of new connections: their datagrams and handshakes wait, so that responses leave first.
//!
//! ```text
//! datagram ──▶ waits ──▶ endpoint ──▶ Retry packet, refusal
//!                                └──▶ waits ──▶ handshake ──▶ connection
//! ```
//!
//! An iteration processes a few of each. If too many wait, further ones are dropped, and their clients send them again.

use std::collections::VecDeque;

use cannery_eventloop::DatagramSocket;
use cannery_secure::quic::{AcceptError, Arrival, Incoming, PacketType};

use super::attempts::{Attempts, Full};
use super::connection::Connection;
use super::limits::{ATTEMPTS_PER_ITERATION_MAX, INCOMING_WAITING_MAX};
use super::{Http3, Running};
use crate::connection::WorkerContext;
use crate::observe::Http3Metric;

/// Datagrams and handshakes that wait for admission.
#[derive(Default)]
pub(super) struct Admission {
    /// Datagrams of connection attempts that wait for further iterations.
    attempts: Attempts,
    /// The number of datagrams of connection attempts that were processed in this iteration.
    processed: usize,
    /// Connection attempts that wait for the handshake budget, with the numbers of their sockets, oldest first.
    incoming: VecDeque<(Incoming, usize)>,
}

impl Admission {
    /// Returns `true` if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.incoming.is_empty()
    }

    /// Returns the number of datagrams of connection attempts that wait for further iterations.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.attempts.len()
    }

    /// Frees memory that a burst of connection attempts has needed.
    pub(super) fn free_unused(&mut self) {
        self.attempts.free_unused();
        if self.incoming.is_empty() {
            self.incoming = VecDeque::new();
        }
    }

    /// Returns `true` if another connection attempt may be processed in this iteration.
    fn has_budget(&self) -> bool {
        self.processed < ATTEMPTS_PER_ITERATION_MAX && self.incoming.len() < INCOMING_WAITING_MAX
    }

    /// Counts a datagram that the endpoint has processed and that belongs to no connection.
    pub(super) fn count_processed(&mut self) {
        self.processed += 1;
    }
}

impl<D: DatagramSocket> Http3<D> {
    /// Processes connection attempts. Each takes longer than a response, so responses leave first. A new connection runs in the
    /// next iteration.
    pub(super) fn process_attempts(&mut self, cx: &mut WorkerContext) {
        if !self.admission.attempts.is_empty() {
            // They are taken out, because their datagrams borrow them.
            let mut attempts = std::mem::take(&mut self.admission.attempts);
            for _ in 0..ATTEMPTS_PER_ITERATION_MAX {
                if self.admission.incoming.len() >= INCOMING_WAITING_MAX {
                    break;
                }
                let Some((number, arrival)) = attempts.pop() else { break };
                self.pass(number, &arrival, cx);
            }
            self.admission.attempts = attempts;
        }
        self.admission.processed = 0;
        // At least one, so that handshakes over TCP can't take the whole budget of every iteration.
        for _ in 0..cx.budget.handshakes.max(1) {
            let Some((incoming, number)) = self.admission.incoming.pop_front() else { break };
            self.accept(incoming, number, cx);
        }
    }

    /// Passes a datagram with a connection ID that we have issued to its connection.
    ///
    /// Clients that answer a Retry packet use such an ID, too, and an attacker can repeat one. If there is no budget for them in this
    /// iteration, their Initial packets wait like those with an ID of the client's.
    pub(super) fn pass_or_keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        if self.admission.has_budget() || PacketType::of(arrival.bytes) != Some(PacketType::Initial) {
            self.pass(number, arrival, cx);
        } else {
            self.keep(number, arrival, cx);
        }
    }

    /// Keeps a datagram of a connection attempt until the connections have run.
    pub(super) fn keep(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) {
        if let Err(Full) = self.admission.attempts.push(number, arrival) {
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
        } else {
            self.admission.incoming.push_back((incoming, number));
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
