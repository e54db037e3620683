//! The other releases of a release directory: kept open beside the current one, for pages that were loaded from them.
//!
//! Owned by the thread that serves nobody. Each archive is opened and read whole before anything is answered from it;
//! one that is damaged or still being copied is passed over. The archive that is current is never among them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_archive::{Archive, Digest, Lease, Loading};
use cannery_site::Site;

use super::file_id::FileId;
use super::open;
use crate::config::ReleaseDirectory;
use crate::notice::Notice;

/// The other releases of a release directory.
#[derive(Debug)]
pub(crate) struct Releases {
    directory: ReleaseDirectory,
    /// Whether the `Host` of a request can pick a site within an archive.
    hosts: bool,
    files: BTreeMap<OsString, File>,
    /// The names of those that are served, the newest first.
    served: Vec<OsString>,
    /// What the directory could not be read for, if that was reported.
    unreadable: Option<io::ErrorKind>,
}

/// A file of the directory.
#[derive(Debug)]
struct File {
    stamp: FileId,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Seen once. It may still be being written.
    New,
    /// No archive, or a damaged one.
    Unusable,
    /// An archive, not in use.
    Known(Label),
    /// An archive that is served.
    Open(Label, OpenRelease),
}

/// What tells an archive from others.
#[derive(Debug, Clone, Copy)]
struct Label {
    serial: u64,
    digest: Digest,
}

/// A release that is served beside the current one.
#[derive(Debug)]
pub(crate) struct OpenRelease {
    pub(crate) path: PathBuf,
    pub(crate) site: Arc<Site>,
    pub(crate) lease: Option<Lease>,
}

/// When a file is believed to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// At the start of the server: as they are now, and read whole no more than the current one is.
    Start,
    /// On an order: as they are now.
    Ordered,
    /// If they have not changed since the last look.
    Regular,
}

impl Releases {
    pub(crate) fn new(directory: ReleaseDirectory, hosts: bool) -> Releases {
        Releases { directory, hosts, files: BTreeMap::new(), served: Vec::new(), unreadable: None }
    }

