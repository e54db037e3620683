//! Compiles a folder into an archive in the build script of a program that embeds it.
//!
//! ```no_run
//! // build.rs, in `main`
//! cannery_build::archive("web/dist").immutable("/assets/*").emit("site.cdb");
//! ```
//!
//! The program embeds the archive with `cannery::include_archive!("site.cdb")`. On Linux (x86-64 and AArch64), this is done by the
//! linker to save time; on other targets, the compiler will include the file.
//!
//! Cargo will run the build script again whenever files in the folder are added, modified or removed. Compressed contents are
//! cached in `OUT_DIR`, so only changed files need to be compressed again. We do not compress anything in debug builds. This
//! way, building an archive should only take milliseconds.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod linked;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cannery_archive::SCHEMA_PREFIX_BYTES;
use cannery_archiver::boundary::LinksOut;
use cannery_archiver::diagnostic::Severity;
use cannery_archiver::{Encoder, Options, Report, library};

use crate::linked::Target;

/// Starts to describe an archive. Note that `folder` is relative to the package's directory.
#[must_use]
pub fn archive(folder: impl Into<PathBuf>) -> Builder {
    Builder { options: Options::new(folder, ""), is_included: false }
}

/// An archive to be built.
#[derive(Debug, Clone)]
pub struct Builder {
    options: Options,
    /// Whether the compiler should include the archive even if the linker could embed it.
    is_included: bool,
}

/// Why an archive could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Missing variable that Cargo always sets for build scripts, so the program is not run by
    /// Cargo as a build script.
    #[error("{variable} is not set: call cannery_build from a build script (build.rs)")]
    #[non_exhaustive]
    NoBuildScript {
        /// Name of the variable.
        variable: &'static str,
    },
    /// The folder cannot be compiled.
    #[error("{message}")]
    #[non_exhaustive]
    Compile {
        /// The reason, with its place.
        message: String,
    },
    /// The archive cannot be read back.
    #[error("cannot read {}: {source}", path.display())]
    #[non_exhaustive]
    Read {
        /// Path of the archive.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file cannot be written to `OUT_DIR`.
    #[error("cannot write {}: {source}", path.display())]
    #[non_exhaustive]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Builder {
    /// Marks files that never change under the same name, allowing clients to keep them for a year. `pattern` uses
    /// gitignore syntax.
    ///
    /// Typically you do not need this for the output of bundlers, as digests in file names are recognized
    /// automatically.
    #[must_use]
    pub fn immutable(mut self, pattern: &str) -> Builder {
        self.options.immutable.push(pattern.to_owned());
        self
    }

    /// Excludes more files in addition to hidden files and backups. `pattern` uses gitignore syntax.
    #[must_use]
    pub fn ignore(mut self, pattern: &str) -> Builder {
        self.options.ignore.push(pattern.to_owned());
        self
    }

    /// Follows symbolic links out of the folder without a warning.
    #[must_use]
    pub fn follow_links(mut self) -> Builder {
        self.options.links_out = LinksOut::Allowed;
        self
    }

    /// Accepts sparse files even if their holes exceed 256 MiB in total.
    ///
    /// Archives do not have holes, so they may take much more space than the folder.
    #[must_use]
    pub fn allow_sparse(mut self) -> Builder {
        self.options.allow_sparse = true;
        self
    }

    /// Adds zstd, in addition to gzip and brotli.
    #[must_use]
    pub fn zstd(mut self) -> Builder {
        self.options.encoders.insert(Encoder::Zstd);
        self
    }

    /// Turns warnings about the folder into errors, for example when a rule never applies.
    #[must_use]
    pub fn strict(mut self) -> Builder {
        self.options.strict = true;
        self
    }

    /// Makes the compiler include the archive even if the linker could embed it, at the cost of build time and
    /// memory.
    ///
    /// This is needed for C libraries (`crate-type = ["staticlib"]`), as rustc does not put other static libraries into them. If
    /// it is a dependency of the C library that has the archive, then this must be called in the dependency's build script.
    #[must_use]
    pub fn included(mut self) -> Builder {
        self.is_included = true;
        self
    }

    /// Compiles the folder to the file `name` in `OUT_DIR` and makes Cargo run the build script again after changes. Warnings
    /// about the folder will appear as build warnings.
    ///
    /// # Panics
    ///
    /// Panics with a message for the user if the archive could not be built. This is usual in build
    /// scripts. See [`Builder::try_emit`] for a method that returns the error instead.
    pub fn emit(self, name: &str) {
        if let Err(error) = self.try_emit(name) {
            panic!("{error}");
        }
    }

    /// Same as [`Builder::emit`], but returns the path of the archive.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if this is not a build script, or if the folder cannot be compiled.
    pub fn try_emit(mut self, name: &str) -> Result<PathBuf, BuildError> {
        let output = PathBuf::from(variable("OUT_DIR")?);
        let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let is_debug = variable("PROFILE")? == "debug";

        self.options.sources = package.join(&self.options.sources);
        self.options.archive = output.join(name);
        self.options.compress_cache = Some(output.join("compressed"));
        // In debug builds, time matters more than size: a few more bytes over the loopback interface will not
        // be noticed.
        if is_debug {
            self.options.encoders = BTreeSet::from([Encoder::Identity]);
        }

        println!("cargo:rerun-if-changed={}", self.options.sources.display());
        let report = cannery_archiver::compile(&self.options, &())
            .map_err(|error| BuildError::Compile { message: library::describe_error(&error) })?;
        print_warnings(&report);
        self.write_source(name, &output)?;
        // The macro reads the files at this path.
        println!("cargo:rustc-env=CANNERY_ARCHIVE_{name}={}", self.options.archive.display());

        let parts = Parts { output: &output, name };
        match target()?.filter(|_| !self.is_included) {
            Some(target) => parts.link(target, &report.digest)?,
            None => parts.remove(),
        }
        Ok(self.options.archive)
    }

    /// Writes a file next to the archive that tells debug builds which folder they should follow.
    ///
    /// The first line is the path of the folder; each of the following lines consists of an option and
    /// its value.
    fn write_source(&self, name: &str, output: &Path) -> Result<(), BuildError> {
        let mut text = format!("{}\n", self.options.sources.display());
        for (option, patterns) in [("immutable", &self.options.immutable), ("ignore", &self.options.ignore)] {
            for pattern in patterns {
                text.push_str(&format!("{option} {pattern}\n"));
            }
        }
        let switches = [
            ("follow-links", self.options.links_out == LinksOut::Allowed),
            ("allow-sparse", self.options.allow_sparse),
        ];
        for (option, _) in switches.iter().filter(|(_, is_on)| *is_on) {
            text.push_str(&format!("{option} true\n"));
        }
        let path = output.join(format!("{name}.source"));
        fs::write(&path, text).map_err(|source| BuildError::Write { path, source })
    }
}

