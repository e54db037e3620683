//! Event loop of the workers, selected at startup.
//!
//! [`LoopTask`] monomorphizes a worker for the selected event loop, so that no call on the hot path is dynamic.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;

use std::io;

use cannery_eventloop::{EventLoop, Listener, UdpSocket};

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;

#[cfg(test)]
pub(crate) use platform::DefaultLoop;
pub use platform::{Backend, BackendChoice};

/// A task that runs on any event loop.
pub(crate) trait LoopTask {
    /// Runs the task, or reports why there is no event loop.
    fn run<L: EventLoop<Listener = Listener, Datagrams = UdpSocket>>(self, events: io::Result<L>);
}
