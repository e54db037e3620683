//! The Debian package and the RPM package. `Cargo.toml` lists their files, `contrib/packages` has their scripts and settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use cannery_image::{Tree, gzip};

use crate::dist::programs::{NAMES, Programs};
use crate::dist::target::Target;
use crate::dist::{Release, read, tools, tree, write_file};
use crate::error::Error;
use crate::project;

/// Version of the packaging, after the version of the programs.
const REVISION: u32 = 1;

/// Writes both packages. `of_images` are programs that run without shared libraries, as images need them.
pub(super) fn write(
    release: &Release,
    target: &Target,
    programs: &Programs,
    of_images: Option<&Programs>,
    host: &Programs,
) -> Result<(), Error> {
    prepare(release, programs, of_images, host)?;
    write_deb(release, target, REVISION)?;
    write_rpm(release, target)
}

/// Writes the Debian package of programs that run on this machine, and returns its path.
pub(super) fn write_deb_of(
    release: &Release,
    target: &Target,
    programs: &Programs,
) -> Result<PathBuf, Error> {
    prepare(release, programs, None, programs)?;
    write_deb(release, target, REVISION)?;
    find(release, ".deb")
}

/// Writes the files of the packages to where `Cargo.toml` names them.
fn prepare(
    release: &Release,
    programs: &Programs,
    of_images: Option<&Programs>,
    host: &Programs,
) -> Result<(), Error> {
    let mut files = Tree::new();
    for name in NAMES {
        check_library(&programs.program(name))?;
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
    tree::unpack(&files, release, "package")
}

/// Returns an error if a program needs a newer glibc than the package asks for, because it was built on a newer system.
fn check_library(program: &Path) -> Result<(), Error> {
    let manifest = tree::text_of("Cargo.toml")?;
    let (_, depends) = manifest.split_once("libc6 (>= ").unwrap_or_default();
    let oldest = version(depends);
    let symbols = project::output(Command::new("objdump").arg("-T").arg(program))?;
    let needed = needed_library(&symbols);
    if oldest.is_some() && needed <= oldest {
        return Ok(());
    }
    let text = |version: Option<(u32, u32)>| version.map_or("none".into(), |(a, b)| format!("glibc {a}.{b}"));
    Err(Error::Unexpected {
        what: program.display().to_string(),
        expected: format!("{} or an older one, as `depends` in Cargo.toml says", text(oldest)),
        got: text(needed),
    })
}

/// Returns the newest version of glibc that has one of these symbols, or `None` if none is from glibc. Weak symbols count, because the
/// dynamic linker doesn't start a program whose library lacks a version.
fn needed_library(symbols: &str) -> Option<(u32, u32)> {
    symbols.split("GLIBC_").skip(1).filter_map(version).max()
}

/// Parses the version at the beginning of a text, without its third number.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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

fn write_rpm(release: &Release, target: &Target) -> Result<(), Error> {
    let mut rpm = tools::cargo_generate_rpm()?;
    // The requirements come from the programs, by the same rules on every machine.
    rpm.args(["--target", target.triple, "--auto-req", "builtin", "--payload-compress", "zstd"]);
    rpm.args(["--set-metadata", &format!("release = \"{REVISION}\"")]);
    rpm.args(["--source-date", &release.time.to_string(), "--output"]);
    project::run(rpm.arg(&release.directory))
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
pub(super) fn find(release: &Release, suffix: &str) -> Result<PathBuf, Error> {
    let entries = std::fs::read_dir(&release.directory);
    let mut entries = entries.map_err(|source| Error::file(&release.directory, source))?.flatten();
    let found = entries.find(|entry| Path::new(&entry.file_name()).to_string_lossy().ends_with(suffix));
    found.map(|entry| entry.path()).ok_or_else(|| Error::Missing {
        what: format!("a file *{suffix} in {}", release.directory.display()),
        remedy: "run `cargo xtask dist` with the target x86_64-unknown-linux-gnu".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_symbol_decides_about_the_library() {
        let symbols = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) dlsym
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.9) pipe2
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_PRIVATE) _dl
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0) _Unwind_Resume";
        assert_eq!(needed_library(symbols), Some((2, 34)));
        let weak = "0000000000000000  w   DF *UND*\t0000000000000000 (GLIBC_2.39) pidfd_spawnp";
        assert_eq!(needed_library(weak), Some((2, 39)));
        assert_eq!(needed_library("0 g DF .text 0 Base main"), None);
        assert!(version("2.34), libgcc-s1 (>= 4.2)") > version("2.9"));
    }
}
