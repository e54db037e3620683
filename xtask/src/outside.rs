//! What tests need from outside: looks for it, and installs what is missing.
//!
//! Programs come from Debian by apt-get, the rest from npm, PyPI and the proxy of Go modules into folders below
//! `target/`. Nothing is downloaded that is there already, and nothing is installed without saying so first.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::project;

/// Where Debian's `python3.11-doc` puts a site of a thousand pages.
pub(crate) const PYTHON_DOCS: &str = "/usr/share/doc/python3.11/html";

/// A file or folder that shows that a Debian package is there.
struct Needed {
    package: &'static str,
    shown_by: Sign,
}

enum Sign {
    /// A program on the search path.
    Program(&'static str),
    Folder(&'static str),
    /// A module of Debian's Python, or of whichever `python3` is.
    PythonModule(&'static str),
}

/// What the tests need.
const FOR_TESTS: [Needed; 18] = [
    Needed { package: "python3.11-doc", shown_by: Sign::Folder(PYTHON_DOCS) },
    Needed { package: "tinycdb", shown_by: Sign::Program("cdb") },
    Needed { package: "curl", shown_by: Sign::Program("curl") },
    Needed { package: "wget", shown_by: Sign::Program("wget") },
    Needed { package: "chromium", shown_by: Sign::Program("chromium") },
    Needed { package: "gcc", shown_by: Sign::Program("gcc") },
    Needed { package: "golang-go", shown_by: Sign::Program("go") },
    Needed { package: "default-jdk-headless", shown_by: Sign::Program("javac") },
    Needed { package: "nghttp2-client", shown_by: Sign::Program("nghttp") },
    Needed { package: "testssl.sh", shown_by: Sign::Program("testssl") },
    Needed { package: "nginx-light", shown_by: Sign::Program("nginx") },
    Needed { package: "haproxy", shown_by: Sign::Program("haproxy") },
    Needed { package: "varnish", shown_by: Sign::Program("varnishd") },
    Needed { package: "nodejs", shown_by: Sign::Program("node") },
    Needed { package: "npm", shown_by: Sign::Program("npm") },
    Needed { package: "slowhttptest", shown_by: Sign::Program("slowhttptest") },
    Needed { package: "systemd", shown_by: Sign::Program("systemd-analyze") },
    Needed { package: "python3-venv", shown_by: Sign::PythonModule("ensurepip") },
];

/// What the counting of instructions needs.
const FOR_COUNTS: [Needed; 1] = [Needed { package: "valgrind", shown_by: Sign::Program("valgrind") }];

/// The release of gungraun's own program, which has to be that of the library in `bench/counts/Cargo.toml`.
pub(crate) const GUNGRAUN_VERSION: &str = "0.20.0";

/// Packages of npm, each with the release that the tests were written for.
const NPM_PACKAGES: [(&str, &str); 2] =
    [("playwright-core", "1.65.1"), ("@fortawesome/fontawesome-free", "7.3.1")];

/// Packages of PyPI, each with the release that the tests were written for.
const PYPI_PACKAGES: [(&str, &str); 8] = [
    ("aiohttp", "3.14.5"),
    ("brotli", "1.2.1"),
    // httpx speaks HTTP/2 where this is there.
    ("h2", "4.4.1"),
    ("httplint", "2026.10.4"),
    ("httpx", "0.28.1"),
    ("prometheus_client", "0.26.0"),
    ("redbot", "2.7.1"),
    ("tlslite-ng", "0.8.2"),
];

impl Needed {
    fn is_missing(&self) -> bool {
        match self.shown_by {
            Sign::Program(name) => project::program(name).is_none(),
            Sign::Folder(path) => !Path::new(path).is_dir(),
            Sign::PythonModule(name) => {
                let import = Command::new("python3").args(["-c", &format!("import {name}")]).output();
                !import.is_ok_and(|output| output.status.success())
            }
        }
    }
}

/// The programs for the tests.
pub(crate) fn install_programs() -> Result<(), Error> {
    install(&FOR_TESTS)
}

/// The programs that count instructions: the simulated processor, and what reads its results.
pub(crate) fn install_counting_programs() -> Result<(), Error> {
    install(&FOR_COUNTS)?;
    let has_version = |output: std::process::Output| {
        String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == GUNGRAUN_VERSION)
    };
    if Command::new(gungraun_runner()).arg("--version").output().is_ok_and(has_version) {
        return Ok(());
    }
    let package = format!("gungraun-runner@{GUNGRAUN_VERSION}");
    project::run(
        project::cargo("install --quiet --locked --force --root").arg(gungraun_folder()).arg(package),
    )
}

/// Gungraun's own program.
pub(crate) fn gungraun_runner() -> PathBuf {
    gungraun_folder().join("bin/gungraun-runner")
}

fn gungraun_folder() -> PathBuf {
    project::outside().join("gungraun")
}

fn install(needed: &[Needed]) -> Result<(), Error> {
    let missing = || needed.iter().filter(|needed| needed.is_missing()).map(|needed| needed.package);
    let packages: Vec<_> = missing().collect();
    if packages.is_empty() {
        return Ok(());
    }
    println!("installing from Debian: {}", packages.join(" "));
    project::run(apt_get(&packages)?.arg("update"))?;
    project::run(
        apt_get(&packages)?
            .args(["install", "--yes", "--no-install-recommends"])
            .args(APT_OPTIONS)
            .args(&packages),
    )?;

    let still_missing: Vec<_> = missing().collect();
    if still_missing.is_empty() {
        return Ok(());
    }
    Err(Error::Missing {
        what: still_missing.join(", "),
        remedy: "apt-get reported success, so look at dpkg's settings for files that it leaves out".into(),
    })
}

/// Small images tell dpkg to leave documentation out, and then count the package as installed without
/// it: so the documentation is asked for by path, and installed again if it has to be.
const APT_OPTIONS: [&str; 3] =
    ["--reinstall", "--option", "DPkg::Options::=--path-include=/usr/share/doc/python3.11/*"];

/// apt-get with the rights it needs: ours if we are root, else those of sudo.
fn apt_get(packages: &[&str]) -> Result<Command, Error> {
    let by_hand = || Error::Missing {
        what: packages.join(", "),
        remedy: format!("install by hand, as root: apt-get install {}", packages.join(" ")),
    };
    let apt_get = project::program("apt-get").ok_or_else(by_hand)?;
    if is_root() {
        let mut command = Command::new(apt_get);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        return Ok(command);
    }
    let mut command = Command::new(project::program("sudo").ok_or_else(by_hand)?);
    if !io::stdin().is_terminal() {
        // Nobody is there to type a password: better to fail at once.
        command.arg("--non-interactive");
    }
    command.arg("DEBIAN_FRONTEND=noninteractive").arg(apt_get);
    Ok(command)
}

/// Our own entry in the process table belongs to the user that we run as.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// The folder whose `node_modules` holds the packages of npm.
pub(crate) fn npm_folder() -> PathBuf {
    project::outside().join("npm")
}

/// The packages of npm, without the browsers that Playwright would bring: the tests use Debian's.
pub(crate) fn install_npm_packages() -> Result<(), Error> {
    let folder = npm_folder();
    if NPM_PACKAGES.iter().all(|(name, version)| is_installed(&folder, name, version)) {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
    let mut npm = Command::new("npm");
    npm.current_dir(&folder).stdin(Stdio::null()).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    npm.args([
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
        "--prefix",
        ".",
    ]);
    npm.args(NPM_PACKAGES.map(|(name, version)| format!("{name}@{version}")));
    project::run(&mut npm)
}

/// The folder of a Python environment that holds the packages of PyPI.
pub(crate) fn python_folder() -> PathBuf {
    project::outside().join("python")
}

/// The packages of PyPI, in an environment of their own.
pub(crate) fn install_pypi_packages() -> Result<(), Error> {
    let folder = python_folder();
    let wanted: Vec<String> =
        PYPI_PACKAGES.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    let listed = Command::new(folder.join("bin/python")).args(["-m", "pip", "freeze"]).output();
    let listed =
        listed.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
    if wanted.iter().all(|package| listed.lines().any(|line| line.eq_ignore_ascii_case(package))) {
        return Ok(());
    }
    project::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(&wanted);
    project::run(&mut pip)
}

/// The program that goes through the requirements of RFC 9113 and RFC 7541 one by one.
pub(crate) fn h2spec() -> PathBuf {
    project::outside().join("go/h2spec")
}

/// Builds h2spec, of the releases that stand in `tests/outside/h2spec`.
pub(crate) fn install_h2spec() -> Result<(), Error> {
    if h2spec().is_file() {
        return Ok(());
    }
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o"]).arg(h2spec()).arg("github.com/summerwind/h2spec/cmd/h2spec");
    project::run(go.current_dir(project::root().join("tests/outside/h2spec")).stdin(Stdio::null()))
}

fn is_installed(folder: &Path, name: &str, version: &str) -> bool {
    let description = folder.join("node_modules").join(name).join("package.json");
    fs::read_to_string(description).is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
}
