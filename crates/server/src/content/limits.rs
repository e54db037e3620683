//! Limits for archives, for the sites of a directory, and for previews. Each has a row in docs/limits.md.

/// How long a worker waits until a site has been opened, in milliseconds.
pub(crate) const SITE_WAIT_MS: u64 = 200;

/// How long workers wait per second, all together, in milliseconds. To open a site usually takes a few.
pub(crate) const SITE_WAITING_MS_PER_SECOND: u64 = 200;

pub use crate::verification::ARCHIVE_VERIFIED_BYTES_MAX;

/// Archives that can be neither leased nor mapped safely are copied. Their copies may have this many bytes together.
pub(crate) const SITES_COPIED_BYTES_MAX: u64 = 1 << 30;

/// The copies of a single site may have this many bytes together. Beyond it, earlier releases aren't opened, so that a large site doesn't
/// close all others.
pub(crate) const SITE_COPIED_BYTES_MAX: u64 = SITES_COPIED_BYTES_MAX / 4;

/// The same for a directory of `--releases`, whose current release doesn't count.
pub(crate) const RELEASES_COPIED_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of archives of all open sites. A table has twice as many numbers, because those of closed sites are only used again by
/// the next table.
pub(crate) const SITES_ARCHIVES_MAX: usize = 16 * 1024;

/// A site without a request for this many seconds is closed.
pub(crate) const SITE_IDLE_SECONDS: u64 = 600;

/// Wrong passwords for a preview from an address per minute.
pub(crate) const WRONG_PASSWORDS_PER_MINUTE_MAX: u64 = 20;

/// Number of counters of wrong passwords.
pub(crate) const PASSWORD_COUNTERS: usize = 4096;
