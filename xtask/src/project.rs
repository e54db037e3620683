//! Paths of the project, and commands that run in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Returns the root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is one directory below the root")
}

/// Returns the build directory, which `CARGO_TARGET_DIR` may change.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the directory of downloads that tests and benchmarks use. It is never committed.
pub(crate) fn outside() -> PathBuf {
    root().join("target/outside")
}

/// Returns the cargo that runs us as a command in the root of the workspace, with its first arguments.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a program to its end. Its output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| Error::start(command, source))?;
    if status.success() { Ok(()) } else { Err(Error::failed(command, status)) }
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|source| Error::start(command, source))?;
    if !output.status.success() {
        return Err(Error::failed(command, output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a program on the search path, or `None`.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // A user's search path often lacks the directories of administrators' programs.
    let administrators = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let directories = env::split_paths(&path).chain(administrators);
    directories.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}
