//! Linux: event loops over epoll and io_uring, zero-copy sends, and the system calls.

mod epoll;
mod header_arena;
pub(crate) mod syscalls;
mod udp;
mod uring;
mod waker;
mod zero_copy;

pub use epoll::Epoll;
pub(crate) use udp::{attach_routing, configure_udp};
pub use uring::{Uring, UringSocket};
pub use waker::Waker;
pub use zero_copy::SplicePipe;
