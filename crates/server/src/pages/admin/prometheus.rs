//! Renders statistics in the Prometheus text format, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_wire::Refusal;

use super::stats::{FollowStats, OccupiedThreads, ReleaseStats, RenewalStats, Stats};
use crate::observe::{Http3Metric, MethodKind, Snapshot};

/// Upper bounds of the exported histogram buckets, in seconds.
const LATENCY_BOUNDS: [f64; 12] =
    [0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

/// Statuses that the server uses by itself. Any others come from rules or handlers.
const USUAL_STATUSES: [u16; 20] =
    [200, 206, 301, 302, 304, 308, 400, 404, 405, 408, 412, 413, 414, 416, 421, 431, 500, 501, 503, 505];

/// Text of the metrics.
struct Metrics(String);

impl Metrics {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let prefix = prefix(name);
        let _ = writeln!(self.0, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "{}{name}", prefix(name));
        for (place, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if place == 0 { '{' } else { ',' }, escaped(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.begin(name, kind, help);
        self.value(name, &[], value);
    }
}

/// Returns the prefix for a metric. The standard metrics of a process do not have one.
fn prefix(name: &str) -> &'static str {
    if name.starts_with("process_") { "" } else { "cannery_" }
}

/// Escapes backslashes, quotes and line feeds in a label value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Renders all metrics.
pub(super) fn render(stats: &Stats) -> String {
    let mut metrics = Metrics(String::with_capacity(8192));
    let all = &stats.counted;
    connections(&mut metrics, all);
    http3(&mut metrics, all);
    requests(&mut metrics, all);
    routes(&mut metrics, all);
    latency(&mut metrics, all);
    handlers(&mut metrics, stats);
    releases(&mut metrics, stats);

    let uptime = stats.uptime_seconds;
    metrics.single("uptime_seconds", "gauge", "Time since the server started.", uptime);
    metrics.single(
        "ready",
        "gauge",
        "1 if the server accepts connections, 0 while it shuts down.",
        u8::from(stats.is_ready()),
    );
    metrics.single("processes", "gauge", "Serving processes.", stats.processes.len());

    let dropped = all.log_lines_dropped;
    let help = "Access log lines that were lost because the log was too slow or its disk full.";
    metrics.single("log_lines_dropped_total", "counter", help, dropped);
    certificates(&mut metrics, stats);
    process(&mut metrics, stats);
    metrics.0
}

fn certificates(metrics: &mut Metrics, stats: &Stats) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    type Metric<'f> = (&'static str, &'static str, &'f dyn Fn(i64) -> i64);
    let exported: [Metric<'_>; 2] = [
        (
            "certificate_expires_seconds",
            "Time until a certificate expires, negative once it has.",
            &|not_after| not_after.saturating_sub(now),
        ),
        ("certificate_not_after_timestamp_seconds", "When a certificate expires.", &|not_after| not_after),
    ];
    for (name, help, value) in exported {
        metrics.begin(name, "gauge", help);
        for certificate in &stats.certificates {
            let labels = [("name", certificate.name.as_str()), ("file", certificate.file.as_str())];
            metrics.value(name, &labels, value(certificate.not_after));
        }
    }

    let help = "1 if no certificate needs an operator, as with /__/heartbeat?certificates.";
    metrics.single("certificates_healthy", "gauge", help, u8::from(!stats.has_certificate_problems));
    renewals(metrics, stats);
}

/// Renewals of the certificates that `cannery certificates` issues.
fn renewals(metrics: &mut Metrics, stats: &Stats) {
    type Metric = (&'static str, &'static str, fn(&RenewalStats) -> Option<i64>);
    let exported: [Metric; 3] = [
        (
            "certificate_renewal_failing",
            "1 if the last attempt to get a certificate has failed, else 0.",
            |renewal| Some(renewal.error.is_some().into()),
        ),
        ("certificate_renewal_last_error_timestamp_seconds", "When it has failed.", |renewal| {
            Some(renewal.error.as_ref()?.at)
        }),
        (
            "certificate_renewal_last_success_timestamp_seconds",
            "When the certificate was issued.",
            |renewal| renewal.succeeded_at,
        ),
    ];
    for (name, help, value) in exported {
        metrics.begin(name, "gauge", help);
        for certificate in &stats.certificates {
            let labels = [("name", certificate.name.as_str()), ("file", certificate.file.as_str())];
            if let Some(value) = certificate.renewal.as_ref().and_then(value) {
                metrics.value(name, &labels, value);
            }
        }
    }
}