    /// The sites of the other releases, the newest first.
    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        let open = |name| self.files.get(name).and_then(File::open);
        self.served.iter().filter_map(open).map(|release| Arc::clone(&release.site)).collect()
    }

    /// The releases that are open.
    pub(crate) fn open_mut(&mut self) -> impl Iterator<Item = &mut OpenRelease> {
        self.files.values_mut().filter_map(|file| match &mut file.state {
            State::Open(_, release) => Some(release),
            _ => None,
        })
    }

    /// Looks what the directory holds beside the `current` release. Returns the releases that are served no more, and
    /// whether the ones that are have changed.
    pub(crate) fn look(
        &mut self,
        current: &Digest,
        look: Look,
        notices: &mut Vec<Notice>,
    ) -> (Vec<OpenRelease>, bool) {
        let mut retired = Vec::new();
        match self.list() {
            Ok(found) => {
                self.unreadable = None;
                self.take_over(found, look, &mut retired);
            }
            // What is open stays open: the files may be there all the same.
            Err(error) => {
                if self.unreadable.replace(error.kind()) != Some(error.kind()) {
                    let path = self.directory.path.clone();
                    notices.push(Notice::ReleasesUnreadable { path, why: error.to_string() });
                }
            }
        }
        let served = self.choose(current, look, notices);
        for (name, file) in &mut self.files {
            if !served.contains(name) {
                retired.extend(file.close());
            }
        }
        let is_changed = served != self.served;
        self.served = served;
        if is_changed && look != Look::Start {
            let names = self.served.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            notices.push(Notice::OtherReleases { path: self.directory.path.clone(), names });
        }
        (retired, is_changed)
    }

    /// The regular files of the directory.
    fn list(&self) -> io::Result<BTreeMap<OsString, FileId>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.directory.path)? {
            let entry = entry?;
            // What is being built or copied beside its place has a hidden name.
            let is_hidden = entry.file_name().as_bytes().starts_with(b".");
            if is_hidden || !entry.file_type()?.is_file() {
                continue;
            }
            if let Ok(stamp) = FileId::of(&entry.path()) {
                found.insert(entry.file_name(), stamp);
            }
        }
        Ok(found)
    }

    /// Takes over what was listed, and looks into files that are new.
    fn take_over(&mut self, found: BTreeMap<OsString, FileId>, look: Look, retired: &mut Vec<OpenRelease>) {
        self.files.retain(|name, file| {
            let stays = found.contains_key(name);
            retired.extend(if stays { None } else { file.close() });
            stays
        });
        for (name, stamp) in found {
            let path = self.directory.path.join(&name);
            let read = || Label::of(&path).map_or(State::Unusable, State::Known);
            let is_believed = look != Look::Regular;
            match self.files.get_mut(&name) {
                Some(file) if file.stamp == stamp => {
                    let is_retried = is_believed && matches!(file.state, State::Unusable);
                    if matches!(file.state, State::New) || is_retried {
                        file.state = read();
                    }
                }
                known => {
                    retired.extend(known.and_then(File::close));
                    let state = if is_believed { read() } else { State::New };
                    self.files.insert(name, File { stamp, state });
                }
            }
        }
    }

    /// Chooses which releases are served, and opens those that are not open yet.
    fn choose(&mut self, current: &Digest, look: Look, notices: &mut Vec<Notice>) -> Vec<OsString> {
        let mut ranked: Vec<_> = self
            .files
            .iter()
            .filter_map(|(name, file)| Some((file.label()?, file.stamp.modified(), name.clone())))
            .collect();
        ranked.sort_by_key(|(label, modified, name)| {
            (Reverse(label.serial), Reverse(*modified), Reverse(name.clone()))
        });
        let (mut served, mut digests) = (Vec::new(), vec![*current]);
        for (label, _, name) in ranked {
            if served.len() == self.directory.kept {
                break;
            }
            if digests.contains(&label.digest) {
                continue;
            }
            let path = self.directory.path.join(&name);
            let Some(file) = self.files.get_mut(&name) else { continue };
            if !matches!(file.state, State::Open(..)) {
                file.state = match open(&path, look, self.hosts) {
                    Ok((release, notice)) => {
                        notices.extend(notice);
                        State::Open(label, release)
                    }
                    Err(why) => {
                        notices.push(Notice::OtherReleaseRefused { path, why });
                        State::Unusable
                    }
                };
            }
            if file.open().is_some() {
                served.push(name);
                digests.push(label.digest);
            }
        }
        served
    }
}

impl File {
    fn label(&self) -> Option<Label> {
        match self.state {
            State::Known(label) | State::Open(label, _) => Some(label),
            State::New | State::Unusable => None,
        }
    }

    fn open(&self) -> Option<&OpenRelease> {
        match &self.state {
            State::Open(_, release) => Some(release),
            _ => None,
        }
    }

    /// Serves it no more. Returns what was open.
    fn close(&mut self) -> Option<OpenRelease> {
        let label = self.label()?;
        match std::mem::replace(&mut self.state, State::Known(label)) {
            State::Open(_, release) => Some(release),
            _ => None,
        }
    }
}

impl Label {
    /// What an archive says of itself; `None` for a file that is none.
    fn of(path: &Path) -> Option<Label> {
        let archive = Archive::open(path, Loading::Mapped).ok()?;
        let facts = archive.facts();
        Some(Label { serial: facts.serial, digest: facts.digest })
    }
}

/// Opens a release, and reads all of it unless the server is just starting.
fn open(path: &Path, look: Look, hosts: bool) -> Result<(OpenRelease, Option<Notice>), String> {
    // Mapped, because few requests are for it: the page cache holds what is wanted.
    let open::OpenedArchive { archive, lease, is_unguarded } =
        open::open(path, Loading::Mapped).map_err(|error| error.to_string())?;
    if look != Look::Start {
        archive.verify(|_| {}).map_err(|error| error.to_string())?;
    }
    let notice = is_unguarded.then(|| Notice::Unguarded { path: path.to_owned() });
    let site = Arc::new(Site::new(archive, hosts));
    Ok((OpenRelease { path: path.to_owned(), site, lease }, notice))
}
