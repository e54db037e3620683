//! Limits and outcomes of receiving, with and without TLS.

use cannery_eventloop::Readiness;

/// Bytes that one call receives at most.
pub(super) const RECEIVE_BYTES: usize = 64 * 1024;

/// The rest of a loop iteration's budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IterationBudget {
    /// Bytes that the current connection may still receive and send.
    pub(super) bytes: u64,
    /// TLS handshakes of which the worker may still run the expensive step.
    pub(crate) handshakes: u32,
}

/// How far a connection reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadUntil {
    /// Until the socket has no data for now. An event announces further data.
    Blocked,
    /// Up to the end of the stream, which no further event announces.
    Eof,
}

impl From<Readiness> for ReadUntil {
    #[inline]
    fn from(readiness: Readiness) -> ReadUntil {
        if readiness.read_closed { ReadUntil::Eof } else { ReadUntil::Blocked }
    }
}

/// The outcome of receiving.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecvOutcome {
    /// Plaintext has arrived.
    Data {
        /// Length of the data, at the front of [`Transport::take_received`]. With TLS it can be 0.
        ///
        /// [`Transport::take_received`]: super::transport::Transport::take_received
        len: usize,
        /// `true` if the socket is empty, so that an event announces further data.
        is_drained: bool,
    },
    /// There is no data yet. An event announces it.
    Blocked,
    /// The handshake continues in a later iteration, without an event.
    HandshakeDeferred,
    /// The peer has closed its sending direction.
    Eof,
    /// The data is not TLS, or violates the protocol. An alert is on its way, and no more data can be sent.
    TlsFailed {
        /// Whether the data is a request of HTTP without TLS.
        is_plain_http: bool,
    },
}
