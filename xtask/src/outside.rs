//! External programs and packages of the tests: finds them, and installs the missing ones.
//!
//! Programs come from Debian by apt-get, the others from npm, PyPI and the Go module proxy into directories below `target/`.
//! Installed ones are not downloaded again, and each list is printed before its installation.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::error::Error;
use crate::project;

/// The directory of Debian's `python3.11-doc`, a site of a thousand pages.
pub(crate) const PYTHON_DOCS: &str = "/usr/share/doc/python3.11/html";

/// A Debian package, and the evidence that it is installed.
struct Requirement {
    package: &'static str,
    evidence: Evidence,
}

enum Evidence {
    /// A program on the search path.
    Program(&'static str),
    Directory(&'static str),
    /// A module that `python3` can import.
    PythonModule(&'static str),
}

/// The requirements of the tests.
const FOR_TESTS: [Requirement; 25] = [
    Requirement { package: "python3.11-doc", evidence: Evidence::Directory(PYTHON_DOCS) },
    Requirement { package: "tinycdb", evidence: Evidence::Program("cdb") },
    Requirement { package: "curl", evidence: Evidence::Program("curl") },
    Requirement { package: "wget", evidence: Evidence::Program("wget") },
    Requirement { package: "chromium", evidence: Evidence::Program("chromium") },
    Requirement { package: "gcc", evidence: Evidence::Program("gcc") },
    Requirement { package: "golang-go", evidence: Evidence::Program("go") },
    Requirement { package: "default-jdk-headless", evidence: Evidence::Program("javac") },
    Requirement { package: "nghttp2-client", evidence: Evidence::Program("nghttp") },
    Requirement { package: "ngtcp2-client", evidence: Evidence::Program("gtlsclient") },
    Requirement { package: "testssl.sh", evidence: Evidence::Program("testssl") },
    Requirement { package: "nginx-light", evidence: Evidence::Program("nginx") },
    Requirement { package: "caddy", evidence: Evidence::Program("caddy") },
    Requirement { package: "haproxy", evidence: Evidence::Program("haproxy") },
    Requirement { package: "varnish", evidence: Evidence::Program("varnishd") },
    Requirement { package: "docker-registry", evidence: Evidence::Program("docker-registry") },
    Requirement { package: "openssh-server", evidence: Evidence::Program("sshd") },
    Requirement { package: "faketime", evidence: Evidence::Program("faketime") },
    Requirement { package: "minisign", evidence: Evidence::Program("minisign") },
    Requirement { package: "nodejs", evidence: Evidence::Program("node") },
    Requirement { package: "npm", evidence: Evidence::Program("npm") },
    Requirement { package: "skopeo", evidence: Evidence::Program("skopeo") },
    Requirement { package: "slowhttptest", evidence: Evidence::Program("slowhttptest") },
    Requirement { package: "systemd", evidence: Evidence::Program("systemd-analyze") },
    Requirement { package: "python3-venv", evidence: Evidence::PythonModule("ensurepip") },
];

/// The requirements of `counts`.
const FOR_COUNTS: [Requirement; 1] =
    [Requirement { package: "valgrind", evidence: Evidence::Program("valgrind") }];

/// The requirements of `dist --check`.
const FOR_PACKAGES: [Requirement; 13] = [
    Requirement { package: "binutils", evidence: Evidence::Program("objcopy") },
    Requirement { package: "curl", evidence: Evidence::Program("curl") },
    Requirement { package: "debootstrap", evidence: Evidence::Program("debootstrap") },
    Requirement { package: "golang-go", evidence: Evidence::Program("go") },
    Requirement { package: "iproute2", evidence: Evidence::Program("ip") },
    Requirement { package: "lintian", evidence: Evidence::Program("lintian") },
    Requirement { package: "python3", evidence: Evidence::Program("python3") },
    Requirement { package: "qemu-user", evidence: Evidence::Program("qemu-aarch64") },
    Requirement { package: "rpm", evidence: Evidence::Program("rpm") },
    Requirement { package: "rpmlint", evidence: Evidence::Program("rpmlint") },
    Requirement { package: "skopeo", evidence: Evidence::Program("skopeo") },
    Requirement { package: "systemd-container", evidence: Evidence::Program("systemd-nspawn") },
    Requirement { package: "umoci", evidence: Evidence::Program("umoci") },
];

/// The version of gungraun's runner, which must be that of the library in `bench/counts/Cargo.toml`.
pub(crate) const GUNGRAUN_VERSION: &str = "0.20.0";

/// npm packages with the versions that the tests are written for.
const NPM_PACKAGES: [(&str, &str); 2] =
    [("playwright-core", "1.65.1"), ("@fortawesome/fontawesome-free", "7.3.1")];

/// PyPI packages with the versions that the tests are written for.
const PYPI_PACKAGES: [(&str, &str); 16] = [
    ("aiohttp", "3.14.5"),
    ("aioquic", "1.7.2"),
    ("brotli", "1.2.1"),
    // libcurl with HTTP/3, which Debian's doesn't have.
    ("curl_cffi", "0.16.3"),
    // The server of moto.
    ("Flask", "3.1.3"),
    ("flask-cors", "6.0.5"),
    // httpx speaks HTTP/2 if this is installed.
    ("h2", "4.4.1"),
    ("httplint", "2026.10.4"),
    ("httpx", "0.28.1"),
    ("moto", "5.2.5"),
    ("mypy", "2.4.1"),
    ("prometheus_client", "0.26.0"),
    // QPACK of aioquic.
    ("pylsqpack", "1.0.0"),
    ("redbot", "2.7.1"),
    ("ruff", "0.17.6"),
    ("tlslite-ng", "0.8.2"),
];

impl Requirement {
    fn is_missing(&self) -> bool {
        match self.evidence {
            Evidence::Program(name) => project::program(name).is_none(),
            Evidence::Directory(path) => !Path::new(path).is_dir(),
            Evidence::PythonModule(name) => !has_python_module(name),
        }
    }
}

/// Whether `python3` can make virtual environments, into which packages of PyPI are installed.
pub(crate) fn has_python_environments() -> bool {
    has_python_module("ensurepip")
}

fn has_python_module(name: &str) -> bool {
    let import = Command::new("python3").args(["-c", &format!("import {name}")]).output();
    import.is_ok_and(|output| output.status.success())
}

/// Returns the names of the programs and packages that the tests need and that aren't installed, or have another version.
pub(crate) fn missing() -> &'static [&'static str] {
    static MISSING: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let programs = FOR_TESTS.iter().filter(|requirement| requirement.is_missing());
        let built = [
            (has_npm_packages(), "npm packages"),
            (has_pypi_packages(), "PyPI packages"),
            (h2spec().is_file(), "h2spec"),
            (quic_go().is_file(), "quic-go"),
            (pebble_directory().join("pebble").is_file(), "pebble"),
            (has_stores(&STORES), "registries"),
        ];
        let built = built.into_iter().filter(|(is_installed, _)| !is_installed);
        programs.map(|program| program.package).chain(built.map(|(_, name)| name)).collect()
    });
    &MISSING
}

