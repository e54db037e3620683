//! The crates as crates.io would have them: packed, built without the rest of the workspace, and installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::extent::Extent;
use crate::project::{self, cargo};
use crate::steps::Steps;

/// The crate of the programs.
const PROGRAMS: &str = "cannery-cli";

/// Runs the task.
pub(crate) fn run() -> Result<(), Error> {
    let mut steps = Steps::default();
    check(&mut steps, Extent::Slow);
    steps.finish()
}

/// Packs the crates and, before a release, builds and installs them.
pub(crate) fn check(steps: &mut Steps, extent: Extent) {
    const CRATES: &str = "packed crates";
    const PUBLISH: &str = "publish --quiet --workspace --dry-run --allow-dirty";
    match extent {
        Extent::Fast | Extent::Usual => {
            steps.skip(CRATES, "`cargo xtask ci` checks them; it asks crates.io for each dependency");
        }
        Extent::Integration => {
            steps.run(CRATES, || project::run(&mut cargo(&format!("{PUBLISH} --no-verify"))));
        }
        // Building them shows that no file is missing, and takes as long as a build of everything.
        Extent::Slow => {
            let mut is_built = false;
            steps.run(CRATES, || {
                // The directories of crates from earlier versions would be patches, too.
                remove(&packages())?;
                project::run(&mut cargo(PUBLISH))?;
                is_built = true;
                Ok(())
            });
            if is_built {
                steps.run("installed crate", install);
            }
        }
    }
}

/// The directory in which cargo packs, with a directory for each crate that it has built.
fn packages() -> PathBuf {
    project::target().join("package")
}

/// Installs the programs as `cargo install --locked cannery-cli` does. The registry doesn't have our other crates yet, so cargo takes
/// their packed sources.
fn install() -> Result<(), Error> {
    let crates = crates()?;
    let programs = crates.iter().find(|packed| packed.name == PROGRAMS).ok_or_else(|| Error::Unexpected {
        what: packages().display().to_string(),
        expected: format!("a directory of {PROGRAMS}"),
        got: "none".into(),
    })?;
    rewrite(&programs.directory.join("Cargo.lock"), without_sources)?;
    // Otherwise, cargo takes it for a member of this workspace.
    rewrite(&programs.directory.join("Cargo.toml"), |manifest| format!("{manifest}\n[workspace]\n"))?;

    let root = project::target().join("installed-crate");
    remove(&root)?;
    let mut install = cargo("install --quiet --locked --debug --path");
    install.arg(&programs.directory).arg("--root").arg(&root);
    for Packed { name, directory } in crates.iter().filter(|packed| packed.name != PROGRAMS) {
        install.args([
            "--config",
            &format!("patch.crates-io.{name}.path={:?}", directory.display().to_string()),
        ]);
    }
    project::run(&mut install)?;

    let archive = root.join("site.cdb");
    let mut archiver = Command::new(root.join("bin/cannery-archiver"));
    archiver.arg("--sources").arg(project::root().join("examples/site")).arg("--archive").arg(&archive);
    project::run(&mut archiver)?;
    project::run(Command::new(root.join("bin/cannery")).arg("verify").arg(&archive))
}

/// A crate that cargo has packed and built.
struct Packed {
    name: String,
    directory: PathBuf,
}

fn crates() -> Result<Vec<Packed>, Error> {
    let packages = packages();
    let entries = fs::read_dir(&packages).map_err(|source| Error::file(&packages, source))?;
    let mut crates = Vec::new();
    for entry in entries {
        let directory = entry.map_err(|source| Error::file(&packages, source))?.path();
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        // NAME-VERSION
        if let Some((name, _)) = name.rsplit_once('-').filter(|_| directory.join("Cargo.toml").is_file()) {
            crates.push(Packed { name: name.to_owned(), directory: directory.clone() });
        }
    }
    Ok(crates)
}

/// Returns a lock file in which our crates come from directories.
fn without_sources(lock: &str) -> String {
    let mut is_ours = false;
    let mut text = String::new();
    for line in lock.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            is_ours = name.starts_with("\"cannery");
        }
        if !is_ours || !(line.starts_with("source = ") || line.starts_with("checksum = ")) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn rewrite(path: &Path, edit: impl FnOnce(&str) -> String) -> Result<(), Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    fs::write(path, edit(&text)).map_err(|source| Error::file(path, source))
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::file(directory, source)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_crates_lose_their_sources() {
        let lock = "[[package]]\nname = \"cannery-base\"\nversion = \"0.1.0\"\nsource = \"registry\"\nchecksum = \"a\"\n\n\
            [[package]]\nname = \"cc\"\nversion = \"1.2.3\"\nsource = \"registry\"\nchecksum = \"b\"\n";
        let expected = "[[package]]\nname = \"cannery-base\"\nversion = \"0.1.0\"\n\n\
            [[package]]\nname = \"cc\"\nversion = \"1.2.3\"\nsource = \"registry\"\nchecksum = \"b\"\n";
        assert_eq!(without_sources(lock), expected);
    }
}
