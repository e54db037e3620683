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
mod release_dir;
mod summary;
mod workshop;

#[cfg(test)]
mod sample;

use std::ffi::OsString;

use crate::flags;
use crate::output::Failure;
use crate::reference;

/// Runs `cannery` with these words, the program's name first.
///
/// # Errors
/// Whatever the command that they name could not do.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let matches = flags::read(flags::tools::command(), arguments)?;
    let Some((name, matches)) = matches.subcommand() else {
        // Without a command, only these flags get here.
        let about = flags::About::read(&matches).unwrap_or(flags::About::ManualPage);
        return reference::print_about(&about, flags::tools::command());
    };
    if !matches!(name, "archiver" | "server") && flags::About::read(matches).is_some() {
        return reference::print_manual_page(reference::subcommand(flags::tools::command(), name));
    }
    match name {
        "archiver" => archiver::run_read(flags::archiver::from_matches(matches)?),
        "server" => server::run_read(flags::server::from_matches(matches)?),
        "serve" => serve::run(&flags::site::from_matches(matches)?),
        "inspect" => inspect::run(&flags::tools::inspect(matches)?),
        "verify" => verify::run(&flags::tools::verify(matches)?),
        "extract" => extract::run(&flags::tools::extract(matches)?),
        "explain" => explain::run(&flags::tools::explain(matches)?),
        "releases" => releases::run(&flags::releases::from_matches(matches)?),
        "completions" => {
            let (shell, program) = flags::tools::completions(matches)?;
            reference::print_completions(&shell, reference::program(&program))
        }
        other => Err(Failure::usage(format!("`{other}` is no command"))),
    }
}
