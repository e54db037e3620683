//! Archives that are part of the program, or that it has opened itself.

use std::sync::Arc;

use cannery_archive::OpenError;
use cannery_site::Site;

use crate::RunningServer;
use crate::config::{Config, Content, HostPattern, NamedArchive};
use crate::error::StartError;
use crate::housekeeper::SitePublisher;

/// Name of an embedded archive in messages.
const NAME: &str = "the embedded archive";

/// The source of [`Server::embedded_site`](super::Server::embedded_site): an embedded site, a site that the program has opened, or the
/// bytes of an archive.
#[derive(Debug)]
pub struct SiteSource(Source);

#[derive(Debug)]
enum Source {
    Bytes(&'static [u8]),
    Site(Box<dyn ReplaceableSite>),
}

/// A site that the program may replace while a server serves it.
// Only for the crate `cannery`.
#[doc(hidden)]
pub trait ReplaceableSite: std::fmt::Debug + Send {
    /// Opens the site, unless it is open already. This is only called in processes that serve.
    ///
    /// # Errors
    /// Returns an error if it isn't an archive.
    fn open(&self) -> Result<Arc<Site>, OpenError>;

    /// Passes the current site to `publisher`, because it may have been replaced since it was opened, and then each site that replaces
    /// it.
    fn publish_to(self: Box<Self>, publisher: SitePublisher);
}

impl SiteSource {
    /// Serves a site that may be replaced.
    // Only for the crate `cannery`.
    #[doc(hidden)]
    #[must_use]
    pub fn replaceable(site: impl ReplaceableSite + 'static) -> SiteSource {
        SiteSource(Source::Site(Box::new(site)))
    }
}

impl From<&'static [u8]> for SiteSource {
    fn from(bytes: &'static [u8]) -> SiteSource {
        SiteSource(Source::Bytes(bytes))
    }
}

impl<const LENGTH: usize> From<&'static [u8; LENGTH]> for SiteSource {
    fn from(bytes: &'static [u8; LENGTH]) -> SiteSource {
        SiteSource::from(bytes.as_slice())
    }
}

/// A replaceable site, and the index of its entry in the configuration.
#[derive(Debug)]
pub(super) struct ConfiguredSite {
    index: usize,
    site: Box<dyn ReplaceableSite>,
}

impl ConfiguredSite {
    /// Returns the configuration entry with this index, and the site that will be opened for it, if any.
    pub(super) fn split(
        source: SiteSource,
        host: Option<HostPattern>,
        index: usize,
    ) -> (NamedArchive, Option<ConfiguredSite>) {
        let (bytes, site) = match source.0 {
            Source::Bytes(bytes) => (bytes, None),
            Source::Site(site) => (b"".as_slice(), Some(ConfiguredSite { index, site })),
        };
        (NamedArchive::embedded(host, NAME.into(), bytes), site)
    }

    /// Opens the site, and puts it into the configuration entry.
    ///
    /// # Errors
    /// Returns an error if it isn't an archive.
    pub(super) fn open(&self, config: &mut Config) -> Result<(), StartError> {
        let site = self.site.open().map_err(|source| StartError::Archive { path: NAME.into(), source })?;
        if let Content::Archives { archives, .. } = &mut config.content
            && let Some(named) = archives.get_mut(self.index)
        {
            *named = NamedArchive::opened(named.host.take(), NAME.into(), site);
        }
        Ok(())
    }

    /// Replaces the site in the running server whenever the program does.
    pub(super) fn publish_to(self, server: &RunningServer) {
        if let Some(publisher) = server.publisher() {
            self.site.publish_to(publisher.of_site(self.index));
        }
    }
}
