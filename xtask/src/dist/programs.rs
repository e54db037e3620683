//! The programs of a target: stripped, with their debug information in files of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::create;
use crate::error::Error;
use crate::project;

pub(super) const NAMES: [&str; 3] = ["cannery", "cannery-archiver", "cannery-server"];

/// The server and the archiver in one program, for images.
pub(super) const COMBINED: &str = "cannery-combined";

/// Directories with the programs and with `NAME.debug`.
pub(super) struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Copies programs of a directory to another one. `objcopy` knows the processor that they are for.
    pub(super) fn strip(names: &[&str], from: &Path, to: &Path, objcopy: &Path) -> Result<Programs, Error> {
        create(to)?;
        let programs = Programs { directory: to.to_owned() };
        for name in names {
            let (source, program, debug) = (from.join(name), programs.program(name), programs.debug(name));
            // Not compressed, since the archive is. Besides, LLVM 14 would leave random bytes in the headers of compressed sections.
            run(objcopy, &source, &["--only-keep-debug"], &debug)?;
            run(objcopy, &source, &["--strip-all"], &program)?;
            // Debuggers find the file by this name, beside the program or below /usr/lib/debug.
            let link = format!("--add-gnu-debuglink={}", debug.display());
            run(objcopy, &program, &[&link], &program)?;
        }
        Ok(programs)
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn debug(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.debug"))
    }

    /// Runs a program and returns what it printed.
    pub(super) fn output(&self, name: &str, words: &[&str]) -> Result<Vec<u8>, Error> {
        project::output(Command::new(self.program(name)).args(words)).map(String::into_bytes)
    }
}

fn run(objcopy: &Path, from: &Path, options: &[&str], to: &Path) -> Result<(), Error> {
    project::run(Command::new(objcopy).args(options).arg(from).arg(to))
}
