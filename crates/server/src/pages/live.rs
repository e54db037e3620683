//! Pages that browsers use to follow a folder while it is being edited.

mod document;
mod encoding;
mod head;

pub(crate) use document::{add_script, fields, is_document};

use cannery_site::{Method, Target};
use cannery_wire::RequestHead;

use super::generated::Page;
use crate::config::{LiveFolder, LivePage};

/// All paths of these pages start with this.
const PREFIX: &[u8] = b"/__/cannery/live";

/// Keeps other origins from including the pages. For example, they cannot be used as scripts.
const FIELDS: &[(&str, &str)] = &[("Cross-Origin-Resource-Policy", "same-origin")];

impl LiveFolder {
    /// Returns the page for a request.
    #[cold]
    pub(super) fn at(&self, target: &Target<'_>, head: &RequestHead<'_>) -> Option<Page<'static>> {
        let page = |status, media_type, body: Vec<u8>| Page {
            status,
            media_type,
            body: body.into(),
            fields: FIELDS,
        };
        let found = self.page(target);
        if found != LivePage::Missing && is_of_another_origin(head) {
            let message = b"Only pages of this server may follow its folder.\n".to_vec();
            return Some(page(403, "text/plain; charset=utf-8", message));
        }
        match found {
            LivePage::Missing => None,
            LivePage::Pending => Some(page(200, "application/json", b"null".to_vec())),
            LivePage::Ready { media_type, body } => Some(page(200, media_type, body)),
        }
    }

    /// Returns `true` if the client should wait for the response to this request.
    pub(crate) fn is_pending(&self, head: &RequestHead<'_>) -> bool {
        let request = &head.request;
        request.target.starts_with(PREFIX)
            && request.method == Method::Get
            && !is_of_another_origin(head)
            && Target::parse(request.target).is_some_and(|target| self.page(&target) == LivePage::Pending)
    }

    /// If this is a request for a service worker script (`Service-Worker: script`), tells the folder.
    #[cold]
    pub(crate) fn notice_service_worker(&self, target: &[u8], field_lines: &[u8]) {
        let is_request = |(name, value): (&[u8], &[u8])| {
            name.eq_ignore_ascii_case(b"service-worker") && value == b"script"
        };
        if fields(field_lines).any(is_request) {
            self.0.service_worker_requested(target);
        }
    }

    fn page(&self, target: &Target<'_>) -> LivePage {
        self.0.page(target.path, target.query.unwrap_or_default())
    }
}

/// Whether a request was sent by a page from another origin, according to the browser's
/// `Sec-Fetch-Site` or `Origin`.
fn is_of_another_origin(head: &RequestHead<'_>) -> bool {
    let host = head.request.host.unwrap_or_default();
    fields(head.field_lines).any(|(name, value)| {
        if name.eq_ignore_ascii_case(b"sec-fetch-site") {
            return !matches!(value, b"same-origin" | b"none");
        }
        // There may be a proxy that uses a different scheme.
        let authority = value.strip_prefix(b"http://").or_else(|| value.strip_prefix(b"https://"));
        name.eq_ignore_ascii_case(b"origin")
            && !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    })
}

#[cfg(test)]
mod tests;
