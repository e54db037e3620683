//! Detects files that another process is writing, so that we do not read half-written content.
//!
//! If an editor truncates a file and writes it again, it keeps the file open in the meantime, and Linux tells us whether a file is
//! open for writing. Where we cannot tell, we wait until the file has not changed for a moment. Only the change times of recently
//! modified files are ever compared with the clock.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::{Writers, writers};
use cannery_base::FileStamp;

/// If a file has not changed for this long, we assume that it's complete, even if some process keeps it open. After this time, its
/// stamp is unique too: in the worst case, a file system has a resolution of two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// If we cannot detect writers, we assume that a file is complete once it has not changed for this long. This also applies to
/// files that are just being created because they exist for a moment before they are open for writing.
const QUIET_AFTER: Duration = Duration::from_millis(30);

/// The same for empty files. These may have been truncated to be written again.
const EMPTY_QUIET_AFTER: Duration = Duration::from_millis(500);

/// Returns `true` if the file was modified so shortly before `now` that it might change again without a new stamp.
pub(crate) fn is_recent(stamp: &FileStamp, now: SystemTime) -> bool {
    age_at(stamp, now) < SETTLED_AFTER
}

/// Returns `true` if another process is writing the open file with this stamp.
pub(crate) fn is_half_written(file: &File, stamp: &FileStamp) -> bool {
    let age = age(stamp);
    if age >= SETTLED_AFTER {
        return false;
    }
    let is_empty = stamp.version.size == 0;
    match writers(file) {
        // On network file systems, there are other reasons for denying a lease.
        Writers::Present if is_on_network(file) => age < QUIET_AFTER,
        Writers::Present => true,
        Writers::Absent => is_empty && age < QUIET_AFTER,
        Writers::Unknown if is_empty => age < EMPTY_QUIET_AFTER,
        Writers::Unknown => age < QUIET_AFTER,
    }
}

/// Returns the time since a file last changed, or zero if that is in the future.
fn age(stamp: &FileStamp) -> Duration {
    age_at(stamp, SystemTime::now())
}

/// Returns the time from a file's last change to `now`, or zero if it changed later.
pub(crate) fn age_at(stamp: &FileStamp, now: SystemTime) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed_ns = u64::try_from(stamp.changed_ns).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(changed_ns))
}

#[cfg(target_os = "linux")]
fn is_on_network(file: &File) -> bool {
    /// Magic numbers of NFS, SMB 1, CIFS and SMB 2 (`statfs(2)`).
    const NETWORK: [u64; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
    // The type of `f_type` depends on the architecture, but magic numbers always have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    rustix::fs::fstatfs(file).is_ok_and(|found| NETWORK.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_on_network(_file: &File) -> bool {
    true
}

#[cfg(test)]
mod tests;
