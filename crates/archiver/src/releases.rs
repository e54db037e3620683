//! Earlier releases: what they leave behind for the next one.

pub(crate) mod bundles; // Fingerprinted names of bundlers.
pub(crate) mod carryover; // Fingerprinted files of earlier releases.
pub mod manifest; // The manifest record.
pub(crate) mod previous; // Archives of earlier releases.
pub(crate) mod replaced; // Files that only the replaced archive has.
mod resources; // Files of an earlier archive.
