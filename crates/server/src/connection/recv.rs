//! Outcomes of receiving, with and without TLS.

use cannery_eventloop::Readiness;

/// Where to stop reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadUntil {
    /// Until the socket is empty. There will be an event when more data arrives.
    Blocked,
    /// Up to the end of the stream. There will not be another event for that.
    Eof,
}

impl From<Readiness> for ReadUntil {
    #[inline]
    fn from(readiness: Readiness) -> ReadUntil {
        if readiness.read_closed { ReadUntil::Eof } else { ReadUntil::Blocked }
    }
}

/// Result of receiving.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecvOutcome {
    /// There is some plaintext.
    Data {
        /// Length of the data at the start of [`Transport::take_received`]. May be 0 with TLS.
        ///
        /// [`Transport::take_received`]: super::transport::Transport::take_received
        len: usize,
        /// Whether the socket is empty, so there will be an event when more data arrives.
        is_drained: bool,
    },
    /// No data has arrived yet. We will get an event when it does.
    Blocked,
    /// The handshake continues in a later iteration, without an event.
    HandshakeDeferred,
    /// The peer has closed the sending direction.
    Eof,
    /// The data is not TLS or violates the protocol. The alert has been sent, after which no more data
    /// can follow.
    TlsFailed {
        /// Whether it is a plain HTTP request.
        is_plain_http: bool,
    },
}
