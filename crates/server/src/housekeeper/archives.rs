//! Archives: opens and verifies new releases while the workers are serving the old ones, and then replaces them.
//!
//! Note that an archive must stay mapped for as long as any connection sends from it. We leave the unmapping to the
//! housekeeping thread because it takes milliseconds, during which a worker could not serve any requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cannery_archive::{Loading, OpenError};
use cannery_eventloop::Waker;
use cannery_site::{Site, VirtualHosts};

use super::archive_file::{ArchiveFile, FileState};
use super::followers::Followers;
use super::{NextArchive, Outcome, Reporter};
use crate::admission::named_file;
use crate::config::{self, Config};
use crate::content::open::{OpenFailure, OpenedArchive};
use crate::content::{
    ArchiveResources, Content, Current, Entry, Leases, Mark, Releases, Resources, Sites, Trigger, Withdrawn,
    open,
};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::Status;
use crate::pages::Challenges;
use crate::verification::Verification;

/// How long to wait until all workers have adopted a new release. They do so between two events, unless one hangs.
const ADOPTED_WITHIN: Duration = Duration::from_secs(1);

/// Time between two looks at whether they have.
const ADOPTION_INTERVAL: Duration = Duration::from_millis(1);

/// The archives being served.
pub(crate) struct Archives {
    pub(super) files: Vec<ArchiveFile>,
    /// Sites that we have replaced, but that a worker might still refer to.
    retired: Vec<Arc<Site>>,
    /// Of all sites above.
    pub(super) leases: Leases,
    loading: Loading,
    virtual_hosts: VirtualHosts,
    /// Whether to check the files at each interval.
    watch: bool,
    current: Arc<Current>,
    /// The workers that serve the content.
    wakers: Vec<Waker>,
    /// Before each request, workers wait for the newest state of an edited folder. So none can be behind, and they could not adopt
    /// anything meanwhile.
    is_awaited: bool,
    followers: Followers,
}

/// A site that is served before it has been verified.
pub(super) struct Unverified {
    pub(super) index: usize,
    pub(super) site: Arc<Site>,
}

/// Results of a check so far.
struct Findings {
    outcome: Outcome,
    notices: Vec<Notice>,
    /// New releases, and the indexes of their archives.
    released: Vec<(usize, Arc<Site>)>,
    /// Indexes of archives whose files were opened, with the reason for each file that isn't served.
    refusals: Vec<(usize, Option<String>)>,
    /// Whether the content has to be replaced.
    is_replaced: bool,
}

impl Archives {
    /// Opens the content, whose archives these workers will serve.
    ///
    /// # Errors
    /// Returns an error if an archive cannot be opened.
    pub(crate) fn open(
        config: &Config,
        challenges: Option<Challenges>,
        wakers: Vec<Waker>,
    ) -> Result<Archives, StartError> {
        let files: Vec<_> = config.content.archives().iter().map(ArchiveFile::new).collect();
        let (content, Resources { archives, leases }) = Content::open(config, challenges)?;
        // A further process of a server leaves the verification to the first one.
        let is_further_member = config.inheritance.member.is_some_and(|number| number > 0);
        let with_resources = |(file, resources): (ArchiveFile, ArchiveResources)| {
            let is_verified = resources.verification == Verification::Done && !is_further_member;
            let file = file.with_resources(resources);
            if is_verified { file.with_verified() } else { file }
        };
        let files = files.into_iter().zip(archives);
        let (loading, watch) = match config.content {
            config::Content::Archives { loading, watch, .. } => (loading, watch),
            config::Content::Dummy { .. } => (Loading::Mapped, false),
        };

        Ok(Archives {
            files: files.map(with_resources).collect(),
            retired: Vec::new(),
            leases,
            loading,
            virtual_hosts: config.virtual_hosts,
            watch,
            current: Arc::new(Current::new(Arc::new(content))),
            wakers,
            is_awaited: config.live_folder.is_some(),
            followers: Followers::default(),
        })
    }

