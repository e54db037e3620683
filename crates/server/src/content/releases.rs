//! Other releases in a release directory. We keep them open in addition to the current one because clients
//! may have loaded pages from them.
//!
//! This belongs to the housekeeping thread. An archive must be verified completely before it is served. At startup,
//! we only do this for the newest ones; the others will follow in the background, so that large archives do
//! not delay the start. Damaged archives are skipped with a notice, whereas archives that are still being
//! copied are skipped silently. The current archive is not included here.
//!
//! Only some archives are open at a time: the one that arrived last, since it may be staged, the one that was current before, and those
//! with the highest serials.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Digest, Loading, OpenError, Writers};
use cannery_base::{FileStamp, FileVersion};
use cannery_site::{Site, VirtualHosts};

use super::leases::{Leases, Withdrawn};
use super::limits::RELEASES_COPIED_BYTES_MAX;
use super::open::{self, OpenFailure};
use crate::admission::{Admission, StatementStamp};
use crate::config::ReleaseDirectory;
use crate::notice::Notice;
use crate::verification::VERIFIED_AT_STARTUP_BYTES_MAX;

/// Suffix of archives. If some other file has it, we report that.
const SUFFIX: &str = "cdb";

/// An archive that the system could not read is tried again after this time, unless the operator requests it earlier.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Other releases in a release directory.
#[derive(Debug)]
pub(crate) struct Releases {
    directory: ReleaseDirectory,
    loading: Loading,
    /// How many bytes may be copied instead of mapped.
    copied_bytes_max: u64,
    /// Whether those of the current release count, too.
    counts_current: bool,
    /// Whether there are archives that should be served but have not been verified.
    is_incomplete: bool,
    virtual_hosts: VirtualHosts,
    /// Admits releases, if signatures are demanded.
    admission: Option<Admission>,
    files: BTreeMap<OsString, File>,
    /// The digest of the current release, and of the one that was current before in this process.
    current: Option<Digest>,
    replaced: Option<Digest>,
    /// The site that was current before, with the version of its file, until the next scan.
    replaced_site: Option<(Arc<Site>, FileVersion)>,
    /// Number of the last listing of the directory.
    listing: u64,
    /// Names of the files being served, newest first.
    served: Vec<OsString>,
    /// The error of the last attempt to read the directory, which we have reported.
    unreadable: Option<io::ErrorKind>,
}

/// A file in the directory.
#[derive(Debug)]
struct File {
    version: FileVersion,
    /// The listing that has found this version of the file first.
    listing: u64,
    state: State,
    /// Set if the system could not read the file at the last attempt.
    unreadable: Option<Unreadable>,
    /// How many looks in a row have found the file open for writing.
    written_looks: u32,
}

/// A failed attempt to read a file, which we have reported if the file seems to be an archive.
#[derive(Debug)]
struct Unreadable {
    why: String,
    since: Instant,
}

/// A file that a scan has found.
struct Found {
    version: FileVersion,
    /// The inode has changed after the content, so the file has probably got its name when it was complete. If that's wrong, the archive
    /// is refused until it changes again.
    is_renamed: bool,
}

impl Found {
    fn of(metadata: &fs::Metadata) -> Found {
        let FileStamp { version, changed_ns } = FileStamp::of(metadata);
        Found { version, is_renamed: changed_ns > version.modified_ns }
    }
}

#[derive(Debug)]
enum State {
    /// We have seen it once, so it might be incomplete. Or we could not read it.
    New,
    /// It is not an archive, or it is damaged (in which case we have reported that).
    Unusable,
    /// An archive that isn't admitted until its statement changes (which we have reported).
    Untrusted(StatementStamp),
    /// An archive that is not being served.
    Known(Label),
    /// An archive that is being served.
    Open(Label, Arc<Site>),
}

/// Identifies an archive by its metadata.
#[derive(Debug, Clone, Copy)]
struct Label {
    serial: u64,
    digest: Digest,
    bytes: u64,
}

