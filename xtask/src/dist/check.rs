//! Tests of the results: linters, programs for other processors in an emulator, the image without a system around it, and the Debian
//! package in a machine with systemd. Also of texts that belong to a release: Kubernetes manifests and the release workflow.
//!
//! A script in the machine installs, serves, upgrades under load, removes and purges. It needs root.

use std::fs;
use std::process::Command;

use crate::dist::target::{Library, TARGETS};
use crate::dist::{Release, create, packages, tools, write_file};
use crate::error::Error;
use crate::machine::Machine;
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
    steps.run("rpmlint", || {
        let mut rpmlint = Command::new("rpmlint");
        rpmlint.arg("--config").arg(project::root().join("contrib/packages/rpm/rpmlint.toml"));
        project::run(rpmlint.arg("--strict").arg(packages::find(release, ".rpm")?))
    });
    const IMAGE: &str = "image in a container";
    const EMULATED: &str = "other processor";
    const PACKAGE: &str = "package in a machine";
    if !outside::is_root() {
        let reason = "needs root, to create namespaces: `sudo -E cargo xtask dist --check`";
        steps.skip(EMULATED, reason);
        steps.skip(IMAGE, reason);
        steps.skip(PACKAGE, reason);
        return;
    }
    let emulated = TARGETS.iter().map(|target| (target, release.work(target.triple)));
    for (target, programs) in emulated.filter(|(target, programs)| {
        target.is_cross() && target.library == Library::Musl && programs.is_dir()
    }) {
        steps.run(format!("{EMULATED} {}", target.architecture.image), || {
            let emulator = format!("qemu-{}", target.triple.split('-').next().unwrap_or_default());
            let directory = release.work("check-emulated");
            create(&directory.join("site"))?;
            write_file(&directory.join("site/index.html"), b"<title>emulated</title>")?;
            let mut sh = Command::new("unshare");
            sh.args([
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-euc",
                include_str!("check/emulated.sh"),
                "sh",
            ]);
            project::run(sh.arg(emulator).arg(programs).arg(&directory))
        });
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
/// the whole sandbox. The same with an image of a site.
fn check_image(release: &Release) -> Result<(), Error> {
    let directory = release.work("check-image");
    create(&directory)?;
    write_file(&directory.join("site/index.html"), b"<title>in an image</title>")?;
    let mut sh = Command::new("sh");
    sh.args(["-euc", include_str!("check/image.sh"), "sh"]).arg(release.result("-image")).arg(&directory);
    let of_this_machine = TARGETS.iter().find(|target| target.runs_here && target.library == Library::Musl);
    let programs = of_this_machine.map(|target| release.work(target.triple)).filter(|path| path.is_dir());
    project::run(sh.arg(&release.version).args(programs))
}

/// Installs the package in a minimal Debian, and boots it.
fn check_package(release: &Release) -> Result<(), Error> {
    let target =
        TARGETS.iter().find(|target| target.library == Library::Glibc).expect("packages have a target");
    let machine = Machine::create(&release.work("machine"))?;
    machine.copy(&packages::find(release, ".deb")?, "first.deb")?;
    // The next version, with the same programs.
    packages::write_deb(release, target, 2)?;
    let next = packages::find(release, &format!("-2_{}.deb", target.architecture.image))?;
    machine.copy(&next, "next.deb")?;
    fs::remove_file(&next).map_err(|source| Error::file(&next, source))?;
    machine.run(include_str!("check/machine.sh"))
}
