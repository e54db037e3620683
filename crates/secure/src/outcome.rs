//! What a session tells of the bytes that it was handed.

/// What became of the bytes that were handed to [`Session::open`](crate::Session::open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// How many of them, from the start, are done with. The others must be handed in again, as they were left,
    /// with what comes behind them.
    pub used: usize,
    /// The peer says that nothing follows.
    pub has_ended: bool,
    /// A step of the handshake was taken that costs much.
    pub has_worked: bool,
    /// Such a step is due, and was not allowed: nothing more can happen before it is.
    pub is_put_off: bool,
}
