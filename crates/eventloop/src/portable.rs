//! Systems other than Linux: an event loop over `mio`, and their system calls by way of libraries.
//!
//! The feature `portable` builds this on Linux too, for tests.

mod poll;
pub(crate) mod syscalls;
mod udp;
mod waker;
mod zero_copy;

pub use poll::Portable;
pub(crate) use udp::{attach_routing, configure_udp};
pub use waker::Waker;
pub use zero_copy::SplicePipe;
