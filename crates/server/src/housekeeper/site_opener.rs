//! Opens the sites of a site directory at the first request for each, and closes those that aren't used.
//!
//! This has a thread of its own, because workers wait for it: the housekeeping thread may be reading a large archive. Before its first
//! byte is served, a small archive is read as a whole; a large one isn't. A new release of a site that is open is always read first, and
//! meanwhile requests for sites that aren't open get 503.

mod listing;
mod open_site;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cannery_eventloop::Waker;
use cannery_site::{Site, VirtualHosts};

use self::listing::{Listing, ListingOutcome};
use self::open_site::{Change, Failure, OpenSite, Size};
use super::{LOOK_INTERVAL, QUIET, Reporter};
use crate::config::{self, Config, SiteDirectory};
use crate::content::limits::{SITE_IDLE_SECONDS, SITES_ARCHIVES_MAX, SITES_COPIED_BYTES_MAX};
use crate::content::{
    Attempts, Content, Current, HostedSites, Leases, NewSlot, OpenerRequest, RETRY_AFTER, Trigger, Waits,
};
use crate::error::StartError;
use crate::notice::Notice;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// If there are too many open sites, one that was used this recently stays open, and another site has to wait.
const USED_RECENTLY: Duration = Duration::from_secs(10);

/// Opens the sites of a site directory. Until it is started, its sites don't open.
pub(crate) struct SiteOpener {
    directory: SiteDirectory,
    virtual_hosts: VirtualHosts,
    /// Whether to check the files at each interval.
    watch: bool,
    listing: Listing,
    /// Open sites by host.
    open: HashMap<Box<[u8]>, OpenSite>,
    /// Hosts whose slots are filled, but whose sites aren't open.
    closed: HashMap<Box<[u8]>, ClosedSite>,
    /// The table that workers read.
    sites: Arc<HostedSites>,
    requests: Receiver<OpenerRequest>,
    opener: Sender<OpenerRequest>,
    waits: Arc<Waits>,
    /// Sites that we have replaced or closed, but that a worker might still refer to.
    retired: Vec<Arc<Site>>,
    /// Of all open and retired sites.
    leases: Leases,
    /// Wrong passwords of previews.
    attempts: Arc<Attempts>,
    current: Weak<Current>,
    wakers: Vec<Waker>,
    /// When we have last said that there are too many open sites.
    full_reported: Option<Instant>,
}

/// A site that could not be opened.
struct ClosedSite {
    since: Instant,
    /// Why it is refused, or `None` if it is absent.
    why: Option<String>,
    /// Whether its slot is filled. Otherwise, the next request tries again.
    is_settled: bool,
}

/// Returns the sites to close, least recently used first. Each site comes with the time of its last use. The site that was used last
/// stays open whatever its size, because the next request would open it again.
fn excess<H: Ord>(mut sites: Vec<(Instant, H, Size)>) -> Vec<H> {
    let mut total: Size = sites.iter().map(|(.., size)| *size).sum();
    // Not at once, because a site that is opened may have several archives, and would be closed again.
    if total.archives <= SITES_ARCHIVES_MAX + SITES_ARCHIVES_MAX / 4
        && total.copied_bytes <= SITES_COPIED_BYTES_MAX + SITES_COPIED_BYTES_MAX / 4
    {
        return Vec::new();
    }
    sites.sort_unstable_by(|(a, host_a, _), (b, host_b, _)| (a, host_a).cmp(&(b, host_b)));
    sites.pop();
    let mut closed = Vec::new();
    for (_, host, size) in sites {
        let frees = total.archives > SITES_ARCHIVES_MAX
            || total.copied_bytes > SITES_COPIED_BYTES_MAX && size.copied_bytes > 0;
        if !frees {
            continue;
        }
        total.archives -= size.archives;
        total.copied_bytes -= size.copied_bytes;
        closed.push(host);
    }
    closed
}

/// Sends requests to the thread.
#[derive(Debug, Clone)]
pub(crate) struct SiteOpenerHandle(Sender<OpenerRequest>);

impl SiteOpenerHandle {
    /// Checks all files, and returns `true` if something has changed.
    pub(super) fn check(&self) -> bool {
        let (done, outcome) = channel();
        // The thread could be busy. Its own messages will say what has changed.
        self.0.send(OpenerRequest::Check { done }).is_ok()
            && outcome.recv_timeout(Duration::from_secs(5)).unwrap_or(true)
    }
}

