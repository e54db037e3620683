//! Limits of what a store can make us do. Stores aren't trusted: they may be broken, or broken into.

use std::time::Duration;

/// Maximum length of the document that names the current release, in bytes. A release takes about 2 KiB in it.
pub const DOCUMENT_BYTES_MAX: u64 = 256 << 10;

/// Maximum number of earlier releases in the document. No publisher rolls back further, and each takes about 2 KiB.
pub const EARLIER_MAX: usize = 32;

/// Maximum number of patches of a release. Ours have up to three: nodes that are further behind take the recipe alone.
pub const PATCHES_MAX: usize = 8;

/// Maximum length of a compressed recipe or patch in bytes, as that of one without compression.
pub const RECIPE_BLOB_BYTES_MAX: u64 = cannery_publish::limits::RECIPE_BYTES_MAX as u64;

/// Maximum length of any other response that is read into memory in bytes, such as tokens and errors.
pub const RESPONSE_BYTES_MAX: u64 = 64 << 10;

/// Ranges that are at most this far apart are fetched as one: a request costs about as much as transferring this many bytes.
pub const GAP_BYTES_MAX: u64 = 8 << 10;

/// Maximum number of redirects of a request. Registries use one, to their storage.
pub const REDIRECTS_MAX: usize = 5;

/// Maximum number of attempts in a row that transfer less than [`PROGRESS_BYTES_MIN`], before a transfer is given up.
pub const ATTEMPTS_MAX: u32 = 3;

/// Wanted bytes that an attempt must have transferred to count as a success, and bytes that it must transfer in each
/// [`PROGRESS_TIME`], so that a store that sends a byte from time to time is given up, too.
pub const PROGRESS_BYTES_MIN: u64 = 64 << 10;

/// The time in which an attempt must transfer [`PROGRESS_BYTES_MIN`].
pub const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Time for the whole of a response that is read into memory.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time to connect. Longer waiting doesn't help: the next attempt comes soon.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without a byte of a response, or without sending one of a request. Storage may need seconds to find a cold object.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time to connect to a service that gives credentials to this machine. On other machines, its address may not answer at all.
pub const MACHINE_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time until such a service begins to answer. It may have to ask another one.
pub const MACHINE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a program that prints credentials. It may ask a service in a network.
pub const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// Credentials are replaced this long before they expire, so that a service may be down for a while.
pub const RENEWAL_MARGIN: Duration = Duration::from_secs(300);

/// The least time between two questions for other credentials.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
