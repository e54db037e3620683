//! The worker's event loop, which is selected at startup.
//!
//! Workers are monomorphized for each event loop (see [`LoopTask`]) in order to avoid dynamic calls on the
//! hot path.

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

/// A task that can run on any event loop.
pub(crate) trait LoopTask {
    /// Runs the task. `events` is an error if there is no event loop.
    fn run<L: EventLoop<Listener = Listener, Datagrams = UdpSocket>>(self, events: io::Result<L>);
}
