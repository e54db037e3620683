//! Admin pages: metrics and statistics for programs, a page for people.
//!
//! A separate listener serves them. Their content is computed per request.

pub(crate) mod collect;
mod json;
mod prometheus;
mod stats;

pub(crate) use collect::Collector;

use std::sync::{Arc, Mutex, PoisonError};

use cannery_site::{Method, Target};
use cannery_wire::RequestHead;

use super::Page;
use crate::config::HostPattern;
use crate::observe::{Counters, Status};
use stats::Stats;

/// The page for people, a single file without external resources.
const PAGE: &str = include_str!("admin/page.html");

/// The admin pages.
#[derive(Debug)]
pub(crate) struct Admin {
    source: Source,
    /// Accepted host names in addition to addresses and `localhost`.
    hosts: Vec<HostPattern>,
}

/// The source of the statistics.
#[derive(Debug)]
pub(crate) enum Source {
    /// This process.
    Own {
        /// Counters of the workers.
        workers: Vec<Arc<Counters>>,
        /// State that auxiliary threads maintain.
        status: Arc<Status>,
    },
    /// The serving processes, combined. The mutex admits one query at a time.
    Others(Mutex<Collector>),
}

/// The policy of every page: no content of other sites, and no embedding.
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

    /// Returns `true` if statistics are collected from other processes.
    pub(crate) fn collects_stats(&self) -> bool {
        matches!(self.source, Source::Others(_))
    }

    /// Returns `true` if requests with this host are accepted.
    fn trusts(&self, host: &[u8]) -> bool {
        is_trusted(host) || self.hosts.iter().any(|pattern| pattern.specificity(host).is_some())
    }

    fn stats(&self) -> Stats {
        match &self.source {
            Source::Own { workers, status } => Stats::of(workers, status),
            Source::Others(collector) => collector.lock().unwrap_or_else(PoisonError::into_inner).collect(),
        }
    }

    /// Returns the page for a request.
    pub(crate) fn page(&self, head: &RequestHead<'_>) -> Page<'static> {
        if !matches!(head.request.method, Method::Get | Method::Head) {
            let allow = &[("Allow", "GET, HEAD"), POLICY];
            return Page { fields: allow, ..text(405, "Only GET and HEAD are allowed.\n") };
        }
        let Some(target) = Target::parse(head.request.target) else {
            return text(400, "Bad request.\n");
        };
        // DNS rebinding: another site's page in the operator's browser must not read this under the name of that site.
        if !target.host(head.request.host).is_none_or(|host| self.trusts(host)) {
            return text(421, "Use an address, localhost, or a name given by `--admin-host`.\n");
        }
        match target.path {
            b"/" => page("text/html; charset=utf-8", PAGE),
            b"/metrics" => {
                page("text/plain; version=0.0.4; charset=utf-8", prometheus::render(&self.stats()))
            }
            b"/stats.json" => page("application/json", json::stats(&self.stats())),
            b"/facts.json" => page("application/json", json::facts(&self.stats())),
            b"/health" => text(200, "alive\n"),
            b"/ready" if self.stats().is_ready() => text(200, "ready\n"),
            b"/ready" => text(503, "draining\n"),
            _ => text(404, "There are /, /metrics, /health, /ready, /facts.json and /stats.json.\n"),
        }
    }
}

/// Returns `true` for `localhost` and IP addresses, which no DNS record of a stranger can direct to this machine.
fn is_trusted(host: &[u8]) -> bool {
    let text = std::str::from_utf8(host).unwrap_or_default();
    let literal = text.trim_start_matches('[').trim_end_matches(']');
    text.eq_ignore_ascii_case("localhost") || literal.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_localhost_and_addresses_are_trusted() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "10.0.0.7"] {
            assert!(is_trusted(host.as_bytes()), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "127.0.0.1.nip.io", "1"] {
            assert!(!is_trusted(host.as_bytes()), "{host}");
        }
    }
}
