//! A file for each command: a plain value from `flags` in, work done by the crates, words out.
//!
//! This file only finds the command that a line of `cannery` names.

pub mod archiver;
pub mod serve;
pub mod server;

pub mod explain;
pub mod extract;
pub mod inspect;
pub mod releases;
pub mod verify;

mod archive_stats;
mod decode;
mod interrupt;
mod key_display;
mod open;
mod reachable;
mod release_dir;
mod summary;
mod workshop;

#[cfg(test)]
mod sample;

use std::ffi::OsString;

use crate::flags;
use crate::flags::tools::{Command, Invocation};
use crate::output::Failure;
use crate::reference;

/// Runs `cannery` with these words, the program's name first.
///
/// # Errors
/// Whatever the command that they name could not do.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    match flags::tools::parse(arguments)? {
        Invocation::Run(command) => run_command(command),
        Invocation::About(about) => reference::print_about(about, flags::tools::command()),
        Invocation::ManualPage(name) => {
            reference::print_manual_page(reference::subcommand(flags::tools::command(), &name))
        }
    }
}

fn run_command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Archiver(flags) => archiver::run_invocation(flags.into_invocation()?),
        Command::Server(flags) => server::run_invocation(flags.into_invocation()?),
        Command::Inspect(flags) => inspect::run(&flags),
        Command::Verify(flags) => verify::run(&flags),
        Command::Extract(flags) => extract::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Releases(flags) => releases::run(&flags),
        Command::Completions(flags) => reference::print_completions(flags.shell, flags.program.command()),
    }
}
