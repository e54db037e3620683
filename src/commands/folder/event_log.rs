//! Reports what happens to a followed folder. The output is meant for either people or tools.
//!
//! For each change, new warning or failure, there is one line on standard error for people. Tools get everything as JSON on
//! standard output, with one object per line.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use cannery_archiver::diagnostic::{Diagnostic, Severity};
use cannery_archiver::{Build, Change, Report};
use cannery_follow::{Limit, PollingReason};
use cannery_live::FolderEvent;
use serde::Serialize;

use super::failure::BuildFailure;
use crate::commands::build_failure::print_diagnostics;
use crate::format;
use crate::output::{self, Failure, Paint, one_line};

/// Maximum number of changed files to name in a line.
const NAMED_MAX: usize = 3;

pub(in crate::commands) struct EventLog {
    style: Style,
    paint: Paint,
    /// Remarks about the build being served.
    diagnostics: Vec<Diagnostic>,
    /// Additional remarks that were printed when the last build failed.
    failed_diagnostics: Vec<Diagnostic>,
    /// Files and codes of all notes printed so far. Since notes do not ask the user to do anything, they should
    /// only be printed once.
    notes: BTreeSet<(String, &'static str)>,
    /// The last failure, until a build succeeds.
    failure: Option<String>,
}

/// The audience of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Style {
    /// For people.
    Text,
    /// For tools.
    Json,
    /// For people who only want to see addresses and errors.
    Quiet,
}

/// A JSON event.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    /// The server is listening.
    Listening { url: &'a str },
    /// A build is being served. If there are contents that have not been compressed yet, a `compressed` event
    /// will follow.
    Built {
        files: u64,
        bytes: u64,
        digest: &'a str,
        milliseconds: f64,
        changes: Vec<ChangeEvent<'a>>,
        diagnostics: &'a [Diagnostic],
    },
    /// All contents are compressed.
    Compressed { digest: &'a str, milliseconds: f64, diagnostics: &'a [Diagnostic] },
    /// A build failed, so the last one is still being served.
    Failed { error: &'a str, diagnostics: &'a [Diagnostic] },
    /// We have to poll the folder.
    Polling { interval_milliseconds: f64, reason: String },
}

#[derive(Serialize)]
struct ChangeEvent<'a> {
    path: &'a str,
    bytes_before: Option<u64>,
    bytes_after: Option<u64>,
}

impl EventLog {
    pub(in crate::commands) fn new(style: Style) -> EventLog {
        EventLog {
            style,
            paint: Paint::for_errors(),
            diagnostics: Vec::new(),
            failed_diagnostics: Vec::new(),
            notes: BTreeSet::new(),
            failure: None,
        }
    }

    /// Returns `true` if people read all events, not just errors.
    pub(in crate::commands) fn is_for_people(&self) -> bool {
        self.style == Style::Text
    }

    /// Records that these remarks were printed.
    pub(in crate::commands) fn mark_printed(&mut self, diagnostics: &[Diagnostic]) {
        self.diagnostics = diagnostics.to_vec();
        let _ = self.new_remarks(diagnostics);
    }

    /// Reports that the server is listening at `url`.
    pub(in crate::commands) fn listening(&self, url: &str) -> Result<(), Failure> {
        match self.style {
            Style::Json => print_event(&Event::Listening { url }),
            Style::Text | Style::Quiet => {
                output::print(format_args!("{}\n", Paint::for_results().strong(url)))
            }
        }
    }

    /// Prints a hint. Tools do not get it.
    pub(in crate::commands) fn hint(&self, text: &str) {
        if self.style == Style::Text {
            output::note(text);
        }
    }

    /// Reports that the first build is served.
    pub(in crate::commands) fn first_build(
        &mut self,
        folder: &Path,
        build: &Build,
        took: Duration,
    ) -> Result<(), Failure> {
        let Report { files, bytes_in, .. } = build.report;
        let line = format!(
            "{}: {}, {}, compiled in {}",
            self.paint.strong(&one_line(&folder.display().to_string())),
            format::counted(files, "file"),
            format::bytes(bytes_in),
            milliseconds(took),
        );
        self.built(build, &[], took, || Some(line))
    }

    /// Reports something that happened to the folder or its builds.
    pub(in crate::commands) fn report(&mut self, event: &FolderEvent<'_>) -> Result<(), Failure> {
        match *event {
            FolderEvent::Rebuilt { build, changes, took } => {
                // Nothing is printed if people would not notice any difference, e.g. when a file was saved without
                // changes.
                let remarks = &build.report.diagnostics;
                if changes.is_empty() && self.failure.is_none() && !self.has_new_remarks(remarks) {
                    return Ok(());
                }
                self.rebuilt(build, changes, took)
            }
            FolderEvent::Compressed { build, changes, took } => {
                if !changes.is_empty() {
                    self.rebuilt(build, changes, took)?;
                }
                self.compressed(build, took)
            }
            FolderEvent::Failed(error) => self.failed(&BuildFailure::from(error)),
            FolderEvent::CompressionNotStarted(error) => {
                self.hint(&format!(
                    "cannot start the thread that compresses: {error}; until the next change, new contents are served uncompressed"
                ));
                Ok(())
            }
            FolderEvent::Polling { interval, reason } => self.polling(interval, reason),
        }
    }

