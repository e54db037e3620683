//! Sites that a server serves, and that may be replaced meanwhile.

use std::sync::Arc;

use cannery_archive::OpenError;
use cannery_server::{ReplaceableSite, SitePublisher, SiteSource};
use cannery_site::Site as Answers;

use crate::embedded::EmbeddedSite;
use crate::site::Site;

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
impl From<Site> for SiteSource {
    fn from(site: Site) -> SiteSource {
        SiteSource::replaceable(site)
    }
}

/// [`Site::replace`] also replaces the archive in the server.
impl From<&Site> for SiteSource {
    fn from(site: &Site) -> SiteSource {
        SiteSource::replaceable(site.clone())
    }
}

/// The site is opened when the server starts. [`Site::replace`] also replaces the archive in the server. If the `follow` feature is
/// enabled, debug builds serve the folder instead.
impl From<&'static EmbeddedSite> for SiteSource {
    fn from(site: &'static EmbeddedSite) -> SiteSource {
        SiteSource::replaceable(site)
    }
}
