//! Programs: installs the tools and peers, and builds Cannery.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::project;

/// The Python documentation of Debian's `python3.11-doc`.
pub(crate) const PYTHON_DOCS: &str = "/usr/share/doc/python3.11/html";

/// A folder of binaries to measure in place of the current sources, to compare two releases.
const BINARIES_VARIABLE: &str = "CANNERY_BIN";

/// Returns the path of a program on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // Programs for administrators are often missing from a user's search path.
    let administrators = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let folders = env::split_paths(&path).chain(administrators);
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Installs the missing tools, which are programs or the paths of folders, each with its package.
pub(crate) fn install_tools(tools: &BTreeMap<String, String>) -> Result<()> {
    let missing: Vec<_> = tools
        .iter()
        .filter(|(tool, _)| find(tool).is_none() && !Path::new(tool).is_dir())
        .map(|(_, package)| package.as_str())
        .collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs a peer if it is not present.
pub(crate) fn install_peer(program: &str, packages: &[String]) -> Result<()> {
    let is_installed = |package: &String| {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
        query.output().is_ok_and(|output| output.stdout == b"installed")
    };
    if find(program).is_none() || !packages.iter().all(is_installed) {
        install(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    find(program).context("it is not in its package").map(drop)
}

/// Installs packages of Debian. The error has the command to install them by hand.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    println!("installing from Debian: {list}");
    ensure!(
        rustix::process::geteuid().is_root() && find("apt-get").is_some(),
        "install by hand, as root: apt-get install {list}"
    );

    let apt_get = || {
        let mut command = Command::new("apt-get");
        // Without a run level, Debian starts the services that it installs.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    project::run(apt_get().arg("update"))?;
    let mut command = apt_get();
    command.args(["install", "--yes", "--no-install-recommends", "--reinstall"]);
    // Small images configure dpkg to leave documentation out, and then count the package as installed without it.
    command.args(["--option", "DPkg::Options::=--path-include=/usr/share/doc/python3.11/*"]);
    project::run(command.args(packages))
}

/// Builds Cannery's programs as they are shipped, but without a profile, unless those of another folder are measured.
pub(crate) fn build_cannery() -> Result<()> {
    if env::var_os(BINARIES_VARIABLE).is_some() {
        return Ok(());
    }
    project::run(&mut project::shell("cargo build --profile dist --quiet --package cannery-cli --bins"))
}

/// Returns the path of one of Cannery's programs.
pub(crate) fn cannery(name: &str) -> PathBuf {
    let folder = env::var_os(BINARIES_VARIABLE).map_or_else(
        || {
            let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
            project::root().join(target).join("dist")
        },
        PathBuf::from,
    );
    folder.join(name)
}