impl SiteOpener {
    /// Lists the configured directory, and adds its sites to the content. Returns `None` if there is no directory.
    ///
    /// # Errors
    /// Returns an error if the directory can't be listed.
    pub(crate) fn open(
        config: &Config,
        current: &Arc<Current>,
        wakers: Vec<Waker>,
    ) -> Result<Option<SiteOpener>, StartError> {
        let Some(directory) = config.site_directory.clone() else { return Ok(None) };
        let mut notices = Vec::new();
        let listing = Listing::read(&directory.path, &mut notices)
            .map_err(|source| StartError::Sites { path: directory.path.clone(), source })?;
        for notice in &notices {
            (config.on_notice.0)(notice);
        }

        let (opener, requests) = channel();
        let watch = !matches!(config.content, config::Content::Archives { watch: false, .. });
        let waits = Arc::<Waits>::default();
        let site_opener = SiteOpener {
            virtual_hosts: config.virtual_hosts,
            watch,
            sites: Arc::new(HostedSites::new(listing.names(), opener.clone(), Arc::clone(&waits))),
            waits,
            listing,
            open: HashMap::new(),
            closed: HashMap::new(),
            requests,
            opener,
            retired: Vec::new(),
            leases: Leases::new(),
            attempts: Arc::default(),
            current: Arc::downgrade(current),
            wakers,
            full_reported: None,
            directory,
        };
        site_opener.publish(current);
        Ok(Some(site_opener))
    }

    /// Returns the path of the directory, and the number of its sites.
    pub(crate) fn summary(&self) -> (PathBuf, usize) {
        (self.directory.path.clone(), self.listing.names().len())
    }

