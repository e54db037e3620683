//! Cargo's tests as programs: builds them once, and runs each with the environment that the tests expect.
//!
//! `cargo test` runs one program after another, and only once nothing else compiles. However, the black box tests mostly wait, so
//! that compilers can work meanwhile.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::Error;
use crate::extent::Extent;
use crate::outside;
use crate::project::{self, cargo};

/// Sets how many tests of a program run at the same time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// The black box tests.
const BLACK_BOX: &str = "it";

/// The built programs of a run.
pub(crate) struct TestPrograms {
    black_box: TestProgram,
    others: Vec<TestProgram>,
    packages: String,
    extent: Extent,
}

struct TestProgram {
    path: PathBuf,
    /// The directory of its package, where cargo runs it.
    directory: PathBuf,
}

impl TestPrograms {
    /// Builds the programs of these packages.
    pub(crate) fn build(packages: &str, extent: Extent) -> Result<TestPrograms, Error> {
        // Diagnostics are printed for people, and only the artifacts come as JSON.
        let build = format!("test {packages} --no-run --message-format json-render-diagnostics");
        let messages = project::output(&mut cargo(&build))?;

        let mut black_box = None;
        let mut others = Vec::new();
        for artifact in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(program) = TestProgram::of(&artifact) else { continue };
            if artifact["target"]["name"] == BLACK_BOX {
                black_box = Some(program);
            } else {
                others.push(program);
            }
        }

        let black_box = black_box.ok_or_else(|| Error::Unexpected {
            what: format!("`cargo {build}`"),
            expected: format!("a program `{BLACK_BOX}`"),
            got: "none".into(),
        })?;
        Ok(TestPrograms { black_box, others, packages: packages.into(), extent })
    }

    /// Returns a command that runs the black box tests, with arguments for libtest.
    pub(crate) fn black_box(&self, words: &str) -> Command {
        let mut command = self.black_box.command(self.extent);
        command.args(words.split_whitespace());
        command
    }

    /// Returns commands that run all other tests, except those of documentation.
    pub(crate) fn others(&self) -> impl Iterator<Item = Command> {
        self.others.iter().map(|program| {
            let mut command = program.command(self.extent);
            // Some tests run cargo, which compiles nothing again for the same packages.
            command.env("CANNERY_TEST_PACKAGES", &self.packages);
            command
        })
    }
}

impl TestProgram {
    /// Returns the program that cargo reports in a message, if it is one of tests.
    fn of(artifact: &Value) -> Option<TestProgram> {
        let path = artifact["executable"].as_str()?;
        let manifest = Path::new(artifact["manifest_path"].as_str()?);
        let is_test = artifact["profile"]["test"] == true;
        is_test.then(|| TestProgram { path: path.into(), directory: manifest.with_file_name("") })
    }

    fn command(&self, extent: Extent) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        with_outside(command, extent)
    }
}

/// Returns a cargo command that runs tests.
pub(crate) fn cargo_tests(words: &str, extent: Extent) -> Command {
    with_outside(cargo(words), extent)
}

/// Adds the paths of the external programs to the environment of a command that runs tests.
fn with_outside(mut command: Command, extent: Extent) -> Command {
    command.env("CANNERY_NPM", outside::npm_directory());
    command.env("CANNERY_PYTHON", outside::python_directory().join("bin/python"));
    command.env("CANNERY_H2SPEC", outside::h2spec());
    command.env("CANNERY_QUIC_GO", outside::quic_go());
    command.env("CANNERY_PEBBLE", outside::pebble_directory());
    command.env("CANNERY_STORES", outside::stores_directory());
    command.env("CANNERY_PYTHON_DOCS", outside::PYTHON_DOCS);

    if let Some(chromium) = project::program("chromium") {
        command.env("CANNERY_CHROMIUM", chromium);
    }
    if extent == Extent::Fast && !outside::missing().is_empty() {
        command.env("CANNERY_OUTSIDE", "skip");
    }
    if extent == Extent::Slow {
        command.env("CANNERY_SLOW", "1");
    }

    // Most tests wait for time-outs and other programs much of their time.
    if std::env::var_os(TEST_THREADS).is_none() {
        let threads = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get());
        command.env(TEST_THREADS, threads.to_string());
    }

    command
}
