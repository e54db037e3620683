//! Sites of a site directory: the hosts that it names, and those of its sites that are open.
//!
//! Workers only read this table. The names come from the directory, never from requests, and a lookup of another name allocates
//! nothing. If the site isn't open yet, the worker asks the site opener, and waits for a bounded time. The opener then puts the site
//! into its slot, so the content needn't be replaced. Closing a site, or serving another release, makes a new table.
//!
//! While a worker waits, its other connections wait too. So clients that ask for one host after the other must not make workers wait
//! most of the time: see [`Waits`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cannery_site::Site;

use super::entry::Entry;
use super::limits::{SITE_WAIT_MS, SITE_WAITING_MS_PER_SECOND};

/// Numbers of other sites are lower.
pub(super) const FIRST_NUMBER: u16 = 0x8000;

/// Maximum length of a host name in bytes (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 255;

const CHUNK: usize = 256;
const CHUNKS: usize = 128;

/// The host names of a site directory, in lower case. Each has a slot.
pub(crate) type HostNames = HashMap<Box<[u8]>, u32>;

/// Sites of a site directory.
#[derive(Debug)]
pub(crate) struct HostedSites {
    names: Arc<HostNames>,
    slots: Box<[OnceLock<Slot>]>,
    numbered: NumberedSites,
    opener: Sender<OpenerRequest>,
    waits: Arc<Waits>,
}

/// Limits how long workers wait for sites, for all tables of a directory.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The second since 1970 in the upper half, and how many microseconds workers have waited in that second in the lower half.
    recent: AtomicU64,
    /// A worker has given up waiting, and the opener is still busy.
    is_late: AtomicBool,
}

impl Waits {
    /// Returns `true` if a worker may wait.
    fn may_begin(&self) -> bool {
        !self.is_late.load(Ordering::Relaxed)
            && Waits::spent(self.recent.load(Ordering::Relaxed), unix_seconds())
                < SITE_WAITING_MS_PER_SECOND * 1000
    }

    /// Counts the time that a worker has waited.
    fn end(&self, waited: Duration) {
        let second = unix_seconds();
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX).min(u64::from(u32::MAX / 2));
        let next = |recent: u64| {
            let spent = (Waits::spent(recent, second) + waited).min(u64::from(u32::MAX));
            Some(second << 32 | spent)
        };
        let _ = self.recent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Returns the microseconds that were spent in a second.
    fn spent(recent: u64, second: u64) -> u64 {
        if recent >> 32 == second { recent & u64::from(u32::MAX) } else { 0 }
    }

    /// Lets workers wait again. The opener calls this whenever it has finished a request, and while it has nothing to do.
    pub(crate) fn end_lateness(&self) {
        self.is_late.store(false, Ordering::Relaxed);
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The opener's result for a host.
#[derive(Debug)]
enum Slot {
    Open(Box<OpenSite>),
    /// Its archive is damaged, for example.
    Refused,
    /// It has no release yet, or not any more.
    Absent,
}

/// An open site.
#[derive(Debug)]
struct OpenSite {
    number: u16,
    entry: Entry,
    /// The opener closes sites that aren't used.
    is_used: Arc<AtomicBool>,
}

/// A result to put into a slot.
#[derive(Clone, Copy)]
pub(crate) enum NewSlot<'a> {
    /// The site is open.
    Open(&'a Entry, &'a Arc<AtomicBool>),
    /// The site can't be served.
    Refused,
    /// There is no site.
    Absent,
}

/// A message to the opener.
#[derive(Debug)]
pub(crate) enum OpenerRequest {
    /// Opens the site of a host, which has this slot in this table.
    Open { host: Box<[u8]>, sites: Arc<HostedSites>, slot: usize, done: SyncSender<()> },
    /// Checks all files. The answer is `true` if something has changed.
    Check { done: Sender<bool> },
}

/// Result of a lookup.
pub(super) enum Hosted<'a> {
    Site(u16, &'a Entry),
    /// Its archive can't be served.
    Refused,
    /// It can't be opened right now.
    Busy,
    /// The directory has no such site.
    Missing,
}

impl HostedSites {
    /// Returns a table without open sites.
    pub(crate) fn new(
        names: Arc<HostNames>,
        opener: Sender<OpenerRequest>,
        waits: Arc<Waits>,
    ) -> HostedSites {
        let slots = (0..names.len()).map(|_| OnceLock::new()).collect();
        HostedSites { names, slots, numbered: NumberedSites::new(), opener, waits }
    }

    /// Returns the slot of a host.
    pub(crate) fn slot(&self, host: &[u8]) -> Option<usize> {
        self.names.get(host).and_then(|slot| usize::try_from(*slot).ok())
    }

    /// Returns `true` if the opener has found out what a slot has.
    pub(crate) fn is_settled(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.get().is_some())
    }

