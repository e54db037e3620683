//! The names in a site directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::HostPattern;
use crate::content::{HostNames, Trigger};
use crate::notice::Notice;

/// Suffix of archives.
const SUFFIX: &str = "cdb";

/// The modification time of a directory doesn't tell apart two changes within this time.
const SAME_TIME: Duration = Duration::from_secs(2);

/// The sites that a directory names.
pub(super) struct Listing {
    names: Arc<HostNames>,
    sources: Vec<Source>,
    /// The directory's state before it was listed. `None` if it has to be listed again.
    listed: Option<DirectoryState>,
    /// Entries that could not be read, such as symbolic links whose targets are missing. The directory doesn't change when these appear.
    dangling: Vec<PathBuf>,
    /// Names that don't fit, which we have reported.
    ignored: Vec<String>,
    /// The error of the last attempt, which we have reported.
    unreadable: Option<io::ErrorKind>,
}

/// Where a site is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) kind: SourceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    Archive,
    ReleaseDirectory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingOutcome {
    Unchanged,
    Changed,
}

/// State of a directory, which changes if an entry is added, removed or renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryState {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Listing {
    /// Reads the directory.
    pub(super) fn read(path: &Path, notices: &mut Vec<Notice>) -> io::Result<Listing> {
        let mut listing = Listing {
            names: Arc::default(),
            sources: Vec::new(),
            listed: None,
            dangling: Vec::new(),
            ignored: Vec::new(),
            unreadable: None,
        };
        listing.read_again(path, notices)?;
        Ok(listing)
    }

    /// Returns the hosts with their slots.
    pub(super) fn names(&self) -> Arc<HostNames> {
        Arc::clone(&self.names)
    }

    /// Returns where the site of a host is.
    pub(super) fn source(&self, host: &[u8]) -> Option<&Source> {
        self.sources.get(usize::try_from(*self.names.get(host)?).ok()?)
    }

    /// Reads the directory again if it has changed. If that isn't possible, the sites remain.
    pub(super) fn refresh(
        &mut self,
        path: &Path,
        trigger: Trigger,
        notices: &mut Vec<Notice>,
    ) -> ListingOutcome {
        let is_known = self.listed.is_some()
            && self.listed == DirectoryState::of(path).ok()
            && !self.dangling.iter().any(|link| link.exists());
        if is_known && trigger != Trigger::Request {
            return ListingOutcome::Unchanged;
        }
        match self.read_again(path, notices) {
            Ok(outcome) => {
                self.unreadable = None;
                outcome
            }
            Err(error) => {
                if self.unreadable.replace(error.kind()) != Some(error.kind()) {
                    notices.push(Notice::SitesUnreadable { path: path.to_owned(), why: error.to_string() });
                }
                ListingOutcome::Unchanged
            }
        }
    }

    fn read_again(&mut self, path: &Path, notices: &mut Vec<Notice>) -> io::Result<ListingOutcome> {
        let state = DirectoryState::of(path)?;
        let mut found: HashMap<Box<[u8]>, Source> = HashMap::new();
        let mut ignored = Vec::new();
        let mut dangling = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            // Files that are still being copied have hidden names.
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }

            let source_path = entry.path();
            let kind = match SourceKind::of(&entry) {
                Ok(Some(kind)) => kind,
                Ok(None) => continue,
                // One unreadable entry must not hide the others. A site that we know may be open, so it stays.
                Err(error) => match self.known_kind(&source_path).filter(|_| !is_dangling(&error)) {
                    Some(kind) => kind,
                    None => {
                        dangling.push(source_path);
                        continue;
                    }
                },
            };
            let is_archive = kind == SourceKind::Archive;
            let host = if is_archive { source_path.file_stem() } else { Some(name.as_os_str()) };
            let Some(host) = host.and_then(OsStr::to_str).and_then(host_name) else {
                // Folders may have other purposes.
                if is_archive {
                    ignored.push(format!("{}: the name isn't a host's", source_path.display()));
                }
                continue;
            };

            let source = Source { path: source_path, kind };
            match found.entry(host.into_bytes().into()) {
                std::collections::hash_map::Entry::Vacant(vacant) => drop(vacant.insert(source)),
                std::collections::hash_map::Entry::Occupied(mut other) => {
                    // Don't depend on the order of the directory.
                    let other = other.get_mut();
                    let is_preferred = (source.kind == SourceKind::ReleaseDirectory, &other.path)
                        > (other.kind == SourceKind::ReleaseDirectory, &source.path);
                    let (kept, left) =
                        if is_preferred { (source, other.clone()) } else { (other.clone(), source) };
                    ignored.push(format!(
                        "{}: {} is for the same host",
                        left.path.display(),
                        kept.path.display()
                    ));
                    *other = kept;
                }
            }
        }

        let new = ignored.iter().filter(|text| !self.ignored.contains(text));
        notices.extend(new.map(|why| Notice::SiteIgnored { why: why.clone() }));
        self.ignored = ignored;
        self.dangling = dangling;
        self.listed = state.is_settled().then_some(state);

        let is_same = found.len() == self.sources.len()
            && found.iter().all(|(host, source)| self.source(host) == Some(source));
        if is_same {
            return Ok(ListingOutcome::Unchanged);
        }
        let (hosts, sources): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        self.names = Arc::new(hosts.into_iter().zip(0..).collect());
        self.sources = sources;
        Ok(ListingOutcome::Changed)
    }

    /// Returns what the last listing found at a path.
    fn known_kind(&self, path: &Path) -> Option<SourceKind> {
        // Only the name of an archive has a suffix that isn't part of the host.
        let names = [path.file_stem(), path.file_name()].into_iter().flatten();
        let hosts = names.filter_map(|name| name.to_str().and_then(host_name));
        let mut sources = hosts.filter_map(|host| self.source(host.as_bytes()));
        sources.find(|source| source.path == path).map(|source| source.kind)
    }
}

