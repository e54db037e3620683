//! Tools that `cargo xtask dist` installs below `target/`: cargo-deb from crates.io, and actionlint from the Go module proxy.

use std::path::PathBuf;
use std::process::Command;

use crate::error::Error;
use crate::project;

/// The version that `Cargo.toml` is written for.
const CARGO_DEB_VERSION: &str = "3.8.0";

/// The checker of workflows, from the Go module proxy.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// Returns `cargo deb` as a command. Installs it if it is missing: a debug build is faster to make, and packs within seconds.
pub(super) fn cargo_deb() -> Result<Command, Error> {
    let directory = project::outside().join("packagers");
    let program = directory.join("bin/cargo-deb");
    let output = Command::new(&program).arg("--version").output();
    let is_installed =
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_DEB_VERSION));
    if !is_installed {
        let mut install = project::cargo("install --quiet --locked --debug --force --root");
        project::run(install.arg(directory).arg(format!("cargo-deb@{CARGO_DEB_VERSION}")))?;
    }
    let mut command = Command::new(program);
    command.arg("deb").current_dir(project::root());
    Ok(command)
}

/// Returns the path of actionlint. Builds it if it is missing.
pub(super) fn actionlint() -> Result<PathBuf, Error> {
    let directory = project::outside().join("go");
    let program = directory.join("actionlint");
    if !program.is_file() {
        let mut go = Command::new("go");
        go.env("GOBIN", &directory).args(["install", ACTIONLINT]);
        project::run(&mut go)?;
    }
    Ok(program)
}
