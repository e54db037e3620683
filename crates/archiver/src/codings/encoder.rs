//! The encoders, with a row of facts for each.

use cannery_archive::Coding;

use super::{brotli, gzip, zopfli, zstd};

/// An encoder for contents. Of those with the same coding, the last one has the smallest results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Encoder {
    /// No compression.
    Identity,
    /// gzip with libdeflate.
    Gzip,
    /// gzip with Zopfli, which is about 4 % smaller and a hundred times slower.
    Zopfli,
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstd,
}

/// Facts about an encoder.
pub(super) struct Facts {
    /// The name used on the command line.
    name: &'static str,
    /// The content coding of its output.
    coding: Coding,
    /// Its library. Together with the level, this determines the output.
    version: &'static str,
    /// The lowest, default and highest level.
    pub(super) levels: (i32, i32, i32),
    /// Approximate time per byte relative to the fastest encoder, with each encoder at its highest level.
    cost: u64,
}

impl Encoder {
    /// All encoders, in declaration order.
    pub const ALL: [Encoder; 5] =
        [Encoder::Identity, Encoder::Gzip, Encoder::Zopfli, Encoder::Brotli, Encoder::Zstd];

    #[rustfmt::skip]
    pub(super) const fn facts(self) -> Facts {
        let (name, coding, version, levels, cost) = match self {
            Encoder::Identity => ("identity", Coding::Identity, "", (0, 0, 0), 1),
            Encoder::Gzip => ("gzip", Coding::Gzip, gzip::VERSION, (0, 12, 12), 1),
            // Levels are numbers of iterations, of which more than 60 have not saved a single byte in our tests.
            Encoder::Zopfli => ("zopfli", Coding::Gzip, zopfli::VERSION, (1, 15, 60), 12),
            Encoder::Brotli => ("brotli", Coding::Brotli, brotli::VERSION, (0, 11, 11), 4),
            Encoder::Zstd => ("zstd", Coding::Zstd, zstd::VERSION, (1, 19, 22), 1),
        };
        Facts { name, coding, version, levels, cost }
    }

    /// Returns the name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the content coding of its output.
    #[must_use]
    pub const fn coding(self) -> Coding {
        self.facts().coding
    }

    /// Returns the name and version of its library, or an empty string for [`Encoder::Identity`].
    pub(crate) const fn version(self) -> &'static str {
        self.facts().version
    }

    /// Returns the approximate time per byte relative to the fastest encoder.
    pub(crate) const fn cost(self) -> u64 {
        self.facts().cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_match_the_dependencies() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        for encoder in Encoder::ALL.into_iter().filter(|encoder| *encoder != Encoder::Identity) {
            let version = encoder.version();
            let (name, number) = version.rsplit_once('-').unwrap();
            let entry = format!("name = \"{name}\"\nversion = \"{number}\"");
            assert!(lock.contains(&entry), "{version} is not what Cargo.lock says: update VERSION");
        }
    }
}