    /// Returns the content being served.
    pub(crate) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current)
    }

    /// For each archive, tells if it was passed as an open file.
    pub(super) fn replaceable(&self) -> Vec<bool> {
        self.files.iter().map(|file| file.is_published).collect()
    }

    /// Returns `true` if a check with [`Trigger::Continuation`] would open more releases.
    pub(super) fn is_incomplete(&self) -> bool {
        self.files.iter().any(|file| file.releases.as_ref().is_some_and(Releases::is_incomplete))
    }

    /// Returns the sites that are served since the start and were too large to be verified before.
    pub(super) fn take_unverified(&mut self) -> Vec<Unverified> {
        let content = self.current.get();
        let Content::Sites(sites) = &*content else { return Vec::new() };
        let files = self.files.iter_mut().zip(sites.entries()).enumerate();
        let pending = files.filter(|(_, (file, _))| file.verification == Verification::Pending);
        pending
            .map(|(index, (file, entry))| {
                file.verification = Verification::Done;
                Unverified { index, site: Arc::clone(&entry.site) }
            })
            .collect()
    }

    /// Reports that a site is damaged, unless another one has replaced it. It stays in use: an error for every client would not be
    /// better than some wrong bytes.
    pub(super) fn report_damaged(&self, index: usize, site: &Arc<Site>, why: String, reporter: &Reporter) {
        let content = self.current.get();
        let Content::Sites(sites) = &*content else { return };
        let is_served = sites.entries().get(index).is_some_and(|entry| Arc::ptr_eq(&entry.site, site));
        if let Some(file) = self.files.get(index).filter(|_| is_served) {
            reporter.status.refused();
            reporter.notify(&Notice::Damaged { path: file.path.clone(), why });
        }
    }

    /// Serves new sites in place of those in `sites`.
    ///
    /// Workers do not switch at the same moment. A client may get a page of the new release from one of them and ask another
    /// for its script. For this reason, all workers serve the immutable paths of a new release before any serves its pages.
    fn switch(&self, sites: &Sites, entries: Vec<Entry>, released: &[(usize, Arc<Site>)]) {
        let mut announced = sites.entries().to_vec();
        let mut is_news = false;
        for (index, site) in released.iter().filter(|_| !self.is_awaited) {
            let Some(entry) = announced.get_mut(*index) else { continue };
            let digest = site.archive().facts().digest;
            if entry.earlier.iter().all(|earlier| earlier.archive().facts().digest != digest) {
                entry.earlier.insert(0, Arc::clone(site));
                is_news = true;
            }
        }
        if is_news {
            let replaced = self.replace(announced);
            let end = Instant::now() + ADOPTED_WITHIN;
            while !replaced.is_unused() && Instant::now() < end {
                thread::sleep(ADOPTION_INTERVAL);
            }
        }
        self.replace(entries);
    }

    /// Replaces the sites, and wakes up the workers because they would not notice otherwise. Returns the mark of those that have
    /// not noticed yet.
    fn replace(&self, entries: Vec<Entry>) -> Mark {
        // The site opener may have replaced other sites in the meantime.
        let mark = self.current.update(|content| match content {
            Content::Sites(sites) => Arc::new(Content::Sites(sites.with(entries))),
            Content::Admin(_) | Content::Dummy(_) => unreachable!("entries belong to sites"),
        });
        for waker in &self.wakers {
            waker.wake();
        }
        mark
    }

    /// Serves `next` as the archive with this index.
    pub(super) fn publish(
        &mut self,
        index: usize,
        next: NextArchive,
        reporter: &Reporter,
    ) -> Result<(), OpenError> {
        let content = self.current.get();
        let Content::Sites(sites) = &*content else { return Ok(()) };
        let mut entries = sites.entries().to_vec();
        let Some(entry) = entries.get_mut(index) else { return Ok(()) };

        let site = match next {
            NextArchive::File(file) => {
                let archive = open::open_file(&file, self.loading)?.archive;
                Arc::new(Site::new(archive, self.virtual_hosts))
            }
            // The entry may have another site with the same bytes, because of `with_virtual_hosts`.
            NextArchive::Site(site) if std::ptr::eq(site.archive().bytes(), entry.site.archive().bytes()) => {
                return Ok(());
            }
            NextArchive::Site(site) => site.with_virtual_hosts(self.virtual_hosts),
        };
        // Once is enough, also for a handler of notices that replaces the site each time.
        if site.archive().may_change() && !entry.site.archive().may_change() {
            reporter.notify(&open::opened_unguarded(&self.files[index].path, entry.host.as_ref()));
        }
        let facts = *site.archive().facts();
        let is_release = facts.digest != entry.site.archive().facts().digest;
        self.exchange(entry, Arc::clone(&site));
        self.switch(sites, entries, &[(index, site)]);
        if is_release {
            reporter.status.released(index, &facts);
        }
        Ok(())
    }

    /// Checks all archives, and serves new releases.
    pub(super) fn check(&mut self, trigger: Trigger, reporter: &Reporter) -> Outcome {
        let content = self.current.get();
        let Content::Sites(sites) = &*content else { return Outcome::Unchanged };
        if trigger == Trigger::Interval && !self.watch {
            return Outcome::Unchanged;
        }

        let mut entries = sites.entries().to_vec();
        let mut findings = Findings {
            outcome: Outcome::Unchanged,
            notices: Vec::new(),
            released: Vec::new(),
            refusals: Vec::new(),
            is_replaced: false,
        };
        for (index, entry) in entries.iter_mut().enumerate() {
            self.check_file(index, entry, trigger, &mut findings);
            // Update these together with the current release, so that the previous one still answers for its
            // pages.
            self.scan_releases(index, entry, trigger, &mut findings);
        }

        if self.withdraw(&mut entries, reporter) {
            self.replace(entries);
        } else if findings.is_replaced {
            self.switch(sites, entries, &findings.released);
        }
        // Do not report a release until it is being served.
        findings.report(reporter)
    }

    /// Opens the current release of an archive if its file has changed.
    fn check_file(&mut self, index: usize, entry: &mut Entry, trigger: Trigger, findings: &mut Findings) {
        let file = &mut self.files[index];
        let path = file.path.clone();
        // Before anything else may become current.
        if let Some(admission) = file.releases.as_mut().and_then(Releases::admission_mut) {
            admission.check_again(entry.site.archive());
        }
        match file.check(trigger) {
            FileState::Settled => {
                if file.forget_refused() {
                    findings.refusals.push((index, None));
                }
            }
            FileState::Missing(error) => findings.refuse(path, error.to_string()),
            FileState::Ready => match open_next(file, self.loading, self.virtual_hosts, &mut self.leases) {
                Ok((site, notices)) => {
                    file.accept(&entry.site);
                    findings.refusals.push((index, None));
                    self.exchange(entry, Arc::clone(&site));
                    findings.released.push((index, site));
                    findings.notices.extend(notices);
                    findings.is_replaced = true;
                    findings.outcome = Outcome::Changed;
                }
                Err(failure) => {
                    findings.refusals.push((index, Some(failure.to_string())));
                    if file.refuse(&failure, trigger) {
                        findings.refuse(path, failure.to_string());
                    }
                }
            },
        }
    }

    /// Opens and closes other releases in the directory of an archive.
    fn scan_releases(&mut self, index: usize, entry: &mut Entry, trigger: Trigger, findings: &mut Findings) {
        let Some(releases) = &mut self.files[index].releases else { return };
        let scan = releases.scan(entry.site.archive(), trigger, &mut self.leases, &mut findings.notices);
        if scan.is_changed {
            entry.earlier = releases.sites();
            findings.is_replaced = true;
            findings.outcome = Outcome::Changed;
        }
        retire(&mut self.retired, scan.retired);
    }

    /// Puts a new site into an entry, and retires the previous one.
    fn exchange(&mut self, entry: &mut Entry, site: Arc<Site>) {
        entry.is_withdrawn = false;
        retire(&mut self.retired, [std::mem::replace(&mut entry.site, site)]);
    }

    /// Tells operators whether release directories are behind the stores that other processes pull from.
    pub(super) fn report_followers(&mut self, status: &Status) {
        for (index, file) in self.files.iter().enumerate().filter(|(_, file)| file.releases.is_some()) {
            if let Some(directory) = file.path.parent() {
                status.set_follow(index, self.followers.of(directory));
            }
        }
    }

    /// Copies every archive that another process is waiting to write to, and drops retired sites that no worker uses
    /// any more.
    pub(super) fn protect(&mut self, reporter: &Reporter) {
        // If the count is 1, then this is the last reference and nothing else can create another
        // one.
        self.retired.retain(|site| Arc::strong_count(site) > 1);

        self.leases.look();
        let content = self.current.get();
        let Content::Sites(sites) = &*content else { return };
        let mut entries = sites.entries().to_vec();
        if self.withdraw(&mut entries, reporter) {
            self.replace(entries);
        }
    }

    /// Takes sites out of `entries` whose bytes other processes have changed, and reports what the leases have found. Returns `true` if
    /// `entries` have changed.
    fn withdraw(&mut self, entries: &mut [Entry], reporter: &Reporter) -> bool {
        self.leases.report(reporter);
        let withdrawn = self.leases.take_withdrawn();
        for Withdrawn { path, why, .. } in &withdrawn {
            reporter.status.refused();
            reporter.notify(&Notice::Withdrawn { path: path.clone(), why: why.clone() });
        }

        for (index, (entry, file)) in entries.iter_mut().zip(&mut self.files).enumerate() {
            if let Some(Withdrawn { why, .. }) =
                withdrawn.iter().find(|withdrawn| Arc::ptr_eq(&withdrawn.site, &entry.site))
            {
                entry.is_withdrawn = true;
                file.withdraw();
                reporter.status.set_refused(index, Some(why.clone()));
            }
            if let Some(releases) = &mut file.releases {
                retire(&mut self.retired, releases.withdraw(&withdrawn));
                entry.earlier = releases.sites();
            }
        }
        !withdrawn.is_empty()
    }
}

