//! New releases: opened and checked beside the workers, then put in place of the old ones.
//!
//! One thread, which serves nobody. It looks at the archives twice a second, or is told to: a question to
//! the file system costs a microsecond, works on every file system and through every symlink, and needs no
//! limit raised, as watching by events would. Never unmaps what a connection still sends from; and it is this
//! thread that unmaps, for that takes milliseconds, in which a worker would serve nobody.

mod certificates;
mod current;

pub(crate) use certificates::CertificateFolder;
pub(crate) use current::Current;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Lease, Loading};
use cannery_eventloop::Waker;
use cannery_site::Site;

use crate::config::{self, Config, NamedArchive, NoticeHandler};
use crate::content::{Content, FileId, Kept, Look as LookAt, OpenRelease, Releases, open};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{ProcessSampler, Status};
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// How often the archives are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Orders the archives to be looked at now; gone, it ends the thread.
#[derive(Debug, Clone)]
pub(crate) struct ReloadOrder(Sender<()>);

impl ReloadOrder {
    pub(crate) fn give(&self) {
        // It fails only where the server is stopping.
        let _ = self.0.send(());
    }
}

/// What is known of one archive's file.
#[derive(Debug)]
struct Watched {
    named: NamedArchive,
    /// The file that is served, or that was refused: nothing is done while it stays as it is.
    settled: Option<FileId>,
    /// What the last look saw.
    seen: Option<FileId>,
    /// Whether it was already said that there is no file.
    told_missing: bool,
    /// The lease on the file that is served.
    lease: Option<Lease>,
    /// The other releases of its directory.
    releases: Option<Releases>,
}

/// Opens and checks new releases.
pub(crate) struct Reloader {
    watched: Vec<Watched>,
    certificates: Option<CertificateFolder>,
    /// Looks at what the process takes, if somebody may ask for it.
    process: Option<ProcessSampler>,
    /// Sites that are served no more, until nobody sends from them any more.
    retired: Vec<Retired>,
    loading: Loading,
    hosts: bool,
    watch: bool,
    on_notice: NoticeHandler,
    status: Option<Arc<Status>>,
}

/// A site that is served no more.
struct Retired {
    path: PathBuf,
    lease: Option<Lease>,
    site: Arc<Site>,
}

impl From<OpenRelease> for Retired {
    fn from(OpenRelease { path, site, lease }: OpenRelease) -> Retired {
        Retired { path, lease, site }
    }
}

/// What is served, and who serves it.
struct Served {
    current: Arc<Current>,
    wakers: Vec<Waker>,
}

impl Reloader {
    /// Looks at the files as they are now, before they are opened: what changes from here on is new. Returns `None` if
    /// there is no file to replace, and operators cannot query the process.
    pub(crate) fn new(config: &Config) -> Option<Reloader> {
        let (archives, loading, watch) = match &config.content {
            config::Content::Archives { archives, loading, watch } => (archives.as_slice(), *loading, *watch),
            config::Content::Dummy { .. } if config.has_tls() || config.samples_process() => {
                (&[][..], Loading::Mapped, false)
            }
            config::Content::Dummy { .. } => return None,
        };
        Some(Reloader {
            watched: archives.iter().map(Watched::new).collect(),
            certificates: None,
            process: None,
            retired: Vec::new(),
            loading,
            hosts: config.hosts,
            watch,
            on_notice: config.on_notice.clone(),
            status: None,
        })
    }

    /// The same, which looks at certificates too.
    pub(crate) fn with_certificates(self, certificates: Option<CertificateFolder>) -> Reloader {
        Reloader { certificates, ..self }
    }

    /// The same, which looks at the process too.
    pub(crate) fn with_process(self, process: Option<ProcessSampler>) -> Reloader {
        Reloader { process, ..self }
    }

    /// Starts the thread, which ends when the order to it is gone. `kept` is what is kept of each archive.
    pub(crate) fn start(
        mut self,
        kept: Vec<Kept>,
        status: Arc<Status>,
        current: Arc<Current>,
        wakers: Vec<Waker>,
        sandbox: &Sandbox,
    ) -> Result<ReloadOrder, StartError> {
        self.status = Some(status);
        for (watched, kept) in self.watched.iter_mut().zip(kept) {
            (watched.lease, watched.releases) = (kept.lease, kept.releases);
        }
        let (sender, orders) = channel();
        let life = move || self.run(&orders, &Served { current, wakers });
        thread::start("reload", sandbox, ThreadRole::Releases, life)?;
        Ok(ReloadOrder(sender))
    }