    /// Reports that the build being served has other files or remarks than the last one.
    fn rebuilt(&mut self, build: &Build, changes: &[Change], took: Duration) -> Result<(), Failure> {
        let paint = self.paint;
        // If no file has changed, only the remarks are new.
        let line = || {
            let took = paint.faint(&format!("in {}", milliseconds(took)));
            (!changes.is_empty()).then(|| format!("{} {took}", changed(changes, paint)))
        };
        self.built(build, changes, took, line)
    }

    fn built(
        &mut self,
        build: &Build,
        changes: &[Change],
        took: Duration,
        line: impl FnOnce() -> Option<String>,
    ) -> Result<(), Failure> {
        let report = &build.report;
        if self.style == Style::Text {
            if self.failure.is_some() {
                output::note(self.paint.strong("the folder can be compiled again"));
            }
            if let Some(line) = line() {
                output::note(line);
            }
        }
        self.failure = None;

        let event = Event::Built {
            files: report.files,
            bytes: report.bytes_in,
            digest: &report.digest,
            milliseconds: took.as_secs_f64() * 1000.0,
            changes: changes.iter().map(ChangeEvent::from).collect(),
            diagnostics: &report.diagnostics,
        };
        self.event(&event)?;

        // A quick build is not able to find these remarks, so they should remain until the next full build.
        let kept = self.diagnostics.iter().filter(|known| is_of_complete_build(known)).cloned().collect();
        self.remarks(&report.diagnostics, kept);
        Ok(())
    }

    /// Reports that a build with all compressed contents is served.
    fn compressed(&mut self, build: &Build, took: Duration) -> Result<(), Failure> {
        let report = &build.report;
        let event = Event::Compressed {
            digest: &report.digest,
            milliseconds: took.as_secs_f64() * 1000.0,
            diagnostics: &report.diagnostics,
        };
        self.event(&event)?;
        self.remarks(&report.diagnostics, Vec::new());
        Ok(())
    }

    /// Reports a failed build, unless the last build failed for the same reason.
    pub(in crate::commands) fn failed(&mut self, failure: &BuildFailure) -> Result<(), Failure> {
        let BuildFailure { message, diagnostics } = failure;
        if self.failure.as_ref() == Some(message) && *diagnostics == self.failed_diagnostics {
            return Ok(());
        }

        self.event(&Event::Failed { error: message, diagnostics })?;

        if self.style != Style::Json {
            // Remarks about the served build are on the screen already.
            let known = &self.diagnostics;
            let new: Vec<_> = diagnostics.iter().filter(|found| !known.contains(found)).cloned().collect();
            print_diagnostics(&new);
            let still = "the last version is still served, and changes are followed";
            output::note(format_args!("{} {}; {still}", self.paint.error("error:"), one_line(message)));
        }
        self.failure = Some(message.clone());
        self.failed_diagnostics.clone_from(diagnostics);
        Ok(())
    }

    /// Reports that the folder is polled from now on.
    fn polling(&self, interval: Duration, reason: &PollingReason) -> Result<(), Failure> {
        let reason = match reason {
            PollingReason::Requested => "as requested".to_owned(),
            PollingReason::FileSystem(name) => format!("because {name} reports no changes by other machines"),
            PollingReason::Limit(limit) => {
                let setting = match limit {
                    Limit::Watches => "max_user_watches",
                    Limit::Instances => "max_user_instances",
                };
                format!("because the limit of {limit} is reached (`sysctl fs.inotify.{setting}`)")
            }
            PollingReason::Unavailable(why) => {
                format!("because the system cannot watch it: {}", one_line(why))
            }
        };

        self.event(&Event::Polling {
            interval_milliseconds: interval.as_secs_f64() * 1000.0,
            reason: reason.clone(),
        })?;
        self.hint(&format!("The folder is polled every {}, {reason}.", milliseconds(interval)));
        Ok(())
    }

    /// Whether the warnings of a quick build differ from those of the build being served.
    fn has_new_remarks(&self, diagnostics: &[Diagnostic]) -> bool {
        let is_lasting =
            |diagnostic: &&Diagnostic| is_warning(diagnostic) && !is_of_complete_build(diagnostic);
        !diagnostics.iter().filter(is_lasting).eq(self.diagnostics.iter().filter(is_lasting))
    }

