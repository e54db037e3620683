//! Terminal format, with the status, method, target and referring page of each failed request.
//!
//! As in the combined format, data from the peer is escaped in order not to let it control the
//! terminal.

use std::sync::atomic::{AtomicU32, Ordering};

use super::combined::put_escaped;
use super::encode::put_number;
use super::line::Line;

/// Requests that browsers make on their own. They say nothing about the site, so at most one line is logged
/// for each kind.
#[derive(Debug, Default)]
pub(super) struct BrowserRequests {
    /// Contains a bit for each kind that was already logged.
    logged: AtomicU32,
}

/// Paths of these requests, by kind. The first kind is never logged because it only means that the developer
/// tools are open.
const KINDS: [&[u8]; 9] = [
    b"/.well-known/appspecific/com.chrome.devtools.json",
    b"/favicon.ico",
    APPLE_TOUCH_ICON,
    b"/browserconfig.xml",
    b"/.well-known/change-password",
    b"/.well-known/passkey-endpoints",
    b"/.well-known/traffic-advice",
    b"/.well-known/gpc.json",
    b"/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200",
];

/// This also stands for names with sizes and `-precomposed`.
const APPLE_TOUCH_ICON: &[u8] = b"/apple-touch-icon.png";

/// Returns `true` for a path such as `/apple-touch-icon-120x120-precomposed.png`.
fn is_apple_touch_icon(path: &[u8]) -> bool {
    let name = path.strip_prefix(b"/apple-touch-icon").and_then(|rest| rest.strip_suffix(b".png"));
    name.is_some_and(|middle| middle.is_empty() || middle[0] == b'-' && !middle.contains(&b'/'))
}

impl BrowserRequests {
    /// Whether a failed request should be logged because it is for something else or the first of its kind.
    pub(super) fn admits(&self, line: &Line<'_>) -> bool {
        let target = line.request.map_or(b"".as_slice(), |request| request.target);
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let path = if is_apple_touch_icon(path) { APPLE_TOUCH_ICON } else { path };
        let Some(kind) = KINDS.iter().position(|known| path == *known) else { return true };
        kind != 0 && self.logged.fetch_or(1 << kind, Ordering::Relaxed) & (1 << kind) == 0
    }
}

/// The status of requests for other hosts (RFC 9110 §15.5.20).
const MISDIRECTED: u16 = 421;

/// Appends `404 GET /missing.css  (from http://127.0.0.1:8080/)`.
pub(super) fn encode(out: &mut Vec<u8>, line: &Line<'_>) {
    put_number(out, line.status.into());
    match line.request {
        Some(request) => {
            out.push(b' ');
            out.extend_from_slice(request.method);
            out.push(b' ');
            put_escaped(out, request.target);
            if let Some(host) = line.host.filter(|_| line.status == MISDIRECTED) {
                out.extend_from_slice(b"  (`--allow-host ");
                put_escaped(out, host);
                out.extend_from_slice(b"` would permit this host)");
            }
            if let Some(referer) = line.referer {
                out.extend_from_slice(b"  (from ");
                put_escaped(out, referer);
                out.push(b')');
            }
        }
        None => out.extend_from_slice(b" (not a valid request)"),
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use cannery_wire::RequestLine;

    use super::*;
    use crate::observe::request_log::Handled;

    #[test]
    fn requests_of_browsers_get_one_line() {
        let requests = BrowserRequests::default();
        let admitted = |target: &'static str| {
            let request = RequestLine { method: b"GET", target: target.as_bytes(), version: None };
            requests.admits(&Line {
                client: None,
                tls: None,
                request: Some(request),
                host: None,
                referer: None,
                user_agent: None,
                status: 404,
                bytes: 0,
                coding: None,
                handled: Handled::default(),
            })
        };

        assert!(!admitted("/.well-known/appspecific/com.chrome.devtools.json"));
        assert_eq!(["/favicon.ico", "/favicon.ico", "/favicon.ico?1"].map(admitted), [true, false, false]);

        assert_eq!(
            [
                "/apple-touch-icon.png",
                "/apple-touch-icon-precomposed.png",
                "/apple-touch-icon-120x120-precomposed.png"
            ]
            .map(admitted),
            [true, false, false]
        );

        // Prefixes hid failures of the site.
        for target in [
            "/apple-touch-icons/a.png",
            "/apple-touch-icon-a/b.png",
            "/apple-touch-icon-old.css",
            "/favicon.ico-old.png",
            "/favicon.ico/a",
            "/.well-known/gpc.json5",
        ] {
            assert_eq!([target, target].map(admitted), [true, true], "{target}");
        }

        assert_eq!(["/a.css", "/a.css"].map(admitted), [true, true]);
    }
}
