//! Programs of a newer Debian that speak HTTP/3: servers, and h2load, which Debian builds without it.
//!
//! They are in a folder of their own and use the libraries there, so the system remains as it is.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::project;

/// The first suite of Debian with an nginx and libraries that speak HTTP/3.
const SUITE: &str = "forky";

/// The path of h2load in the folder.
pub(crate) const H2LOAD: &str = "src/src/h2load";

/// Returns a command that starts a program with the libraries of the folder: one of the folder, by its path there, or one of
/// the system, by its whole path. The latter's other libraries are the system's.
pub(crate) fn command(program: impl AsRef<Path>) -> Result<Command> {
    let folder = folder()?;
    let mut command = Command::new(folder.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(folder.join("usr/lib/x86_64-linux-gnu")).arg(folder.join(program));
    Ok(command)
}

/// Creates the folder if necessary, and looks for a program in it.
pub(crate) fn install(program: &str) -> Result<()> {
    ensure!(folder()?.join(program).is_file(), "it is not in its package");
    Ok(())
}

/// Returns the folder, after creating it once, which takes some minutes.
pub(crate) fn folder() -> Result<PathBuf> {
    project::filled_once(&format!("debian-{SUITE}"), |folder| {
        println!("creating {}", folder.display());
        if programs::find("mmdebstrap").is_none() {
            programs::install(&["mmdebstrap"])?;
        }
        let log = folder.with_extension("log");
        let file = File::create(&log)?;
        let mut script = Command::new(project::folder().join("newer_debian.sh"));
        script.arg(SUITE).arg(folder).env("DEBIAN_FRONTEND", "noninteractive");
        script.stdout(file.try_clone()?).stderr(file);
        project::run(&mut script).with_context(|| log.display().to_string())
    })
}
