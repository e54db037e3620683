//! Adds the live reload script to HTML pages of a site that is being edited.

use cannery_site::{Body, Fields, Site};
use cannery_wire::{Output, Response, h1};

use crate::pages::{GeneratedResponse, add_script, fields};

/// The field that tells documents from fetched pages. A cache must not exchange one for the other.
const VARY: &[u8] = b"Sec-Fetch-Dest";

/// The script for a document, and the address of that document.
pub(super) struct Script<'a> {
    pub(super) path: &'a str,
    pub(super) host: Option<&'a [u8]>,
    pub(super) scheme: &'static str,
}

impl Script<'_> {
    /// Returns the origin of the document, or `None` if it contains any characters that would need to be
    /// escaped in HTML.
    fn origin(&self) -> Option<String> {
        let host = std::str::from_utf8(self.host?).ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        host.bytes().all(is_plain).then(|| format!("{}://{host}", self.scheme))
    }
}

/// Composes the response to send in place of `response`. If the latter is not an HTML page, the result
/// is `None`. The page will contain the `script` (if any).
#[cold]
pub(super) fn compose(
    response: &Response<'_>,
    site: &Site,
    script: Option<&Script<'_>>,
) -> Option<GeneratedResponse> {
    if matches!(response.answer.fields, Fields::Redirect(_)) {
        return None;
    }
    let mut body = Vec::new();
    match response.answer.body {
        Body::Empty => {}
        Body::Archive(extent) => body.extend_from_slice(site.archive().body(extent).ok()?),
        Body::BuiltIn(page) => page.for_each_piece(&mut |piece| body.extend_from_slice(piece)),
        Body::Multipart(_) => return None,
    }

    let mut encoded = Output::new();
    h1::put_head(&mut encoded, response);
    let (_, lines) = split_line(encoded.inline_only()?);
    let media_type = fields(lines).find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))?.1;
    if !is_html(media_type) {
        return None;
    }
    let is_compressed = fields(lines).any(|(name, _)| name.eq_ignore_ascii_case(b"content-encoding"));
    let script = script.filter(|_| !is_compressed);
    if script.is_none() && body.is_empty() {
        // Since the `Content-Length` of this response is not that of an empty body, we cannot send it
        // instead.
        return None;
    }

    if let Some(script) = script {
        add_script(&mut body, media_type, script.path, script.origin().as_deref());
    }
    let lines = fields_of_document(lines, script.is_some());
    Some(GeneratedResponse { status: response.answer.status, lines, body })
}

/// Returns the fields for a response with an HTML page. Note that a page with the script cannot be
/// revalidated.
fn fields_of_document(lines: &[u8], has_script: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut vary = Vec::new();
    for (name, value) in fields(lines) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("vary") {
            vary.extend_from_slice(&[value, b", "].concat());
        } else if !is("content-length")
            && !(has_script && (is("etag") || is("last-modified") || is("accept-ranges")))
        {
            kept.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
    }
    kept.extend_from_slice(&[b"Vary: ", vary.as_slice(), VARY, b"\r\n"].concat());
    kept
}

fn is_html(media_type: &[u8]) -> bool {
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/html")
}

/// Splits off the first line.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last line replaced those before it.
    #[test]
    fn all_vary_lines_are_kept() {
        let lines = b"Vary: Accept-Encoding\r\nETag: \"a\"\r\nvary: Cookie\r\nContent-Length: 3\r\n";
        let vary = "Vary: Accept-Encoding, Cookie, Sec-Fetch-Dest\r\n";
        assert_eq!(fields_of_document(lines, true), vary.as_bytes());
        assert_eq!(fields_of_document(lines, false), format!("ETag: \"a\"\r\n{vary}").as_bytes());
        assert_eq!(fields_of_document(b"", true), b"Vary: Sec-Fetch-Dest\r\n");
    }
}
