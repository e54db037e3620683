//! What a process hands on to a program that it starts: open sockets, and the variables that name them.
//!
//! Sockets are closed in every program but the one that they are for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command};

use rustix::io::{FdFlags, fcntl_setfd};

/// The variable that names the descriptors of inherited listeners, with commas between.
pub const LISTENERS_VARIABLE: &str = "CANNERY_LISTENERS";

/// The variable that names the descriptors of inherited sockets for figures: one on which the process is asked, or
/// all those on which the process of the operators asks.
pub const FIGURES_VARIABLE: &str = "CANNERY_FIGURES";

/// The variable that names the descriptor of the operators' listener, for a supervisor that takes over.
pub const OPERATORS_VARIABLE: &str = "CANNERY_OPERATORS";

/// Descriptors as the variables spell them.
pub(crate) fn numbers(descriptors: &[impl AsFd]) -> String {
    let numbers: Vec<_> = descriptors.iter().map(|one| one.as_fd().as_raw_fd().to_string()).collect();
    numbers.join(",")
}

/// Starts a program with these descriptors open. To be called by one thread only, so that no other program that is
/// started meanwhile gets them.
pub(crate) fn spawn(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let child = command.spawn();
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    child
}
