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

    /// Notifies the folder if a request with these field lines is that of a service worker's script
    /// (`Service-Worker: script`).
    #[cold]
    pub(crate) fn notice_service_worker(&self, target: &[u8], field_lines: &[u8]) {
        let is_request = |line: &[u8]| {
            let colon = line.iter().position(|byte| *byte == b':');
            colon.is_some_and(|colon| {
                line[..colon].eq_ignore_ascii_case(b"service-worker")
                    && line[colon + 1..].trim_ascii() == b"script"
            })
        };
        if field_lines.split(|byte| *byte == b'\n').any(is_request) {
            self.0.service_worker_requested(target);
        }
    }

    fn page(&self, target: &Target<'_>) -> LivePage {
        self.0.page(target.path, target.query.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
