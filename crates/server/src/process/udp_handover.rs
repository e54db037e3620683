//! Supervisors use this to make processes leave the UDP sockets to a program that takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The line that the supervisor sends.
pub(super) const HAND_OVER: &str = "hand over";

/// Tells if the supervisor has sent the line. All workers share this.
#[derive(Debug, Clone, Default)]
pub(crate) struct UdpHandover(Arc<AtomicBool>);

impl UdpHandover {
    /// Returns `true` if the UDP sockets should be left to another program.
    pub(crate) fn is_ordered(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn order(&self) {
        self.0.store(true, Ordering::Release);
    }
}
