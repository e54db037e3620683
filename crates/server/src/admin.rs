//! What an operator may ask the server about itself: figures for machines, a page for a person.
//!
//! LoggedRequest by the same engine on a listener of its own, and on no other. Made when asked: never faster than
//! somebody looks.

pub(crate) mod collect;
mod json;
mod prometheus;
mod stats;

pub(crate) use collect::Collector;

use std::sync::{Arc, Mutex, PoisonError};

use cannery_site::{Method, Target};
use cannery_wire::RequestHead;

use crate::config::HostPattern;
use crate::observe::{Counters, Status};
use crate::pages::Page;
use stats::Stats;

/// The page for a person: one file, nothing from anywhere else.
const PAGE: &str = include_str!("admin/page.html");

/// Answers operators.
#[derive(Debug)]
pub(crate) struct Admin {
    source: Source,
    /// Names by which operators may ask, besides addresses and `localhost`.
    hosts: Vec<HostPattern>,
}

/// Whose figures are told.
#[derive(Debug)]
pub(crate) enum Source {
    /// Those of this process.
    Own {
        /// Written by the workers.
        workers: Vec<Arc<Counters>>,
        /// Written by the threads beside them.
        status: Arc<Status>,
    },
    /// Those of the processes that serve beside this one, all together. One thread asks them.
    Others(Mutex<Collector>),
}

/// What goes with every page: no other site's content, and none of ours in another's frame or script.
const POLICY: (&str, &str) = (
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
);

fn page(media_type: &'static str, body: impl Into<Vec<u8>>) -> Page<'static> {
    Page { status: 200, media_type, body: body.into().into(), fields: &[POLICY] }
}

fn text(status: u16, body: &'static str) -> Page<'static> {
    Page { status, ..page("text/plain; charset=utf-8", body) }
}

impl Admin {
    pub(crate) fn new(source: Source, hosts: &[HostPattern]) -> Admin {
        Admin { source, hosts: hosts.to_vec() }
    }

    /// Whether the metrics are those of other processes.
    pub(crate) fn asks_others(&self) -> bool {
        matches!(self.source, Source::Others(_))
    }

    /// Whether a host is one that operators ask by.
    fn trusts(&self, host: &[u8]) -> bool {
        is_trusted(host) || self.hosts.iter().any(|pattern| pattern.matches(host).is_some())
    }

    fn stats(&self) -> Stats {
        match &self.source {
            Source::Own { workers, status } => Stats::of(workers, status),
            Source::Others(asker) => asker.lock().unwrap_or_else(PoisonError::into_inner).ask(),
        }
    }

    /// The page that a request asks for.
    pub(crate) fn page(&self, head: &RequestHead<'_>) -> Page<'static> {
        if !matches!(head.request.method, Method::Get | Method::Head) {
            let allow = &[("Allow", "GET, HEAD"), POLICY];
            return Page { fields: allow, ..text(405, "This can only be read.\n") };
        }
        let Some(target) = Target::parse(head.request.target) else {
            return text(400, "Bad request.\n");
        };
        // A page of somebody else's, opened in the operator's browser, must not read this under its own name.
        if !target.host(head.request.host).is_none_or(|host| self.trusts(host)) {
            return text(421, "Ask by address, as localhost, or by a name that `--admin-host` has.\n");
        }
        match target.path {
            b"/" => page("text/html; charset=utf-8", PAGE),
            b"/metrics" => page("text/plain; version=0.0.4; charset=utf-8", prometheus::spell(&self.stats())),
            b"/stats.json" => page("application/json", json::stats(&self.stats())),
            b"/facts.json" => page("application/json", json::facts(&self.stats())),
            b"/health" => text(200, "alive\n"),
            b"/ready" if self.stats().is_ready() => text(200, "ready\n"),
            b"/ready" => text(503, "draining\n"),
            _ => text(404, "There are /, /metrics, /health, /ready, /facts.json and /stats.json.\n"),
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
