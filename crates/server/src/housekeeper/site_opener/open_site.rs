//! An open site of a site directory, and its files.

use std::fs::{File, OpenOptions};
use std::io;
use std::iter::Sum;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cannery_archive::Loading;
use cannery_base::FileVersion;
use cannery_site::{Site, VirtualHosts};

use super::listing::{DirectoryState, Source, SourceKind};
use crate::config::{NamedArchive, PreviewFile, ReleaseDirectory, SiteDirectory};
use crate::content::limits::SITE_COPIED_BYTES_MAX;
use crate::content::{ArchiveResources, Attempts, Entry, Leases, Preview, Releases, Trigger, open};
use crate::housekeeper::archive_file::{ArchiveFile, FileState};
use crate::housekeeper::archives::open_verified;
use crate::notice::Notice;
use crate::short_file::{self, SETTINGS_BYTES_MAX};
use crate::verification::{Verification, verify_if_small};

/// An open site.
pub(super) struct OpenSite {
    source: Source,
    file: ArchiveFile,
    pub(super) entry: Entry,
    /// Workers set this at each request.
    pub(super) is_used: Arc<AtomicBool>,
    pub(super) used_last: Instant,
    /// The file that makes the site a preview.
    preview_version: Option<FileVersion>,
    /// The release directory, if it is a preview. While it is open, no other directory gets its inode.
    directory: Option<File>,
    /// State of the release directory before it was scanned. `None` if it has to be scanned again.
    scanned: Option<DirectoryState>,
}

/// Resources of open sites.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// Number of open archives.
    pub(super) archives: usize,
    /// Length of archives that are copied instead of mapped, in bytes.
    pub(super) copied_bytes: u64,
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), |all, size| Size {
            archives: all.archives + size.archives,
            copied_bytes: all.copied_bytes + size.copied_bytes,
        })
    }
}

/// Why a site can't be served.
#[derive(Debug)]
pub(super) enum Failure {
    /// It has no current release, or has ended.
    Absent,
    Refused {
        path: PathBuf,
        why: String,
    },
}

/// Result of checking a site's files.
pub(super) enum Change {
    None,
    /// It serves something else.
    Served,
    /// It can't be served any more.
    Failed(Failure),
}

impl OpenSite {
    /// Returns `true` if the next check will use releases that the last one has only seen.
    pub(super) fn has_new(&self) -> bool {
        self.file.releases.as_ref().is_some_and(Releases::has_new)
    }

    /// Opens a site.
    pub(super) fn open(
        directory: &SiteDirectory,
        source: &Source,
        virtual_hosts: VirtualHosts,
        attempts: &Arc<Attempts>,
        leases: &mut Leases,
        notices: &mut Vec<Notice>,
    ) -> Result<OpenSite, Failure> {
        let named = match source.kind {
            SourceKind::Archive => NamedArchive::new(None, source.path.clone()),
            SourceKind::ReleaseDirectory => {
                let releases = ReleaseDirectory::new(source.path.clone(), directory.kept);
                let named = NamedArchive::from_directory(None, releases);
                if named.path().symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
                {
                    return Err(Failure::Absent);
                }
                named
            }
        };
        let release_directory = open_directory(&source.path);
        let settings = read_settings(source, attempts)?;

        let path = named.path().to_owned();
        let refused = |why: String| Failure::Refused { path: path.clone(), why };
        // Record the version first, in order to notice any later change.
        let file = ArchiveFile::new(&named);
        let open::OpenedArchive { archive, lease, is_unguarded } =
            open::open(&path, Loading::Mapped).map_err(|error| refused(error.to_string()))?;
        verify_if_small(&archive, |_| leases.look_after()).map_err(|error| refused(error.to_string()))?;
        if is_unguarded {
            notices.push(Notice::Unguarded { path: path.clone() });
        }

        let site = Arc::new(Site::new(archive, virtual_hosts));
        leases.add(&path, &site, lease, false);
        let mut releases = named.releases().cloned().map(|directory| {
            Releases::new(directory, virtual_hosts).with_copied_bytes_max(SITE_COPIED_BYTES_MAX)
        });
        if let Some(releases) = &mut releases {
            releases.scan(site.archive(), Trigger::Startup, leases, notices);
        }

        // New settings are written before their release becomes current. Both may have changed since they were read, and a release that
        // needs a password must not be served without it. If there are none any more, the directory is about to be removed.
        let (preview, preview_version) = read_settings(source, attempts)?;
        if settings.0.is_some() && preview.is_none() {
            return Err(Failure::Absent);
        }
        // Only previews keep the descriptor.
        let release_directory = match &preview {
            None => None,
            Some(_) => {
                let opened = release_directory.map_err(|error| unreadable(&source.path, &error))?;
                // The settings of another directory aren't for these archives.
                if !is_at(&opened, &source.path)? {
                    return Err(Failure::Absent);
                }
                Some(opened)
            }
        };

        let earlier = releases.as_ref().map_or_else(Vec::new, Releases::sites);
        Ok(OpenSite {
            source: source.clone(),
            file: file.with_resources(ArchiveResources { releases, verification: Verification::Done }),
            entry: Entry { host: None, site, earlier, preview: preview.map(Arc::new), is_withdrawn: false },
            is_used: Arc::new(AtomicBool::new(true)),
            used_last: Instant::now(),
            preview_version,
            directory: release_directory,
            scanned: None,
        })
    }

