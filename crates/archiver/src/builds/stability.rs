//! Waits briefly until a folder that is being edited has settled, that is, files that were being replaced exist again, and
//! files that were being written are complete. Files that do not settle are held back: the build will use the version of the
//! last build instead.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use cannery_base::FileStamp;

use crate::builds::session::Session;
use crate::settings::error::Error;
use crate::sources::snapshot::{Captured, Earlier, Snapshot};
use crate::sources::source;
use crate::sources::writers;
use crate::tree::folder_file::{self, Confinement};
use crate::tree::skip::IGNORE_FILE;
use crate::tree::walk::{SourceFile, WalkError, Walked};

/// A file counts as deleted once it is missed by a walk that started this long after its folder last changed. If a program
/// moves the old file away before creating the new one, this usually takes microseconds, unless the program is not
/// scheduled in between.
const DELETED_AFTER: Duration = Duration::from_millis(50);

/// Maximum time to wait for files being replaced, or for the source folder itself.
const REPLACED_MAX: Duration = Duration::from_millis(150);

/// Maximum time to wait for files being written.
const WRITTEN_MAX: Duration = Duration::from_millis(60);

/// Maximum total size of new files that we keep in memory.
const CAPTURED_BYTES_MAX: u64 = 32 << 20;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(5);

/// Walks the source folder.
///
/// When the folder or files of the last build are missing, the walk is repeated for as long as they may just be in the middle
/// of being replaced.
pub(super) fn walk(
    root: &Path,
    earlier: &Earlier,
    walk: impl Fn() -> Result<Walked, WalkError>,
) -> Result<Walked, WalkError> {
    let began = Instant::now();
    let Some(snapshot) = &earlier.snapshot else { return walk() };
    loop {
        let root_before = identity(root);
        // The time must be taken before the walk, as the walk itself may be slow or may not be
        // scheduled.
        let walk_began = SystemTime::now();
        let walked = walk();
        let is_being_replaced = match &walked {
            Err(WalkError::Root { source, .. }) => source.kind() == ErrorKind::NotFound,
            Err(_) => false,
            // The root was moved away during the walk, so we may have found only some of the files.
            Ok(_) if identity(root) != root_before => true,
            Ok(walked) => missing(snapshot, walked).any(|path| is_just_removed(root, path, walk_began)),
        };
        if !is_being_replaced || began.elapsed() > REPLACED_MAX {
            return walked;
        }
        sleep(INTERVAL);
    }
}

