//! A file that contains an archive, and its last known state.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use cannery_base::FileVersion;
use cannery_site::Site;

use super::QUIET;
use crate::admission::StatementStamp;
use crate::config::NamedArchive;
use crate::content::open::{self, OpenFailure};
use crate::content::{ArchiveResources, RETRY_AFTER, Releases, Trigger};
use crate::verification::Verification;

/// A file that contains an archive.
#[derive(Debug)]
pub(super) struct ArchiveFile {
    /// Path of the archive, or a name for messages.
    pub(super) path: PathBuf,
    /// Whether the archive is an open file or embedded. Only a [`Publisher`](super::Publisher) can replace it.
    pub(super) is_published: bool,
    /// The file that we serve or have refused. We will not open it again until it changes.
    settled: Option<FileVersion>,
    /// The version that we serve, if all of it was verified.
    served: Option<FileVersion>,
    /// The value of `settled` before the last [`FileState::Ready`].
    settled_before: Option<FileVersion>,
    /// Set if the system could not read the file at the last attempt, which we have reported.
    unreadable: Option<Unreadable>,
    /// Set if the last file that was ready isn't admitted, which we have reported.
    untrusted: Option<Untrusted>,
    /// The last file that was refused, as long as no other one has its name.
    refused: Option<FileVersion>,
    /// The file that the last check found, and when it was found first.
    seen: Option<(FileVersion, Instant)>,
    /// How many looks in a row have found that the new file is open for writing.
    written_looks: u32,
    /// Whether we have already reported that the file is missing.
    is_missing_reported: bool,
    /// Other releases in the same directory.
    pub(super) releases: Option<Releases>,
    /// Of the archive that we serve.
    pub(super) verification: Verification,
}

/// A file that isn't admitted until its statement changes.
#[derive(Debug)]
struct Untrusted {
    version: Option<FileVersion>,
    why: String,
    statement: StatementStamp,
}

/// A failed attempt to read a file.
#[derive(Debug)]
struct Unreadable {
    version: Option<FileVersion>,
    why: String,
    since: Instant,
}

/// Result of checking a file.
pub(super) enum FileState {
    /// The file is known or still being written.
    Settled,
    /// The file is new and seems to be complete. The next check will find it settled, unless [`ArchiveFile::refuse`] changes that.
    Ready,
    /// The file cannot be read.
    Missing(io::Error),
}

impl ArchiveFile {
    /// Records the current state of the file. This should be done before it is opened, in order to notice any later
    /// change.
    pub(super) fn new(named: &NamedArchive) -> ArchiveFile {
        let is_published = !named.is_opened_by_path();
        let version = if is_published { None } else { FileVersion::at(named.path()).ok() };
        ArchiveFile {
            path: named.path().to_owned(),
            is_published,
            settled: version,
            served: None,
            settled_before: None,
            unreadable: None,
            untrusted: None,
            refused: None,
            seen: version.map(|version| (version, Instant::now())),
            written_looks: 0,
            is_missing_reported: false,
            releases: None,
            verification: Verification::Done,
        }
    }

    /// Takes the resources of the opened archive.
    pub(super) fn with_resources(self, resources: ArchiveResources) -> ArchiveFile {
        let ArchiveResources { releases, verification } = resources;
        ArchiveFile { releases, verification, ..self }
    }

    /// Notes that all of the opened archive was verified, so it may stay open when another one replaces it.
    pub(super) fn with_verified(self) -> ArchiveFile {
        ArchiveFile { served: self.settled, ..self }
    }