/// Why files are checked. This decides which files we consider complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The server is starting and all files are complete. Only verify as much as takes next to no time.
    Startup,
    /// The server has started and is currently idle. One more release is verified, without listing the
    /// directory again.
    Continuation,
    /// The operator has requested it. All files are complete, and those that were refused should be tried
    /// again.
    Request,
    /// It is time for the next check. Files that have not changed since the last check are
    /// considered complete.
    Interval,
}

/// Result of a scan.
pub(crate) struct ScanOutcome {
    /// Releases that are not served any more.
    pub(crate) retired: Vec<Arc<Site>>,
    /// Whether the list of served releases has changed.
    pub(crate) is_changed: bool,
}

impl Releases {
    pub(crate) fn new(directory: ReleaseDirectory, virtual_hosts: VirtualHosts) -> Releases {
        Releases {
            directory,
            loading: Loading::Mapped,
            copied_bytes_max: RELEASES_COPIED_BYTES_MAX,
            counts_current: false,
            is_incomplete: false,
            virtual_hosts,
            admission: None,
            files: BTreeMap::new(),
            current: None,
            replaced: None,
            replaced_site: None,
            listing: 0,
            served: Vec::new(),
            unreadable: None,
        }
    }

    /// Reads releases into memory if that is asked for. Otherwise, they are mapped: there will only be a few requests for them, and the page
    /// cache keeps the parts that are in use.
    pub(crate) fn with_loading(self, loading: Loading) -> Releases {
        Releases { loading, ..self }
    }

    /// Opens only releases that are admitted.
    pub(crate) fn with(self, admission: Option<Admission>) -> Releases {
        Releases { admission, ..self }
    }

    /// Returns what admits releases. `None` if signatures aren't demanded.
    pub(crate) fn admission_mut(&mut self) -> Option<&mut Admission> {
        self.admission.as_mut()
    }

    /// Opens no more releases while those of the site, with the current one, would have more copied bytes.
    pub(crate) fn with_copied_bytes_max(self, copied_bytes_max: u64) -> Releases {
        Releases { copied_bytes_max, counts_current: true, ..self }
    }

    /// Returns `true` if a scan with [`Trigger::Continuation`] would open more releases.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Returns `true` if the directory could not be read, or a file in it that should be tried again, so that the next scan should come
    /// soon.
    pub(crate) fn is_unreadable(&self) -> bool {
        let is_tried_again = |file: &File| file.unreadable.is_some() && file.is_due(Trigger::Interval);
        self.unreadable.is_some() || self.files.values().any(is_tried_again)
    }

    /// Returns `true` if the next scan will use files that this one has only seen.
    pub(crate) fn has_new(&self) -> bool {
        self.files.values().any(|file| {
            matches!(file.state, State::New) && file.unreadable.is_none() || file.written_looks > 0
        })
    }

