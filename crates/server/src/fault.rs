//! Fault injection for tests: makes connection code panic.

use std::cell::Cell;

thread_local! {
    static NEXT: Cell<Option<(Place, usize)>> = const { Cell::new(None) };
}

/// Places where a panic can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A TCP connection handles an event.
    Event,
    /// A datagram is passed to an HTTP/3 connection.
    Datagram,
    /// An HTTP/3 connection runs.
    Run,
}

/// Makes this place panic for the connection with this slot or key, once.
pub(crate) fn arm(place: Place, index: usize) {
    NEXT.set(Some((place, index)));
}

/// Returns `true` if the panic has occurred.
pub(crate) fn has_fired() -> bool {
    NEXT.get().is_none()
}

/// Panics if this place is armed for this connection.
pub(crate) fn check(place: Place, index: usize) {
    if NEXT.get() == Some((place, index)) {
        NEXT.set(None);
        panic!("injected: {place:?} of connection {index}");
    }
}