    /// Starts the thread. It exits when the content has been dropped.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(self, sandbox: &Sandbox, reporter: Reporter) -> Result<SiteOpenerHandle, StartError> {
        let handle = SiteOpenerHandle(self.opener.clone());
        thread::start("sites", sandbox, ThreadRole::Loader, move || self.run(&reporter))?;
        Ok(handle)
    }

    fn run(mut self, reporter: &Reporter) {
        let mut next_check = Instant::now() + QUIET;
        loop {
            match self.requests.recv_timeout(next_check.saturating_duration_since(Instant::now())) {
                Ok(OpenerRequest::Open { host, sites, slot, done }) => {
                    self.open_slot(&host, &sites, slot, reporter);
                    self.waits.end_lateness();
                    // The worker might not be waiting any more.
                    let _ = done.try_send(());
                }
                Ok(OpenerRequest::Check { done }) => {
                    let Some(current) = self.current.upgrade() else { return };
                    let _ = done.send(self.check(&current, Trigger::Request, reporter));
                }
                // A worker may have given up after its request was done.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.waits.end_lateness(),
            }

            if Instant::now() >= next_check {
                let Some(current) = self.current.upgrade() else { return };
                self.check(&current, Trigger::Interval, reporter);
                // The second look at a release that may be incomplete should be over before publishers switch to it.
                let has_new = self.open.values().any(OpenSite::has_new);
                next_check = Instant::now() + if has_new { LOOK_INTERVAL } else { QUIET };
            }
        }
    }

    /// Opens the site of a slot, unless that was done meanwhile.
    fn open_slot(&mut self, host: &[u8], sites: &Arc<HostedSites>, slot: usize, reporter: &Reporter) {
        if sites.is_settled(slot) {
            return;
        }
        // The table may be older than ours, in which case the host may have gone.
        if self.sites.slot(host).is_none() {
            sites.settle(slot, NewSlot::Absent);
            return;
        }

        if !self.open.contains_key(host) && !self.closed.get(host).is_some_and(|closed| closed.is_settled) {
            self.try_open(host, reporter);
        }
        self.settle(sites, slot, host);
        if let Some(own) = self.sites.slot(host) {
            self.settle(&self.sites, own, host);
        }
    }

    fn try_open(&mut self, host: &[u8], reporter: &Reporter) {
        if !self.make_room() {
            let now = Instant::now();
            let is_due = self.full_reported.is_none_or(|reported| now - reported > Duration::from_secs(60));
            if is_due {
                self.full_reported = Some(now);
                let path = self.directory.path.clone();
                reporter.notify(&Notice::TooManySites { path, open: self.open.len() });
            }
            return;
        }

        let Some(source) = self.listing.source(host) else { return };
        let mut notices = Vec::new();
        let opened = OpenSite::open(
            &self.directory,
            source,
            self.virtual_hosts,
            &self.attempts,
            &mut self.leases,
            &mut notices,
        );
        for notice in &notices {
            reporter.notify(notice);
        }
        match opened {
            Ok(site) => {
                self.closed.remove(host);
                self.open.insert(host.into(), site);
            }
            Err(failure) => self.refuse(host, failure, reporter),
        }
    }

    /// Remembers that a site can't be served, and tells why unless we already have.
    fn refuse(&mut self, host: &[u8], failure: Failure, reporter: &Reporter) {
        let (path, why) = match failure {
            Failure::Absent => (None, None),
            Failure::Refused { path, why } => (Some(path), Some(why)),
        };
        let closed = ClosedSite { since: Instant::now(), why: why.clone(), is_settled: true };
        let before = self.closed.insert(host.into(), closed);
        let is_known = before.is_some_and(|before| before.why == why);
        if let (Some(path), Some(why), false) = (path, why, is_known) {
            reporter.status.refused();
            let host = String::from_utf8_lossy(host).into_owned();
            reporter.notify(&Notice::SiteRefused { path, host, why });
        }
    }

    /// Fills the slot of a host from what we know about it.
    fn settle(&self, sites: &HostedSites, slot: usize, host: &[u8]) {
        if let Some(site) = self.open.get(host) {
            return sites.settle(slot, NewSlot::Open(&site.entry, &site.is_used));
        }
        match self.closed.get(host) {
            Some(ClosedSite { why: Some(_), is_settled: true, .. }) => sites.settle(slot, NewSlot::Refused),
            Some(ClosedSite { why: None, is_settled: true, .. }) => sites.settle(slot, NewSlot::Absent),
            _ => {}
        }
    }

    /// Closes the sites that were used least recently, if there are too many. Returns `false` if the others were used just now.
    fn make_room(&mut self) -> bool {
        let SiteDirectory { open_max, kept, .. } = self.directory;
        let size = |open: &HashMap<Box<[u8]>, OpenSite>| open.values().map(OpenSite::size).sum::<Size>();
        let has_place = |open: &HashMap<Box<[u8]>, OpenSite>| {
            open.len() < usize::from(open_max) && size(open).archives + 1 + kept <= SITES_ARCHIVES_MAX
        };
        let has_room = |open: &HashMap<Box<[u8]>, OpenSite>| {
            has_place(open) && size(open).copied_bytes < SITES_COPIED_BYTES_MAX
        };
        if has_room(&self.open) {
            return true;
        }
        let now = Instant::now();
        for site in self.open.values_mut() {
            site.note_use(now);
        }
        // Sites have different numbers of archives, so one may not be enough.
        let mut is_closed = false;
        while !has_room(&self.open) {
            // Only if copied bytes are all that is missing, a site without any frees nothing.
            let lacks_bytes = has_place(&self.open);
            let useful = self.open.iter().filter(|(_, site)| !lacks_bytes || site.size().copied_bytes > 0);
            let oldest = useful.min_by_key(|(_, site)| site.used_last);
            let oldest = oldest.filter(|(_, site)| now - site.used_last >= USED_RECENTLY);
            let Some(host) = oldest.map(|(host, _)| host.clone()) else { break };
            if let Some(site) = self.open.remove(&host) {
                site.retire(&mut self.retired);
                is_closed = true;
            }
        }
        // Workers would go on using the closed site, which costs memory, but is right.
        if is_closed && let Some(current) = self.current.upgrade() {
            self.replace_table();
            self.publish(&current);
        }
        has_room(&self.open)
    }

    /// Lists the directory, and checks the files of open sites. Returns `true` if something has changed.
    fn check(&mut self, current: &Current, trigger: Trigger, reporter: &Reporter) -> bool {
        let mut notices = Vec::new();
        let mut is_changed = false;
        let is_checked = self.watch || trigger == Trigger::Request;
        if is_checked {
            is_changed |= self.relist(trigger, &mut notices);
            is_changed |= self.check_open_sites(trigger, reporter, &mut notices);
        }
        is_changed |= self.forget_failures(trigger);
        let is_new_table =
            is_changed | self.close_idle_sites() | self.close_excess_sites() | self.sites.is_nearly_full();
        if is_new_table {
            self.replace_table();
            self.publish(current);
        }
        self.protect(reporter);

        // Do not report a release until it is being served.
        for notice in &notices {
            reporter.notify(notice);
        }
        is_changed
    }

    /// Lists the directory if it has changed. Closes the sites that it doesn't name any more.
    fn relist(&mut self, trigger: Trigger, notices: &mut Vec<Notice>) -> bool {
        if self.listing.refresh(&self.directory.path, trigger, notices) == ListingOutcome::Unchanged {
            return false;
        }
        let listing = &self.listing;
        self.closed.retain(|host, _| listing.source(host).is_some());
        for (_, site) in self.open.extract_if(|host, site| !site.is_of(listing.source(host))) {
            site.retire(&mut self.retired);
        }
        true
    }

    fn check_open_sites(&mut self, trigger: Trigger, reporter: &Reporter, notices: &mut Vec<Notice>) -> bool {
        let mut is_changed = false;
        let mut refused = Vec::new();
        for (host, site) in &mut self.open {
            match site.check(
                trigger,
                self.virtual_hosts,
                &self.attempts,
                &mut self.leases,
                &mut self.retired,
                notices,
            ) {
                Change::None => {}
                Change::Served => is_changed = true,
                Change::Failed(failure) => refused.push((host.clone(), failure)),
            }
        }
        for (host, failure) in refused {
            if let Some(site) = self.open.remove(&host) {
                site.retire(&mut self.retired);
            }
            self.refuse(&host, failure, reporter);
            is_changed = true;
        }
        is_changed
    }

    /// Empties the slots of sites that could not be opened some time ago, so that the next request tries again.
    fn forget_failures(&mut self, trigger: Trigger) -> bool {
        let mut is_changed = false;
        for closed in self.closed.values_mut().filter(|closed| closed.is_settled) {
            // A directory that becomes a release directory should be noticed soon.
            let after = if closed.why.is_none() { QUIET } else { RETRY_AFTER };
            if trigger == Trigger::Request || closed.since.elapsed() >= after {
                closed.is_settled = false;
                is_changed = true;
            }
        }
        is_changed
    }

    fn close_idle_sites(&mut self) -> bool {
        let now = Instant::now();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut is_changed = false;
        let idle = self.open.extract_if(|_, site| {
            site.note_use(now);
            now - site.used_last >= Duration::from_secs(SITE_IDLE_SECONDS) || site.has_ended(unix)
        });
        for (_, site) in idle {
            site.retire(&mut self.retired);
            is_changed = true;
        }
        is_changed
    }

    /// Closes the sites that were used least recently while open sites are too large, because further releases have come.
    fn close_excess_sites(&mut self) -> bool {
        let sites = self.open.iter().map(|(host, site)| (site.used_last, host.clone(), site.size()));
        let excess = excess(sites.collect());
        for host in &excess {
            if let Some(site) = self.open.remove(host) {
                site.retire(&mut self.retired);
            }
        }
        !excess.is_empty()
    }

    /// Makes a table with everything that we know.
    fn replace_table(&mut self) {
        let sites = HostedSites::new(self.listing.names(), self.opener.clone(), Arc::clone(&self.waits));
        for host in self.open.keys().chain(self.closed.keys()) {
            if let Some(slot) = sites.slot(host) {
                self.settle(&sites, slot, host);
            }
        }
        self.sites = Arc::new(sites);
    }

    /// Lets workers use our table.
    fn publish(&self, current: &Current) {
        current.update(|content| match content {
            Content::Sites(sites) => Arc::new(Content::Sites(sites.with_hosted(Arc::clone(&self.sites)))),
            Content::Admin(_) | Content::Dummy(_) => unreachable!("a site directory belongs to sites"),
        });
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// As for the other archives, see [`Archives::protect`](super::Archives::protect).
    fn protect(&mut self, reporter: &Reporter) {
        self.retired.retain(|site| Arc::strong_count(site) > 1);
        self.leases.look();
        self.leases.report(reporter);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use cannery_archive::Loading;

    use super::*;
    use crate::config::NoticeHandler;
    use crate::observe::Status;
    use crate::worker::simulation;

    /// Returns the opener of the sites in a folder.
    fn open(folder: &Path, open_max: u16) -> (Arc<Current>, SiteOpener) {
        let mut config = Config::plain(config::Content::Archives {
            archives: Vec::new(),
            loading: Loading::Automatic,
            watch: true,
        });
        config.site_directory = Some(SiteDirectory { path: folder.to_owned(), open_max, kept: 1 });
        let (content, _) = Content::open(&config, None).unwrap();
        let current = Arc::new(Current::new(Arc::new(content)));
        let opener = SiteOpener::open(&config, &current, Vec::new()).unwrap().unwrap();
        (current, opener)
    }

    fn reporter() -> Reporter {
        Reporter {
            status: Arc::new(Status::new(std::iter::empty(), Arc::default())),
            on_notice: NoticeHandler::ignore(),
        }
    }

    #[test]
    fn idle_site_is_closed_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.example.cdb"), simulation::archive("first")).unwrap();
        let (current, mut opener) = open(folder.path(), 10);
        let reporter = reporter();

        let host = &b"a.example"[..];
        let open_site = |opener: &mut SiteOpener| {
            let (sites, slot) = (Arc::clone(&opener.sites), opener.sites.slot(host).unwrap());
            opener.open_slot(host, &sites, slot, &reporter);
        };
        let is_open = |opener: &SiteOpener| {
            let is_settled = opener.sites.is_settled(opener.sites.slot(host).unwrap());
            assert_eq!(is_settled, opener.open.contains_key(host));
            is_settled
        };
        // As if the last request for it was this long ago.
        let check_after = |opener: &mut SiteOpener, seconds: u64| {
            let site = opener.open.get_mut(host).unwrap();
            site.note_use(Instant::now());
            site.used_last = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
            opener.check(&current, Trigger::Interval, &reporter);
        };
        assert!(!is_open(&opener));
        open_site(&mut opener);
        check_after(&mut opener, SITE_IDLE_SECONDS - 10);
        assert!(is_open(&opener));

        // A request keeps it open.
        opener.open[host].is_used.store(true, std::sync::atomic::Ordering::Relaxed);
        opener.open.get_mut(host).unwrap().used_last -= Duration::from_secs(SITE_IDLE_SECONDS);
        opener.check(&current, Trigger::Interval, &reporter);
        assert!(is_open(&opener));

        check_after(&mut opener, SITE_IDLE_SECONDS);
        assert!(!is_open(&opener));
        open_site(&mut opener);
        assert!(is_open(&opener));
    }

    #[test]
    fn refused_site_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for host in ["a", "b"] {
            fs::write(folder.path().join(format!("{host}.example.cdb")), simulation::archive(host)).unwrap();
        }
        let (current, mut opener) = open(folder.path(), 1);
        let reporter = reporter();
        let table = Arc::clone(&opener.sites);
        let mut is_open = |host: &[u8]| {
            let slot = table.slot(host).unwrap();
            opener.open_slot(host, &table, slot, &reporter);
            assert!(Arc::ptr_eq(&opener.sites, &table), "no site was closed, so workers need no new table");
            table.is_settled(slot)
        };
        assert!(is_open(b"a.example"));
        assert!(!is_open(b"b.example"), "the other one is in use");
        drop(current);
    }

    #[test]
    fn least_recently_used_sites_are_closed_at_too_many_archives_or_copies() {
        let now = Instant::now();
        let site = |age: u64, archives, copied_bytes| {
            (now - Duration::from_secs(age), age, Size { archives, copied_bytes })
        };
        let quarter = SITES_ARCHIVES_MAX / 4;
        assert!(excess(vec![site(1, 4 * quarter, 0), site(2, quarter, 0)]).is_empty());
        let many = vec![site(1, 2 * quarter, 0), site(3, 1, 0), site(2, 3 * quarter, 0)];
        assert_eq!(excess(many), [3, 2]);

        let quarter = SITES_COPIED_BYTES_MAX / 4;
        assert!(excess(vec![site(1, 1, 4 * quarter), site(2, 1, quarter)]).is_empty());
        let large = vec![site(1, 1, 3 * quarter), site(2, 1, quarter), site(3, 1, 2 * quarter)];
        assert_eq!(excess(large), [3]);
        let beside_mapped = vec![site(1, 1, 3 * quarter), site(2, 1, 3 * quarter), site(3, 1, 0)];
        assert_eq!(excess(beside_mapped), [2], "a mapped site frees no copied bytes");
        assert!(
            excess(vec![site(1, 1, 6 * quarter)]).is_empty(),
            "a site isn't closed because of its own size"
        );
    }
}
