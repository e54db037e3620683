//! How a task is lived over a loop that was chosen while the server runs.
//!
//! Each loop is a type of its own, so that a worker is compiled for it: whoever chooses one hands it over through this.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;

use std::io;

use cannery_eventloop::{EventLoop, Listener};

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;

#[cfg(test)]
pub(crate) use platform::DefaultLoop;
pub use platform::{Backend, BackendChoice};

/// What is done with a loop, whichever it is.
pub(crate) trait LoopTask {
    /// Does it, with the loop that was just made, if it was.
    fn run<L: EventLoop<Listener = Listener>>(self, events: io::Result<L>);
}
