//! The figures as JSON: what the page shows, and what the server is.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::metrics::{Counters, Snapshot};
use crate::status::{Release, SiteStatus, Status};

/// Missing paths that are told.
const MISSING_MAX: usize = 20;

/// What the page shows. Counts are those since the start: who asks twice knows the rate.
pub(super) fn stats(all: &Snapshot, status: &Status) -> String {
    let (taken, refused) = status.reloads();
    let latency = |part: f64| all.latency.quantile(part);
    let missing: Vec<Value> = all
        .missing
        .top(MISSING_MAX)
        .into_iter()
        .map(|(path, count)| json!({ "path": path.escape_ascii().to_string(), "count": count }))
        .collect();
    json!({
        "uptime_seconds": status.started.elapsed().as_secs_f64(),
        "draining": status.is_draining(),
        "connections": { "open": all.open(), "accepted": all.accepted, "timed_out": all.timed_out,
            "broken": all.broken },
        "requests": all.requests(),
        "bytes": all.bytes,
        "classes": { "2xx": all.class(2), "3xx": all.class(3), "4xx": all.class(4), "5xx": all.class(5) },
        "statuses": all.statuses,
        "latency_seconds": { "p50": latency(0.5), "p90": latency(0.9), "p99": latency(0.99),
            "p99_9": latency(0.999) },
        "missing": missing,
        "reloads": { "served": taken, "refused": refused },
        "log_lines_dropped": all.log_lines_dropped,
        "sites": status.sites().iter().map(site).collect::<Vec<_>>(),
    })
    .to_string()
}

/// What the server is.
pub(super) fn facts(workers: &[Arc<Counters>], status: &Status) -> String {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "architecture": std::env::consts::ARCH,
        "system": std::env::consts::OS,
        "process": std::process::id(),
        "threads": workers.len(),
        "uptime_seconds": status.started.elapsed().as_secs_f64(),
        "sites": status.sites().iter().map(site).collect::<Vec<_>>(),
    })
    .to_string()
}

fn site(site: &SiteStatus) -> Value {
    json!({
        "host": site.host,
        "path": site.path.to_string_lossy(),
        "current": release(&site.current),
        "previous": site.previous.as_ref().map(release),
    })
}

fn release(release: &Release) -> Value {
    let facts = &release.facts;
    json!({
        "serial": facts.serial,
        "digest": facts.digest.to_string(),
        "paths": facts.paths,
        "bodies": facts.bodies,
        "bytes": facts.file_bytes,
        "since": release.since,
    })
}
