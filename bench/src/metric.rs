//! The quantities that benchmarks measure, with their column names and labels.

use serde::Deserialize;

/// Defines the metrics from a table: each with its column name in the tables and its label on the page, in the order
/// of the columns.
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident => ($name:literal, $label:literal),)*) => {
        /// A measured quantity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        pub(crate) enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $metric,)*
        }

        impl Metric {
            /// Returns the column name in the tables.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Metric::$metric => $name,)* }
            }

            /// Returns the label of the column on the page.
            pub(crate) fn label(self) -> &'static str {
                match self { $(Metric::$metric => $label,)* }
            }
        }
    };
}

metrics! {
    /// User and system time of the server's process tree per request.
    CpuUs => ("cpu_us", "CPU µs"),
    /// The same in the best round.
    CpuUsMin => ("cpu_us_min", "lowest"),
    /// The same in the worst round.
    CpuUsMax => ("cpu_us_max", "highest"),
    RequestsPerS => ("requests_per_s", "requests/s"),
    /// CPU time divided by wall time and threads. Below 1, the load generator was the limit.
    Busy => ("busy", "busy"),
    P50Us => ("p50_us", "p50 µs"),
    P90Us => ("p90_us", "p90 µs"),
    P99Us => ("p99_us", "p99 µs"),
    P999Us => ("p999_us", "p99.9 µs"),
    LongestUs => ("longest_us", "longest µs"),
    /// The median of the 99th percentiles of all seconds, so seconds with noise don't count.
    SecondP99Us => ("second_p99_us", "p99 of the median second µs"),
    /// Requests that took longer than 5 ms.
    Above5Ms => ("above_5_ms", "above 5 ms"),
    Requests => ("requests", "requests"),
    /// Content received by all clients.
    GoodputMbit => ("goodput_mbit", "Mbit/s"),
    /// One response on the wire, with its header section.
    ResponseBytes => ("response_bytes", "response B"),
    /// The header block of the first response on a connection.
    HeaderBytes => ("header_bytes", "header B"),
    /// The header block of a response when the header tables already hold its fields.
    WarmHeaderBytes => ("warm_header_bytes", "warm header B"),
    /// Anonymous memory of the server's process tree.
    PrivateMib => ("private_mib", "private MiB"),
    /// Anonymous memory per idle connection.
    IdleBytes => ("idle_bytes", "B per idle connection"),
    FirstResponseMs => ("first_response_ms", "first response ms"),
    ArchiveBytes => ("archive_bytes", "bytes"),
    /// Size of an executable beyond those of the server and the archive in it.
    ExtraBytes => ("extra_bytes", "extra B"),
    BuildS => ("build_s", "build s"),
    BuildCpuS => ("build_cpu_s", "build CPU s"),
    PeakMib => ("peak_mib", "peak MiB"),
    /// System calls per request.
    Calls => ("calls", "calls per request"),
    /// CPU time per request compared with the plain server.
    Ratio => ("ratio", "ratio"),
    /// The kernel's share of the CPU time.
    KernelShare => ("kernel_share", "kernel"),
    /// Page faults per thousand requests.
    Faults => ("faults", "faults per 1,000"),
    /// Context switches per thousand requests.
    Switches => ("switches", "switches per 1,000"),
    /// The share of context switches because a thread waited.
    VoluntaryShare => ("voluntary_share", "voluntary"),
    /// CPU time of the server in a window.
    CpuMs => ("cpu_ms", "CPU ms"),
    Descriptors => ("descriptors", "descriptors"),
    /// The kernel's memory for the TCP sockets of the machine.
    KernelMib => ("kernel_mib", "kernel MiB"),
    /// Connections that the attackers opened, and those that the server closed.
    Opened => ("opened", "opened"),
    Closed => ("closed", "closed by the server"),
    /// The server or the load generator failed; there are no other values.
    Errors => ("errors", "errors"),
}

use Metric::*;

/// Percentiles of latency, in the order of [`crate::latency::Latencies::percentiles`].
pub(crate) const PERCENTILES: [Metric; 5] = [P50Us, P90Us, P99Us, P999Us, LongestUs];

impl Metric {
    /// Formats a value for the page.
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Busy | KernelShare | VoluntaryShare => format!("{:.0} %", value * 100.0),
            Calls | Ratio => format!("{value:.3}"),
            _ => precise(value),
        }
    }
}

/// Converts bytes to mebibytes.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Formats a value with three significant digits, and integers with commas from 1,000 on.
pub(crate) fn precise(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        1000.0.. => with_commas(&format!("{value:.0}")),
        100.0.. => format!("{value:.0}"),
        _ if value.fract() == 0.0 && value >= 10.0 => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Inserts commas between thousands. Names that aren't numbers stay as they are.
pub(crate) fn with_commas(digits: &str) -> String {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.to_owned();
    }
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits() {
        let shown = [0.0, 0.126, 5.0, 12.34, 52.0, 210.4, 1000.0, 12_541_555.0].map(precise);
        assert_eq!(shown, ["0", "0.13", "5.00", "12.3", "52", "210", "1,000", "12,541,555"]);
    }
}
