//! The Debian package. `Cargo.toml` lists its files, `contrib/packages` has its scripts and settings.

use std::path::Path;
use std::process::Command;

use cannery_image::{Tree, gzip};

use crate::dist::programs::{NAMES, Programs};
use crate::dist::target::Target;
use crate::dist::{Release, read, tools, tree, write_file};
use crate::error::Error;
use crate::project;

/// Version of the packaging, after the version of the programs.
const REVISION: u32 = 1;

/// Writes the package. `of_images` are programs that run without shared libraries, as images need them.
pub(super) fn write(
    release: &Release,
    target: &Target,
    programs: &Programs,
    of_images: Option<&Programs>,
    host: &Programs,
) -> Result<(), Error> {
    let mut files = Tree::new();
    for name in NAMES {
        files.add_bytes(format!("usr/bin/{name}"), 0o755, read(&programs.program(name))?);
    }
    let of_images = of_images.unwrap_or_else(|| {
        println!("without programs with musl: in this package, `cannery image` needs `--server`");
        programs
    });
    files.add_bytes(
        "usr/lib/cannery/static/cannery-server",
        0o755,
        read(&of_images.program("cannery-server"))?,
    );
    // Debian's name for the changelog of the project.
    files.add_bytes(
        "usr/share/doc/cannery/changelog.gz",
        0o644,
        gzip(tree::text_of("CHANGELOG.md")?.as_bytes()),
    );
    tree::add_service(&mut files, release, host)?;
    tree::add_manual(&mut files, "usr/share", &tree::FOR_DEBIAN, host)?;
    tree::unpack(&files, release, "package")?;

    write_deb(release, target, REVISION)
}

/// Writes a Debian package with this revision.
pub(super) fn write_deb(release: &Release, target: &Target, revision: u32) -> Result<(), Error> {
    write_file(&release.work("changelog"), changelog(release, revision)?.as_bytes())?;
    let mut deb = tools::cargo_deb()?;
    deb.args(["--no-build", "--no-strip", "--quiet", "--target", target.triple]);
    deb.args(["--deb-revision", &revision.to_string(), "--output"]);
    let name = format!("cannery_{}-{revision}_{}.deb", release.version, target.architecture.image);
    deb.env("SOURCE_DATE_EPOCH", release.time.to_string());
    project::run(deb.arg(release.directory.join(name)))
}

/// Returns the changelog of the Debian package, which refers to the one of the project.
fn changelog(release: &Release, revision: u32) -> Result<String, Error> {
    let date = project::output(
        Command::new("date").args(["--utc", "--rfc-email", "--date"]).arg(format!("@{}", release.time)),
    )?;
    Ok(format!(
        "cannery ({}-{revision}) unstable; urgency=medium\n\n  * See changelog.gz in this directory.\n\n -- {MAINTAINER}  {}\n",
        release.version,
        date.trim()
    ))
}

/// The same as in `Cargo.toml`.
const MAINTAINER: &str = "The Cannery contributors <cannery@users.noreply.github.com>";

/// Returns the path of the only result whose name ends like this.
pub(super) fn find(release: &Release, suffix: &str) -> Result<std::path::PathBuf, Error> {
    let entries = std::fs::read_dir(&release.directory);
    let mut entries = entries.map_err(|source| Error::file(&release.directory, source))?.flatten();
    let found = entries.find(|entry| Path::new(&entry.file_name()).to_string_lossy().ends_with(suffix));
    found.map(|entry| entry.path()).ok_or_else(|| Error::Missing {
        what: format!("a file *{suffix} in {}", release.directory.display()),
        remedy: "run `cargo xtask dist` with the target x86_64-unknown-linux-gnu".into(),
    })
}