impl Findings {
    /// Keeps the current release because another one cannot be served.
    fn refuse(&mut self, path: PathBuf, why: String) {
        self.outcome = Outcome::Changed;
        self.notices.push(Notice::Refused { path, why });
    }

    fn report(self, reporter: &Reporter) -> Outcome {
        for (index, site) in &self.released {
            reporter.status.released(*index, site.archive().facts());
        }
        for (index, why) in self.refusals {
            reporter.status.set_refused(index, why);
        }
        for notice in &self.notices {
            if matches!(notice, Notice::Refused { .. }) {
                reporter.status.refused();
            }
            reporter.notify(notice);
        }
        self.outcome
    }
}

impl Leases {
    /// Passes on what was found.
    pub(super) fn report(&mut self, reporter: &Reporter) {
        for notice in self.take_notices() {
            if matches!(notice, Notice::Damaged { .. }) {
                reporter.status.refused();
            }
            reporter.notify(&notice);
        }
    }
}

/// Adds sites to those that a worker might still use. A site may come back and be replaced again, any number of times.
fn retire(retired: &mut Vec<Arc<Site>>, sites: impl IntoIterator<Item = Arc<Site>>) {
    for site in sites {
        if !retired.iter().any(|known| Arc::ptr_eq(known, &site)) {
            retired.push(site);
        }
    }
}

