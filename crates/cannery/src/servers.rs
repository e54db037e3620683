//! Servers of a site, which need to know when its archive is replaced.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use cannery_archive::OpenError;
use cannery_server::{EmbeddedArchive, PendingSite, ReplaceableSite, SitePublisher};
use cannery_site::Site as Answers;

use crate::embedded::EmbeddedSite;
use crate::site::{Release, Site};

/// The servers of a site.
#[derive(Debug, Default)]
pub(crate) struct Servers(Mutex<Vec<SitePublisher>>);

impl Servers {
    /// Replaces the current release, and waits until all servers know.
    pub(crate) fn replace(&self, current: &ArcSwap<Release>, next: Arc<Release>) {
        self.publish(|_| {
            let answers = Arc::clone(&next.answers);
            current.store(next);
            answers
        });
    }

    /// Adds a server that serves the current release.
    pub(crate) fn add(&self, current: &ArcSwap<Release>, server: SitePublisher) {
        self.publish(|servers| {
            servers.push(server);
            Arc::clone(&current.load().answers)
        });
    }

    /// Passes the archive that `change` returns to all servers, and forgets those that have stopped.
    fn publish(&self, change: impl FnOnce(&mut Vec<SitePublisher>) -> Arc<Answers>) {
        let mut pending: Vec<PendingSite> = Vec::new();
        {
            // If two threads replace the archive, all servers must learn about it in the same order.
            let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let answers = change(&mut servers);
            servers.retain(|server| match server.publish(Arc::clone(&answers)) {
                Some(site) => {
                    pending.push(site);
                    true
                }
                None => false,
            });
        }
        // Without the lock, because a server that we wait for may call the program's handler of notices, which may replace the archive,
        // too.
        for site in pending {
            site.wait();
        }
    }
}

impl ReplaceableSite for Site {
    fn open(&self) -> Result<Arc<Answers>, OpenError> {
        Ok(Arc::clone(&self.release().answers))
    }

    fn publish_to(self: Box<Self>, publisher: SitePublisher) {
        Site::publish_to(&self, publisher);
    }
}

impl ReplaceableSite for &'static EmbeddedSite {
    fn open(&self) -> Result<Arc<Answers>, OpenError> {
        self.check()?;
        Ok(Arc::clone(&self.release().answers))
    }

    fn publish_to(self: Box<Self>, publisher: SitePublisher) {
        Site::publish_to(&self, publisher);
    }
}

/// [`Site::replace`] also replaces the archive in the server.
impl From<Site> for EmbeddedArchive {
    fn from(site: Site) -> EmbeddedArchive {
        EmbeddedArchive::replaceable(site)
    }
}

/// [`Site::replace`] also replaces the archive in the server.
impl From<&Site> for EmbeddedArchive {
    fn from(site: &Site) -> EmbeddedArchive {
        EmbeddedArchive::replaceable(site.clone())
    }
}

/// The site is opened when the server starts. [`Site::replace`] also replaces the archive in the server. If the `follow` feature is
/// enabled, debug builds serve the folder instead.
impl From<&'static EmbeddedSite> for EmbeddedArchive {
    fn from(site: &'static EmbeddedSite) -> EmbeddedArchive {
        EmbeddedArchive::replaceable(site)
    }
}