    /// Returns `true` if the table should be replaced soon, because numbers of closed sites aren't used again.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.numbered.next.load(Ordering::Relaxed) > CHUNK * CHUNKS * 3 / 4
    }

    /// Fills a slot, which happens once. Only the opener may call this.
    pub(crate) fn settle(&self, slot: usize, new: NewSlot<'_>) {
        let Some(slot) = self.slots.get(slot) else { return };
        if slot.get().is_some() {
            return;
        }
        let settled = match new {
            NewSlot::Refused => Slot::Refused,
            NewSlot::Absent => Slot::Absent,
            NewSlot::Open(entry, is_used) => {
                let sites = std::iter::once(&entry.site).chain(&entry.earlier);
                // Without a number, the slot stays empty, and the worker responds that it's busy.
                let Some(number) = self.numbered.add(sites) else { return };
                Slot::Open(Box::new(OpenSite { number, entry: entry.clone(), is_used: Arc::clone(is_used) }))
            }
        };
        let _ = slot.set(settled);
    }

    /// Finds the site of a host, which may have any case. Waits for a bounded time until it is open.
    pub(super) fn find(self: &Arc<Self>, host: &[u8]) -> Hosted<'_> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let Some(name) = buffer.get_mut(..host.len()) else { return Hosted::Missing };
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        let Some(index) = self.slot(name) else { return Hosted::Missing };
        let Some(slot) = self.slots.get(index) else { return Hosted::Missing };

        let found = slot.get().or_else(|| {
            self.await_opening(index, name);
            slot.get()
        });
        match found {
            None => Hosted::Busy,
            Some(Slot::Refused) => Hosted::Refused,
            Some(Slot::Absent) => Hosted::Missing,
            Some(Slot::Open(open)) => {
                // Workers share the line, so only write if necessary.
                if !open.is_used.load(Ordering::Relaxed) {
                    open.is_used.store(true, Ordering::Relaxed);
                }
                Hosted::Site(open.number, &open.entry)
            }
        }
    }

    #[cold]
    fn await_opening(self: &Arc<Self>, slot: usize, host: &[u8]) {
        if !self.waits.may_begin() {
            return;
        }
        let began = Instant::now();
        let (done, opened) = sync_channel(1);
        let request = OpenerRequest::Open { host: host.into(), sites: Arc::clone(self), slot, done };
        if self.opener.send(request).is_ok()
            && opened.recv_timeout(Duration::from_millis(SITE_WAIT_MS)).is_err()
        {
            self.waits.is_late.store(true, Ordering::Relaxed);
        }
        self.waits.end(began.elapsed());
    }

    /// Returns the site with a number that came from [`find`](Self::find), or the number of one of its earlier releases.
    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&Site> {
        self.numbered.get(number.checked_sub(FIRST_NUMBER)?)
    }
}

/// Sites by number. Sites are only added, and their memory is allocated as needed.
#[derive(Debug)]
struct NumberedSites {
    chunks: Box<[OnceLock<Chunk>]>,
    /// The lowest free index.
    next: AtomicUsize,
}

type Chunk = Box<[OnceLock<Arc<Site>>]>;

impl NumberedSites {
    fn new() -> NumberedSites {
        NumberedSites { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), next: AtomicUsize::new(0) }
    }

    /// Gives consecutive numbers to sites, and returns the first one. Only one thread may call this at a time.
    fn add<'a>(&self, sites: impl Iterator<Item = &'a Arc<Site>> + Clone) -> Option<u16> {
        let first = self.next.load(Ordering::Relaxed);
        let mut next = first;
        // The highest number isn't used, because it could mean that there is no archive.
        if first + sites.clone().count() >= CHUNK * CHUNKS {
            return None;
        }
        for site in sites {
            let chunk =
                self.chunks[next / CHUNK].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
            let _ = chunk[next % CHUNK].set(Arc::clone(site));
            next += 1;
        }
        self.next.store(next, Ordering::Relaxed);
        FIRST_NUMBER.checked_add(u16::try_from(first).ok()?)
    }

    #[inline]
    fn get(&self, index: u16) -> Option<&Site> {
        let index = usize::from(index);
        let site = self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)?.get()?;
        Some(site.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn unknown_hosts_never_reach_the_opener() {
        let (opener, requests) = channel();
        let names = HostNames::from([(Box::from(b"a.example".as_slice()), 0)]);
        let sites = Arc::new(HostedSites::new(Arc::new(names), opener, Arc::default()));
        let long = [b'a'; HOST_BYTES_MAX + 1];
        let hosts: [&[u8]; 6] = [b"", b"b.example", b"a.example.org", b"..", b"../a.example", &long];
        for host in hosts {
            assert!(matches!(sites.find(host), Hosted::Missing), "{host:?}");
        }
        assert!(requests.try_recv().is_err());

        // The opener is asked, and doesn't answer in this case.
        drop(requests);
        assert!(matches!(sites.find(b"A.Example"), Hosted::Busy));
        sites.settle(0, NewSlot::Refused);
        assert!(matches!(sites.find(b"A.Example"), Hosted::Refused));
    }

    #[test]
    fn workers_wait_a_part_of_the_time() {
        let waits = Waits::default();
        let step = Duration::from_millis(10);
        let mut count = 0;
        // The clock may reach another second in between.
        while waits.may_begin() && count < 100 {
            waits.end(step);
            count += 1;
        }
        let full = u32::try_from(SITE_WAITING_MS_PER_SECOND / 10).unwrap();
        assert!((full..=2 * full).contains(&count), "{count}");
        assert_eq!(Waits::spent(5 << 32 | 7, 5), 7);
        assert_eq!(Waits::spent(5 << 32 | 7, 6), 0);
    }

    #[test]
    fn no_worker_waits_for_an_opener_that_is_late() {
        let (opener, requests) = channel();
        let names = [(Box::from(b"a.example".as_slice()), 0), (Box::from(b"b.example".as_slice()), 1)];
        let waits = Arc::<Waits>::default();
        let sites = Arc::new(HostedSites::new(Arc::new(HostNames::from(names)), opener, Arc::clone(&waits)));
        // The opener takes too long.
        assert!(matches!(sites.find(b"a.example"), Hosted::Busy));
        assert!(matches!(sites.find(b"b.example"), Hosted::Busy));
        assert_eq!(requests.try_iter().count(), 1);

        waits.end_lateness();
        waits.recent.store(0, Ordering::Relaxed);
        assert!(matches!(sites.find(b"b.example"), Hosted::Busy));
        assert_eq!(requests.try_iter().count(), 1);
    }
}
