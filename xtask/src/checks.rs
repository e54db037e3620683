//! `test`, `ci` and `tidy`: which checks there are, and which of them each task runs.
//!
//! There is no check that only continuous integration can run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::counts;
use crate::error::Error;
use crate::outside;
use crate::project::{self, cargo};
use crate::steps::Steps;
use crate::tidy as text;

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Formatting, clippy and cargo test, with what is installed.
    Fast,
    /// All but the long tests and what takes minutes to install.
    Usual,
    /// What continuous integration runs: the usual and cargo deny.
    Integration,
    /// Everything.
    Slow,
}

/// Runs the checks. Cargo's tests come last, so that their result is what one sees at the end.
pub(crate) fn run(extent: Extent) -> Result<(), Error> {
    let mut steps = Steps::default();
    if extent != Extent::Fast {
        steps.run("outside programs", outside::install_programs);
        steps.run("npm packages", outside::install_npm_packages);
        steps.run("PyPI packages", outside::install_pypi_packages);
        steps.run("h2spec", outside::install_h2spec);
    }
    steps.run("formatting", || project::run(&mut cargo("fmt --all --check")));
    let clippy = format!("clippy --workspace {WITHOUT_BENCHMARKS} --all-targets -- -D warnings");
    steps.run("clippy", || project::run(&mut cargo(&clippy)));
    if extent != Extent::Fast {
        steps.run("tidy", text::check);
        deny(&mut steps, extent);
        fuzz_smoke(&mut steps);
        count(&mut steps, extent);
        benchmarks(&mut steps, extent);
    }
    let test = format!("test --workspace {WITHOUT_BENCHMARKS}");
    steps.run("cargo test", || project::run(&mut tests(&test, extent)));
    // What a client sees must not depend on the loop that serves it.
    if has_io_uring() {
        let mut by_io_uring = tests("test --package cannery --test it", extent);
        by_io_uring.env("CANNERY_TEST_IO", "io_uring");
        steps.run("the same by io_uring", || project::run(&mut by_io_uring));
    } else {
        steps.leave_out("the same by io_uring", "this kernel has none, or does not let us");
    }
    if extent != Extent::Fast {
        portable(&mut steps, extent);
    }
    steps.finish()
}

/// The checks about text, and the structure test, which reads all the code.
pub(crate) fn tidy() -> Result<(), Error> {
    let mut steps = Steps::default();
    steps.run("tidy", text::check);
    steps.run("structure", || project::run(&mut cargo("test --quiet --package cannery --test structure")));
    steps.finish()
}

/// All tests, told where the things are that they need from outside.
fn tests(words: &str, extent: Extent) -> Command {
    let mut command = cargo(words);
    command.env("CANNERY_NPM", outside::npm_folder());
    command.env("CANNERY_PYTHON", outside::python_folder().join("bin/python"));
    command.env("CANNERY_H2SPEC", outside::h2spec());
    command.env("CANNERY_PYTHON_DOCS", outside::PYTHON_DOCS);
    if let Some(chromium) = project::program("chromium") {
        command.env("CANNERY_CHROMIUM", chromium);
    }
    if extent == Extent::Slow {
        command.env("CANNERY_SLOW", "1");
    }
    command
}

/// What other systems get, as far as it can be tried on Linux: the crates that have parts of their own for them, and of
/// the tests from outside those that meet these parts most. And whether the loop compiles for a system with kqueue.
fn portable(steps: &mut Steps, extent: Extent) {
    const CRATES: &str = "--package cannery-eventloop --package cannery-archive --package cannery-server";
    const FEATURE: &str = "--features portable";
    const CHOSEN: &str = "admin:: get:: hostile:: processes:: range:: reload:: tls:: workers::";
    const LOOP: &str = "the loop for FreeBSD";
    let clippy = format!("clippy {CRATES} --package cannery --all-targets {FEATURE} -- -D warnings");
    steps.run("portable clippy", || project::run(&mut cargo(&clippy)));
    let inside = format!("test {CRATES} {FEATURE}");
    steps.run("portable inside", || project::run(&mut tests(&inside, extent)));
    let outside = format!("test --package cannery --test it {FEATURE} -- {CHOSEN}");
    steps.run("portable outside", || project::run(&mut tests(&outside, extent)));
    if has_standard_library(FREEBSD) {
        let check = format!("check --package cannery-eventloop --all-targets --target {FREEBSD}");
        steps.run(LOOP, || project::run(&mut cargo(&check)));
    } else {
        steps.leave_out(LOOP, "`rustup target add x86_64-unknown-freebsd` installs what it takes");
    }
}