    /// Checks the file. A missing file is reported once, and then again for each request.
    pub(super) fn check(&mut self, trigger: Trigger) -> FileState {
        // A continuation only opens more releases of a directory.
        if self.is_published || trigger == Trigger::Continuation {
            return FileState::Settled;
        }

        let is_requested = trigger == Trigger::Request;
        let version = match FileVersion::at(&self.path) {
            Ok(version) => version,
            Err(error) => {
                self.seen = None;
                let is_reported = std::mem::replace(&mut self.is_missing_reported, true);
                return if is_reported && !is_requested {
                    FileState::Settled
                } else {
                    FileState::Missing(error)
                };
            }
        };

        self.is_missing_reported = false;
        let since =
            self.seen.filter(|(seen, _)| *seen == version).map_or_else(Instant::now, |(_, since)| since);
        self.seen = Some((version, since));
        let is_signed_anew =
            self.untrusted.as_ref().is_some_and(|untrusted| untrusted.statement.has_changed());
        if self.settled == Some(version) && !is_signed_anew {
            self.unreadable = None;
            return FileState::Settled;
        }

        // Don't read a large archive to the same bad block four times a second.
        let is_early = self.unreadable.as_ref().is_some_and(|unreadable| {
            unreadable.version == Some(version) && unreadable.since.elapsed() < RETRY_AFTER
        });
        if is_early && !is_requested {
            return FileState::Settled;
        }

        // A file that was renamed into place is complete. If it is being written in place, however, we
        // cannot know, so wait until it has stayed the same for a while.
        let renamed = self.settled.is_none_or(|settled| !settled.is_same_file(&version));
        let is_complete = is_requested || renamed || since.elapsed() >= QUIET;
        if is_complete && !self.is_held_back(trigger) {
            self.settled_before = self.settled.replace(version);
            FileState::Ready
        } else {
            FileState::Settled
        }
    }

    /// Returns `true` if the file can't be leased at the moment because another process has it open for writing. Most are done soon, so
    /// the next look may be able to.
    fn is_held_back(&mut self, trigger: Trigger) -> bool {
        let is_held_back = trigger == Trigger::Interval
            && self.written_looks < open::WRITTEN_LOOKS_MAX
            && open::is_being_written(&self.path);
        self.written_looks = if is_held_back { self.written_looks + 1 } else { 0 };
        is_held_back
    }

    /// Notes that the file that is served isn't what was opened any more. The next check will find it ready.
    pub(super) fn withdraw(&mut self) {
        (self.settled, self.settled_before, self.served) = (None, None, None);
    }

    /// Returns the release that the last check found ready if it was in the directory before, so that it is open and verified.
    pub(super) fn staged(&self) -> Option<Arc<Site>> {
        self.releases.as_ref()?.opened(&self.settled?)
    }

    /// Notes that the file that the last check found ready is served, in place of this site.
    pub(super) fn accept(&mut self, replaced: &Arc<Site>) {
        let version = std::mem::replace(&mut self.served, self.settled);
        if let (Some(releases), Some(version)) = (&mut self.releases, version) {
            releases.keep_replaced(Arc::clone(replaced), version);
        }
        self.untrusted = None;
        self.refused = None;
    }

    /// Forgets the refused file once another one has its name, such as the one that is served. Returns `true` then.
    pub(super) fn forget_refused(&mut self) -> bool {
        let current = self.seen.map(|(version, _)| version);
        self.refused.take_if(|refused| Some(*refused) != current).is_some()
    }

    /// Refuses the file that the last check found ready. If the system could not read it, a check after [`RETRY_AFTER`] will find it
    /// ready again. Returns `true` if this should be reported.
    pub(super) fn refuse(&mut self, failure: &OpenFailure, trigger: Trigger) -> bool {
        self.refused = self.settled;
        let why = match failure {
            OpenFailure::Unreadable(why) => why,
            OpenFailure::Untrusted { why, statement } => {
                let (version, why) = (self.settled, why.clone());
                let untrusted = Untrusted { version, why: why.clone(), statement: statement.clone() };
                let before = self.untrusted.replace(untrusted);
                let is_known = before.is_some_and(|before| (before.version, before.why) == (version, why));
                return !is_known || trigger == Trigger::Request;
            }
            OpenFailure::Damaged(_) => {
                self.untrusted = None;
                return true;
            }
        };
        let version = std::mem::replace(&mut self.settled, self.settled_before);
        let unreadable = Unreadable { version, why: why.clone(), since: Instant::now() };
        let before = self.unreadable.replace(unreadable);
        let is_known = before.is_some_and(|before| before.why == *why);
        !is_known || trigger == Trigger::Request
    }
}
