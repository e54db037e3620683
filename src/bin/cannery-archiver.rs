//! Folder to archive, and nothing else.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery::output::report(cannery::commands::archiver::run(std::env::args_os()))
}
