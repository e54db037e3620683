//! Serves archives. This program does not contain any code of the archiver: when it needs to compile a
//! folder, it will start `cannery-archiver`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery_cli::output::report(cannery_cli::commands::server::run(std::env::args_os()))
}
