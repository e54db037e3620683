//! Limits of what the other side can make us do. Both sides are authenticated, but either may be broken or malicious.

/// Maximum length of a frame's payload in bytes. Longer data is sent in several frames, and a megabyte is long enough that their
/// number doesn't matter.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Length in bytes of the data frames that we send. It bounds how late progress is shown on a slow line.
pub const DATA_BYTES: usize = 64 << 10;

/// Maximum length of a recipe in bytes, after decompression. A path takes about 60 bytes, so this suffices for two million paths.
/// It is also the largest window that a decoder of zstd accepts by default.
pub const RECIPE_BYTES_MAX: usize = 128 << 20;

/// Maximum number of releases that a host lists, newest first. A release directory may have more, but
/// such a list is of no use to people.
pub const RELEASES_MAX: usize = 1000;

/// Maximum number of archives in which bodies are looked up, newest first. Bodies of older ones are hardly needed, and each
/// archive costs a pass over its records.
pub const SOURCES_MAX: usize = 16;

/// Maximum length of a list of missing bodies in bytes. Each run takes at least two bytes, so this is enough for any recipe.
pub const MISSING_BYTES_MAX: usize = 32 << 20;

/// Maximum length of a file with a key, a password, a token or a configuration, in bytes. None of them needs a tenth of this.
pub const NAMED_FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a file with root certificates, in bytes. Those of all browsers together take a quarter of a megabyte.
pub const ROOTS_BYTES_MAX: u64 = 16 << 20;
