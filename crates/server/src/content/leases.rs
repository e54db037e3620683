//! Leases on the archives that a thread has open.
//!
//! A process that wants to write to a leased file waits until we have copied the bytes, but only for the kernel's break time (see
//! "Leases" in `fcntl(2)`). So the thread looks several times a second, also while it reads a large archive. If it couldn't look for that
//! long, for example because the machine was suspended, the copy may have changed bytes: it is verified then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cannery_archive::Lease;
use cannery_site::Site;

use crate::notice::Notice;

/// Interval between two looks while the thread reads archives.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the kernel holds writers up, in seconds.
const BREAK_TIME_FILE: &str = "/proc/sys/fs/lease-break-time";

/// The same unless an administrator has changed it.
const BREAK_SECONDS: u64 = 45;

/// The leases of a thread. They must stay with it because other threads might have separate descriptor tables.
#[derive(Debug)]
pub(crate) struct Leases {
    guards: Vec<Guard>,
    /// How long writers wait. `None` if they do so forever.
    break_time: Option<Duration>,
    looked: Instant,
    notices: Vec<Notice>,
    withdrawn: Vec<Withdrawn>,
}

/// A lease that was taken for an archive before the archive was read.
#[derive(Debug)]
pub(crate) struct TakenLease {
    pub(super) lease: Lease,
    pub(super) since: Instant,
}

/// A site whose bytes aren't those that were admitted, or may not be.
#[derive(Debug)]
pub(crate) struct Withdrawn {
    pub(crate) site: Arc<Site>,
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// A lease, and the archive that it protects.
#[derive(Debug)]
struct Guard {
    path: PathBuf,
    /// The lease ends with the site.
    site: Weak<Site>,
    lease: Lease,
    /// The last time at which no process was waiting to write.
    intact: Instant,
    /// Whether the archive is only served because of its signature.
    is_admitted: bool,
}

impl Leases {
    pub(crate) fn new() -> Leases {
        let seconds = fs::read_to_string(BREAK_TIME_FILE).ok().and_then(|text| text.trim().parse().ok());
        let seconds = seconds.unwrap_or(BREAK_SECONDS);
        Leases {
            guards: Vec::new(),
            break_time: (seconds > 0).then(|| Duration::from_secs(seconds)),
            looked: Instant::now(),
            notices: Vec::new(),
            withdrawn: Vec::new(),
        }
    }

    /// Looks after the lease of a site from now on.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        site: &Arc<Site>,
        lease: Option<TakenLease>,
        is_admitted: bool,
    ) {
        let Some(TakenLease { lease, since }) = lease else { return };
        let path = path.to_owned();
        self.guards.push(Guard { path, site: Arc::downgrade(site), lease, intact: since, is_admitted });
        // The archive may have been read for a long time.
        self.look();
    }

    /// Notes another path of a site's file, for messages.
    pub(crate) fn rename(&mut self, site: &Arc<Site>, path: &Path) {
        for guard in &mut self.guards {
            if std::ptr::eq(guard.site.as_ptr(), Arc::as_ptr(site)) {
                path.clone_into(&mut guard.path);
            }
        }
    }

    /// Looks after all leases unless that was done a moment ago. Threads that read archives should call this several times a second.
    pub(crate) fn look_after(&mut self) {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.look();
        }
    }

    /// Copies every archive that another process is waiting to write to. Its lease is released afterwards, which allows that process to
    /// continue.
    pub(crate) fn look(&mut self) {
        self.looked = Instant::now();
        let mut late = Vec::new();
        let mut index = 0;
        while let Some(guard) = self.guards.get_mut(index) {
            let Some(site) = guard.site.upgrade() else {
                self.guards.swap_remove(index);
                continue;
            };
            // Before the question, so that a process that comes right after it is counted from here.
            let now = Instant::now();
            if !guard.lease.is_being_broken() {
                guard.intact = now;
                index += 1;
                continue;
            }

            let Guard { path, lease, intact, is_admitted, .. } = self.guards.swap_remove(index);
            let copied = site.archive().detach();
            let is_in_time = self.break_time.is_none_or(|time| intact.elapsed() < time);
            drop(lease);
            match copied {
                Ok(()) if is_in_time => self.notices.push(Notice::WrittenInPlace { path }),
                Ok(()) => late.push((path, site, is_admitted)),
                Err(error) if is_admitted => {
                    let why = format!("another process writes to it, and it could not be copied ({error})");
                    self.withdrawn.push(Withdrawn { site, path, why });
                }
                Err(error) => self.notices.push(Notice::CopyFailed { path, why: error.to_string() }),
            }
        }

        for (path, site, is_admitted) in late {
            let Err(error) = site.archive().verify(|_| self.look_after()) else {
                self.notices.push(Notice::WrittenInPlace { path });
                continue;
            };
            let why = format!("another process has written to it ({error})");
            if is_admitted {
                self.withdrawn.push(Withdrawn { site, path, why });
            } else {
                self.notices.push(Notice::Damaged { path, why });
            }
        }
    }

    /// Takes the notices since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Takes the sites since the last call that must not be served any more.
    pub(crate) fn take_withdrawn(&mut self) -> Vec<Withdrawn> {
        std::mem::take(&mut self.withdrawn)
    }
}