/// Opens the file that replaces an archive, and verifies it. A release that was staged is open and verified already.
fn open_next(
    file: &mut ArchiveFile,
    loading: Loading,
    virtual_hosts: VirtualHosts,
    leases: &mut Leases,
) -> Result<(Arc<Site>, Vec<Notice>), OpenFailure> {
    let began = Instant::now();
    let staged = file.staged();
    let admission = file.releases.as_mut().and_then(Releases::admission_mut);
    let is_admitted = admission.is_some();
    if let Some(site) = staged {
        if let Some(admission) = admission {
            let acceptable = admission.check_next(&named_file(&file.path)?, site.archive())?;
            admission.accept(acceptable);
        }
        leases.rename(&site, &file.path);
        let notice = Notice::reloaded(file.path.clone(), site.archive().facts(), began.elapsed());
        return Ok((site, vec![notice]));
    }

    let (opened, notices) = match admission {
        Some(admission) => {
            let opened = open::open_current(&file.path, loading, admission, leases)?;
            let notices = notices_about(&file.path, &opened, began);
            (opened, notices)
        }
        None => open_verified(&file.path, loading, leases)?,
    };
    let site = Arc::new(Site::new(opened.archive, virtual_hosts));
    leases.add(&file.path, &site, opened.lease, is_admitted);
    Ok((site, notices))
}

/// Opens an archive, and verifies all of it before it is served.
pub(super) fn open_verified(
    path: &Path,
    loading: Loading,
    leases: &mut Leases,
) -> Result<(OpenedArchive, Vec<Notice>), OpenFailure> {
    let began = Instant::now();
    let opened = open::open(path, loading).map_err(|error| {
        // The sandbox only lets us open files, so the error would be about permissions.
        if path.is_dir() {
            OpenFailure::Damaged("this is a folder, not an archive".to_owned())
        } else {
            OpenFailure::from(error)
        }
    })?;
    opened.archive.verify(|_| leases.look_after())?;
    let notices = notices_about(path, &opened, began);
    Ok((opened, notices))
}

/// Returns the notices about a release that was opened just now.
fn notices_about(path: &Path, opened: &OpenedArchive, began: Instant) -> Vec<Notice> {
    let mut notices = vec![Notice::reloaded(path.to_owned(), opened.archive.facts(), began.elapsed())];
    if opened.is_unguarded {
        notices.push(Notice::Unguarded { path: path.to_owned() });
    }
    notices
}
