//! Source files: their bytes, which must be read whole and unchanged, and what is known about
//! them from the last build.

pub(crate) mod snapshot; // The last build.
pub(crate) mod source; // Reads source files, unchanged and whole.
pub(crate) mod source_facts; // What one pass over a source finds out.
pub(crate) mod unreadable; // Files that can't be read.
pub(crate) mod writers; // Detects files that are being written.
