//! Paths of the project, and running programs to their end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn root() -> &'static Path {
    folder().parent().expect("the benchmarks are one folder below the root")
}

/// Returns a path for files that benchmarks create, which are never committed. Creates its parent folder.
pub(crate) fn scratch(path: &str) -> Result<PathBuf> {
    let path = root().join("target/outside").join(path);
    let parent = path.parent().expect("the path has a parent");
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    Ok(path)
}

/// Returns a folder without files.
pub(crate) fn empty_folder(path: &str) -> Result<PathBuf> {
    let folder = scratch(path)?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Returns a folder that is filled only once. It gets its name after all files exist, so an interrupted run leaves no
/// incomplete folder.
pub(crate) fn filled_once(path: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = scratch(path)?;
    if !folder.is_dir() {
        let unfinished = folder.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fill(&unfinished).with_context(|| unfinished.display().to_string())?;
        fs::rename(&unfinished, &folder)?;
    }
    Ok(folder)
}

/// Parses a TOML file of the benchmarks.
pub(crate) fn parse<T: DeserializeOwned>(name: &str) -> Result<T> {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Returns a command of the shell that runs at the root of the project.
pub(crate) fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(root());
    shell
}

/// Returns a command that runs a program on the given processors.
pub(crate) fn pinned(processors: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", processors]).arg(program).stdin(Stdio::null());
    command
}

/// Runs a program to its end. Fails if it exits with a failure.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Runs a program to its end and returns its output. Fails if it exits with a failure.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the files below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_unstable();
    Ok(files)
}