    /// Returns the sites of the other releases, newest first.
    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        let open = |name| self.files.get(name).and_then(File::open);
        self.served.iter().filter_map(open).map(Arc::clone).collect()
    }

    /// Returns the open release that has this version of a file, if it is loaded like a current one.
    pub(crate) fn opened(&self, version: &FileVersion) -> Option<Arc<Site>> {
        let mut sites = self.files.values().filter(|file| file.version == *version).filter_map(File::open);
        sites.find(|site| is_loaded(site.archive(), self.loading)).cloned()
    }

    /// Takes the site that was current until now, and the version of its file, so that the next scan needn't read the file again.
    pub(crate) fn keep_replaced(&mut self, site: Arc<Site>, version: FileVersion) {
        self.replaced_site = Some((site, version));
    }

    /// Closes all releases.
    pub(crate) fn into_open(self) -> impl Iterator<Item = Arc<Site>> {
        self.files.into_values().filter_map(|mut file| file.close())
    }

    /// Closes releases whose bytes have changed. The next scan will read their files again.
    pub(crate) fn withdraw(&mut self, withdrawn: &[Withdrawn]) -> Vec<Arc<Site>> {
        let mut closed = Vec::new();
        for (name, file) in &mut self.files {
            let is_withdrawn =
                |site: &Arc<Site>| withdrawn.iter().any(|withdrawn| Arc::ptr_eq(site, &withdrawn.site));
            if file.open().is_some_and(is_withdrawn) {
                closed.extend(file.close());
                self.served.retain(|served| served != name);
            }
        }
        closed
    }

    /// Scans the directory and opens the newest releases that are not `current`.
    pub(crate) fn scan(
        &mut self,
        current: &Archive,
        trigger: Trigger,
        leases: &mut Leases,
        notices: &mut Vec<Notice>,
    ) -> ScanOutcome {
        let mut retired = Vec::new();
        let digest = current.facts().digest;
        if self.current != Some(digest) {
            self.replaced = self.current.replace(digest);
        }
        match (trigger != Trigger::Continuation).then(|| self.list()) {
            None => {}
            Some(Ok((found, error))) => {
                match error {
                    Some(error) => self.report_unreadable(&error, notices),
                    None => self.unreadable = None,
                }
                self.update_files(found, trigger, &mut retired, notices);
            }
            // Keep the open releases because their files might still exist.
            Some(Err(error)) => self.report_unreadable(&error, notices),
        }

        let served = self.choose(current, trigger, leases, notices);
        self.replaced_site = None;
        for (name, file) in &mut self.files {
            if !served.contains(name) {
                retired.extend(file.close());
            }
        }

        let is_changed = served != self.served;
        self.served = served;
        if is_changed && matches!(trigger, Trigger::Interval | Trigger::Request) {
            let names = self.served.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            notices.push(Notice::OtherReleases { path: self.directory.path.clone(), names });
        }
        ScanOutcome { retired, is_changed }
    }

    /// Reports that the directory cannot be listed, unless we have already done so.
    fn report_unreadable(&mut self, error: &io::Error, notices: &mut Vec<Notice>) {
        if self.unreadable.replace(error.kind()) != Some(error.kind()) {
            let path = self.directory.path.clone();
            notices.push(Notice::ReleasesUnreadable { path, why: error.to_string() });
        }
    }

    /// Lists the regular files in the directory, and anything else that has the suffix of an archive. A known file that can't be read is
    /// listed as it was, because a release that is open must not be taken for deleted. Returns the last such error, too.
    fn list(&self) -> io::Result<(BTreeMap<OsString, Found>, Option<io::Error>)> {
        let mut found = BTreeMap::new();
        let mut unreadable = None;
        for entry in fs::read_dir(&self.directory.path)? {
            let entry = entry?;
            // Files that are still being built or copied have hidden names.
            let name = entry.file_name();
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            // A symlink points to another release, and that has its own name if it is kept.
            let is_candidate =
                |kind: fs::FileType| kind.is_file() || !kind.is_symlink() && has_suffix(&entry.path());
            let file = entry.file_type().and_then(|kind| match is_candidate(kind) {
                true => fs::metadata(entry.path()).map(|metadata| Some(Found::of(&metadata))),
                false => Ok(None),
            });
            let file = match file {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    unreadable = Some(error);
                    self.files.get(&name).map(|file| Found { version: file.version, is_renamed: false })
                }
            };
            if let Some(file) = file {
                found.insert(name, file);
            }
        }
        Ok((found, unreadable))
    }

    /// Updates our files from the listing, reading the labels of new ones.
    fn update_files(
        &mut self,
        found: BTreeMap<OsString, Found>,
        trigger: Trigger,
        retired: &mut Vec<Arc<Site>>,
        notices: &mut Vec<Notice>,
    ) {
        self.listing += 1;
        // Files that were deleted are not served any more.
        self.files.retain(|name, file| {
            let stays = found.contains_key(name);
            retired.extend(if stays { None } else { file.close() });
            stays
        });

        for (name, Found { version, is_renamed }) in found {
            let path = self.directory.path.join(&name);
            // On request and at startup, we trust that no file is still being copied.
            let is_complete = trigger != Trigger::Interval || is_renamed;
            match self.files.get_mut(&name) {
                Some(file) if file.version == version => {
                    let is_retried = trigger != Trigger::Interval && matches!(file.state, State::Unusable)
                        || file.is_signed_anew();
                    if matches!(file.state, State::New) && file.is_due(trigger) || is_retried {
                        notices.extend(file.learn(&path, Label::of(&path)));
                    }
                }
                known => {
                    retired.extend(known.and_then(File::close));
                    let listing = self.listing;
                    let mut file =
                        File { version, listing, state: State::New, unreadable: None, written_looks: 0 };
                    if is_complete {
                        notices.extend(file.learn(&path, Label::of(&path)));
                    }
                    self.files.insert(name, file);
                }
            }
        }
    }

    /// Returns the names of all archives but the current one, those first that should be served first.
    ///
    /// Their order by serial isn't enough. A release that was staged just now will become current, even if its serial is lower, and
    /// other machines may serve its pages already. After a rollback, the release that was replaced is the one with the most open pages.
    fn ranked(&self) -> Vec<(Label, OsString)> {
        let mut ranked: Vec<_> =
            self.files.iter().filter_map(|(name, file)| Some((file.label()?, file, name))).collect();
        ranked.retain(|(label, ..)| Some(label.digest) != self.current);
        let last = ranked.iter().max_by(|(_, a, a_name), (_, b, b_name)| {
            (a.listing, a.version.modified_ns, a_name).cmp(&(b.listing, b.version.modified_ns, b_name))
        });
        let last = last.map(|(label, ..)| label.digest);
        let is_first = |label: &Label| {
            let digest = Some(label.digest);
            (digest != last, digest != self.replaced)
        };
        // Higher serial numbers come first, then files that were modified later.
        ranked.sort_by_cached_key(|(label, file, name)| (is_first(label), newest_first(label, file, name)));
        ranked.into_iter().map(|(label, _, name)| (label, name.clone())).collect()
    }

    /// Selects the releases to serve and opens those that are not open yet. Returns their file names, newest first.
    fn choose(
        &mut self,
        current: &Archive,
        trigger: Trigger,
        leases: &mut Leases,
        notices: &mut Vec<Notice>,
    ) -> Vec<OsString> {
        let ranked = self.ranked();
        let mut served = Vec::new();
        let mut digests = vec![current.facts().digest];
        let mut copied_bytes = if self.counts_current { copied_bytes_of(current) } else { 0 };
        let mut verified_bytes = 0u64;
        self.is_incomplete = false;
        for (label, name) in ranked {
            if served.len() == self.directory.kept {
                break;
            }
            // The same archive can have several names.
            if digests.contains(&label.digest) {
                continue;
            }

            let path = self.directory.path.join(&name);
            let Some(file) = self.files.get_mut(&name) else { continue };
            if let Some((site, version)) = &self.replaced_site
                && matches!(file.state, State::Known(_))
                && file.version == *version
                && site.archive().facts().digest == label.digest
                && copied_bytes.saturating_add(copied_bytes_of(site.archive())) <= self.copied_bytes_max
            {
                leases.rename(site, &path);
                file.state = State::Open(label, Arc::clone(site));
                file.unreadable = None;
            }
            let mut loading = Loading::Mapped;
            let added_bytes = match file.open() {
                Some(site) => copied_bytes_of(site.archive()),
                None => {
                    let writers = open::writers(&path);
                    if file.is_held_back(writers, trigger) {
                        continue;
                    }
                    let has_room = copied_bytes.saturating_add(label.bytes) <= self.copied_bytes_max;
                    if self.loading == Loading::InMemory && has_room {
                        loading = Loading::InMemory;
                    }
                    let is_mapped =
                        writers == Writers::Absent || label.bytes > open::UNLEASED_COPIED_BYTES_MAX;
                    if loading == Loading::Mapped && is_mapped { 0 } else { label.bytes }
                }
            };
            if copied_bytes.saturating_add(added_bytes) > self.copied_bytes_max {
                break;
            }

            if !matches!(file.state, State::Open(..)) {
                if !file.is_due(trigger) {
                    continue;
                }
                let is_postponed = match trigger {
                    Trigger::Startup => {
                        verified_bytes.saturating_add(label.bytes) > VERIFIED_AT_STARTUP_BYTES_MAX
                    }
                    Trigger::Continuation => verified_bytes > 0,
                    Trigger::Request | Trigger::Interval => false,
                };
                if is_postponed {
                    self.is_incomplete = true;
                    break;
                }
                match open(&path, loading, self.virtual_hosts, self.admission.as_ref(), leases) {
                    Ok((site, notice)) => {
                        notices.extend(notice);
                        file.state = State::Open(label, site);
                        file.unreadable = None;
                    }
                    Err(failure) => {
                        let is_unreadable = matches!(failure, OpenFailure::Unreadable(_));
                        notices.extend(file.refuse(&path, &failure));
                        if is_unreadable {
                            continue;
                        }
                        file.state = match failure {
                            OpenFailure::Untrusted { statement, .. } => State::Untrusted(statement),
                            OpenFailure::Damaged(_) | OpenFailure::Unreadable(_) => State::Unusable,
                        };
                    }
                }
                // Not for a file that could not be read: it must not postpone the others again and again.
                verified_bytes = verified_bytes.saturating_add(label.bytes);
            }
            if let Some(site) = file.open() {
                copied_bytes = copied_bytes.saturating_add(copied_bytes_of(site.archive()));
                served.push(name);
                digests.push(label.digest);
            }
        }

        // Those that were not needed are looked at again after a while, too, and not all the time.
        for unreadable in self.files.values_mut().filter_map(|file| file.unreadable.as_mut()) {
            if unreadable.since.elapsed() >= RETRY_AFTER {
                unreadable.since = Instant::now();
            }
        }
        // A path that several releases have comes from the newest one.
        let rank = |name: &OsString| {
            let file = self.files.get(name)?;
            Some(newest_first(&file.label()?, file, name))
        };
        served.sort_by_cached_key(rank);
        served
    }
}