    fn run(&mut self, orders: &Receiver<()>, served: &Served) {
        loop {
            if let (Some(process), Some(status)) = (&self.process, &self.status) {
                process.sample(&status.process);
            }
            match orders.recv_timeout(LOOK_INTERVAL) {
                Ok(()) => {
                    // Orders that came meanwhile are one.
                    while orders.try_recv().is_ok() {}
                    self.keep_what_is_written_into(served);
                    let is_changed = self.look(true, served);
                    if !self.look_at_certificates(true) && !is_changed {
                        self.tell(&Notice::Unchanged);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.keep_what_is_written_into(served);
                    if self.watch {
                        self.look(false, served);
                    }
                    self.look_at_certificates(false);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes up new certificates; tells whether anything has changed.
    fn look_at_certificates(&mut self, ordered: bool) -> bool {
        let notices = self.certificates.as_mut().map(|certificates| certificates.look(ordered));
        let notices = notices.unwrap_or_default();
        if let (Some(certificates), Some(status)) = (&self.certificates, &self.status)
            && !notices.is_empty()
        {
            status.set_certificates(certificates.context.certificates());
        }
        notices.iter().for_each(|notice| self.tell(notice));
        !notices.is_empty()
    }

    fn tell(&self, notice: &Notice) {
        (self.on_notice.0)(notice);
    }

    /// Looks at each archive, and serves what is new; tells whether anything has changed. If it was `ordered`,
    /// nothing is waited for, and what was refused before is tried again.
    fn look(&mut self, ordered: bool, served: &Served) -> bool {
        let content = served.current.get();
        let Content::Sites(sites) = &*content else { return false };
        let mut entries = sites.entries().to_vec();
        let (mut changed, mut told, mut released) = (false, Vec::new(), Vec::new());
        let mut is_replaced = false;
        for (number, (watched, entry)) in self.watched.iter_mut().zip(&mut entries).enumerate() {
            match watched.is_ready(ordered) {
                Look::Settled => {}
                Look::Missing(error) => {
                    changed = true;
                    let path = watched.named.path.clone();
                    told.push(Notice::Refused { path, why: error.to_string() });
                }
                Look::Ready(stamp) => {
                    changed = true;
                    watched.settled = Some(stamp);
                    match open(&watched.named.path, self.loading) {
                        Ok((archive, lease, notices)) => {
                            let site = Arc::new(Site::new(archive, self.hosts));
                            released.push((number, Arc::clone(&site)));
                            let before = std::mem::replace(&mut entry.site, site);
                            let lease = std::mem::replace(&mut watched.lease, lease);
                            let path = watched.named.path.clone();
                            self.retired.push(Retired { path, lease, site: before });
                            told.extend(notices);
                        }
                        Err(why) => {
                            let path = watched.named.path.clone();
                            told.push(Notice::Refused { path, why });
                        }
                    }
                }
            }
            // In the same step as a new current release: the one before it goes on answering for its own pages.
            if let Some(releases) = &mut watched.releases {
                let look = if ordered { LookAt::Ordered } else { LookAt::Regular };
                let current = entry.site.archive().facts().digest;
                let (retired, is_changed) = releases.look(&current, look, &mut told);
                if is_changed {
                    changed = true;
                    is_replaced = true;
                    entry.earlier = releases.sites();
                }
                self.retired.extend(retired.into_iter().map(Retired::from));
            }
        }
        if !released.is_empty() || is_replaced {
            served.current.replace(Arc::new(Content::Sites(sites.with(entries))));
            served.wakers.iter().for_each(Waker::wake);
        }
        // Said when it is true.
        if let Some(status) = &self.status {
            released.iter().for_each(|(number, site)| status.released(*number, site.archive().facts()));
            told.iter()
                .filter(|notice| matches!(notice, Notice::Refused { .. }))
                .for_each(|_| status.refused());
        }
        told.iter().for_each(|notice| (self.on_notice.0)(notice));
        changed
    }

    /// Where somebody waits to write into a file that is served, or was, copies its bytes before he does; and
    /// lets go of what nobody sends from any more.
    fn keep_what_is_written_into(&mut self, served: &Served) {
        let content = served.current.get();
        let Content::Sites(sites) = &*content else { return };
        for (watched, entry) in self.watched.iter_mut().zip(sites.entries()) {
            if let Some(lease) = watched.lease.take_if(|lease| lease.is_being_broken()) {
                keep(&watched.named.path, entry.site.archive(), lease, &self.on_notice);
            }
        }
        // Where only we hold it, nobody else can get hold of it any more.
        self.retired.retain(|retired| Arc::strong_count(&retired.site) > 1);
        let releases = self.watched.iter_mut().filter_map(|watched| watched.releases.as_mut());
        for open in releases.flat_map(Releases::open_mut) {
            if let Some(lease) = open.lease.take_if(|lease| lease.is_being_broken()) {
                keep(&open.path, open.site.archive(), lease, &self.on_notice);
            }
        }
        for retired in &mut self.retired {
            if let Some(lease) = retired.lease.take_if(|lease| lease.is_being_broken()) {
                keep(&retired.path, retired.site.archive(), lease, &self.on_notice);
            }
        }
    }
}

/// Copies the bytes of an archive that somebody waits to write into, and lets him.
fn keep(path: &Path, archive: &Archive, lease: Lease, on_notice: &NoticeHandler) {
    let path = path.to_owned();
    let notice = match archive.detach() {
        Ok(()) => Notice::WrittenInPlace { path },
        Err(error) => Notice::NotKept { path, why: error.to_string() },
    };
    drop(lease);
    (on_notice.0)(&notice);
}

/// What a look at a file comes to.
enum Look {
    /// There is nothing to do.
    Settled,
    /// There is a new file, whole as far as can be told.
    Ready(FileId),
    /// There is no file.
    Missing(io::Error),
}

impl Watched {
    fn new(named: &NamedArchive) -> Watched {
        let stamp = FileId::of(&named.path).ok();
        let (settled, seen) = (stamp, stamp);
        Watched { named: named.clone(), settled, seen, told_missing: false, lease: None, releases: None }
    }

    fn is_ready(&mut self, ordered: bool) -> Look {
        let stamp = match FileId::of(&self.named.path) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.seen = None;
                let told = std::mem::replace(&mut self.told_missing, true);
                return if told && !ordered { Look::Settled } else { Look::Missing(error) };
            }
        };
        self.told_missing = false;
        let before = self.seen.replace(stamp);
        if self.settled == Some(stamp) {
            return Look::Settled;
        }
        // Another file was renamed into its place, whole. One that is being written is looked at again
        // when it has stayed as it is for a while.
        let renamed = self.settled.is_none_or(|settled| !settled.is_same_file(&stamp));
        if ordered || renamed || before == Some(stamp) { Look::Ready(stamp) } else { Look::Settled }
    }
}

/// Opens an archive and reads all of it: what is served has been checked.
fn open(path: &Path, loading: Loading) -> Result<(Archive, Option<Lease>, Vec<Notice>), String> {
    let began = Instant::now();
    let open::OpenedArchive { archive, lease, is_unguarded } =
        open::open(path, loading).map_err(|error| error.to_string())?;
    archive.verify(|_| {}).map_err(|error| error.to_string())?;
    let mut notices = vec![Notice::reloaded(path.to_owned(), archive.facts(), began.elapsed())];
    if is_unguarded {
        notices.push(Notice::Unguarded { path: path.to_owned() });
    }
    Ok((archive, lease, notices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Entry, Sites};
    use crate::pages::BuiltinPages;
    use crate::simulation;

    #[test]
    fn a_worker_is_never_the_last_to_let_go_of_a_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.cdb");
        let release = |name| {
            let next = folder.path().join("next");
            std::fs::write(&next, simulation::archive(name)).unwrap();
            std::fs::rename(&next, &path).unwrap();
        };
        release("first");
        let archive = Archive::open(&path, Loading::Mapped).unwrap();
        let entry = Entry { host: None, site: Arc::new(Site::new(archive, true)), earlier: Vec::new() };
        let site = Arc::downgrade(&entry.site);
        let current = Arc::new(Current::new(Arc::new(Content::Sites(Sites::new(
            vec![entry],
            BuiltinPages::default(),
        )))));
        let of_worker = current.get();
        let served = Served { current, wakers: Vec::new() };
        let mut reloader = Reloader {
            watched: vec![Watched::new(&NamedArchive::new(None, path.clone()))],
            certificates: None,
            process: None,
            retired: Vec::new(),
            loading: Loading::Mapped,
            hosts: true,
            watch: true,
            on_notice: NoticeHandler::ignore(),
            status: None,
        };

        release("second");
        assert!(reloader.look(true, &served));
        reloader.keep_what_is_written_into(&served);
        assert_eq!(site.strong_count(), 2, "a worker sends from it");
        drop(of_worker);
        assert_eq!(site.strong_count(), 1, "the worker has unmapped it");
        reloader.keep_what_is_written_into(&served);
        assert_eq!(site.strong_count(), 0, "nobody has unmapped it");
    }
}
