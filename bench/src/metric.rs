//! The quantities that benchmarks measure, with their column names and labels.

use serde::Deserialize;

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Metric {
    /// User and system time of the server's process tree per request.
    CpuUs,
    /// The same in the best round.
    CpuUsMin,
    /// The same in the worst round.
    CpuUsMax,
    RequestsPerS,
    /// CPU time divided by wall time and threads. Below 1, the load generator was the limit.
    Busy,
    P50Us,
    P90Us,
    P99Us,
    P999Us,
    LongestUs,
    /// The median of the 99th percentiles of all seconds, so seconds with noise don't count.
    SecondP99Us,
    /// Requests that took longer than 5 ms.
    Above5Ms,
    Requests,
    /// One response on the wire, with its header section.
    ResponseBytes,
    /// The header block of the first response on a connection.
    HeaderBytes,
    /// The header block of a response when the header tables already hold its fields.
    WarmHeaderBytes,
    /// Anonymous memory of the server's process tree.
    PrivateMib,
    /// Anonymous memory per idle connection.
    IdleBytes,
    FirstResponseMs,
    ArchiveBytes,
    BuildS,
    BuildCpuS,
    PeakMib,
    /// System calls per request.
    Calls,
    /// CPU time per request compared with the plain server.
    Ratio,
    /// CPU time of the server in a window.
    CpuMs,
    Descriptors,
    /// The kernel's memory for the TCP sockets of the machine.
    KernelMib,
    /// Connections that the attackers opened, and those that the server closed.
    Opened,
    Closed,
    /// The server or the load generator failed; there are no other values.
    Errors,
}

use Metric::*;

/// Each metric with its column name in the tables and its label on the page, in the order of the columns.
const METRICS: [(Metric, &str, &str); 31] = [
    (CpuUs, "cpu_us", "CPU µs"),
    (CpuUsMin, "cpu_us_min", "lowest"),
    (CpuUsMax, "cpu_us_max", "highest"),
    (RequestsPerS, "requests_per_s", "requests/s"),
    (Busy, "busy", "busy"),
    (P50Us, "p50_us", "p50 µs"),
    (P90Us, "p90_us", "p90 µs"),
    (P99Us, "p99_us", "p99 µs"),
    (P999Us, "p999_us", "p99.9 µs"),
    (LongestUs, "longest_us", "longest µs"),
    (SecondP99Us, "second_p99_us", "p99 of the median second µs"),
    (Above5Ms, "above_5_ms", "above 5 ms"),
    (Requests, "requests", "requests"),
    (ResponseBytes, "response_bytes", "response B"),
    (HeaderBytes, "header_bytes", "header B"),
    (WarmHeaderBytes, "warm_header_bytes", "warm header B"),
    (PrivateMib, "private_mib", "private MiB"),
    (IdleBytes, "idle_bytes", "B per idle connection"),
    (FirstResponseMs, "first_response_ms", "first response ms"),
    (ArchiveBytes, "archive_bytes", "bytes"),
    (BuildS, "build_s", "build s"),
    (BuildCpuS, "build_cpu_s", "build CPU s"),
    (PeakMib, "peak_mib", "peak MiB"),
    (Calls, "calls", "calls per request"),
    (Ratio, "ratio", "ratio"),
    (CpuMs, "cpu_ms", "CPU ms"),
    (Descriptors, "descriptors", "descriptors"),
    (KernelMib, "kernel_mib", "kernel MiB"),
    (Opened, "opened", "opened"),
    (Closed, "closed", "closed by the server"),
    (Errors, "errors", "errors"),
];

/// Percentiles of latency, in the order of [`crate::latency::Latencies::percentiles`].
pub(crate) const PERCENTILES: [Metric; 5] = [P50Us, P90Us, P99Us, P999Us, LongestUs];

impl Metric {
    /// Returns the column name in the tables.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the label of the column on the page.
    pub(crate) fn label(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Metric, &'static str, &'static str) {
        METRICS.iter().find(|(metric, ..)| *metric == self).expect("every metric has a row")
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(name: String) -> Result<Metric, String> {
        let row = METRICS.iter().find(|(_, other, _)| *other == name);
        row.map(|(metric, ..)| *metric).ok_or_else(|| format!("there is no metric `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_one_name() {
        for (metric, name, _) in METRICS {
            assert_eq!((metric.name(), Metric::try_from(name.to_owned())), (name, Ok(metric)));
        }
    }
}