impl SourceKind {
    /// Returns `None` for an entry that isn't a site.
    fn of(entry: &fs::DirEntry) -> io::Result<Option<SourceKind>> {
        let path = entry.path();
        let mut kind = entry.file_type()?;
        if kind.is_symlink() {
            kind = path.metadata()?.file_type();
        }
        let is_archive = kind.is_file() && path.extension() == Some(OsStr::new(SUFFIX));
        Ok(if is_archive {
            Some(SourceKind::Archive)
        } else {
            kind.is_dir().then_some(SourceKind::ReleaseDirectory)
        })
    }
}

/// Returns `true` if a symbolic link leads nowhere, or to a place that we may not read.
fn is_dangling(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    // Links in a circle have no kind that is stable.
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// Returns the host that a file or folder is named by, in lower case. Wildcards are none.
fn host_name(name: &str) -> Option<String> {
    let is_plain = !name.starts_with('*') && !name.ends_with('.');
    is_plain.then(|| HostPattern::parse(name)).flatten().map(|host| host.to_string())
}

impl DirectoryState {
    pub(super) fn of(path: &Path) -> io::Result<DirectoryState> {
        let metadata = path.metadata()?;
        Ok(DirectoryState {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Returns `true` if another change would have another time.
    pub(super) fn is_settled(&self) -> bool {
        let modified = u64::try_from(self.modified.0)
            .map_or(UNIX_EPOCH, |seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        SystemTime::now().duration_since(modified).is_ok_and(|age| age > SAME_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_hosts_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a.example.cdb",
            "B.Example.cdb",
            "notes.txt",
            ".c.example.cdb",
            "a_b.cdb",
            "ä.cdb",
            "d.cdb.part",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        for name in ["e.example", "lost+found", "a.example"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("nothing", folder.path().join("f.example.cdb")).unwrap();

        let mut notices = Vec::new();
        let mut listing = Listing::read(folder.path(), &mut notices).unwrap();
        let mut hosts: Vec<_> =
            listing.names().keys().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
        hosts.sort();
        assert_eq!(hosts, ["a.example", "a_b", "b.example", "e.example"]);
        assert_eq!(listing.source(b"a.example").unwrap().kind, SourceKind::ReleaseDirectory);
        let messages: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert!(messages.iter().any(|text| text.contains("ä.cdb")), "{messages:?}");
        assert!(
            messages.iter().any(|text| text.contains("a.example.cdb") && text.contains("same host")),
            "{messages:?}"
        );
        assert_eq!(messages.len(), 2, "{messages:?}");

        // Changes at the same time are noticed, and nothing is reported twice.
        notices.clear();
        fs::remove_dir(folder.path().join("e.example")).unwrap();
        assert_eq!(listing.refresh(folder.path(), Trigger::Interval, &mut notices), ListingOutcome::Changed);
        assert_eq!(
            listing.refresh(folder.path(), Trigger::Interval, &mut notices),
            ListingOutcome::Unchanged
        );
        assert!(listing.source(b"e.example").is_none() && notices.is_empty());
    }

    #[test]
    fn unreadable_link_does_not_hide_other_sites() {
        let folder = tempfile::tempdir().unwrap();
        let (long, link) = ("x".repeat(300), folder.path().join("b.example.cdb"));
        std::os::unix::fs::symlink(&long, folder.path().join("a.example.cdb")).unwrap();
        fs::write(&link, "").unwrap();
        let mut notices = Vec::new();
        let mut listing = Listing::read(folder.path(), &mut notices).unwrap();
        assert!(listing.source(b"a.example").is_none() && listing.source(b"b.example").is_some());

        // A site that is known stays. Others are still noticed.
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&long, &link).unwrap();
        fs::write(folder.path().join("c.example.cdb"), "").unwrap();
        assert_eq!(listing.refresh(folder.path(), Trigger::Interval, &mut notices), ListingOutcome::Changed);
        assert!(listing.source(b"b.example").is_some() && listing.source(b"c.example").is_some());
        assert!(notices.is_empty(), "{notices:?}");
    }

    #[test]
    fn target_of_a_link_may_appear_later() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = elsewhere.path().join("a.cdb");
        std::os::unix::fs::symlink(&target, folder.path().join("a.example.cdb")).unwrap();
        // The directory isn't listed again because of a recent change.
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(folder.path()).unwrap().set_modified(long_ago).unwrap();

        let mut notices = Vec::new();
        let mut listing = Listing::read(folder.path(), &mut notices).unwrap();
        let mut refresh = || {
            let outcome = listing.refresh(folder.path(), Trigger::Interval, &mut notices);
            (outcome, listing.source(b"a.example").is_some())
        };
        assert_eq!(refresh(), (ListingOutcome::Unchanged, false));
        fs::write(&target, "").unwrap();
        assert_eq!(refresh(), (ListingOutcome::Changed, true));
        assert_eq!(refresh(), (ListingOutcome::Unchanged, true));
    }
}