    /// Returns `true` if the site was opened from this source.
    pub(super) fn is_of(&self, source: Option<&Source>) -> bool {
        source == Some(&self.source)
    }

    /// Notes whether the site was used since the last call.
    pub(super) fn note_use(&mut self, now: Instant) {
        if self.is_used.swap(false, Ordering::Relaxed) {
            self.used_last = now;
        }
    }

    /// Returns `true` if the site is a preview that has ended.
    pub(super) fn has_ended(&self, now: u64) -> bool {
        self.entry.preview.as_ref().is_some_and(|preview| preview.has_ended(now))
    }

    /// Returns the size of the current release and of others that answer for its pages.
    pub(super) fn size(&self) -> Size {
        let archives = std::iter::once(&self.entry.site).chain(&self.entry.earlier);
        let archives = archives.map(|site| site.archive());
        let size = archives.map(|archive| Size {
            archives: 1,
            copied_bytes: if archive.is_in_memory() { archive.facts().file_bytes } else { 0 },
        });
        size.sum()
    }

    /// Checks the files, and opens what has changed.
    pub(super) fn check(
        &mut self,
        trigger: Trigger,
        virtual_hosts: VirtualHosts,
        attempts: &Arc<Attempts>,
        leases: &mut Leases,
        retired: &mut Vec<Arc<Site>>,
        notices: &mut Vec<Notice>,
    ) -> Change {
        let mut change = self.check_preview(attempts);
        if matches!(change, Change::Failed(_)) {
            return change;
        }

        let path = self.file.path.clone();
        match self.file.check(trigger) {
            FileState::Settled => {}
            FileState::Missing(error) => notices.push(Notice::Refused { path, why: error.to_string() }),
            FileState::Ready => match open_verified(&path, Loading::Mapped, leases) {
                Ok((opened, of_archive)) => {
                    let site = Arc::new(Site::new(opened.archive, virtual_hosts));
                    leases.add(&path, &site, opened.lease, false);
                    retired.push(std::mem::replace(&mut self.entry.site, site));
                    notices.extend(of_archive);
                    change = Change::Served;
                }
                Err(failure) => {
                    if self.file.refuse(&failure, trigger) {
                        notices.push(Notice::Refused { path, why: failure.to_string() });
                    }
                }
            },
        }

        // Update these together with the current release, so that the previous one still answers for its pages.
        let state = DirectoryState::of(&self.source.path).ok();
        if let Some(releases) = &mut self.file.releases
            && (self.scanned.is_none()
                || self.scanned != state
                || releases.is_incomplete()
                || releases.is_unreadable()
                || trigger == Trigger::Request
                || matches!(change, Change::Served))
        {
            self.scanned = state.filter(|state| state.is_settled() && !releases.is_incomplete());
            let is_continued = releases.is_incomplete() && trigger == Trigger::Interval;
            let trigger = if is_continued { Trigger::Continuation } else { trigger };
            let scan = releases.scan(self.entry.site.archive(), trigger, leases, notices);
            if releases.has_new() {
                self.scanned = None;
            }
            if scan.is_changed {
                self.entry.earlier = releases.sites();
                change = Change::Served;
            }
            retired.extend(scan.retired);
        }

        // The settings may have changed together with the releases that were opened just now, as in `open`.
        match (change, self.check_preview(attempts)) {
            (Change::None, preview) => preview,
            (_, Change::Failed(failure)) => Change::Failed(failure),
            (change, _) => change,
        }
    }

    /// Checks the file of settings, and reads it if it has changed.
    fn check_preview(&mut self, attempts: &Arc<Attempts>) -> Change {
        // The settings of another directory aren't for the releases of this one, which may need a password.
        match self.directory.as_ref().map(|directory| is_at(directory, &self.source.path)) {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => return Change::Failed(Failure::Absent),
            Some(Err(failure)) => return Change::Failed(failure),
        }
        if self.source.kind != SourceKind::ReleaseDirectory
            || version(&self.source.path.join(PreviewFile::NAME)).ok() == Some(self.preview_version)
        {
            return Change::None;
        }
        // Before the settings are read, so that they aren't those of an earlier directory.
        let directory = match self.directory.take() {
            Some(directory) => Ok(directory),
            None => open_directory(&self.source.path),
        };
        match read_preview(&self.source.path, attempts) {
            // The directory is about to be removed. Otherwise, the next request opens it without the settings.
            Ok((None, _)) if self.preview_version.is_some() => Change::Failed(Failure::Absent),
            Ok((None, _)) => Change::None,
            Ok((Some(preview), version)) => match directory {
                // It was replaced just now, so these may be the settings of another preview.
                Ok(directory) if !matches!(is_at(&directory, &self.source.path), Ok(true)) => {
                    Change::Failed(Failure::Absent)
                }
                Ok(directory) => {
                    self.entry.preview = Some(Arc::new(preview));
                    self.preview_version = version;
                    self.directory = Some(directory);
                    Change::Served
                }
                Err(error) => Change::Failed(unreadable(&self.source.path, &error)),
            },
            // Better no preview than one without its password.
            Err(failure) => Change::Failed(failure),
        }
    }

