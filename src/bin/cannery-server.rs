//! Archive to network, and nothing else: no line of the archiver is in this program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cannery::output::report(cannery::commands::server::run(std::env::args_os()))
}
