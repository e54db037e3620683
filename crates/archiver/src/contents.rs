//! Contents: read, compressed and stored once each.

pub(crate) mod caches; // The two caches, on disk or in memory.
pub(crate) mod compress_cache; // Cache of compressed contents.
pub(crate) mod content; // Distinct contents.
pub(crate) mod encode; // Compresses contents.
pub(crate) mod memory_cache; // Compressed contents in memory.
pub(crate) mod read; // Reads and hashes sources.
pub(crate) mod sources_cache; // Cache of digests of source files.
pub(crate) mod store; // Stores each body once.
