//! Pages by which browsers follow a folder that is edited.

use cannery_site::Target;

use super::page::Page;
use crate::config::{LiveFolder, LivePage};

/// The beginning of the paths of these pages.
const PREFIX: &[u8] = b"/__/cannery/live";

impl LiveFolder {
    /// Returns the page at a target.
    #[cold]
    pub(super) fn at(&self, target: &Target<'_>) -> Option<Page<'static>> {
        let page =
            |media_type, body: Vec<u8>| Page { status: 200, media_type, body: body.into(), fields: &[] };
        match self.page(target) {
            LivePage::Missing => None,
            LivePage::Pending => Some(page("application/json", b"null".to_vec())),
            LivePage::Ready { media_type, body } => Some(page(media_type, body)),
        }
    }

    /// Returns `true` if the client should wait for the response to a request with this target.
    pub(crate) fn is_pending(&self, target: &[u8]) -> bool {
        target.starts_with(PREFIX)
            && Target::parse(target).is_some_and(|target| self.page(&target) == LivePage::Pending)
    }

    fn page(&self, target: &Target<'_>) -> LivePage {
        self.0.page(target.path, target.query.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
