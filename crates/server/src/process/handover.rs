//! The order of the supervisor to leave the UDP sockets to a program that takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The line by which the supervisor gives the order.
pub(super) const HAND_OVER: &str = "hand over";

/// Whether the order was given. All workers share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handover(Arc<AtomicBool>);

impl Handover {
    /// Returns `true` if the order was given.
    pub(crate) fn is_ordered(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn order(&self) {
        self.0.store(true, Ordering::Release);
    }
}