    /// Closes the site. Workers may still refer to it.
    pub(super) fn retire(self, retired: &mut Vec<Arc<Site>>) {
        retired.push(self.entry.site);
        retired.extend(self.file.releases.into_iter().flat_map(Releases::into_open));
    }
}

/// Opens a directory. Its inode stays in use until it is closed, even if it is removed.
fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

/// Returns `true` if an open directory still has this path, and `false` if it was removed, renamed or replaced.
fn is_at(directory: &File, path: &Path) -> Result<bool, Failure> {
    let opened = directory.metadata().map_err(|error| unreadable(path, &error))?;
    match path.metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused { path: path.to_owned(), why: error.to_string() }
}

/// Reads the settings of a site's preview, if it is one. One that has ended isn't there any more.
fn read_settings(
    source: &Source,
    attempts: &Arc<Attempts>,
) -> Result<(Option<Preview>, Option<FileVersion>), Failure> {
    match source.kind {
        SourceKind::Archive => Ok((None, None)),
        SourceKind::ReleaseDirectory => {
            let settings = read_preview(&source.path, attempts)?;
            let has_ended = settings.0.as_ref().is_some_and(|preview| preview.has_ended(unix_seconds()));
            if has_ended { Err(Failure::Absent) } else { Ok(settings) }
        }
    }
}

/// Reads the file that makes a release directory a preview, if there is one.
fn read_preview(
    directory: &Path,
    attempts: &Arc<Attempts>,
) -> Result<(Option<Preview>, Option<FileVersion>), Failure> {
    let path = directory.join(PreviewFile::NAME);
    let refused = |why: String| Failure::Refused { path: path.clone(), why };
    let version = version(&path).map_err(|error| refused(error.to_string()))?;
    let Some(version) = version else { return Ok((None, None)) };
    let json = short_file::read(&path, SETTINGS_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    let preview = Preview::parse(&json, attempts)
        .map_err(|error| refused(format!("it isn't the settings of a preview ({error})")))?;
    Ok((Some(preview), Some(version)))
}

/// Returns the version of a file, or `None` if there is no such file.
fn version(path: &Path) -> io::Result<Option<FileVersion>> {
    match FileVersion::at(path) {
        Ok(version) => Ok(Some(version)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::worker::simulation;

    const PASSWORD: &str = r#"{"password": {"salt": "a", "digest": "b"}}"#;

    /// Another client may remove a preview and create one of the same name, which has no release yet.
    #[test]
    fn settings_of_another_directory_are_not_for_an_open_preview() {
        let sites = tempfile::tempdir().unwrap();
        let path = sites.path().join("a.example");
        let create = |settings: &str| {
            fs::create_dir(&path).unwrap();
            fs::write(path.join(PreviewFile::NAME), settings).unwrap();
        };
        create(PASSWORD);
        fs::write(path.join("1.cdb"), simulation::archive("secret")).unwrap();
        symlink("1.cdb", path.join("current")).unwrap();

        let directory = SiteDirectory { path: sites.path().to_owned(), open_max: 1, kept: 1 };
        let source = Source { path: path.clone(), kind: SourceKind::ReleaseDirectory };
        let (attempts, mut retired, mut notices) = (Arc::default(), Vec::new(), Vec::new());
        let mut site = OpenSite::open(
            &directory,
            &source,
            VirtualHosts::Enabled,
            &attempts,
            &mut Leases::new(),
            &mut notices,
        )
        .unwrap();
        let mut check = || {
            site.check(
                Trigger::Interval,
                VirtualHosts::Enabled,
                &attempts,
                &mut Leases::new(),
                &mut retired,
                &mut notices,
            )
        };
        assert!(matches!(check(), Change::None));
        // A new password is for the same releases.
        let next = path.join("next");
        fs::write(&next, PASSWORD.replace('b', "c")).unwrap();
        fs::rename(&next, path.join(PreviewFile::NAME)).unwrap();
        assert!(matches!(check(), Change::Served));

        // The file system may use the inode again at once.
        fs::remove_dir_all(&path).unwrap();
        create("{}");
        assert!(matches!(check(), Change::Failed(Failure::Absent)));
    }
}
