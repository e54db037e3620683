//! The server and the archiver in one program, which is smaller than both programs together. Our images contain it under both names. If
//! it is started as `cannery-archiver`, it is the archiver, and otherwise the server.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use cannery_cli::commands::{archiver, server};

fn main() -> ExitCode {
    let started = std::env::args_os().next().unwrap_or_default();
    let is_archiver = Path::new(&started).file_name() == Some(OsStr::new("cannery-archiver"));
    let arguments = std::env::args_os();
    cannery_cli::output::report(if is_archiver { archiver::run(arguments) } else { server::run(arguments) })
}
