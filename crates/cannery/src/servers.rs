//! Servers of a site, which need to know when its archive is replaced.

use std::sync::{Arc, Mutex, PoisonError};

use cannery_server::{PendingSite, SitePublisher};
use cannery_site::Site;

/// The servers of a site.
#[derive(Debug, Default)]
pub(crate) struct Servers(Mutex<Vec<SitePublisher>>);

impl Servers {
    /// Replaces the site by calling `replace`, which returns the new one, and waits until all servers know.
    pub(crate) fn replace(&self, replace: impl FnOnce() -> Arc<Site>) {
        self.publish(|_| replace());
    }

    /// Adds a server, which serves the current site from now on.
    pub(crate) fn add(&self, server: SitePublisher, current: impl FnOnce() -> Arc<Site>) {
        self.publish(|servers| {
            servers.push(server);
            current()
        });
    }

    /// Passes the site that `change` returns to all servers, and forgets those that have stopped.
    fn publish(&self, change: impl FnOnce(&mut Vec<SitePublisher>) -> Arc<Site>) {
        let mut pending: Vec<PendingSite> = Vec::new();
        {
            // If two threads replace the site, all servers must learn about it in the same order.
            let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let site = change(&mut servers);
            servers.retain(|server| {
                let publication = server.publish(Arc::clone(&site));
                let is_running = publication.is_some();
                pending.extend(publication);
                is_running
            });
        }
        // Without the lock, because a server that we wait for may call the program's handler of notices, which may replace the site,
        // too.
        for site in pending {
            site.wait();
        }
    }
}
