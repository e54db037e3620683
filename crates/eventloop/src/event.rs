//! Events: a change, and the socket where it happened.

use crate::token::Token;

/// Something that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The listener with this number has pending connections.
    Acceptable(u32),
    /// The readiness of a connection has changed.
    Ready(Token, Readiness),
    /// The socket with this number has received datagrams, or has room to send again.
    Datagrams(u32),
    /// Another thread has called [`Waker::wake`](crate::Waker::wake).
    Woken,
}

/// Whether a connection is ready to receive or send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// There are bytes to receive, or the end of the stream.
    pub readable: bool,
    /// The peer will not send more, but there may still be bytes to receive.
    pub read_closed: bool,
    /// There is room to send.
    pub writable: bool,
    /// The connection has failed. Neither direction can be used any more.
    pub failed: bool,
}
