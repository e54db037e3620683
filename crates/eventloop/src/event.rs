//! What a loop tells: that something happened, and to whom.

use crate::token::Token;

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Connections wait at the listener of this number.
    Acceptable(u32),
    /// A connection can go on.
    Ready(Token, Readiness),
    /// Another thread has knocked.
    Woken,
}

/// In which way a connection can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// There is something to receive, if only the end.
    pub readable: bool,
    /// The peer sends no more: what is there to receive ends.
    pub ended: bool,
    /// There is room to send again.
    pub writable: bool,
    /// The connection is broken: nothing can be sent or received any more.
    pub broken: bool,
}
