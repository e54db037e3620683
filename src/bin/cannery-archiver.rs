//! Compiles a site folder into an archive. Contains no code of the server except its sandbox, and the socket over which
//! `cannery-server --folder` gets archives.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery_cli::output::report(cannery_cli::commands::archiver::run(std::env::args_os()))
}
