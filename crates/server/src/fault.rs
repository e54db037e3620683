//! Fault injection: lets the code of a connection panic, for tests.

use std::cell::Cell;

thread_local! {
    static NEXT: Cell<Option<(Place, usize)>> = const { Cell::new(None) };
}

/// Code that can panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A TCP connection handles an event.
    Event,
    /// A datagram is passed to an HTTP/3 connection.
    Datagram,
    /// An HTTP/3 connection runs.
    Run,
}

/// Lets this code of the connection with this slot or key panic, once.
pub(crate) fn arm(place: Place, index: usize) {
    NEXT.set(Some((place, index)));
}

/// Returns `true` if the code has panicked.
pub(crate) fn has_fired() -> bool {
    NEXT.get().is_none()
}

/// Panics if this code of this connection is armed.
pub(crate) fn check(place: Place, index: usize) {
    if NEXT.get() == Some((place, index)) {
        NEXT.set(None);
        panic!("injected: {place:?} of connection {index}");
    }
}
