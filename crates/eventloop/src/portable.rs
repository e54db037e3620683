//! The loop for systems other than Linux, and their system calls by way of libraries.

mod poll;
pub(crate) mod syscalls;
mod waker;

pub use poll::Portable;
pub use waker::Waker;
