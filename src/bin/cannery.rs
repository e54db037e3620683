//! The archiver, the server, and the commands that read archives, in one program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery_cli::output::report(cannery_cli::commands::run(std::env::args_os()))
}
