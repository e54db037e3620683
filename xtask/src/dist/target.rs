//! The targets that we release for, and what building for them needs.

use std::path::Path;
use std::process::Command;

use crate::dist::{programs, tools};
use crate::error::Error;
use crate::project;

/// A target of the compiler.
pub(super) struct Target {
    pub(super) triple: &'static str,
    pub(super) library: Library,
    pub(super) architecture: Architecture,
    /// Programs for the target run on the machines that build releases.
    pub(super) runs_here: bool,
}

/// The C library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    /// A shared library of the system. For packages.
    Glibc,
    /// Part of the program. For archives and images, which run on any Linux.
    Musl,
}

/// Names of a processor.
#[derive(PartialEq, Eq)]
pub(super) struct Architecture {
    /// In images, and in Debian.
    pub(super) image: &'static str,
}

const X86_64: Architecture = Architecture { image: "amd64" };
const AARCH64: Architecture = Architecture { image: "arm64" };

/// All targets. The first one is for the machines that build releases.
pub(super) const TARGETS: [Target; 3] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        library: Library::Glibc,
        architecture: X86_64,
        runs_here: cfg!(target_arch = "x86_64"),
    },
    Target {
        triple: "x86_64-unknown-linux-musl",
        library: Library::Musl,
        architecture: X86_64,
        runs_here: cfg!(target_arch = "x86_64"),
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        library: Library::Musl,
        architecture: AARCH64,
        runs_here: cfg!(target_arch = "aarch64"),
    },
];

impl Target {
    pub(super) fn find(triple: &str) -> Result<&'static Target, Error> {
        let triples = TARGETS.map(|target| target.triple).join(", ");
        let problem = format!("there is no target `{triple}`; use one of {triples}");
        TARGETS.iter().find(|target| target.triple == triple).ok_or(Error::Usage { problem })
    }

    /// Returns the programs that are built for the target. Images have static ones.
    pub(super) fn programs(&self) -> Vec<&'static str> {
        let combined = (self.library == Library::Musl).then_some(programs::COMBINED);
        programs::NAMES.into_iter().chain(combined).collect()
    }

    /// Whether the target has another processor, for which zig compiles C code and links.
    pub(super) fn is_cross(&self) -> bool {
        !self.runs_here
    }

    /// Returns the reason why the target can't be built on this machine, with the remedy, or `None` if it can.
    pub(super) fn obstacle(&self) -> Option<String> {
        if !self.has_standard_library() {
            return Some(format!("its standard library is missing: `rustup target add {}`", self.triple));
        }
        if self.is_cross() {
            return tools::obstacle_to_zig();
        }
        let needs_compiler = self.library == Library::Musl && project::program("musl-gcc").is_none();
        needs_compiler.then(|| "musl-gcc is missing: `apt-get install musl-tools`".into())
    }

    fn has_standard_library(&self) -> bool {
        let mut rustc = Command::new("rustc");
        rustc.current_dir(project::root()).args(["--print", "target-libdir", "--target", self.triple]);
        rustc.output().is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
    }
}
