//! Where things are in this project, and how its programs are started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands one folder below the root")
}

/// Where cargo builds, as far as it is told through the environment.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Where things from elsewhere go that tests and benchmarks use: never into the tree that is committed.
pub(crate) fn outside() -> PathBuf {
    root().join("target/outside")
}

/// The cargo that runs us, started in the root of the workspace, with its first words.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a program to its end with its output on ours.
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

/// Where a program is on the search path, if it is.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // Programs for administrators are not on everybody's search path.
    let administrators = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let folders = env::split_paths(&path).chain(administrators);
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
