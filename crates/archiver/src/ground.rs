//! Shared by all rooms: diagnostics, progress, parallel work, temporary files.

pub mod diagnostic; // Remarks about the source folder, with file and line.
pub(crate) mod digest_map; // Hash maps by digest.
pub(crate) mod line_ids; // IDs of frequent header lines, for HPACK.
pub(crate) mod ordered; // Parallel work with results in order.
pub mod progress; // Progress of a build, for a progress bar.
pub mod report; // Counts and sizes of a finished build.
pub(crate) mod rule_error; // Why a line yields no rule.
pub(crate) mod stopwatch; // Times the stages.
pub mod temporary; // Temporary files that are removed on signals.
