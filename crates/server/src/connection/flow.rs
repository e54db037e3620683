//! Tells if output was sent completely.

/// Result of trying to send output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Flow {
    /// The socket has taken everything.
    Done,
    /// Some output is waiting until the socket has room.
    Blocked,
}

impl Flow {
    /// Returns `true` if some output is left.
    #[inline]
    pub(super) fn is_blocked(self) -> bool {
        self == Flow::Blocked
    }
}
