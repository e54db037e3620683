//! A site that is served, with everything that its responses depend on.

use std::sync::Arc;

use cannery_site::Site;

use super::preview::Preview;
use crate::config::HostPattern;

/// A site and a host.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// `None` for the default site.
    pub(crate) host: Option<HostPattern>,
    pub(crate) site: Arc<Site>,
    /// Other releases of the site, newest first, for immutable paths that `site` does not have.
    pub(crate) earlier: Vec<Arc<Site>>,
    /// Set if the site is a preview.
    pub(crate) preview: Option<Arc<Preview>>,
    /// Set if another process has changed the archive, so that its bytes aren't the signed ones any more.
    pub(crate) is_withdrawn: bool,
}
