//! Detects files that another process is writing, so that no half-written content is read.
//!
//! An editor that truncates a file and writes it again keeps it open meanwhile, and Linux reports whether a file is open
//! for writing. Where that is unknown, a file must not have changed for a moment. We compare only the change times of
//! recently modified files with the clock.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::{Writers, writers};
use cannery_base::FileStamp;

/// A file that hasn't changed for this long is complete, even if a process keeps it open, and its stamp is unique: the
/// coarsest file systems have a resolution of two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Where writers can't be detected, a file that hasn't changed for this long is complete. They also can't while a file is being
/// created: it exists, and is empty, before it is open for writing.
const QUIET_AFTER: Duration = Duration::from_millis(30);

/// The same for an empty file, which may have been truncated to be written again.
const EMPTY_QUIET_AFTER: Duration = Duration::from_millis(500);

/// Returns `true` if the file was modified so recently before `now` that it could change once more without a new stamp.
pub(crate) fn is_recent(stamp: &FileStamp, now: SystemTime) -> bool {
    age_at(stamp, now) < SETTLED_AFTER
}

/// Returns `true` if another process is writing the open file, which has this stamp.
pub(crate) fn is_half_written(file: &File, stamp: &FileStamp) -> bool {
    let age = age(stamp);
    if age >= SETTLED_AFTER {
        return false;
    }
    let is_empty = stamp.version.size == 0;
    match writers(file) {
        // Network file systems deny leases for other reasons too.
        Writers::Present if is_on_network(file) => age < QUIET_AFTER,
        Writers::Present => true,
        Writers::Absent => is_empty && age < QUIET_AFTER,
        Writers::Unknown if is_empty => age < EMPTY_QUIET_AFTER,
        Writers::Unknown => age < QUIET_AFTER,
    }
}

/// Returns the time since the last change of a file; zero if that is in the future.
fn age(stamp: &FileStamp) -> Duration {
    age_at(stamp, SystemTime::now())
}

/// Returns the time from the last change of a file to `now`; zero if it is later.
pub(crate) fn age_at(stamp: &FileStamp, now: SystemTime) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed_ns = u64::try_from(stamp.changed_ns).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(changed_ns))
}

#[cfg(target_os = "linux")]
fn is_on_network(file: &File) -> bool {
    /// Magic numbers of NFS, SMB 1, CIFS and SMB 2 (`statfs(2)`).
    const NETWORK: [u64; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
    // The type of `f_type` depends on the architecture, and the magic numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    rustix::fs::fstatfs(file).is_ok_and(|found| NETWORK.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_on_network(_file: &File) -> bool {
    true
}

#[cfg(test)]
mod tests;
