//! Prints the events of `cannery certificates`: as lines for people, or as JSON for programs.

use std::path::Path;
use std::time::Duration;

use cannery_base::date::format_rfc3339;
use cannery_certificates::{Event, Timestamp};
use serde_json::{Value, json};

use crate::output::{self, Paint, one_line};

/// How events are printed.
pub(super) enum Report {
    Text,
    /// Only failures.
    Quiet,
    Json,
}

impl Report {
    pub(super) fn new(json: bool, quiet: bool) -> Report {
        match (json, quiet) {
            (true, _) => Report::Json,
            (false, true) => Report::Quiet,
            (false, false) => Report::Text,
        }
    }

    pub(super) fn started(&self, folder: &Path, thumbprint: &str) {
        let folder = folder.display();
        match self {
            Report::Quiet => {}
            Report::Text => {
                output::note(format_args!("{folder}: certificates with the thumbprint {thumbprint}"));
            }
            Report::Json => {
                print(&json!({ "event": "started", "folder": folder.to_string(), "thumbprint": thumbprint }));
            }
        }
    }

    pub(super) fn event(&self, event: &Event<'_>) {
        match self {
            Report::Json => print(&as_json(event)),
            Report::Quiet if !matches!(event, Event::Failed { .. }) => {}
            Report::Text | Report::Quiet => {
                for line in as_text(event, Paint::for_errors()) {
                    output::note(line);
                }
            }
        }
    }
}

/// A reader that has closed the pipe doesn't stop renewals.
fn print(value: &Value) {
    let _ = output::print(format_args!("{value}\n"));
}

fn as_text(event: &Event<'_>, paint: Paint) -> Vec<String> {
    match event {
        Event::Ordering { certificate, .. } => vec![format!("{certificate}: ordering a certificate")],
        Event::Issued { certificate, path, not_after, .. } => {
            vec![format!(
                "{certificate}: a new certificate is in {}, valid until {}",
                path.display(),
                time(*not_after)
            )]
        }
        Event::Planned { certificate, renews_at } => {
            vec![format!("{certificate}: the next renewal is at {}", time(*renews_at))]
        }
        Event::Failed { certificate, error, hint, next_at } => {
            let message = one_line(&error.to_string());
            let mut lines = vec![format!(
                "{} {certificate}: {message}; the next attempt is at {}",
                paint.error("error:"),
                time(*next_at)
            )];
            lines.extend(hint.map(|hint| format!("{} {}", paint.strong("hint:"), one_line(hint))));
            lines
        }
        Event::CheckFailed { certificate, error, hint } => {
            let message = one_line(&error.to_string());
            let mut lines = vec![format!(
                "{} {certificate}: {message}; the certificate is ordered nevertheless",
                paint.warning("warning:")
            )];
            lines.extend(hint.map(|hint| format!("{} {}", paint.strong("hint:"), one_line(hint))));
            lines
        }
        Event::NoAdvice { certificate, error } => {
            let message = one_line(&error.to_string());
            vec![format!(
                "{} {certificate}: no advice about the renewal: {message}",
                paint.warning("warning:")
            )]
        }
        _ => Vec::new(),
    }
}

fn as_json(event: &Event<'_>) -> Value {
    match event {
        Event::Ordering { certificate, replaces } => {
            json!({ "event": "ordering", "certificate": certificate, "replaces": replaces })
        }
        Event::Issued { certificate, path, not_after, renews_at } => json!({
            "event": "issued",
            "certificate": certificate,
            "bundle": path.display().to_string(),
            "not_after": not_after,
            "renews_at": renews_at,
        }),
        Event::Planned { certificate, renews_at } => {
            json!({ "event": "planned", "certificate": certificate, "renews_at": renews_at })
        }
        Event::Failed { certificate, error, hint, next_at } => json!({
            "event": "failed",
            "certificate": certificate,
            "kind": error.kind(),
            "message": error.to_string(),
            "hint": hint,
            "next_at": next_at,
        }),
        Event::CheckFailed { certificate, error, hint } => json!({
            "event": "check_failed",
            "certificate": certificate,
            "kind": error.kind(),
            "message": error.to_string(),
            "hint": hint,
        }),
        Event::NoAdvice { certificate, error } => json!({
            "event": "no_advice",
            "certificate": certificate,
            "kind": error.kind(),
            "message": error.to_string(),
        }),
        _ => Value::Null,
    }
}

/// Formats a time as in RFC 3339. A damaged state may have times that it cannot express.
pub(super) fn time(time: Timestamp) -> String {
    const END_OF_9999: u64 = 253_402_300_799;
    String::from_utf8_lossy(&format_rfc3339(time.0.min(END_OF_9999))).into_owned()
}

/// Formats a time span in its largest unit.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    for (unit, in_seconds) in [("days", 86_400), ("hours", 3600), ("minutes", 60)] {
        if seconds >= 2 * in_seconds {
            return format!("{} {unit}", seconds / in_seconds);
        }
    }
    format!("{seconds} seconds")
}
