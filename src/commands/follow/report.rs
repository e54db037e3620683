//! Prints the events of `cannery follow`: as lines for people, or as JSON for programs.

use std::path::Path;
use std::time::Duration;

use cannery_publish::protocol::{Activated, ReleaseInfo};
use cannery_store::{Address, PullReport};
use serde_json::{Value, json};

use super::state::State;
use crate::commands::on_activate::Activation;
use crate::format::{bytes, minute, percent, seconds};
use crate::output::{self, Failure, Paint, one_line};

/// How events are printed.
pub(super) enum Report {
    Text,
    /// Only failures.
    Quiet,
    Json,
}

/// Something that people or programs may want to know.
pub(super) enum Event<'a> {
    Started {
        store: &'a Address,
        directory: &'a Path,
    },
    Activated {
        activated: &'a Activated,
        transfer: &'a PullReport,
        archive_bytes: u64,
        elapsed: Duration,
    },
    /// A release is here, and isn't current yet.
    Staged {
        name: &'a str,
        serial: u64,
        transfer: &'a PullReport,
        archive_bytes: u64,
        elapsed: Duration,
    },
    Failed {
        failure: &'a Failure,
        state: &'a State,
        /// The release that is still current. Users may have switched to it without the store.
        current: Option<&'a ReleaseInfo>,
    },
    /// The command of `--on-activate` has ended.
    HookEnded {
        activation: &'a Activation,
        error: Option<&'a str>,
        elapsed: Duration,
    },
}

impl Report {
    pub(super) fn new(json: bool, quiet: bool) -> Report {
        match (json, quiet) {
            (true, _) => Report::Json,
            (false, true) => Report::Quiet,
            (false, false) => Report::Text,
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        matches!(self, Report::Quiet)
    }

    pub(super) fn event(&self, event: &Event<'_>) {
        match self {
            // A reader that has closed the pipe doesn't stop the process.
            Report::Json => drop(output::print(format_args!("{}\n", as_json(event)))),
            Report::Quiet if !event.is_failure() => {}
            Report::Text | Report::Quiet => output::note(as_text(event)),
        }
    }
}

impl Event<'_> {
    fn is_failure(&self) -> bool {
        matches!(self, Event::Failed { .. } | Event::HookEnded { error: Some(_), .. })
    }
}

fn as_text(event: &Event<'_>) -> String {
    match event {
        Event::Started { store, directory } => {
            format!(
                "follows {} into {}",
                one_line(&store.to_string()),
                one_line(&directory.display().to_string())
            )
        }
        Event::Activated { activated, transfer, archive_bytes, elapsed } => {
            let before = match &activated.before {
                Some(before) => format!(", instead of {}", one_line(before)),
                None => String::new(),
            };
            let transferred = transferred(transfer, *archive_bytes, *elapsed);
            format!("{} is live{before}; {transferred}", one_line(&activated.name))
        }
        Event::Staged { name, transfer, archive_bytes, elapsed, .. } => {
            format!("{} is staged; {}", one_line(name), transferred(transfer, *archive_bytes, *elapsed))
        }
        Event::Failed { failure, state, current } => {
            let served = match current {
                Some(ReleaseInfo { serial: Some(serial), .. }) => format!("release {serial} is still served"),
                Some(damaged) => format!("{} is still served", one_line(&damaged.name)),
                None => "no release of this store is here yet".to_owned(),
            };
            let behind = match (state.store_serial, state.behind_since) {
                (Some(serial), Some(since)) => {
                    format!(", and the store has named release {serial} since {} UTC", minute(since))
                }
                _ => String::new(),
            };
            let failing =
                state.failing_since.map(|since| format!("; looks fail since {} UTC", minute(since)));
            let reason = one_line(&crate::commands::publish::reason(failure));
            let error = Paint::for_errors().error("error:");
            format!("{error} {reason}; {served}{behind}{}", failing.unwrap_or_default())
        }
        Event::HookEnded { activation, error, elapsed } => {
            let release = one_line(&activation.release);
            match error {
                Some(why) => {
                    let error = Paint::for_errors().error("error:");
                    format!("{error} {release} is live, but `--on-activate` failed: {}", one_line(why))
                }
                None => {
                    let elapsed = seconds(elapsed.as_secs_f64());
                    format!("the command of `--on-activate` is done for {release}, in {elapsed}")
                }
            }
        }
    }
}

fn transferred(transfer: &PullReport, archive_bytes: u64, elapsed: Duration) -> String {
    let total = transfer.recipe_bytes + transfer.range_bytes;
    format!(
        "transferred {} of {}, {}, in {}",
        bytes(total),
        bytes(archive_bytes),
        percent(total, archive_bytes),
        seconds(elapsed.as_secs_f64())
    )
}

fn as_json(event: &Event<'_>) -> Value {
    match event {
        Event::Started { store, directory } => {
            json!({ "event": "started", "store": store.to_string(), "directory": directory.display().to_string() })
        }
        Event::Activated { activated, transfer, archive_bytes, elapsed } => {
            let mut event =
                pulled("activated", &activated.name, activated.serial, transfer, *archive_bytes, *elapsed);
            event["before"] = json!(activated.before);
            event["removed"] = json!(activated.removed);
            event
        }
        Event::Staged { name, serial, transfer, archive_bytes, elapsed } => {
            pulled("staged", name, *serial, transfer, *archive_bytes, *elapsed)
        }
        Event::Failed { failure, state, current } => json!({
            "event": "failed",
            "error": failure.to_json(),
            "served_serial": current.and_then(|current| current.serial),
            "store_serial": state.store_serial,
            "behind_since": state.behind_since,
            "failing_since": state.failing_since,
        }),
        Event::HookEnded { activation, error, elapsed } => json!({
            "event": "on_activate",
            "release": activation.release,
            "serial": activation.serial,
            "error": error,
            "seconds": elapsed.as_secs_f64(),
        }),
    }
}

/// Returns the event about a release that was pulled.
fn pulled(
    event: &str,
    release: &str,
    serial: u64,
    transfer: &PullReport,
    archive_bytes: u64,
    elapsed: Duration,
) -> Value {
    json!({
        "event": event,
        "release": release,
        "serial": serial,
        "archive_bytes": archive_bytes,
        "recipe_bytes": transfer.recipe_bytes,
        "recipe_is_patch": transfer.is_patch,
        "ranges": transfer.ranges,
        "range_bytes": transfer.range_bytes,
        "seconds": elapsed.as_secs_f64(),
    })
}