    /// Prints those remarks that were not printed after the last build.
    ///
    /// `kept` are not part of this build but still hold.
    fn remarks(&mut self, diagnostics: &[Diagnostic], kept: Vec<Diagnostic>) {
        let new = self.new_remarks(diagnostics);
        if self.style == Style::Text {
            print_diagnostics(&new);
            let had_warnings = self.diagnostics.iter().chain(&self.failed_diagnostics).any(is_warning);
            if had_warnings && !diagnostics.iter().chain(&kept).any(is_warning) {
                output::note(self.paint.faint("no more warnings"));
            }
        }

        self.diagnostics = diagnostics.to_vec();
        self.diagnostics.extend(kept);
        self.failed_diagnostics.clear();
    }

    /// Filters the remarks that are new since the last build. Notes are only new when they have never
    /// been printed.
    fn new_remarks(&mut self, diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
        let mut new = Vec::new();
        for diagnostic in diagnostics {
            let is_known = match diagnostic.severity {
                Severity::Note => !self.notes.insert((diagnostic.file.clone(), diagnostic.code)),
                Severity::Warning | Severity::Error => {
                    self.diagnostics.contains(diagnostic) || self.failed_diagnostics.contains(diagnostic)
                }
            };
            if !is_known {
                new.push(diagnostic.clone());
            }
        }
        new
    }

    fn event(&self, event: &Event<'_>) -> Result<(), Failure> {
        if self.style == Style::Json { print_event(event) } else { Ok(()) }
    }
}

impl<'a> From<&'a Change> for ChangeEvent<'a> {
    fn from(change: &'a Change) -> ChangeEvent<'a> {
        ChangeEvent { path: &change.path, bytes_before: change.bytes_before, bytes_after: change.bytes_after }
    }
}

fn print_event(event: &Event<'_>) -> Result<(), Failure> {
    let json = serde_json::to_string(event)
        .map_err(|error| Failure::failed(format!("cannot serialize an event as JSON: {error}")))?;
    output::print(format_args!("{json}\n"))
}

fn is_warning(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Warning
}

/// Returns `true` for remarks about the text of pages, all of which is only read by full builds.
pub(in crate::commands) fn is_of_complete_build(diagnostic: &Diagnostic) -> bool {
    ["broken-link", "broken-links", "redirect-target-missing", "live-reload-blocked-by-page"]
        .contains(&diagnostic.code)
}

/// Describes changes, e.g. as `a.html 1.20 kB → 1.34 kB`, or by listing the first few names.
fn changed(changes: &[Change], paint: Paint) -> String {
    let name = |change: &Change| paint.strong(&one_line(&change.path));
    let size = |bytes: Option<u64>| bytes.map_or_else(String::new, format::bytes);
    match changes {
        [change] => match (change.bytes_before, change.bytes_after) {
            (Some(before), Some(after)) if before == after => {
                format!("{} changed, {}", name(change), format::bytes(after))
            }
            (Some(before), Some(after)) => {
                format!("{} changed, {} → {}", name(change), format::bytes(before), format::bytes(after))
            }
            (None, after) => format!("{} is new, {}", name(change), size(after)),
            (Some(_), None) => format!("{} was removed", name(change)),
        },
        changes => {
            let names: Vec<String> = changes.iter().take(NAMED_MAX).map(name).collect();
            let more = if changes.len() > NAMED_MAX { ", …" } else { "" };
            format!("{} changed: {}{more}", format::counted(changes.len() as u64, "file"), names.join(", "))
        }
    }
}

/// Formats the duration of a build, for example as `8 ms` or `1.20 s`.
fn milliseconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        // No build is free, however short it may be, so we should not claim that it took 0 ms.
        format!("{:.0} ms", (duration.as_secs_f64() * 1000.0).max(1.0))
    } else {
        format::seconds(duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, bytes_before: Option<u64>, bytes_after: Option<u64>) -> Change {
        Change { path: path.to_owned(), bytes_before, bytes_after }
    }

    #[test]
    fn one_change_has_its_sizes() {
        let text = |before, after| changed(&[change("a\n.html", before, after)], Paint::none());
        assert_eq!(text(Some(1200), Some(1340)), "a\\n.html changed, 1.20 kB → 1.34 kB");
        assert_eq!(text(Some(12), Some(12)), "a\\n.html changed, 12 B");
        assert_eq!(text(None, Some(12)), "a\\n.html is new, 12 B");
        assert_eq!(text(Some(12), None), "a\\n.html was removed");
    }

    #[test]
    fn many_changes_have_the_first_names() {
        let changes = ["a", "b", "c", "d"].map(|path| change(path, None, Some(1)));
        assert_eq!(changed(&changes[..2], Paint::none()), "2 files changed: a, b");
        assert_eq!(changed(&changes, Paint::none()), "4 files changed: a, b, c, …");
    }

    #[test]
    fn short_durations_are_in_milliseconds() {
        let shown = [10, 8_400, 999_000, 1_200_000].map(|micros| milliseconds(Duration::from_micros(micros)));
        assert_eq!(shown, ["1 ms", "8 ms", "999 ms", "1.20 s"]);
    }
}
