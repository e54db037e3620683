//! Serves archives. Contains no code of the archiver: for a folder, it starts `cannery-archiver`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery_cli::output::report(cannery_cli::commands::server::run(std::env::args_os()))
}
