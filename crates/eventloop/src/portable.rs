//! Systems other than Linux: an event loop based on `mio`, and system calls using libraries.
//!
//! This can also be built on Linux (with the feature `portable`). We do this for tests.

mod poll;
pub(crate) mod syscalls;
mod udp;
mod waker;
mod zero_copy;

pub use poll::Portable;
pub(crate) use udp::{attach_routing, configure_udp};
pub use waker::Waker;
pub use zero_copy::SplicePipe;
