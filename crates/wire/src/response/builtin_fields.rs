//! Field values of responses whose head we do not render in advance, common to all HTTP versions.

use cannery_site::{Answer, Fields, Location};

use super::server_fields::ServerFields;

/// Allowed methods (RFC 9110 §10.2.1).
pub(crate) const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// Media type of built-in pages.
pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";

/// Media type of multipart responses. The boundary comes next.
pub(crate) const PARTS_TYPE: &str = "multipart/byteranges; boundary=";

/// Returns the `Cache-Control` of a redirect.
///
/// Without this field, browsers would cache a permanent redirect forever, and a mistake could not be undone. We therefore only
/// allow an hour. If the target has the request's host, only the client itself may store the redirect. Otherwise, a shared cache
/// that ignores the host could send other clients to a forged one.
pub(crate) fn redirect_caching(status: u16, location: &Location<'_>, fields: &ServerFields) -> &'static str {
    match status {
        301 | 308 if fields.keeps_redirects() && location.has_requested_host() => "private, max-age=3600",
        301 | 308 if fields.keeps_redirects() => "public, max-age=3600",
        _ => "no-cache",
    }
}

/// Returns `true` when an error is sent with the head of a 2xx page. We need to replace its `Cache-Control` then.
pub(crate) fn is_success_sent_as_error(answer: &Answer<'_>) -> bool {
    let head = match &answer.fields {
        Fields::Canned { head, .. } => head,
        Fields::BuiltIn { page: Some(page), .. } => &page.head,
        _ => return false,
    };
    answer.status >= 400 && head.status < 400
}

/// Returns `true` if the lines contain `Vary: Accept-Encoding`, as written by the archiver.
pub(crate) fn varies_by_encoding(lines: &[u8]) -> bool {
    let name = b"Vary: Accept-Encoding";
    lines.windows(name.len()).any(|window| window == name)
}