/// Installs the programs of the tests.
pub(crate) fn install_programs() -> Result<(), Error> {
    install(&FOR_TESTS)
}

/// Installs the programs that check packages and images.
pub(crate) fn install_packaging_programs() -> Result<(), Error> {
    install(&FOR_PACKAGES)
}

/// Installs the programs that count instructions: valgrind and gungraun's runner.
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
        project::cargo("install --quiet --locked --force --root").arg(gungraun_directory()).arg(package),
    )
}

/// Returns the path of gungraun's runner.
pub(crate) fn gungraun_runner() -> PathBuf {
    gungraun_directory().join("bin/gungraun-runner")
}

fn gungraun_directory() -> PathBuf {
    project::outside().join("gungraun")
}

fn install(requirements: &[Requirement]) -> Result<(), Error> {
    let missing = || {
        requirements
            .iter()
            .filter(|requirement| requirement.is_missing())
            .map(|requirement| requirement.package)
    };
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
        remedy: "apt-get reported success, so check which files dpkg is configured to leave out".into(),
    })
}

/// Options that install documentation. Small images configure dpkg to leave it out, and then count the package as installed;
/// so we include its path explicitly and reinstall the package.
const APT_OPTIONS: [&str; 3] =
    ["--reinstall", "--option", "DPkg::Options::=--path-include=/usr/share/doc/python3.11/*"];

/// Returns `apt-get` as a command, with sudo unless we are root.
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
        // Without a terminal, no password can be entered: fail at once.
        command.arg("--non-interactive");
    }
    command.arg("DEBIAN_FRONTEND=noninteractive").arg(apt_get);
    Ok(command)
}

/// Returns `true` if we run as root: the owner of our entry in `/proc` is our user.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Returns the directory with `node_modules` and the npm packages.
pub(crate) fn npm_directory() -> PathBuf {
    project::outside().join("npm")
}

