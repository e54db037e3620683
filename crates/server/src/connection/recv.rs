//! What receiving may use up, and what comes of it, in the clear and by TLS alike.

/// Bytes that one call receives.
pub(super) const RECEIVE_BYTES: usize = 64 * 1024;

/// What is left, in this turn of the loop, of what a connection may use up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// Bytes that it may receive and send.
    pub(crate) bytes: u64,
    /// Handshakes of the worker whose costly part may be done.
    pub(crate) handshakes: u32,
}

/// What came of receiving.
#[derive(Debug, Clone, Copy)]
pub(super) enum Came {
    /// So many plain bytes, of which there may be none; and whether no more is there now.
    Bytes {
        /// How many, at the front of what [`super::transport::Transport::lend_received`] lends.
        bytes: usize,
        /// Whether an event will tell when there is more.
        is_all: bool,
    },
    /// Nothing yet.
    NotYet,
    /// Nothing until there is time for the handshake, in a later turn and without an event.
    Later,
    /// The peer sends no more.
    End,
    /// What came was no TLS, or broke its rules. Nothing more can be said but an alert, which is on its way.
    Failed {
        /// Whether it was a request in the clear.
        is_plain_http: bool,
    },
}
