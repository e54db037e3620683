//! Tools that `cargo xtask dist` installs below `target/`: packagers from crates.io, a C compiler for other processors from PyPI, and
//! actionlint from the Go module proxy.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::target::Target;
use crate::error::Error;
use crate::{outside, project};

/// The versions that `Cargo.toml` is written for.
const CARGO_DEB: Packager = Packager { name: "cargo-deb", version: "3.8.0" };
const CARGO_GENERATE_RPM: Packager = Packager { name: "cargo-generate-rpm", version: "0.21.1" };

/// PyPI packages: zig, a C compiler and linker with the C libraries of all targets, and the program that makes cargo use it.
const ZIG_PACKAGES: [&str; 2] = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1"];

/// The checker of workflows, from the Go module proxy.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// A program from crates.io that makes a kind of package.
struct Packager {
    name: &'static str,
    version: &'static str,
}

impl Packager {
    /// Returns the program as a command. Installs it if it is missing: a debug build is faster to make, and packs within seconds.
    fn command(&self) -> Result<Command, Error> {
        let directory = project::outside().join("packagers");
        let program = directory.join("bin").join(self.name);
        let output = Command::new(&program).arg("--version").output();
        let is_installed =
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(self.version));
        if !is_installed {
            let mut install = project::cargo("install --quiet --locked --debug --force --root");
            project::run(install.arg(directory).arg(format!("{}@{}", self.name, self.version)))?;
        }
        let mut command = Command::new(program);
        command.current_dir(project::root());
        Ok(command)
    }
}

/// Returns `cargo deb` as a command.
pub(super) fn cargo_deb() -> Result<Command, Error> {
    let mut command = CARGO_DEB.command()?;
    command.arg("deb");
    Ok(command)
}

/// Returns `cargo generate-rpm` as a command.
pub(super) fn cargo_generate_rpm() -> Result<Command, Error> {
    let mut command = CARGO_GENERATE_RPM.command()?;
    command.arg("generate-rpm");
    Ok(command)
}

/// Returns the reason why zig isn't installed and can't be, with the remedy.
pub(super) fn obstacle_to_zig() -> Option<String> {
    let is_possible = zig_directory().join("cargo-zigbuild").is_file() || outside::has_python_environments();
    (!is_possible).then(|| "zig can't be installed: `apt-get install python3-venv`".into())
}

/// Returns `cargo zigbuild` as a command. Installs it if it is missing.
pub(super) fn zigbuild() -> Result<Command, Error> {
    let directory = zig_directory();
    let program = directory.join("cargo-zigbuild");
    if !program.is_file() {
        let environment = directory.parent().unwrap_or(Path::new("."));
        project::run(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
        let mut pip = Command::new(directory.join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        project::run(pip.args(ZIG_PACKAGES))?;
    }

    // It runs zig by this environment's Python, which must be found first.
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([directory].into_iter().chain(env::split_paths(&path)));
    let mut command = Command::new(program);
    command.arg("zigbuild").current_dir(project::root()).env("PATH", path.unwrap_or_default());
    Ok(command)
}

fn zig_directory() -> PathBuf {
    project::outside().join("zig/bin")
}

/// Returns the path of objcopy for the programs of a target. That of GNU only knows the processor of this machine.
pub(super) fn objcopy(target: &Target) -> Result<PathBuf, Error> {
    let (name, package) = if target.is_cross() { ("llvm-objcopy", "llvm") } else { ("objcopy", "binutils") };
    project::program(name).ok_or_else(|| Error::Missing {
        what: name.into(),
        remedy: format!("run `apt-get install {package}`"),
    })
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