impl TakenLease {
    /// Returns `true` if no other process could have written to the file since the lease was taken.
    pub(super) fn is_intact(&self) -> bool {
        !self.lease.is_being_broken()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::thread::JoinHandle;

    use cannery_archive::{Archive, Loading};
    use cannery_site::VirtualHosts;

    use super::*;
    use crate::worker::simulation;

    /// Opens an archive with a lease, without verifying it. Returns `None` if the system has no leases.
    fn open(path: &Path) -> Option<(Arc<Site>, TakenLease)> {
        let since = Instant::now();
        let (archive, lease) = Archive::open_leased(path, Loading::Mapped).unwrap();
        Some((Arc::new(Site::new(archive, VirtualHosts::Enabled)), TakenLease { lease: lease?, since }))
    }

    /// Opens a file for writing on another thread, and waits until the kernel holds that up.
    fn start_writer(path: &Path, leases: &Leases) -> JoinHandle<()> {
        let path = path.to_owned();
        let writer = std::thread::spawn(move || drop(File::options().write(true).open(path).unwrap()));
        let end = Instant::now() + Duration::from_secs(20);
        while !leases.guards.iter().any(|guard| guard.lease.is_being_broken()) {
            assert!(Instant::now() < end, "the lease is not broken");
            std::thread::sleep(Duration::from_millis(2));
        }
        writer
    }

    impl Leases {
        /// Returns `true` if a lease is held on this file.
        pub(crate) fn has(&self, path: &Path) -> bool {
            self.guards.iter().any(|guard| guard.path == path)
        }

        /// As if the last look was this long ago.
        pub(crate) fn age(&mut self, by: Duration) {
            self.looked = self.looked.checked_sub(by).unwrap();
            for guard in &mut self.guards {
                guard.intact = guard.intact.checked_sub(by).unwrap();
            }
        }

        pub(crate) fn withdraw(&mut self, site: &Arc<Site>) {
            let withdrawn = Withdrawn { site: Arc::clone(site), path: "a".into(), why: "changed".to_owned() };
            self.withdrawn.push(withdrawn);
        }
    }

    #[test]
    fn copy_that_may_be_too_late_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cdb");
        // The byte that another process would have written after the break time.
        let mut changed = simulation::archive("a");
        let at = changed.len() / 2;
        changed[at] ^= 1;
        let late = Duration::from_secs(3600);
        for (bytes, age, is_admitted, outcome) in [
            (simulation::archive("a"), Duration::ZERO, true, "in time"),
            (simulation::archive("a"), late, true, "in time"),
            (changed.clone(), late, true, "withdrawn"),
            (changed, late, false, "served nevertheless"),
        ] {
            fs::write(&path, bytes).unwrap();
            let Some((site, lease)) = open(&path) else { return };
            let mut leases = Leases::new();
            leases.break_time = Some(Duration::from_secs(1800));
            leases.add(&path, &site, Some(lease), is_admitted);
            let writer = start_writer(&path, &leases);
            leases.age(age);
            leases.look();
            writer.join().unwrap();
            let notices: Vec<_> = leases.take_notices().iter().map(ToString::to_string).collect();
            let withdrawn = leases.take_withdrawn();
            match outcome {
                "withdrawn" => assert!(Arc::ptr_eq(&withdrawn[0].site, &site) && notices.is_empty()),
                words => assert!(withdrawn.is_empty() && notices[0].contains(words), "{notices:?}"),
            }
            assert!(leases.guards.is_empty());
        }
    }

    #[test]
    fn leases_are_looked_after_while_another_archive_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cdb");
        fs::write(&path, simulation::archive("a")).unwrap();
        let Some((site, lease)) = open(&path) else { return };
        let mut leases = Leases::new();
        leases.add(&path, &site, Some(lease), true);
        let writer = start_writer(&path, &leases);
        leases.age(LOOK_INTERVAL);
        Archive::from_bytes(simulation::archive("b")).unwrap().verify(|_| leases.look_after()).unwrap();
        writer.join().unwrap();
        assert!(leases.take_notices()[0].to_string().contains("in time"));
        assert_eq!(site.archive().bytes(), simulation::archive("a"));
    }

    #[test]
    fn lease_ends_with_its_site() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cdb");
        fs::write(&path, simulation::archive("a")).unwrap();
        let Some((site, lease)) = open(&path) else { return };
        let mut leases = Leases::new();
        leases.add(&path, &site, Some(lease), false);
        assert!(leases.has(&path));
        drop(site);
        leases.look();
        assert!(!leases.has(&path));
    }
}