/// The standard metrics of a process, named as in Prometheus client libraries. For several processes, this is
/// their sum.
fn process(metrics: &mut Metrics, stats: &Stats) {
    let build = "Always 1, with the version as a label.";
    metrics.begin("build_info", "gauge", build);
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("architecture", std::env::consts::ARCH),
        ("system", std::env::consts::OS),
    ];
    metrics.value("build_info", &labels, 1);

    let help = "Total user and system CPU time spent in seconds.";
    metrics.single("process_cpu_seconds_total", "counter", help, stats.processor_seconds);
    let process = &stats.process;
    let help = "Start time of the process since unix epoch in seconds.";
    metrics.single("process_start_time_seconds", "gauge", help, process.start_time);
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Resident memory size in bytes.", process.resident_bytes),
        (
            "memory_anonymous_bytes",
            "Resident memory without mapped archives and programs, which are in the page cache.",
            process.anonymous_bytes,
        ),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", process.virtual_bytes),
        ("process_open_fds", "Number of open file descriptors.", process.descriptors),
        ("process_max_fds", "Maximum number of open file descriptors.", process.descriptors_max),
    ] {
        // A zero means that the value could not be read or that the system does not report it.
        if value > 0 {
            metrics.single(name, "gauge", help, value);
        }
    }
}

fn connections(metrics: &mut Metrics, all: &Snapshot) {
    metrics.single("connections_accepted_total", "counter", "Connections accepted.", all.accepted);
    metrics.single("connections_open", "gauge", "Open connections.", all.open());
    metrics.begin("connections_ended_total", "counter", "Closed connections by reason.");
    let in_order = all.closed.saturating_sub(all.timed_out + all.broken + all.shed);
    let ends =
        [("in_order", in_order), ("timed_out", all.timed_out), ("broken", all.broken), ("shed", all.shed)];
    for (how, count) in ends {
        metrics.value("connections_ended_total", &[("how", how)], count);
    }
    let help = "Connections without a valid PROXY protocol header although one is required.";
    metrics.single("proxy_headers_refused_total", "counter", help, all.bad_proxy_headers);
    metrics.begin("tls_handshakes_total", "counter", "Completed TLS handshakes by kind.");
    for (kind, count) in [("full", all.handshakes_full), ("resumed", all.handshakes_resumed)] {
        metrics.value("tls_handshakes_total", &[("kind", kind)], count);
    }
    let help = "Connections with TLS errors: no TLS, no common parameters, or a protocol violation.";
    metrics.single("tls_failures_total", "counter", help, all.tls_failures);
}

fn http3(metrics: &mut Metrics, all: &Snapshot) {
    for (metric, count) in Http3Metric::ALL.into_iter().zip(all.http3) {
        metrics.single(metric.name(), "counter", metric.help(), count);
    }
}

fn requests(metrics: &mut Metrics, all: &Snapshot) {
    metrics.begin("responses_total", "counter", "Responses by status.");
    // If a series only appeared with its first response, `increase()` would miss that one.
    let mut statuses: BTreeMap<u16, u64> = USUAL_STATUSES.map(|status| (status, 0)).into();
    statuses.extend(&all.statuses);
    for (status, count) in &statuses {
        metrics.value("responses_total", &[("status", &status.to_string())], count);
    }
    metrics.begin("requests_total", "counter", "Valid requests by method.");
    for (method, count) in MethodKind::ALL.into_iter().zip(all.methods) {
        metrics.value("requests_total", &[("method", method.name())], count);
    }
    metrics.begin("requests_refused_total", "counter", "Rejected requests by reason.");
    for (refusal, count) in Refusal::ALL.into_iter().zip(all.refusals) {
        metrics.value("requests_refused_total", &[("reason", refusal.name())], count);
    }
    metrics.single("response_bytes_total", "counter", "Bytes of responses including their heads.", all.bytes);
}

fn handlers(metrics: &mut Metrics, stats: &Stats) {
    let name = "handler_threads_occupied";
    metrics.begin(name, "gauge", "Threads of the pools that run a handler, write a body or read an upload.");
    let OccupiedThreads { handlers, bodies, uploads } = stats.occupied_threads;
    for (pool, count) in [("handler", handlers), ("body", bodies), ("upload", uploads)] {
        metrics.value(name, &[("pool", pool)], count);
    }
    let help = "Requests whose handler on the pool had no response in time.";
    metrics.single("handlers_timed_out_total", "counter", help, stats.counted.handlers_timed_out);
}