/// Installs the npm packages, without Playwright's browsers: the tests use Debian's Chromium.
pub(crate) fn install_npm_packages() -> Result<(), Error> {
    if has_npm_packages() {
        return Ok(());
    }
    let directory = npm_directory();
    fs::create_dir_all(&directory).map_err(|source| Error::file(&directory, source))?;
    let mut npm = Command::new("npm");
    npm.current_dir(&directory).stdin(Stdio::null()).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
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

fn has_npm_packages() -> bool {
    let directory = npm_directory();
    NPM_PACKAGES.iter().all(|(name, version)| is_installed(&directory, name, version))
}

/// Returns the directory of the virtual environment with the PyPI packages.
pub(crate) fn python_directory() -> PathBuf {
    project::outside().join("python")
}

/// Installs the PyPI packages into a virtual environment.
pub(crate) fn install_pypi_packages() -> Result<(), Error> {
    if has_pypi_packages() {
        return Ok(());
    }
    let directory = python_directory();
    project::run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    project::run(pip.args(PYPI_PACKAGES.map(pinned)))
}

fn has_pypi_packages() -> bool {
    let python = python_directory().join("bin/python");
    let Ok(output) = Command::new(python).args(["-m", "pip", "freeze"]).output() else { return false };
    let listed = String::from_utf8_lossy(&output.stdout);
    let is_listed = |package: String| listed.lines().any(|line| line.eq_ignore_ascii_case(&package));
    PYPI_PACKAGES.map(pinned).into_iter().all(is_listed)
}

/// Returns a PyPI package with its version, as pip writes it.
fn pinned((name, version): (&str, &str)) -> String {
    format!("{name}=={version}")
}

/// Returns the path of h2spec, which tests the requirements of RFC 9113 and RFC 7541 one by one.
pub(crate) fn h2spec() -> PathBuf {
    project::outside().join("go/h2spec")
}

/// Builds h2spec, at the versions in `tests/outside/h2spec`.
pub(crate) fn install_h2spec() -> Result<(), Error> {
    if h2spec().is_file() {
        return Ok(());
    }
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o"]).arg(h2spec()).arg("github.com/summerwind/h2spec/cmd/h2spec");
    project::run(go.current_dir(project::root().join("tests/outside/h2spec")).stdin(Stdio::null()))
}

/// Returns the path of the client over quic-go in `tests/outside/quic_go`.
pub(crate) fn quic_go() -> PathBuf {
    project::outside().join("go/quic_go")
}

/// Builds the client over quic-go. Go does nothing if it is built.
pub(crate) fn install_quic_go() -> Result<(), Error> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o"]).arg(quic_go()).arg(".");
    project::run(go.current_dir(project::root().join("tests/outside/quic_go")).stdin(Stdio::null()))
}

/// Returns the directory of Pebble, a certificate authority for tests, and of its name server.
pub(crate) fn pebble_directory() -> PathBuf {
    project::outside().join("go")
}

/// Builds Pebble and its name server, at the versions in `tests/outside/pebble`.
pub(crate) fn install_pebble() -> Result<(), Error> {
    const PACKAGES: [&str; 2] = ["pebble", "pebble-challtestsrv"];
    if PACKAGES.iter().all(|package| pebble_directory().join(package).is_file()) {
        return Ok(());
    }
    let directory = pebble_directory();
    fs::create_dir_all(&directory).map_err(|source| Error::file(&directory, source))?;
    let mut go = Command::new("go");
    // With several packages, the path must be recognizable as a directory.
    go.args(["build", "-mod=readonly", "-o"]).arg(directory.join(""));
    go.args(PACKAGES.map(|package| format!("github.com/letsencrypt/pebble/v2/cmd/{package}")));
    project::run(go.current_dir(project::root().join("tests/outside/pebble")).stdin(Stdio::null()))
}

/// Returns the directory of registries, which are stores of the tests.
pub(crate) fn stores_directory() -> PathBuf {
    project::outside().join("go")
}

/// Paths of their packages, whose last part is the name of the program.
const STORES: [&str; 2] = [
    "github.com/google/go-containerregistry/cmd/crane",
    "github.com/distribution/distribution/v3/cmd/registry",
];

/// A gateway that speaks S3. Building it takes about as long as the others together, so only the long tests have it.
const SLOW_STORES: [&str; 1] = ["github.com/versity/versitygw/cmd/versitygw"];

/// Builds them, at the versions in `tests/outside/stores`.
pub(crate) fn install_stores() -> Result<(), Error> {
    build_stores(&STORES)
}

/// Builds the stores of the long tests.
pub(crate) fn install_slow_stores() -> Result<(), Error> {
    build_stores(&SLOW_STORES)
}

fn build_stores(packages: &[&str]) -> Result<(), Error> {
    if has_stores(packages) {
        return Ok(());
    }
    let directory = stores_directory();
    fs::create_dir_all(&directory).map_err(|source| Error::file(&directory, source))?;
    let mut go = Command::new("go");
    // With several packages, the path must be recognizable as a directory.
    go.args(["build", "-mod=readonly", "-o"]).arg(directory.join("")).args(packages);
    project::run(go.current_dir(project::root().join("tests/outside/stores")).stdin(Stdio::null()))
}

fn has_stores(packages: &[&str]) -> bool {
    let names = packages.iter().filter_map(|package| package.rsplit('/').next());
    names.map(|name| stores_directory().join(name)).all(|path| path.is_file())
}

fn is_installed(directory: &Path, name: &str, version: &str) -> bool {
    let description = directory.join("node_modules").join(name).join("package.json");
    fs::read_to_string(description).is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
}
