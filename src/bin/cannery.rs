//! The archiver, the server, and the commands that read archives, in one program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery::output::report(cannery::commands::run(std::env::args_os()))
}
