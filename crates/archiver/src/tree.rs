//! The tree of the source folder: which files exist, and which of them should be left out.

pub mod boundary; // Links that lead out of the folder.
pub(crate) mod folder_file; // Opens files of a folder.
pub mod skip; // Names to leave out: hidden files, backups, ignore files.
pub(crate) mod sparse; // Files of holes.
pub mod walk; // Lists a directory tree.