/// Files next to an archive that `cannery::include_archive!` includes when the linker embeds the archive.
const PARTS: [&str; 3] = ["symbol", "length", "beginning"];

/// Files next to an archive that `cannery::include_archive!` needs to embed it.
struct Parts<'a> {
    output: &'a Path,
    name: &'a str,
}

impl Parts<'_> {
    /// Writes the archive as a static library, and the files needed by the macro, and makes Cargo link the
    /// library.
    fn link(&self, target: Target, digest: &str) -> Result<(), BuildError> {
        // The symbol only depends on the name and the digest, so several packages of a program may define it for the same
        // archive. If so, the linker will pick one of them.
        let symbol = format!("cannery_{}_{}", identifier(self.name), &digest[..32]);
        let library = self.library(&symbol);
        self.remove_last_library(&symbol);

        let path = self.output.join(self.name);
        let archive = fs::read(&path).map_err(|source| BuildError::Read { path, source })?;
        self.write("symbol", symbol.as_bytes())?;
        self.write("length", archive.len().to_string().as_bytes())?;
        self.write("beginning", &archive[..archive.len().min(SCHEMA_PREFIX_BYTES)])?;
        File::create(&library)
            .and_then(|file| linked::write_library(file, target, &symbol, archive))
            .map_err(|source| BuildError::Write { path: library.clone(), source })?;

        println!("cargo:rustc-cfg=cannery_linked={:?}", self.name);
        println!("cargo:rustc-link-search=native={}", self.output.display());
        println!("cargo:rustc-link-lib=static:-bundle={symbol}");
        // For a package with a library, Cargo would only link the archive to that, even though other targets may need it. Passing
        // the same library twice is fine: linkers ignore the second one.
        println!("cargo:rustc-link-arg={}", library.display());
        Ok(())
    }

    /// Removes the last build's library if the archive has changed.
    fn remove_last_library(&self, symbol: &str) {
        if let Ok(last) = fs::read_to_string(self.part("symbol"))
            && last != symbol
        {
            remove_unused(&self.library(&last));
        }
    }

    /// Removes the files of an earlier build that linked the archive, because the macro will not include
    /// them this time.
    fn remove(&self) {
        self.remove_last_library("");
        for part in PARTS {
            remove_unused(&self.part(part));
        }
    }

    fn write(&self, part: &str, content: &[u8]) -> Result<(), BuildError> {
        let path = self.part(part);
        fs::write(&path, content).map_err(|source| BuildError::Write { path, source })
    }

    fn part(&self, part: &str) -> PathBuf {
        self.output.join(format!("{}.{part}", self.name))
    }

    fn library(&self, symbol: &str) -> PathBuf {
        self.output.join(format!("lib{symbol}.a"))
    }
}

/// Removes a file that is not needed any more, if it exists.
fn remove_unused(path: &Path) {
    // If this fails, we only waste some space.
    let _ = fs::remove_file(path);
}

/// Converts a name to a part of an identifier. Different names have different identifiers.
fn identifier(name: &str) -> String {
    let mut identifier = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            identifier.push(char::from(byte));
        } else {
            identifier.push_str(&format!("_{byte:02x}"));
        }
    }
    identifier
}

/// Returns the target of the build, unless the compiler has to include the archive.
fn target() -> Result<Option<Target>, BuildError> {
    // The macro tests this condition with the name of its archive. We need to declare it here to avoid a compiler
    // warning.
    println!("cargo:rustc-check-cfg=cfg(cannery_linked, values(any()))");
    Ok(Target::new(
        &variable("CARGO_CFG_TARGET_OS")?,
        &variable("CARGO_CFG_TARGET_ARCH")?,
        &variable("CARGO_CFG_TARGET_ENDIAN")?,
        &variable("CARGO_CFG_TARGET_POINTER_WIDTH")?,
    ))
}

/// Returns a variable that Cargo sets for build scripts.
fn variable(name: &'static str) -> Result<OsString, BuildError> {
    std::env::var_os(name).ok_or(BuildError::NoBuildScript { variable: name })
}

fn print_warnings(report: &Report) {
    let warnings = report.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning);
    for warning in warnings {
        println!("cargo:warning={}", library::describe(warning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_different_names_differ() {
        assert_eq!(identifier("site.cdb"), "site_2ecdb");
        assert_eq!(identifier("site_2ecdb"), "site_5f2ecdb");
        assert_eq!(identifier("a b/ü"), "a_20b_2f_c3_bc");
    }
}
