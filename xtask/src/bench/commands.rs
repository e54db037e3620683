//! The commands that are measured: built for release, or taken from another folder.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::project::{self, cargo};

/// A folder with commands built elsewhere, to measure an earlier release by the same means.
const FOLDER_VARIABLE: &str = "CANNERY_BIN";

/// Where a command is, after building it once. It is started by its path, never looked for.
pub(crate) fn path(name: &'static str) -> Result<PathBuf, Error> {
    once(name, || build(name))
}

fn build(name: &str) -> Result<PathBuf, Error> {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE) {
        return Ok(PathBuf::from(folder).join(name));
    }
    project::run(&mut cargo(&format!("build --release --quiet --package cannery --bin {name}")))?;
    Ok(project::target().join("release").join(name))
}

/// The ruler, compiled once by the system's C compiler.
pub(crate) fn floor() -> Result<PathBuf, Error> {
    once("floor", || compile("floor"))
}

/// The load generator that costs less than a server, compiled once in the same way.
pub(crate) fn asker() -> Result<PathBuf, Error> {
    once("asker", || compile("asker"))
}

/// Does what makes a command unless this process has done it already.
fn once(name: &'static str, make: impl FnOnce() -> Result<PathBuf, Error>) -> Result<PathBuf, Error> {
    static MADE: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = made.get(name) {
        return Ok(path.clone());
    }
    let path = make()?;
    made.insert(name, path.clone());
    Ok(path)
}

/// Compiles a program of one file in `bench/`.
fn compile(name: &str) -> Result<PathBuf, Error> {
    let program = project::outside().join(name);
    let source = project::root().join("bench").join(format!("{name}.c"));
    std::fs::create_dir_all(project::outside()).map_err(|source| Error::file(project::outside(), source))?;
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&program).arg(source);
    project::run(&mut compiler)?;
    Ok(program)
}
