//! The commands, each of which takes typed flags, calls the crates that do the work, and prints the result.
//!
//! This module dispatches the subcommands of `cannery`.

pub mod archiver;
pub mod serve;
pub mod server;

pub mod bundle;
pub mod certificates;
pub mod diff;
pub mod dns;
pub mod explain;
pub mod extract;
pub mod follow;
pub mod image;
pub mod import;
pub mod inspect;
pub mod keys;
pub mod publish;
pub mod receive;
pub mod releases;
pub mod verify;

mod archive_stats;
mod build_failure;
mod credentials_process;
mod folder;
mod folder_process;
mod hook_process;
mod interrupt;
mod key_display;
mod on_activate;
mod open;
mod orphans;
mod reachable;
mod release_dir;
mod release_trust;
mod serving_parent;
mod store_access;
mod summary;
mod workplace;

#[cfg(test)]
mod sample;

use std::ffi::OsString;

use crate::flags;
use crate::flags::tools::{Command, Invocation};
use crate::output::Failure;
use crate::reference;

/// Runs `cannery` with these arguments. The first is the program's name.
///
/// # Errors
///
/// Returns an error if the command line is wrong or the command has failed.
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
    // Servers end their connections first.
    if !matches!(command, Command::Serve(_) | Command::Server(_)) {
        interrupt::allow_in_first_process();
    }
    match command {
        Command::Serve(flags) => serve::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Archiver(flags) => archiver::run_invocation(flags.into_invocation()?),
        Command::Server(flags) => server::run_invocation(flags.into_invocation(None)?),
        Command::Inspect(flags) => inspect::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Verify(flags) => verify::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Extract(flags) => extract::run(&flags),
        Command::Explain(flags) => explain::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Bundle(flags) => bundle::run(&flags),
        Command::Image(flags) => image::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Import(flags) => import::run(&flags),
        Command::Releases(flags) => releases::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Certificates(flags) => {
            // With names, each event is a JSON value of its own, and so is the failure.
            let is_json = flags.json && flags.names.is_empty();
            certificates::run(&flags).map_err(|failure| failure.as_json(is_json))
        }
        Command::Dns(flags) => dns::run(&flags),
        Command::Push(flags) => publish::push(&flags),
        Command::Receive(flags) => receive::run(&flags),
        Command::Rollback(flags) => publish::rollback(&flags),
        Command::Status(flags) => publish::status(&flags),
        Command::Follow(flags) => follow::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Keygen(flags) => keys::generate(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Sign(flags) => keys::sign(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Diff(flags) => diff::run(&flags).map_err(|failure| failure.as_json(flags.json)),
        Command::Completions(flags) => reference::print_completions(flags.shell, &flags.program.command()),
    }
}
