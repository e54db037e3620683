//! The loops over epoll and io_uring, and the system calls of Linux.

mod epoll;
pub(crate) mod syscalls;
mod uring;
mod waker;

pub use epoll::Epoll;
pub use uring::{Uring, UringSocket};
pub use waker::Waker;
