//! Limits for requests to the authority, for time, and for memory that another party can cause.

use std::time::Duration;

/// Minimum time between two orders for a certificate, whatever happens in between: a crash, a restart, or a
/// clock that is set. Even the authorities with the lowest limits accept this rate for a day.
pub const ORDER_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// Minimum time from a successful order to one that only the authority's advice asks for, or a quarter of the
/// certificate's life if that is shorter.
pub const ADVICE_INTERVAL_MIN: Duration = Duration::from_secs(6 * 60 * 60);

/// Maximum time between two attempts after failures. It leaves several attempts for a certificate that lives six
/// days and is renewed after three.
pub const BACKOFF_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// Minimum time before a certificate is ordered again if the issued one couldn't be used. Each of these orders counts: Let's Encrypt
/// issues five certificates for the same names within a week.
pub const REISSUE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum time for which we obey a `Retry-After` of the authority. One request a day does no harm, and a wrong
/// value can't keep us from renewing.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Interval at which we ask for renewal information (ARI) if the authority names none. RFC 9773 recommends six
/// hours.
pub const RENEWAL_INFO_INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);

/// Maximum duration of a request to the authority, including its response. A response takes less than a second
/// unless the authority is overloaded.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that we wait for the authority to check names, or to issue a certificate. Both take seconds as a
/// rule.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(180);

/// Time until we ask for an issued certificate for the first time. It doubles up to [`POLL_INTERVAL`].
pub const POLL_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// Maximum time between two questions for an issued certificate, and minimum time between two requests to issue it.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum duration of our own check of a name, whose addresses are asked one after the other. An authority does not wait for
/// longer.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of addresses of a name that we ask.
pub const CHECK_ADDRESSES_MAX: usize = 8;

/// Maximum duration of a call of the DNS hook, which may wait until all name servers have a record.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Maximum length of an authority's response, in bytes. A chain of certificates has less than ten thousand.
pub const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// Maximum number of bytes that we read of the response to our own request for a challenge.
pub const CHECK_BYTES_MAX: u64 = 4096;

/// Maximum number of DNS records that the hook has failed to remove, and that we try to remove again.
pub const RECORDS_MAX: usize = 200;

/// Maximum number of names in a certificate: that of Let's Encrypt, which others have, too.
pub const NAMES_MAX: usize = 100;

/// Maximum length of a file that we read from the folder, in bytes: an account key, a bundle or a state.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
