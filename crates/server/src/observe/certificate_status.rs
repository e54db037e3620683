//! State of the certificates, for operators and monitors: when they expire, and whether renewing them works.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// A certificate that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateStatus {
    /// First DNS name (may be empty).
    pub(crate) name: String,
    /// File of the certificate chain, which may not exist yet.
    pub(crate) file: PathBuf,
    pub(crate) kind: CertificateKind,
    /// Start of the validity as Unix time in seconds.
    pub(crate) not_before: i64,
    /// Expiry as Unix time in seconds. A temporary certificate counts as expired since it was made.
    pub(crate) not_after: i64,
    /// State of the renewal, if the process that issues the certificate has written one.
    pub(crate) renewal: Option<Renewal>,
    /// Whether it is served in place of another one in its file, which can't be used.
    pub(crate) is_kept: bool,
}

/// Where a certificate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateKind {
    /// From a file.
    File,
    /// Generated until the file exists.
    Temporary,
    /// Generated for tests.
    Test,
}

/// State of a certificate's renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// When the certificate was issued, as Unix time in seconds.
    pub(crate) succeeded_at: Option<i64>,
    /// The last error since then.
    pub(crate) error: Option<RenewalError>,
}

/// Why a certificate could not be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RenewalError {
    /// Unix time in seconds.
    pub(crate) at: i64,
    /// Name of the kind of error.
    pub(crate) kind: String,
    /// The error as a sentence.
    pub(crate) message: String,
}

impl CertificateStatus {
    /// Says why an operator should look after the certificate at this Unix time, or returns `None` if all is well.
    ///
    /// A failed attempt is no reason, as there are many before a certificate expires. The issuing process orders a new one before
    /// the last tenth of the certificate's life begins (or the last day, or a third of a short life), whatever the authority
    /// advises. So half of that time is left when this turns red, and more if the attempts are known to fail.
    pub(crate) fn problem(&self, now: i64) -> Option<String> {
        // Any client may read this, so it has no path.
        let name = if self.name.is_empty() { "a certificate without a name" } else { self.name.as_str() };
        match self.kind {
            CertificateKind::Test => return None,
            CertificateKind::Temporary => {
                return Some(format!("{name}: there is no certificate yet, only a temporary one"));
            }
            CertificateKind::File => {}
        }

        let left = self.not_after.saturating_sub(now);
        if left <= 0 {
            return Some(format!("{name}: the certificate has expired"));
        }
        if now < self.not_before {
            return Some(format!("{name}: the certificate is not valid yet"));
        }
        if self.is_kept {
            return Some(format!(
                "{name}: its file has no certificate that can be used, so an earlier one is served"
            ));
        }
        let life = self.not_after.saturating_sub(self.not_before);
        let is_failing = self.renewal.as_ref().is_some_and(|renewal| renewal.error.is_some());
        if is_failing && left < life / 4 {
            return Some(format!("{name}: the certificate expires in {}, and renewing it fails", span(left)));
        }
        let last_order = (life / 10).max(DAY).min(life / 3);
        (left < last_order / 2).then(|| format!("{name}: the certificate expires in {}", span(left)))
    }
}

/// Formats a time span in its largest unit.
fn span(seconds: i64) -> String {
    for (unit, in_seconds) in [("days", DAY), ("hours", HOUR), ("minutes", 60)] {
        if seconds >= 2 * in_seconds {
            return format!("{} {unit}", seconds / in_seconds);
        }
    }
    format!("{seconds} seconds")
}

/// Problems of all certificates, for monitors. The housekeeping thread writes them.
#[derive(Debug, Default)]
pub(crate) struct CertificateHealth(Mutex<String>);

impl CertificateHealth {
    /// Sets the problems at this Unix time.
    pub(super) fn set(&self, certificates: &[CertificateStatus], now: i64) {
        let mut lines = String::new();
        for problem in certificates.iter().filter_map(|certificate| certificate.problem(now)) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{problem}");
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// Returns the problems, one on each line.
    pub(crate) fn problems(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!lines.is_empty()).then(|| lines.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(kind: CertificateKind, days: i64, is_failing: bool) -> CertificateStatus {
        let error = RenewalError { at: 0, kind: "check".into(), message: "no".into() };
        CertificateStatus {
            name: "example.com".into(),
            file: "/tls/example.com.pem".into(),
            kind,
            not_before: 0,
            not_after: days * DAY,
            renewal: Some(Renewal { succeeded_at: Some(0), error: is_failing.then_some(error) }),
            is_kept: false,
        }
    }

    #[test]
    fn health_turns_red_in_time_and_no_earlier() {
        // The life in days, whether renewals fail, and the last hours that are fine.
        for (life, is_failing, fine) in [(90, false, 108), (90, true, 541), (6, false, 12), (6, true, 36)] {
            let status = status(CertificateKind::File, life, is_failing);
            let at = |hours: i64| status.problem(life * DAY - hours * HOUR);
            assert_eq!(at(fine + 1), None, "{life} {is_failing}");
            let problem = at(fine - 2).expect("it is red");
            assert!(problem.starts_with("example.com: the certificate expires in"), "{problem}");
            assert_eq!(problem.ends_with("fails"), is_failing, "{problem}");
        }
        let status = |kind| status(kind, 90, false);
        assert!(status(CertificateKind::File).problem(90 * DAY).unwrap().contains("has expired"));
        assert!(status(CertificateKind::File).problem(-1).unwrap().contains("not valid yet"));
        assert!(status(CertificateKind::Temporary).problem(0).unwrap().contains("no certificate yet"));
        assert_eq!(status(CertificateKind::Test).problem(91 * DAY), None);
    }

    #[test]
    fn each_problem_is_a_line() {
        let health = CertificateHealth::default();
        let all = [status(CertificateKind::File, 90, true), status(CertificateKind::Temporary, 90, false)];
        health.set(&all, 0);
        assert_eq!(health.problems().unwrap().lines().count(), 1);
        health.set(&all, 91 * DAY);
        assert_eq!(health.problems().unwrap().lines().count(), 2);
        health.set(&all[..1], 0);
        assert_eq!(health.problems(), None);
    }
}