/// Orders archives by serial, then by the time of their last change, then by name.
fn newest_first(label: &Label, file: &File, name: &OsString) -> impl Ord + use<> {
    (Reverse(label.serial), Reverse(file.version.modified_ns), Reverse(name.clone()))
}

impl File {
    /// Takes the file's label, or notes why it can't be read. Returns a notice if the file seems to be an archive.
    fn learn(&mut self, path: &Path, label: Result<Label, OpenError>) -> Option<Notice> {
        match label {
            Ok(label) => {
                self.state = State::Known(label);
                self.unreadable = None;
                None
            }
            Err(error) => {
                let is_reported = is_meant_as_archive(path, &error);
                let failure = OpenFailure::from(error);
                self.state = match failure {
                    OpenFailure::Unreadable(_) => State::New,
                    OpenFailure::Damaged(_) | OpenFailure::Untrusted { .. } => State::Unusable,
                };
                self.refuse(path, &failure).filter(|_| is_reported)
            }
        }
    }

    /// Returns why the file can't be served, unless the system could not read it before for the same reason.
    fn refuse(&mut self, path: &Path, failure: &OpenFailure) -> Option<Notice> {
        let why = failure.to_string();
        let before = match failure {
            OpenFailure::Unreadable(_) => {
                self.unreadable.replace(Unreadable { why: why.clone(), since: Instant::now() })
            }
            OpenFailure::Damaged(_) | OpenFailure::Untrusted { .. } => self.unreadable.take(),
        };
        let is_known = before.is_some_and(|before| before.why == why);
        (!is_known).then(|| Notice::OtherReleaseRefused { path: path.to_owned(), why })
    }

