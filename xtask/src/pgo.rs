//! Profile-guided optimization: builds the server with counters, puts the benchmarks' load on it, and builds it again with the
//! counts, by which the compiler decides what to inline and how to order the code.
//!
//! See "Profile-guided Optimization" in The rustc book.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::error::Error;
use crate::project;

/// The program. The loops of an encoder run so much more often that the compiler would take all code of the server for cold if
/// one profile had both, so the archiver is built as usual.
const SERVER: &str = "build --profile dist --package cannery-cli --bin cannery-server";

/// Builds the archives that the server sends from under load.
const ARCHIVER: &str = "build --profile dist --package cannery-cli --bin cannery-archiver";

/// Builds the server for this machine, and prints the directory of the result.
pub(crate) fn run() -> Result<(), Error> {
    let host = host()?;
    let profile = train(&host)?;
    println!("==> building with the counts");
    build(&host, &format!("-Cprofile-use={}", profile.display()))?;
    println!("{}", directory().join(&host).join("dist").display());
    Ok(())
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Result<String, Error> {
    Ok(Compiler::detect()?.host)
}

/// Counts how often the code of the server for a target runs under load, and returns the path of the profile. This machine must be
/// able to run programs for the target.
pub(crate) fn train(triple: &str) -> Result<PathBuf, Error> {
    let profdata = Compiler::detect()?.profdata()?;
    let directory = directory();
    let counts = directory.join("counts");
    if counts.exists() {
        fs::remove_dir_all(&counts).map_err(|source| Error::file(&counts, source))?;
    }
    fs::create_dir_all(&counts).map_err(|source| Error::file(&counts, source))?;

    println!("==> building with counters");
    build(triple, &format!("-Cprofile-generate={}", counts.display()))?;
    println!("==> counting under load");
    let programs = directory.join(triple).join("dist");
    project::run(&mut project::cargo(ARCHIVER))?;
    let archiver = programs.join("cannery-archiver");
    fs::copy(project::target().join("dist/cannery-archiver"), &archiver)
        .map_err(|source| Error::file(&archiver, source))?;
    let mut load = project::cargo("run --quiet --package cannery-bench -- --train");
    project::run(load.env("CANNERY_BIN", &programs))?;

    let profile = directory.join(format!("{triple}.profdata"));
    project::run(Command::new(profdata).arg("merge").arg("--output").arg(&profile).arg(&counts))?;
    Ok(profile)
}

fn directory() -> PathBuf {
    project::target().join("pgo")
}

/// Builds the server with another option of rustc. Build scripts and procedural macros don't get it, because a target is
/// named.
fn build(triple: &str, option: &str) -> Result<(), Error> {
    let mut build = project::cargo(SERVER);
    build.args(["--target", triple, "--target-dir"]).arg(directory());
    // Unlike RUSTFLAGS, this may have spaces in a path.
    project::run(build.env("CARGO_ENCODED_RUSTFLAGS", option))
}

/// The rustc that cargo runs.
struct Compiler {
    /// The target triple of this machine.
    host: String,
    /// The major version of LLVM, whose tools read only the counts of their own version.
    llvm: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn detect() -> Result<Compiler, Error> {
        let print =
            |words: &[&str]| project::output(Command::new("rustc").current_dir(project::root()).args(words));
        let version = print(&["-vV"])?;
        let value = |name: &str| {
            let value = version.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            value.map(str::to_owned).ok_or_else(|| Error::Unexpected {
                what: "rustc -vV".into(),
                expected: format!("a line `{name}`"),
                got: version.clone(),
            })
        };
        let llvm = value("LLVM version:")?;
        Ok(Compiler {
            host: value("host:")?,
            llvm: llvm.split('.').next().unwrap_or_default().into(),
            sysroot: print(&["--print", "sysroot"])?.trim().into(),
        })
    }

    /// Returns the path of llvm-profdata, from rustup or from Debian.
    fn profdata(&self) -> Result<PathBuf, Error> {
        let from_rustup = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        let name = format!("llvm-profdata-{}", self.llvm);
        let found = Some(from_rustup).filter(|path| path.is_file()).or_else(|| project::program(&name));
        found.ok_or_else(|| Error::Missing {
            what: name,
            remedy: format!("run `rustup component add llvm-tools`, or `apt-get install llvm-{}`", self.llvm),
        })
    }
}
