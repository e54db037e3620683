//! The event loop: which sockets are ready, and the operations on them.
//!
//! One loop belongs to one thread. It knows no HTTP, no TLS and no archive. Everything above speaks of
//! [`Token`]s and [`Event`]s; the system calls stand in `sys.rs` alone, each in a function of its own.

#![deny(unsafe_code)]

pub mod clock;

mod epoll;
mod listener;
mod socket;
mod sys;
mod token;
mod waker;

pub use epoll::{Event, EventLoop, Readiness};
pub use listener::{Claim, Listener};
pub use socket::{Received, Socket};
pub use token::Token;
pub use waker::Waker;

/// Gives the calling thread a table of descriptors of its own.
///
/// While threads share a table the kernel counts references to a socket in each call, with two atomic
/// operations; a table of one thread needs none. To be called before the thread opens anything: what was
/// open before is open in both tables, and stays so until both have closed it.
pub fn own_descriptors() -> std::io::Result<()> {
    sys::unshare_files()
}