    /// Returns `true` if the file wasn't admitted, and its statement has changed since.
    fn is_signed_anew(&self) -> bool {
        matches!(&self.state, State::Untrusted(statement) if statement.has_changed())
    }

    /// Returns `false` if the system could not read the file a moment ago.
    fn is_due(&self, trigger: Trigger) -> bool {
        trigger == Trigger::Request
            || self.unreadable.as_ref().is_none_or(|unreadable| unreadable.since.elapsed() >= RETRY_AFTER)
    }

    /// Returns `true` if the file can't be leased at the moment because another process has it open for writing. Most are done soon, so
    /// the next look may be able to.
    fn is_held_back(&mut self, writers: Writers, trigger: Trigger) -> bool {
        let is_look = matches!(trigger, Trigger::Interval | Trigger::Continuation);
        let is_held_back =
            is_look && writers == Writers::Present && self.written_looks < open::WRITTEN_LOOKS_MAX;
        self.written_looks = if is_held_back { self.written_looks + 1 } else { 0 };
        is_held_back
    }

    fn label(&self) -> Option<Label> {
        match self.state {
            State::Known(label) | State::Open(label, _) => Some(label),
            State::New | State::Unusable | State::Untrusted(_) => None,
        }
    }

    fn open(&self) -> Option<&Arc<Site>> {
        match &self.state {
            State::Open(_, site) => Some(site),
            _ => None,
        }
    }

