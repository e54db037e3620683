//! Compiles a folder into an archive, in the build script of a program that embeds it.
//!
//! ```no_run
//! // build.rs, in `main`
//! cannery_build::archive("web/dist").immutable("/assets/*").emit("site.cdb");
//! ```
//!
//! The program includes the archive with `cannery::include_archive!("site.cdb")`. Cargo runs the build script again when a
//! file of the folder is added, changed or removed. Compressed contents are kept in `OUT_DIR`, so that only changed files are
//! compressed again. In debug builds of the program, we leave out compression, so that an archive is built in milliseconds.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cannery_archiver::diagnostic::Severity;
use cannery_archiver::{Encoder, Error, Options, Report};

/// Starts the description of an archive of the folder at `folder`, relative to the package's directory.
#[must_use]
pub fn archive(folder: impl Into<PathBuf>) -> Builder {
    Builder { options: Options::new(folder, "") }
}

/// An archive to be built.
#[derive(Debug, Clone)]
pub struct Builder {
    options: Options,
}

/// Why no archive was built.
#[derive(Debug)]
pub enum BuildError {
    /// Cargo doesn't run this program as a build script: this variable of its environment is missing.
    NoBuildScript(&'static str),
    /// The folder can't be compiled.
    Compile(Error),
    /// A file can't be written to `OUT_DIR`.
    Write(PathBuf, std::io::Error),
}

impl Builder {
    /// Marks files that never change under the same name, in gitignore syntax: clients may keep them for a year.
    ///
    /// Names that contain a digest of their content, as bundlers make them, are recognized without this.
    #[must_use]
    pub fn immutable(mut self, pattern: &str) -> Builder {
        self.options.immutable.push(pattern.to_owned());
        self
    }

    /// Leaves out more files than hidden ones and backups, in gitignore syntax.
    #[must_use]
    pub fn ignore(mut self, pattern: &str) -> Builder {
        self.options.ignore.push(pattern.to_owned());
        self
    }

    /// Adds zstd to the codings, gzip and brotli.
    #[must_use]
    pub fn zstd(mut self) -> Builder {
        self.options.encoders.insert(Encoder::Zstd);
        self
    }

    /// Turns warnings about the folder, such as one about a rule that never applies, into an error.
    #[must_use]
    pub fn strict(mut self) -> Builder {
        self.options.strict = true;
        self
    }

    /// Compiles the folder to the file `name` in `OUT_DIR`, and makes Cargo run the build script again after a change. Warnings about
    /// the folder become warnings of the build.
    ///
    /// # Panics
    ///
    /// Panics with a message for the user if the archive can't be built, which is how a build script fails. See
    /// [`Builder::try_emit`].
    pub fn emit(self, name: &str) {
        if let Err(error) = self.try_emit(name) {
            panic!("{error}");
        }
    }

    /// Does the same as [`Builder::emit`], and returns the path of the archive.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if this isn't a build script, or if the folder can't be compiled.
    pub fn try_emit(mut self, name: &str) -> Result<PathBuf, BuildError> {
        let output = PathBuf::from(variable("OUT_DIR")?);
        let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let is_debug = variable("PROFILE")? == "debug";

        self.options.sources = package.join(&self.options.sources);
        self.options.archive = output.join(name);
        self.options.compress_cache = Some(output.join("compressed"));
        if is_debug {
            self.options.encoders = BTreeSet::from([Encoder::Identity]);
        }
        println!("cargo:rerun-if-changed={}", self.options.sources.display());
        let report = cannery_archiver::compile(&self.options, &()).map_err(BuildError::Compile)?;
        print_warnings(&report);
        self.write_source(name, &output)?;
        Ok(self.options.archive)
    }

    /// Writes the folder and the patterns next to the archive, for debug builds that follow the folder.
    fn write_source(&self, name: &str, output: &Path) -> Result<(), BuildError> {
        let mut text = format!("{}\n", self.options.sources.display());
        for pattern in &self.options.immutable {
            text.push_str(pattern);
            text.push('\n');
        }
        let path = output.join(format!("{name}.source"));
        fs::write(&path, text).map_err(|error| BuildError::Write(path, error))
    }
}

/// Returns a variable that Cargo sets for build scripts.
fn variable(name: &'static str) -> Result<OsString, BuildError> {
    std::env::var_os(name).ok_or(BuildError::NoBuildScript(name))
}

fn print_warnings(report: &Report) {
    let warnings = report.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning);
    for warning in warnings {
        let line = warning.line.map_or_else(String::new, |line| format!(":{line}"));
        println!("cargo:warning={}{line}: {}", warning.file, warning.message);
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoBuildScript(variable) => {
                write!(formatter, "{variable} is not set: call cannery_build from a build script (build.rs)")
            }
            BuildError::Compile(error) => error.fmt(formatter),
            BuildError::Write(path, error) => write!(formatter, "cannot write {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::NoBuildScript(_) => None,
            BuildError::Compile(error) => Some(error),
            BuildError::Write(_, error) => Some(error),
        }
    }
}
