//! Compiles the programs for a target, the same on every machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::target::Target;
use crate::dist::{Profile, Release, programs, tools};
use crate::error::Error;
use crate::{pgo, project};

/// Programs that are built without a profile. See `pgo.rs` for the reason.
const TOOLS: [&str; 4] = ["--bin", "cannery", "--bin", "cannery-archiver"];
const SERVER: [&str; 2] = ["--bin", "cannery-server"];
/// For images. It contains the server.
const COMBINED: [&str; 4] = ["--bin", programs::COMBINED, "--features", "combined"];

/// Separates the options in `CARGO_ENCODED_RUSTFLAGS`, which may contain spaces.
const SEPARATOR: &str = "\x1f";

/// Builds the programs and returns their directory.
pub(super) fn run(target: &Target, profile: &Profile, release: &Release) -> Result<PathBuf, Error> {
    let directory = project::target().join("dist-build");
    let profile = match profile {
        Profile::Without => None,
        _ if target.is_cross() => {
            println!("without a profile: this machine can't run programs for {}", target.triple);
            None
        }
        Profile::Stored(directory) => Some(stored(directory, target)?),
        Profile::Trained => Some(pgo::train(target.triple)?),
    };
    let cargo = |programs: &[&str], options: &[String]| {
        let mut cargo = if target.is_cross() { tools::zigbuild()? } else { project::cargo("build") };
        cargo.args(["--profile", "dist", "--locked", "--package", "cannery-cli", "--target", target.triple]);
        cargo.arg("--target-dir").arg(&directory).args(programs);
        reproducible(&mut cargo, target, options, release)?;
        project::run(&mut cargo)
    };

    let profile: Vec<_> = profile.iter().map(|file| format!("-Cprofile-use={}", file.display())).collect();
    if profile.is_empty() {
        cargo(&[&TOOLS[..], &SERVER[..]].concat(), &[])?;
    } else {
        cargo(&TOOLS, &[])?;
        cargo(&SERVER, &profile)?;
    }
    if target.programs().contains(&programs::COMBINED) {
        cargo(&COMBINED, &profile)?;
    }
    Ok(directory.join(target.triple).join("dist"))
}

fn stored(directory: &Path, target: &Target) -> Result<PathBuf, Error> {
    let path = directory.join(format!("{}.profdata", target.triple));
    // The compiler runs in the directory of each crate.
    path.canonicalize().map_err(|source| Error::file(path, source))
}

/// Removes what differs between two machines: paths of sources and the clock. Keeps line tables, which become a file of their
/// own.
fn reproducible(
    cargo: &mut Command,
    target: &Target,
    options: &[String],
    release: &Release,
) -> Result<(), Error> {
    let sysroot =
        project::output(Command::new("rustc").current_dir(project::root()).args(["--print", "sysroot"]))?;
    let home = env::var_os("HOME").unwrap_or_default();
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| Path::new(&home).join(".cargo"), PathBuf::from);
    let paths = [
        (project::root().to_owned(), "/cannery"),
        (cargo_home, "/cargo"),
        (PathBuf::from(sysroot.trim()), "/rust"),
    ];

    let of_rust = paths.iter().map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    let flags: Vec<_> = of_rust.chain(options.iter().cloned()).collect();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR));

    let of_c = paths.iter().map(|(path, name)| format!("-ffile-prefix-map={}={name}", path.display()));
    let name = target.triple.replace('-', "_");
    cargo.env(format!("CFLAGS_{name}"), of_c.collect::<Vec<_>>().join(" "));

    cargo.env("SOURCE_DATE_EPOCH", release.time.to_string());
    cargo.env("CARGO_PROFILE_DIST_DEBUG", "line-tables-only").env("CARGO_PROFILE_DIST_STRIP", "none");
    cargo.env("CARGO_INCREMENTAL", "0");
    Ok(())
}