fn routes(metrics: &mut Metrics, all: &Snapshot) {
    let name = "route_responses_total";
    metrics.begin(name, "counter", "Responses of routes, by pattern and class of the status.");
    for (pattern, route) in &all.routes {
        let counts = ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(route.classes);
        for (class, count) in counts.filter(|(_, count)| *count > 0) {
            metrics.value(name, &[("route", pattern), ("status", class)], count);
        }
    }
    // Without buckets: each route would have a dozen of them.
    let name = "route_duration_seconds";
    metrics.begin(name, "summary", "Time from receiving a request of a route until its response was made.");
    for (pattern, route) in &all.routes {
        metrics.value(&format!("{name}_sum"), &[("route", pattern)], route.seconds());
        metrics.value(&format!("{name}_count"), &[("route", pattern)], route.responses());
    }
}

fn latency(metrics: &mut Metrics, all: &Snapshot) {
    let name = "request_duration_seconds";
    let help = "Time from receiving a request to passing its response to the kernel.";
    metrics.begin(name, "histogram", help);
    let bucket = format!("{name}_bucket");
    for end in LATENCY_BOUNDS {
        metrics.value(&bucket, &[("le", &end.to_string())], all.latency.up_to(end));
    }
    metrics.value(&bucket, &[("le", "+Inf")], all.latency.total());
    #[allow(clippy::cast_precision_loss, reason = "a sum for averages")]
    let seconds = all.latency_nanoseconds as f64 / 1e9;
    metrics.value(&format!("{name}_sum"), &[], seconds);
    metrics.value(&format!("{name}_count"), &[], all.latency.total());
}

fn releases(metrics: &mut Metrics, stats: &Stats) {
    let help = "Reloads by outcome, summed over the processes.";
    metrics.begin("reloads_total", "counter", help);
    metrics.value("reloads_total", &[("outcome", "served")], stats.reloads.served);
    metrics.value("reloads_total", &[("outcome", "refused")], stats.reloads.refused);
    type Metric = (&'static str, &'static str, fn(&ReleaseStats) -> u64);
    let exported: [Metric; 3] = [
        ("archive_serial", "Serial of the current release.", |release| release.serial),
        ("archive_paths", "Paths of the current release.", |release| release.paths),
        ("archive_bytes", "Size of the current archive in bytes.", |release| release.bytes),
    ];
    for (name, help, value) in exported {
        metrics.begin(name, "gauge", help);
        for site in &stats.sites {
            let host = site.host.as_deref().unwrap_or("");
            metrics.value(name, &[("host", host), ("digest", &site.current.digest)], value(&site.current));
        }
    }
    let help =
        "1 if the newest release isn't served, for example because its signature is missing, otherwise 0.";
    metrics.begin("release_refused", "gauge", help);
    for site in &stats.sites {
        let labels = [("host", site.host.as_deref().unwrap_or("")), ("digest", &site.current.digest)];
        metrics.value("release_refused", &labels, u64::from(site.refused.is_some()));
    }
    followers(metrics, stats);
}

/// Release directories into which `cannery follow` pulls.
fn followers(metrics: &mut Metrics, stats: &Stats) {
    type Metric = (&'static str, &'static str, &'static str, fn(&FollowStats) -> Option<u64>);
    let exported: [Metric; 5] = [
        (
            "release_behind",
            "gauge",
            "1 if the store names another release than the current one, otherwise 0.",
            |follow| Some(u64::from(follow.behind_seconds.is_some())),
        ),
        (
            "release_behind_seconds",
            "gauge",
            "How long the store has named another release than the current one.",
            |follow| Some(follow.behind_seconds.unwrap_or(0)),
        ),
        ("release_store_reached_timestamp_seconds", "gauge", "When the store was reached last.", |follow| {
            follow.reached
        }),
        (
            "release_follow_failures_total",
            "counter",
            "Looks at the store that have failed, or whose release was refused.",
            |follow| Some(follow.failures),
        ),
        (
            "release_on_activate_failures_total",
            "counter",
            "Commands of --on-activate that have failed after a switch.",
            |follow| Some(follow.on_activate_failures),
        ),
    ];
    for (name, kind, help, value) in exported {
        let mut is_begun = false;
        for site in &stats.sites {
            let Some(value) = site.follow.as_ref().and_then(value) else { continue };
            if !std::mem::replace(&mut is_begun, true) {
                metrics.begin(name, kind, help);
            }
            let host = site.host.as_deref().unwrap_or("");
            let digest = ("digest", &*site.current.digest);
            // A counter must not start again with each release.
            let labels = if kind == "counter" { &[("host", host)][..] } else { &[("host", host), digest] };
            metrics.value(name, labels, value);
        }
    }
}
