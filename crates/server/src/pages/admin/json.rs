//! Renders statistics and facts as JSON.

use serde_json::{Map, Value, json};

use super::stats::Stats;
use crate::observe::{Http3Metric, RouteCounts};

/// Maximum length of the list of missing paths.
const MISSING_MAX: usize = 20;

/// Renders the statistics for the page. Since counters start when the server starts, clients need two
/// responses in order to compute a rate.
pub(super) fn stats(stats: &Stats) -> String {
    let all = &stats.counted;
    let latency = |part: f64| all.latency.quantile(part);
    let missing: Vec<Value> = all
        .missing
        .top(MISSING_MAX)
        .into_iter()
        .map(|(path, count)| json!({ "path": path.escape_ascii().to_string(), "count": count }))
        .collect();
    let http3: Map<String, Value> = Http3Metric::ALL
        .into_iter()
        .zip(all.http3)
        .map(|(metric, count)| (metric.name().trim_end_matches("_total").to_owned(), count.into()))
        .collect();

    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    let mean = |route: &RouteCounts| route.seconds() / route.responses() as f64;
    let routes: Map<String, Value> = all
        .routes
        .iter()
        .map(|(pattern, route)| {
            (pattern.clone(), json!({ "classes": route.classes, "mean_seconds": mean(route) }))
        })
        .collect();

    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "listeners": stats.listeners,
        "certificates": stats.certificates,
        "memory_bytes": stats.process.resident_bytes,
        "memory_anonymous_bytes": stats.process.anonymous_bytes,
        "uptime_seconds": stats.uptime_seconds,
        "draining": stats.draining,
        "connections": { "open": all.open(), "accepted": all.accepted, "timed_out": all.timed_out,
            "broken": all.broken },
        "tls": { "full": all.handshakes_full, "resumed": all.handshakes_resumed,
            "failed": all.tls_failures },
        "http3": http3,
        "requests": all.requests(),
        "bytes": all.bytes,
        "classes": { "2xx": all.class(2), "3xx": all.class(3), "4xx": all.class(4), "5xx": all.class(5) },
        "statuses": all.statuses,
        "latency_seconds": { "p50": latency(0.5), "p90": latency(0.9), "p99": latency(0.99),
            "p99_9": latency(0.999) },
        "missing": missing,
        "routes": routes,
        "reloads": stats.reloads,
        "log_lines_dropped": all.log_lines_dropped,
        "sites": stats.sites,
    })
    .to_string()
}

/// Renders facts about the server.
pub(super) fn facts(stats: &Stats) -> String {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "architecture": std::env::consts::ARCH,
        "system": std::env::consts::OS,
        "processes": stats.processes,
        "threads": stats.threads,
        "uptime_seconds": stats.uptime_seconds,
        "sites": stats.sites,
    })
    .to_string()
}
