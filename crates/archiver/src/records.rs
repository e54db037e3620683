//! The records of the archive.

pub(crate) mod emit; // Routes to records.
pub(crate) mod render; // Response heads.