    /// Stops serving the file. Returns the site if it was open.
    fn close(&mut self) -> Option<Arc<Site>> {
        let label = self.label()?;
        match std::mem::replace(&mut self.state, State::Known(label)) {
            State::Open(_, site) => Some(site),
            _ => None,
        }
    }
}

impl Label {
    /// Reads the label of an archive.
    fn of(path: &Path) -> Result<Label, OpenError> {
        let archive = Archive::open(path, Loading::Mapped)?;
        let facts = archive.facts();
        Ok(Label { serial: facts.serial, digest: facts.digest, bytes: facts.file_bytes })
    }
}

/// Returns the length of an archive that is copied instead of mapped, in bytes.
fn copied_bytes_of(archive: &Archive) -> u64 {
    if archive.is_in_memory() { archive.facts().file_bytes } else { 0 }
}

/// Returns `true` if an archive is in the memory in which this loading would put it.
fn is_loaded(archive: &Archive, loading: Loading) -> bool {
    match loading.resolve(archive.facts().file_bytes) {
        Loading::Mapped => true,
        Loading::InMemory => archive.is_in_memory(),
        // A preloaded one has all of its pages in memory.
        _ => false,
    }
}

fn has_suffix(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(SUFFIX))
}

/// Whether a file that cannot be opened seems to be an archive. Note that the directory can also
/// contain other files, e.g. notes.
fn is_meant_as_archive(path: &Path, error: &OpenError) -> bool {
    let is_damaged = matches!(
        error,
        OpenError::Length { .. } | OpenError::Version { .. } | OpenError::Corrupt(_) | OpenError::Cut { .. }
    );
    is_damaged || has_suffix(path)
}

