//! The result of an attempt to send output.

/// Result of an attempt to send output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Flow {
    /// The socket has taken all of it.
    Done,
    /// The rest waits until the socket has room.
    Blocked,
}

impl Flow {
    /// Returns `true` if output is left.
    #[inline]
    pub(super) fn is_blocked(self) -> bool {
        self == Flow::Blocked
    }
}
