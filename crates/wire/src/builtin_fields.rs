//! Field values of responses that have no rendered head, for every version of HTTP.

use cannery_site::{Answer, Fields, Location};

use crate::server_fields::ServerFields;

/// Allowed methods (RFC 9110 §10.2.1).
pub(crate) const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// Media type of built-in pages.
pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";

/// Media type of multipart responses, up to the boundary.
pub(crate) const PARTS_TYPE: &str = "multipart/byteranges; boundary=";

/// Returns the `Cache-Control` of a redirect.
///
/// Browsers cache a permanent redirect without this field forever, so that a mistake could never be undone.
/// An hour is permanent enough. A target with the host of the request is stored only by the client that sent it: a shared cache
/// that ignores the host would send others to a forged one.
pub(crate) fn redirect_caching(status: u16, location: &Location<'_>, fields: &ServerFields) -> &'static str {
    match status {
        301 | 308 if fields.keeps_redirects() && location.has_requested_host() => "private, max-age=3600",
        301 | 308 if fields.keeps_redirects() => "public, max-age=3600",
        _ => "no-cache",
    }
}

/// Returns `true` if an error response reuses the head of a 2xx page, whose `Cache-Control` must then be replaced.
pub(crate) fn is_success_sent_as_error(answer: &Answer<'_>) -> bool {
    let head = match &answer.fields {
        Fields::Canned { head, .. } => head,
        Fields::BuiltIn { page: Some(page), .. } => &page.head,
        _ => return false,
    };
    answer.status >= 400 && head.status < 400
}

/// Returns `true` if lines of a head contain `Vary: Accept-Encoding`, as the archiver renders it.
pub(crate) fn varies_by_encoding(lines: &[u8]) -> bool {
    let name = b"Vary: Accept-Encoding";
    lines.windows(name.len()).any(|window| window == name)
}