/// Opens a release, and verifies its signature if that is demanded, and all of it.
fn open(
    path: &Path,
    loading: Loading,
    virtual_hosts: VirtualHosts,
    admission: Option<&Admission>,
    leases: &mut Leases,
) -> Result<(Arc<Site>, Option<Notice>), OpenFailure> {
    let opened = match admission {
        Some(admission) => {
            let check = |archive: &Archive| admission.check_other(path, archive);
            open::open_signed(path, loading, check, leases)?.0
        }
        None => {
            let opened = open::open(path, loading)?;
            opened.archive.verify(|_| leases.look_after())?;
            opened
        }
    };

    let open::OpenedArchive { archive, lease, is_unguarded } = opened;
    let notice = is_unguarded.then(|| Notice::Unguarded { path: path.to_owned() });
    let site = Arc::new(Site::new(archive, virtual_hosts));
    leases.add(path, &site, lease, admission.is_some());
    Ok((site, notice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::simulation;

    #[test]
    fn unreadable_files_are_tried_again_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_reported) in [("1.cdb", true), ("release-1", false)] {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            let version = FileVersion::at(&path).unwrap();
            let mut file =
                File { version, listing: 1, state: State::New, unreadable: None, written_looks: 0 };
            let fails = || Err(OpenError::Io(io::Error::from_raw_os_error(libc::EMFILE)));
            assert_eq!(file.learn(&path, fails()).is_some(), is_reported, "{name}");
            assert!(matches!(file.state, State::New), "{name}");
            assert!(!file.is_due(Trigger::Interval) && file.is_due(Trigger::Request));

            file.unreadable.as_mut().unwrap().since -= RETRY_AFTER;
            assert!(file.is_due(Trigger::Interval));
            assert!(file.learn(&path, fails()).is_none(), "the same is reported once");
        }
    }

    #[test]
    fn new_release_is_used_by_the_scan_after_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let current = Archive::from_bytes(simulation::archive("1")).unwrap();
        let directory = ReleaseDirectory::new(folder.path().to_owned(), 10);
        let mut releases = Releases::new(directory, VirtualHosts::Enabled);
        let scan = |releases: &mut Releases| {
            releases.scan(&current, Trigger::Interval, &mut Leases::new(), &mut Vec::new());
            (releases.has_new(), releases.sites().len())
        };
        assert_eq!(scan(&mut releases), (false, 0));
        fs::write(folder.path().join("2.cdb"), simulation::archive("2")).unwrap();
        assert_eq!(scan(&mut releases), (true, 0));
        assert_eq!(scan(&mut releases), (false, 1));

        // One that got its name when it was complete.
        let hidden = folder.path().join(".3.cdb");
        fs::write(&hidden, simulation::archive("3")).unwrap();
        let written = FileStamp::of(&hidden.metadata().unwrap());
        // The clock of the file system has ticks.
        while FileStamp::of(&hidden.metadata().unwrap()).changed_ns <= written.version.modified_ns {
            fs::rename(&hidden, folder.path().join(".4.cdb")).unwrap();
            fs::rename(folder.path().join(".4.cdb"), &hidden).unwrap();
        }
        fs::rename(&hidden, folder.path().join("3.cdb")).unwrap();
        assert_eq!(scan(&mut releases), (false, 2));
    }

    #[test]
    fn staged_and_replaced_releases_are_open_whatever_their_serials() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            fs::write(folder.path().join(format!("{name}.cdb")), simulation::archive(name)).unwrap();
        };
        ["4", "5", "6", "7", "8", "9"].iter().for_each(|name| write(name));
        let current = |name: &str| Archive::from_bytes(simulation::archive(name)).unwrap();
        let directory = ReleaseDirectory::new(folder.path().to_owned(), 3);
        let mut releases = Releases::new(directory, VirtualHosts::Enabled);
        let scan = |releases: &mut Releases, current: &Archive| {
            releases.scan(current, Trigger::Request, &mut Leases::new(), &mut Vec::new());
            let names: Vec<_> = releases.served.iter().map(|name| name.to_string_lossy()).collect();
            names.join(" ")
        };
        assert_eq!(scan(&mut releases, &current("9")), "8.cdb 7.cdb 6.cdb");
        // Rolled back: the release that was replaced has open pages.
        assert_eq!(scan(&mut releases, &current("5")), "9.cdb 8.cdb 7.cdb");
        assert_eq!(scan(&mut releases, &current("4")), "9.cdb 8.cdb 5.cdb");
        assert_eq!(scan(&mut releases, &current("4")), "9.cdb 8.cdb 5.cdb");
        // Staged.
        write("2");
        assert_eq!(scan(&mut releases, &current("4")), "9.cdb 5.cdb 2.cdb");
        write("3");
        assert_eq!(scan(&mut releases, &current("4")), "9.cdb 5.cdb 3.cdb");
        assert_eq!(scan(&mut releases, &current("3")), "9.cdb 4.cdb 2.cdb");
    }

    #[test]
    fn earlier_releases_are_copied_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["2", "3", "4"].map(|name| folder.path().join(format!("{name}.cdb")));
        for (path, name) in paths.iter().zip(["2", "3", "4"]) {
            fs::write(path, simulation::archive(name)).unwrap();
        }
        let bytes = paths[0].metadata().unwrap().len();
        let current = Archive::from_bytes(simulation::archive("1")).unwrap();
        assert!(current.is_in_memory());
        let releases = || {
            let directory = ReleaseDirectory::new(folder.path().to_owned(), 10);
            Releases::new(directory, VirtualHosts::Enabled)
        };
        // The number of open releases, and of those that are copied.
        let served = |mut releases: Releases| {
            releases.scan(&current, Trigger::Startup, &mut Leases::new(), &mut Vec::new());
            let sites = releases.sites();
            (sites.len(), sites.iter().filter(|site| site.archive().is_in_memory()).count())
        };
        assert_eq!(served(releases().with_loading(Loading::InMemory)), (3, 3));

        let has_leases = open::writers(&paths[0]) == Writers::Absent;
        let few = Releases { copied_bytes_max: 2 * bytes, ..releases().with_loading(Loading::InMemory) };
        assert_eq!(served(few), if has_leases { (3, 2) } else { (2, 2) });
        let with_current = releases().with_loading(Loading::InMemory).with_copied_bytes_max(2 * bytes);
        assert_eq!(served(with_current), if has_leases { (3, 1) } else { (1, 1) });

        // They can't be leased.
        let _writers = paths.each_ref().map(|path| fs::File::options().write(true).open(path).unwrap());
        let few = Releases { copied_bytes_max: 2 * bytes, ..releases() };
        assert_eq!(served(few), (2, 2));
        assert_eq!(served(releases().with_copied_bytes_max(2 * bytes)), (1, 1));
        assert_eq!(served(releases()), (3, 3));
    }

    #[test]
    fn release_that_is_open_for_writing_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("2.cdb");
        fs::write(&path, simulation::archive("2")).unwrap();
        if open::writers(&path) == Writers::Unknown {
            return;
        }
        let current = Archive::from_bytes(simulation::archive("1")).unwrap();
        for written_looks in [1, 3, open::WRITTEN_LOOKS_MAX + 1] {
            let directory = ReleaseDirectory::new(folder.path().to_owned(), 10);
            let mut releases = Releases::new(directory, VirtualHosts::Enabled);
            let mut scan = || {
                releases.scan(&current, Trigger::Interval, &mut Leases::new(), &mut Vec::new());
                releases.sites().first().map(|site| site.archive().is_in_memory())
            };
            let writer = fs::File::options().write(true).open(&path).unwrap();
            // The first scan has only seen the file.
            let first = scan();
            let open: Vec<_> = (0..written_looks).map(|_| scan()).collect();
            drop(writer);
            let held_back = first.into_iter().chain(open.iter().flatten().copied()).count();
            let is_copied = written_looks > open::WRITTEN_LOOKS_MAX;
            assert_eq!((held_back > 0, scan()), (is_copied, Some(is_copied)), "{open:?}");
        }
    }
}
