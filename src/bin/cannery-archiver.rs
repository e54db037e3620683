//! Compiles a site folder into an archive. It does not contain any server code, except for the sandbox and the socket
//! over which archives are sent to `cannery-server --folder`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery_cli::output::report(cannery_cli::commands::archiver::run(std::env::args_os()))
}
