//! Admin pages: metrics and statistics for programs, and a page for people.
//!
//! They have a separate listener, and their content is computed for each request.

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
use crate::trusted_hosts::{TrustedHosts, requested_hosts};
use stats::Stats;

/// The page for people. It is a single file without any external resources.
const PAGE: &str = include_str!("admin/page.html");

/// The admin pages.
#[derive(Debug)]
pub(crate) struct Admin {
    source: Source,
    hosts: TrustedHosts,
}

/// Where the statistics come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// From this process.
    Own {
        /// Counters of the workers.
        workers: Vec<Arc<Counters>>,
        /// State maintained by auxiliary threads.
        status: Arc<Status>,
    },
    /// The combined statistics of the serving processes. The mutex ensures that only one query is running
    /// at a time.
    Others(Mutex<Collector>),
}

/// Policy for all pages. It does not allow content from other sites, nor embedding.
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
        Admin { source, hosts: TrustedHosts::new(hosts) }
    }

    /// Returns `true` if statistics are collected from other processes.
    pub(crate) fn collects_stats(&self) -> bool {
        matches!(self.source, Source::Others(_))
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
        if !requested_hosts(&head.request).all(|host| self.hosts.includes(host)) {
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
