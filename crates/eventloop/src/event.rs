//! Events: what happened, and at which socket.

use crate::token::Token;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Connections are pending at the listener with this number.
    Acceptable(u32),
    /// The readiness of a connection changed.
    Ready(Token, Readiness),
    /// Datagrams have arrived at the socket with this number, or it has room to send again.
    Datagrams(u32),
    /// Another thread called [`Waker::wake`](crate::Waker::wake).
    Woken,
}

/// The readiness of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Receiving returns bytes or the end of the stream.
    pub readable: bool,
    /// The peer has closed its sending direction: the stream ends after the bytes to receive.
    pub read_closed: bool,
    /// There is room to send.
    pub writable: bool,
    /// The connection has failed: neither direction works.
    pub failed: bool,
}
