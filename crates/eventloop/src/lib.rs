//! The event loop. It tells which sockets are ready and provides the operations on them.
//!
//! Each loop belongs to one thread. This crate knows nothing about HTTP, TLS or archives; the crates above use [`Token`]s and
//! [`Event`]s through the [`EventLoop`] trait. Its implementations should be indistinguishable:
//!
//! - on Linux, `Epoll` waits for readiness and `Uring` waits for completions;
//! - on other systems, `Portable` waits for readiness using `mio`;
//! - [`simulated::Simulated`] is for tests: network and time are generated from a seed.
//!
//! Each system call has a function of its own in the platform's directory. All the `unsafe` code is there too.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![deny(unsafe_code)]

// The interface: events, and where they come from.
mod event;
mod event_loop;
mod token;

// Sockets, for connections and for datagrams.
mod address;
mod datagram;
mod listener;
mod socket;

// Shared by all loops: the time, and the load.
mod balance;
pub mod clock;
mod process;

// The platform's loops and system calls. Each platform defines `Waker`, `SplicePipe` and a module `syscalls`.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;

// A loop for tests.
pub mod simulated;

#[cfg(test)]
mod tests;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable as platform;

pub use address::{Address, ParseAddressError};
pub use balance::Balancer;
pub use clock::Now;
pub use datagram::{
    Backlog, BufferSizes, Datagram, DatagramClaim, DatagramOptions, DatagramSocket, Ecn, NoDatagrams,
    Progress, ReceiveBatch, SegmentBatch, SendOutcome, UdpSocket, WorkerRouting,
};
pub use event::{Event, Readiness};
pub use event_loop::EventLoop;
pub use listener::{Claim, IpVersions, ListenOptions, Listener};
pub use platform::*;
pub use process::{
    close_on_exec, inherit_descriptor, message_pair, prefer_short_slices, release_free_memory,
    unshare_descriptor_table,
};
pub use socket::{Accepted, KernelSocket, Received, Socket};
pub use token::Token;
