//! What an operator may ask the server about itself: figures for machines, a page for a person.
//!
//! Answered by the same engine on a listener of its own, and on no other. Made when asked: never faster than
//! somebody looks.

mod prometheus;
mod stats;

use std::sync::{Arc, Mutex, PoisonError};

use cannery_site::{Method, Target};
use cannery_wire::h1::RequestHead;
use cannery_wire::head::{put_field, status_line};

use crate::asking::Asker;
use crate::figures::Figures;
use crate::metrics::Counters;
use crate::status::Status;

/// The page for a person: one file, nothing from anywhere else.
const PAGE: &str = include_str!("page.html");

/// Whose figures are told.
#[derive(Debug)]
pub(crate) enum Admin {
    /// Those of this process.
    Own {
        /// Written by the workers.
        workers: Vec<Arc<Counters>>,
        /// Written by the threads beside them.
        status: Arc<Status>,
    },
    /// Those of the processes that serve beside this one, all together. One thread asks them.
    Others(Mutex<Asker>),
}

/// An answer.
struct Page {
    status: u16,
    media_type: &'static str,
    body: Vec<u8>,
}

impl Page {
    fn new(media_type: &'static str, body: impl Into<Vec<u8>>) -> Page {
        Page { status: 200, media_type, body: body.into() }
    }

    fn text(status: u16, body: &str) -> Page {
        Page { status, media_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

impl Admin {
    /// The whole answer to a request, but for the lines of the server; `keeps` says whether the connection stays
    /// open.
    pub(crate) fn answer(&self, head: &RequestHead<'_>, keeps: bool, server_lines: &[u8]) -> Vec<u8> {
        let page = self.page(head);
        let mut out = status_line(page.status);
        put_field(&mut out, "Content-Type", page.media_type.as_bytes());
        put_field(&mut out, "Content-Length", page.body.len().to_string().as_bytes());
        put_field(&mut out, "Cache-Control", b"no-store");
        if page.status == 405 {
            put_field(&mut out, "Allow", b"GET, HEAD");
        }
        let policy =
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
        put_field(&mut out, "Content-Security-Policy", policy.as_bytes());
        if !keeps {
            put_field(&mut out, "Connection", b"close");
        }
        out.extend_from_slice(server_lines);
        out.extend_from_slice(b"\r\n");
        if head.request.method != Method::Head {
            out.extend_from_slice(&page.body);
        }
        out
    }

    fn figures(&self) -> Figures {
        match self {
            Admin::Own { workers, status } => Figures::of(workers, status),
            Admin::Others(asker) => asker.lock().unwrap_or_else(PoisonError::into_inner).ask(),
        }
    }

    fn page(&self, head: &RequestHead<'_>) -> Page {
        if !matches!(head.request.method, Method::Get | Method::Head) {
            return Page::text(405, "This can only be read.\n");
        }
        let Some(target) = Target::parse(head.request.target) else {
            return Page::text(400, "Bad request.\n");
        };
        // A page of somebody else's, opened in the operator's browser, must not read this under its own name.
        if !target.host(head.request.host).is_none_or(is_trusted) {
            return Page::text(421, "Ask by address, or as localhost.\n");
        }
        match target.path {
            b"/" => Page::new("text/html; charset=utf-8", PAGE),
            b"/metrics" => {
                Page::new("text/plain; version=0.0.4; charset=utf-8", prometheus::spell(&self.figures()))
            }
            b"/stats.json" => Page::new("application/json", stats::stats(&self.figures())),
            b"/facts.json" => Page::new("application/json", stats::facts(&self.figures())),
            b"/health" => Page::text(200, "alive\n"),
            b"/ready" if self.figures().is_ready() => Page::text(200, "ready\n"),
            b"/ready" => Page::text(503, "draining\n"),
            _ => Page::text(404, "There are /, /metrics, /health, /ready, /facts.json and /stats.json.\n"),
        }
    }
}

/// Whether a name is one that no stranger can point at this machine.
fn is_trusted(host: &[u8]) -> bool {
    let text = std::str::from_utf8(host).unwrap_or_default();
    let literal = text.trim_start_matches('[').trim_end_matches(']');
    text.eq_ignore_ascii_case("localhost") || literal.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_can_turn_are_trusted() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "10.0.0.7"] {
            assert!(is_trusted(host.as_bytes()), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "127.0.0.1.nip.io", "1"] {
            assert!(!is_trusted(host.as_bytes()), "{host}");
        }
    }
}
