//! Detects files that are being written by another process, to avoid reading half-written content.
//!
//! An editor that truncates a file and writes it again keeps the file open in the meantime, and on Linux it is possible to find
//! out whether a file is open for writing. Elsewhere, we wait until the file has not changed for a moment. The clock is only ever
//! compared with change times of recently modified files.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::{Writers, writers};
use cannery_base::FileStamp;

/// Time without changes after which a file is assumed to be complete, even if some process keeps it open. By then, its stamp is
/// unique too, given that file systems have a resolution of two seconds in the worst case.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// If we are unable to detect writers, this is the time without changes after which a file is assumed to be complete. It
/// also applies to files that are just being created, because these exist for a moment before they are opened for
/// writing.
const QUIET_AFTER: Duration = Duration::from_millis(30);

/// Same, but for empty files. These may have been truncated in order to be written again.
const EMPTY_QUIET_AFTER: Duration = Duration::from_millis(500);

/// Returns `true` if the file was modified so shortly before `now` that it might be modified again with the same
/// stamp.
pub(crate) fn is_recent(stamp: &FileStamp, now: SystemTime) -> bool {
    age_at(stamp, now) < SETTLED_AFTER
}

/// Whether another process is writing the open file with this stamp.
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

/// The time since the last change of a file, or zero when this is in the future.
fn age(stamp: &FileStamp) -> Duration {
    age_at(stamp, SystemTime::now())
}

/// The time between the last change of a file and `now`, or zero if it changed later.
pub(crate) fn age_at(stamp: &FileStamp, now: SystemTime) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed_ns = u64::try_from(stamp.changed_ns).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(changed_ns))
}

#[cfg(target_os = "linux")]
fn is_on_network(file: &File) -> bool {
    /// Magic numbers of NFS, SMB 1, CIFS and SMB 2 (`statfs(2)`).
    const NETWORK: [u64; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
    // Magic numbers always have 32 bits, but the type of `f_type` depends on the architecture.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    rustix::fs::fstatfs(file).is_ok_and(|found| NETWORK.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_on_network(_file: &File) -> bool {
    true
}

#[cfg(test)]
mod tests;
