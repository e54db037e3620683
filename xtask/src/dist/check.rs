//! Tests of the results: a linter, the image without a system around it, and the Debian package in a machine with systemd. Also of
//! texts that belong to a release: Kubernetes manifests and the release workflow.
//!
//! The machine is a minimal Debian in a container of systemd-nspawn, with a network of its own. A script inside installs, serves,
//! upgrades under load, removes and purges. It needs root.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::dist::target::{Library, TARGETS};
use crate::dist::{Release, create, packages, tools, write_file};
use crate::error::Error;
use crate::outside;
use crate::project;
use crate::steps::Steps;

/// Runs the tests of everything that was written.
pub(super) fn run(steps: &mut Steps, release: &Release) {
    steps.run("outside programs", outside::install_packaging_programs);
    steps.run("manifests", check_manifests);
    steps.run("workflow", check_workflow);
    steps.run("lintian", || {
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]);
        project::run(lintian.arg(packages::find(release, ".deb")?))
    });
    const IMAGE: &str = "image in a container";
    const PACKAGE: &str = "package in a machine";
    if !outside::is_root() {
        let reason = "needs root, to create namespaces: `sudo -E cargo xtask dist --check`";
        steps.skip(IMAGE, reason);
        steps.skip(PACKAGE, reason);
        return;
    }
    if release.result("-image").is_dir() {
        steps.run(IMAGE, || check_image(release));
    } else {
        steps.skip(IMAGE, "no image was written");
    }
    steps.run(PACKAGE, || check_package(release));
}

/// Decodes the manifests as the types of Kubernetes.
fn check_manifests() -> Result<(), Error> {
    let directory = project::root().join("contrib/kubernetes");
    let entries = fs::read_dir(&directory).map_err(|source| Error::file(&directory, source))?;
    let mut manifests: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    manifests.sort_unstable();
    let mut go = Command::new("go");
    go.args(["run", "-mod=readonly", "."]).args(manifests);
    project::run(go.current_dir(project::root().join("tests/outside/manifests")))
}

fn check_workflow() -> Result<(), Error> {
    let mut actionlint = Command::new(tools::actionlint()?);
    project::run(actionlint.arg(project::root().join(".github/workflows/release.yml")))
}

/// Copies the image as a registry would, unpacks it, and starts the server with a read-only root, without capabilities and with
/// the whole sandbox.
fn check_image(release: &Release) -> Result<(), Error> {
    let directory = release.work("check-image");
    create(&directory)?;
    write_file(&directory.join("site/index.html"), b"<title>in an image</title>")?;
    run_script(include_str!("check/image.sh"), &[&release.result("-image"), &directory], &release.version)
}

/// Installs the package in a minimal Debian, and boots it.
fn check_package(release: &Release) -> Result<(), Error> {
    let target =
        TARGETS.iter().find(|target| target.library == Library::Glibc).expect("packages have a target");
    let root = release.work("machine");
    let shared = root.join("check");
    run_script(include_str!("check/debian.sh"), &[&project::outside().join("debian"), &root], "bookworm")?;

    copy(&packages::find(release, ".deb")?, &shared.join("first.deb"))?;
    // The next version, with the same programs.
    packages::write_deb(release, target, 2)?;
    let next = packages::find(release, &format!("-2_{}.deb", target.architecture.image))?;
    fs::rename(&next, shared.join("next.deb")).map_err(|source| Error::file(&next, source))?;
    write_file(&shared.join("machine.sh"), include_bytes!("check/machine.sh"))?;

    run_script(include_str!("check/boot.sh"), &[&root], "")
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map_err(|source| Error::file(from, source)).map(|_| ())
}

fn run_script(script: &str, paths: &[&Path], word: &str) -> Result<(), Error> {
    project::run(Command::new("sh").args(["-euc", script, "sh"]).args(paths).arg(word))
}
