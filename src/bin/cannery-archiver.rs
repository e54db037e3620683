//! Compiles a site folder into an archive. Contains no code of the server.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery::output::report(cannery::commands::archiver::run(std::env::args_os()))
}
