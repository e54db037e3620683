//! All in one: the archiver, the server, and the commands that look into an archive.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery::output::report(cannery::commands::run(std::env::args_os()))
}