/// A system with kqueue. Crates that hold C would need a compiler of C for it, too.
const FREEBSD: &str = "x86_64-unknown-freebsd";

/// Whether the compiler has the standard library of another system.
fn has_standard_library(target: &str) -> bool {
    let mut rustc = Command::new("rustc");
    let said = rustc.args(["--print", "target-libdir", "--target", target]).output();
    said.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir())
}

/// Whether the server can have a ring: it looks for that first, and says so, before it misses its archive.
fn has_io_uring() -> bool {
    let asked = "run --quiet --bin cannery-server -- --io io_uring --archive /nowhere/at/all.cdb";
    let said = cargo(asked).output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stderr).contains("/nowhere/at/all.cdb"))
}

/// What `deny.toml` asks of the libraries: first what can be decided here, then their known faults, which
/// are published elsewhere.
fn deny(steps: &mut Steps, extent: Extent) {
    const LIBRARIES: &str = "libraries";
    const ADVISORIES: &str = "advisories";
    let installed = project::program("cargo-deny").is_some();
    if !installed && extent == Extent::Usual {
        let reason = "cargo-deny is not installed; `cargo xtask ci` installs it, which takes minutes";
        steps.leave_out(LIBRARIES, reason);
        steps.leave_out(ADVISORIES, reason);
        return;
    }
    steps.run(LIBRARIES, || {
        if !installed {
            project::run(&mut cargo(&format!("install --locked cargo-deny@{DENY_VERSION}")))?;
        }
        project::run(&mut cargo("deny --workspace check licenses bans sources"))
    });
    if can_reach(ADVISORY_DATABASE) {
        steps.run(ADVISORIES, || project::run(&mut cargo("deny --workspace check advisories")));
    } else {
        steps.leave_out(ADVISORIES, "the advisory database cannot be reached from this machine");
    }
}

/// Where RustSec publishes known faults; cargo deny fetches it from here.
const ADVISORY_DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Whether a repository answers. A check without its data says nothing, and that is not a failed check.
fn can_reach(repository: &str) -> bool {
    let mut git = Command::new("git");
    git.args(["ls-remote", "--quiet", repository, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// The release whose settings `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";

/// The benchmarks depend on libraries that no other package needs, so only continuous integration compiles them.
const WITHOUT_BENCHMARKS: &str = "--exclude cannery-bench";

/// Runs clippy and the unit tests of the benchmarks. One test compares docs/benchmarks.md with the tables of results.
fn benchmarks(steps: &mut Steps, extent: Extent) {
    const BENCHMARKS: &str = "benchmarks";
    if extent == Extent::Usual {
        return steps.leave_out(BENCHMARKS, "`cargo xtask ci` checks them, or `cargo test -p cannery-bench`");
    }
    steps.run(BENCHMARKS, || {
        project::run(&mut cargo("clippy --package cannery-bench --all-targets -- -D warnings"))?;
        project::run(&mut cargo("test --quiet --package cannery-bench"))
    });
}

/// What the request path costs in instructions, held against the table.
fn count(steps: &mut Steps, extent: Extent) {
    const COUNTS: &str = "counts";
    if extent != Extent::Slow {
        return steps.leave_out(COUNTS, "it builds for minutes: `--slow` runs it, or `cargo xtask counts`");
    }
    steps.run(COUNTS, || counts::run(false));
}

/// Each fuzz target over its recorded inputs and a bounded number of random ones, by the stable compiler.
fn fuzz_smoke(steps: &mut Steps) {
    let folder = project::root().join("fuzz");
    if !folder.is_dir() {
        return;
    }
    steps.run("fuzz smoke", || project::run(cargo("run --release --quiet").current_dir(&folder)));
}
