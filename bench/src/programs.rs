//! Programs: installs the tools and peers, builds Cannery and the C programs.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::project::{self, find_program};

/// The Python documentation of Debian's `python3.11-doc`.
pub(crate) const PYTHON_DOCS: &str = "/usr/share/doc/python3.11/html";

/// Packages that are no programs: a folder of each, and its name.
const DATA_PACKAGES: [(&str, &str); 2] =
    [(PYTHON_DOCS, "python3.11-doc"), ("/usr/share/javascript/jquery", "libjs-jquery")];

/// A folder of binaries to measure in place of the current sources, to compare two releases.
const BINARIES_VARIABLE: &str = "CANNERY_BIN";

/// Installs the missing tools and data.
///
/// # Errors
///
/// Fails if a package can't be installed; the error has the command to install it by hand.
pub(crate) fn install_tools(tools: &BTreeMap<String, String>) -> Result<()> {
    let programs =
        tools.iter().filter(|(program, _)| find_program(program).is_none()).map(|(_, package)| package);
    let data =
        DATA_PACKAGES.iter().filter(|(folder, _)| !Path::new(folder).is_dir()).map(|(_, package)| *package);
    let missing: Vec<_> = programs.map(String::as_str).chain(data).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs a peer if it is not present.
pub(crate) fn install_peer(program: &str, packages: &[String]) -> Result<()> {
    let is_installed = |package: &String| {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
        query.output().is_ok_and(|output| output.stdout == b"installed")
    };
    if find_program(program).is_none() || !packages.iter().all(is_installed) {
        install(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    find_program(program).context("it is not in its package").map(drop)
}

/// Installs packages of Debian.
///
/// # Errors
///
/// Fails if a package can't be installed; the error has the command to install it by hand.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    println!("installing from Debian: {list}");
    ensure!(
        rustix::process::geteuid().is_root() && find_program("apt-get").is_some(),
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

/// Returns a command, given as words separated by spaces, that runs at the root of the project.
pub(crate) fn at_root(command: &str) -> Command {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(project::root());
    command
}

/// Returns the path of one of Cannery's programs, after building it once.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    once(name, || {
        if let Some(folder) = env::var_os(BINARIES_VARIABLE) {
            return Ok(PathBuf::from(folder).join(name));
        }
        project::run(&mut at_root(&format!(
            "cargo build --release --quiet --package cannery-cli --bin {name}"
        )))?;
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Ok(project::root().join(target).join("release").join(name))
    })
}

/// Returns the path of `floor` or `loadgen`, after compiling it once.
pub(crate) fn c_program(name: &str) -> Result<PathBuf> {
    once(name, || {
        let program = project::scratch(name)?;
        let source = project::folder().join(format!("{name}.c"));
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&program).arg(source);
        project::run(&mut compiler)?;
        Ok(program)
    })
}

/// Returns the path of a program of an npm package, after installing it once. `package` has its version.
pub(crate) fn npm_program(package: &str) -> Result<PathBuf> {
    once(package, || {
        let folder = project::scratch(&format!("npm/{package}"))?;
        let name = package.split('@').next().unwrap_or(package);
        let program = folder.join("node_modules/.bin").join(name);
        if !program.exists() {
            std::fs::create_dir_all(&folder)?;
            println!("installing from npm: {package}");
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
                .arg(&folder)
                .arg(package);
            project::run(&mut npm)?;
        }
        Ok(program)
    })
}

/// Makes a program unless this process has made it already.
fn once(name: &str, make: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    static MADE: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = made.get(name) {
        return Ok(path.clone());
    }
    let path = make()?;
    made.insert(name.to_owned(), path.clone());
    Ok(path)
}

/// Returns the commit of the sources, marked if they have changes.
pub(crate) fn commit() -> Result<String> {
    let commit = project::output(&mut at_root("git rev-parse --short=12 HEAD"))?;
    // Tables of earlier runs may differ; the sources must not.
    let changes = "git status --porcelain --untracked-files=no -- :!bench/results :!docs";
    let is_changed = !project::output(&mut at_root(changes))?.is_empty();
    Ok(format!("{}{}", commit.trim(), if is_changed { " with changes" } else { "" }))
}
