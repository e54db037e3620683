//! A panic in a connection, for tests.

use std::cell::Cell;

use cannery_secure::quic::ConnectionKey;

thread_local! {
    static NEXT: Cell<Option<(Place, usize)>> = const { Cell::new(None) };
}

/// Code that panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A datagram is passed to the connection.
    Receive,
    /// The connection runs.
    Run,
}

/// Lets the connection of this index panic when its code at this place runs next.
pub(crate) fn arm(place: Place, index: usize) {
    NEXT.set(Some((place, index)));
}

/// Returns `true` if no panic is to come.
pub(crate) fn is_over() -> bool {
    NEXT.get().is_none()
}

/// Panics if this code of this connection is to.
pub(super) fn strike(place: Place, key: ConnectionKey) {
    if NEXT.get() == Some((place, key.index())) {
        NEXT.set(None);
        panic!("{place:?} of {key:?} was to panic");
    }
}