/// Returns the device and inode of the source folder, if it exists.
fn identity(root: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(root).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns files of the last build that the walk did not find.
fn missing<'a>(snapshot: &'a Snapshot, walked: &'a Walked) -> impl Iterator<Item = &'a [u8]> {
    // Typically there are none, and looking up each of the found files is the faster way to show
    // this.
    let known = walked.files.iter().filter(|file| snapshot.files.contains_key(&file.path)).count();
    // The walk never lists the ignore file.
    let ignore_file = IGNORE_FILE.as_bytes();
    let expected = snapshot.files.len() - usize::from(snapshot.files.contains_key(ignore_file));

    let paths = (known != expected).then(|| snapshot.files.keys().map(|path| &**path));
    let is_listed = |path: &[u8]| walked.files.binary_search_by(|file| (*file.path).cmp(path)).is_ok();
    paths.into_iter().flatten().filter(move |path| *path != ignore_file && !is_listed(path))
}

/// Returns `true` if the file's folder (or its nearest existing parent) changed during the walk or just before it.
fn is_just_removed(root: &Path, path: &[u8], walk_began: SystemTime) -> bool {
    let path = root.join(OsStr::from_bytes(path));
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    let stamp = folders.find_map(|folder| fs::metadata(folder).ok()).map(|found| FileStamp::of(&found));
    stamp.is_some_and(|stamp| writers::age_at(&stamp, walk_began) < DELETED_AFTER)
}

/// Holds back files that are being written by another process, or that could not be read in an earlier attempt, and returns
/// them.
///
/// Known files get the stamp of the last build. New files are left out, unless they are small: those will be captured
/// instead.
pub(super) fn hold_back(
    root: &Path,
    confinement: &Confinement,
    files: &mut Vec<SourceFile>,
    session: &mut Session<'_>,
) -> BTreeSet<Box<[u8]>> {
    let began = Instant::now();
    let now = SystemTime::now();
    let earlier = &mut session.earlier;
    let unreliable = session.unreliable;
    // If a file was changed long ago, it won't be half-written. For all others, we have to look.
    let may_be_half_written = |file: &SourceFile| {
        writers::is_recent(&file.stamp, now)
            && earlier.unchanged(&file.path, &file.stamp).is_none()
            && !earlier.overdue.contains(&file.path)
            && !unreliable.contains(&file.path)
    };
    let mut waiting: Vec<usize> =
        (0..files.len()).filter(|place| may_be_half_written(&files[*place])).collect();

    // Poll until all of these are complete or the time is up.
    let mut vanished = BTreeSet::new();
    let mut captured_bytes = 0;
    loop {
        waiting.retain(|place| {
            let file = &mut files[*place];
            let status = check(root, confinement, file, earlier, &mut captured_bytes);
            if status == Status::Vanished {
                vanished.insert(file.path.clone());
            }
            status == Status::HalfWritten
        });
        if waiting.is_empty() || !session.waits || began.elapsed() > WRITTEN_MAX {
            break;
        }
        sleep(INTERVAL);
    }

    // Hold back whatever is left, and files that made an earlier attempt fail.
    waiting.extend((0..files.len()).filter(|place| unreliable.contains(&files[*place].path)));
    let mut held_back = BTreeSet::new();
    for place in waiting {
        let file = &mut files[place];
        held_back.insert(file.path.clone());
        if let Some(known) = earlier.known(&file.path) {
            file.stamp = known.stamp;
        }
    }

    // There is no last version of a new file to fall back on, so we need to leave it out of
    // this build.
    files.retain(|file| !held_back.contains(&file.path) || earlier.known(&file.path).is_some());
    files.retain(|file| !vanished.contains(&file.path));
    earlier.held_back.clone_from(&held_back);
    held_back
}

/// Result of checking a recently changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// The file can be read, or the build will report why not.
    Readable,
    /// Another process is writing the file.
    HalfWritten,
    /// The file no longer exists.
    Vanished,
}

/// Checks a file. If it is new and small enough, this will also capture its content.
fn check(
    root: &Path,
    confinement: &Confinement,
    file: &mut SourceFile,
    earlier: &mut Earlier,
    captured_bytes: &mut u64,
) -> Status {
    let path = root.join(OsStr::from_bytes(&file.path));
    // Known files can be taken from the last build, and a first build may have too many new ones.
    let is_to_capture = earlier.snapshot.is_some() && earlier.known(&file.path).is_none();
    if !is_to_capture || *captured_bytes + file.stamp.version.size > CAPTURED_BYTES_MAX {
        return if is_half_written(&path) { Status::HalfWritten } else { Status::Readable };
    }

    match source::capture(confinement, &path) {
        Ok((stamp, content)) => {
            *captured_bytes += stamp.version.size;
            file.stamp = stamp;
            let captured = Captured { stamp, content: content.into() };
            earlier.captured.insert(file.path.clone(), captured);
            Status::Readable
        }
        Err(Error::Changing { .. }) => Status::HalfWritten,
        Err(error) if error.is_transient() => Status::Vanished,
        Err(_) => Status::Readable,
    }
}

fn is_half_written(path: &Path) -> bool {
    let Ok(file) = folder_file::open(path) else { return false };
    let stamp = file.metadata().map(|found| FileStamp::of(&found));
    stamp.is_ok_and(|stamp| writers::is_half_written(&file, &stamp))
}
