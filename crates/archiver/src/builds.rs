//! Runs of the pipeline: the walk before it, the report after it, and repeated builds of the same folder.

pub(crate) mod changes; // Compares two builds.
pub(crate) mod compiler; // The public interface.
pub(crate) mod followed; // Names whose changes matter.
pub(crate) mod prepare; // The walk, less the build's own files.
pub(crate) mod resume; // The last build of another process.
pub(crate) mod session; // One of the builds.
pub(crate) mod stability; // Waits until the folder has settled.
pub(crate) mod summary; // Fills in the report.
