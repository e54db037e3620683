//! Live reload: a script that runs in the browser, and the page that it polls to learn about changes.
//!
//! The state of the site has a number. It is incremented with each change that pages need to know about. A page sends the
//! number of the state that it currently shows, and the response tells it how to catch up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cannery_archiver::diagnostic::{Diagnostic, Severity};
use cannery_archiver::{Change, Effort};
use cannery_follow::{Finding, Inspector};
use cannery_live::{Message, ScanResult};
use cannery_server::WakeHandle;
use cannery_server::config::{LivePage, LiveReload};
use serde::Serialize;

use crate::commands::folder::{BuildFailure, is_of_complete_build};
use crate::output;

/// Path of the script.
const SCRIPT: &str = "/__/cannery/live.js";

/// Path of the page that the script polls.
const PAGE: &str = "/__/cannery/live";

/// Query suffixes of requests that must be answered at once. A page uses these for its first request, and if another page is
/// waiting for it.
const IMMEDIATE: [&[u8]; 2] = [b"-first", b"-now"];

/// Maximum number of files in a folder that is scanned on each request, as scanning larger ones would take
/// too long.
const INSPECTED_FILES_MAX: usize = 20_000;

/// Maximum number of changed style sheets that can be exchanged by pages. If this is exceeded, pages are
/// reloaded.
const STYLES_MAX: usize = 32;

/// Maximum number of warnings to show on a page.
const WARNINGS_MAX: usize = 20;

/// Maximum time for which a request waits for a build.
const BUILD_TIMEOUT: Duration = Duration::from_secs(2);

/// Tells pages in browsers about changes of the folder.
pub(super) struct Live {
    state: Mutex<SiteState>,
    inspection: Mutex<Inspection>,
    updates: Sender<Message>,
    server: OnceLock<WakeHandle>,
    pages: Pages,
    /// Whether to report the next service worker. Once is enough.
    reports_service_worker: AtomicBool,
}

/// Whether browsers follow changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// Pages contain the script.
    Script,
    /// Pages stay as they were when they were loaded.
    None,
}

/// State of the site.
///
/// Pages compare it with the state they show.
struct SiteState {
    /// Tells this process from earlier ones at the same address.
    process: u128,
    /// Number of the current state.
    number: u64,
    /// Time of the last change of contents, or of the start of the process. If a page started to load before this, it may
    /// come from an earlier build than the script, so we should not rely on its state number.
    changed: Instant,
    /// Number of the last state that requires a reload.
    reloads: u64,
    /// Style sheets that have changed since then.
    styles: Vec<ChangedStyle>,
    /// Set if the last build failed.
    failure: Option<BuildFailure>,
    /// Warnings of the served build.
    warnings: Vec<Diagnostic>,
    /// Whether there has been a full build. This matters because other builds are not able to find all
    /// warnings.
    knows_all_warnings: bool,
}

/// Whether a build changes the state.
#[derive(Debug, PartialEq, Eq)]
enum StateChange {
    /// Pages are up to date already.
    None,
    /// Pages need to do something.
    New,
}

/// A changed style sheet, with the number of the state that changed it.
struct ChangedStyle {
    path: String,
    number: u64,
}

/// Scans of the folder on request.
struct Inspection {
    inspector: Inspector,
    /// When the last scan for a request started.
    last_began: Option<Instant>,
    /// When the last scan ended, if it found a change.
    changed_before: Option<Instant>,
}

/// Tells a page how to catch up. Serialized as JSON.
#[derive(Serialize)]
struct Instruction<'a> {
    state: String,
    action: Action,
    /// Style sheets to exchange, relative to the folder.
    styles: Vec<&'a str>,
    failure: Option<&'a BuildFailure>,
    /// Time since contents last changed.
    changed_ms: u64,
    /// The first few warnings.
    warnings: &'a [Diagnostic],
    /// Number of all warnings, including those left out.
    warning_count: usize,
    knows_all_warnings: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Nothing,
    Styles,
    Reload,
}

impl Live {
    /// Creates the state for a folder that has not been built yet.
    ///
    /// A message is sent to `updates` when the folder has changed.
    pub(super) fn new(inspector: Inspector, updates: Sender<Message>, pages: Pages) -> Live {
        Live {
            state: Mutex::new(SiteState::new()),
            inspection: Mutex::new(Inspection { inspector, last_began: None, changed_before: None }),
            updates,
            server: OnceLock::new(),
            pages,
            reports_service_worker: AtomicBool::new(false),
        }
    }

    /// Sets the server, which must be woken up when pages have something to do.
    pub(super) fn set_server(&self, server: WakeHandle) {
        // This is only called once.
        let _ = self.server.set(server);
    }

    /// From now on, prints a report to the terminal when a service worker script is requested by a browser.
    pub(super) fn report_service_worker(&self) {
        self.reports_service_worker.store(true, Ordering::Relaxed);
    }

    /// Tells pages that a build is served.
    pub(super) fn served(&self, changes: &[Change], diagnostics: &[Diagnostic], effort: Effort) {
        let change = self.state().serve(changes, diagnostics, effort);
        if change == StateChange::New {
            self.wake();
        }
    }

    /// Tells pages that a build failed.
    pub(super) fn failed(&self, failure: &BuildFailure) {
        let mut state = self.state();
        if state.failure.as_ref() == Some(failure) {
            return;
        }
        state.number += 1;
        state.failure = Some(failure.clone());
        drop(state);
        self.wake();
    }

    /// Scans the folder before a build that was not requested by a page, so that it will not be requested again by the
    /// next page.
    pub(super) fn inspect(&self) -> Finding {
        let mut inspection = self.inspection();
        let finding = inspection.inspector.inspect();
        if finding == Finding::Changed {
            // No build has been requested for this change yet.
            inspection.changed_before = Some(Instant::now());
        }
        finding
    }

    /// Scans the folder unless it is too large, and requests a build when it has changed. The returned receiver will get one
    /// message as soon as this state of the folder is served.
    ///
    /// Only one scan runs at a time, and requests that arrive in the meantime share the next one. They must not use the running
    /// scan, as it may miss a file that was saved just before the request.
    fn inspect_if_needed(&self) -> Option<Receiver<()>> {
        let arrived = Instant::now();
        let mut inspection = self.inspection();
        if inspection.inspector.files() > INSPECTED_FILES_MAX {
            return None;
        }

        // The message must be sent while we hold the lock. Otherwise, another worker could share this scan, or find that
        // nothing has changed since then.
        let (done, is_done) = channel();
        let is_shared = inspection.last_began.is_some_and(|began| began > arrived);
        let found = if is_shared { None } else { inspection.scan() };
        let message = match found {
            Some(found) => Message::Build(done, found),
            // Nothing to build, but a build may be running, so wait for that.
            None => Message::Finish(done),
        };
        self.updates.send(message).ok()?;
        Some(is_done)
    }

    fn inspection(&self) -> MutexGuard<'_, Inspection> {
        self.inspection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(server) = self.server.get() {
            server.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, SiteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inspection {
    /// Scans the folder for a request.
    ///
    /// When this requires a build, returns the state that the build must include.
    fn scan(&mut self) -> Option<ScanResult> {
        let began = Instant::now();
        let finding = self.inspector.inspect();
        self.last_began = Some(began);

        // A build that was started during the last scan may have read a file before the change found by that scan. We need to ask
        // for another build then, even if nothing has changed since.
        let last_changed_before = self.changed_before.take();
        let since = match finding {
            Finding::Changed => {
                self.changed_before = Some(Instant::now());
                began
            }
            Finding::Unchanged => last_changed_before?,
        };
        Some(ScanResult { since, state: self.inspector.state() })
    }
}

impl LiveReload for Live {
    fn service_worker_requested(&self, target: &[u8]) {
        if self.reports_service_worker.swap(false, Ordering::Relaxed) {
            let script = String::from_utf8_lossy(target);
            output::note(format_args!(
                "a browser has a service worker for this address, `{}`: it may answer with old versions of the site. Unregister it \
                 in the browser's developer tools if a page doesn't change",
                output::one_line(&script)
            ));
        }
    }

    fn refresh(&self) {
        if let Some(is_done) = self.inspect_if_needed() {
            // When this times out, the page will be reloaded once the build is served.
            let _ = is_done.recv_timeout(BUILD_TIMEOUT);
        }
    }

    fn document_script(&self) -> Option<&str> {
        (self.pages == Pages::Script).then_some(SCRIPT)
    }

    fn page(&self, path: &[u8], query: &[u8]) -> LivePage {
        if self.pages == Pages::None {
            return LivePage::Missing;
        }
        let state = self.state();

        if path == SCRIPT.as_bytes() {
            let script = include_str!("live.js").replace("@STATE@", &state.name());
            LivePage::Ready { media_type: "text/javascript; charset=utf-8", body: script.into_bytes() }
        } else if path != PAGE.as_bytes() {
            LivePage::Missing
        } else if query == state.name().as_bytes() {
            LivePage::Pending
        } else {
            // `-first` requests must be answered even if nothing has changed, as they come from pages that do not show a failure
            // yet.
            let shown = IMMEDIATE.iter().find_map(|end| query.strip_suffix(*end)).unwrap_or(query);
            let body =
                serde_json::to_vec(&state.instruction(shown)).expect("strings and numbers are valid JSON");
            LivePage::Ready { media_type: "application/json", body }
        }
    }
}

impl SiteState {
    /// Returns the state before the first build.
    fn new() -> SiteState {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        SiteState {
            process: since_epoch.unwrap_or_default().as_nanos(),
            number: 1,
            changed: Instant::now(),
            reloads: 1,
            styles: Vec::new(),
            failure: None,
            warnings: Vec::new(),
            knows_all_warnings: false,
        }
    }

    /// Updates the state for a new build.
    fn serve(&mut self, changes: &[Change], diagnostics: &[Diagnostic], effort: Effort) -> StateChange {
        let mut warnings: Vec<Diagnostic> =
            diagnostics.iter().filter(|found| is_warning(found)).cloned().collect();
        if effort == Effort::Quick {
            // Quick builds are not able to find these, so we need to keep them until the next full build. That
            // may or may not find them again.
            let kept = self.warnings.iter().filter(|known| is_of_complete_build(known));
            warnings.extend(kept.cloned());
        } else {
            self.knows_all_warnings = true;
        }

        let has_failed = self.failure.take().is_some();
        if changes.is_empty() && !has_failed && warnings == self.warnings {
            return StateChange::None;
        }

        self.number += 1;
        self.warnings = warnings;

        if !changes.is_empty() {
            self.changed = Instant::now();
        }
        if !changes.iter().all(is_style) {
            self.reload();
        }
        for change in changes.iter().filter(|change| is_style(change)) {
            self.styles.retain(|style| style.path != change.path);
            self.styles.push(ChangedStyle { path: change.path.clone(), number: self.number });
        }
        // We do not need to keep track of too many style sheets, because reloading does the same job.
        if self.styles.len() > STYLES_MAX {
            self.reload();
        }
        StateChange::New
    }

    /// Lets all pages with an earlier state be reloaded, after which the list of style sheets is obsolete.
    fn reload(&mut self) {
        self.reloads = self.number;
        self.styles.clear();
    }

    /// Returns the name that pages use to refer to the state.
    fn name(&self) -> String {
        format!("{}-{}", self.process, self.number)
    }

    /// Returns instructions for a page that shows the state `shown`.
    fn instruction(&self, shown: &[u8]) -> Instruction<'_> {
        let number = std::str::from_utf8(shown).ok().and_then(|shown| {
            let (process, number) = shown.split_once('-')?;
            (process.parse() == Ok(self.process)).then(|| number.parse::<u64>().ok())?
        });

        let is_current = number.is_some_and(|number| number >= self.reloads);
        let styles = self.styles.iter().filter(|style| number.is_some_and(|number| number < style.number));
        let styles: Vec<&str> = styles.map(|style| style.path.as_str()).collect();

        let action = match (is_current, styles.is_empty()) {
            (false, _) => Action::Reload,
            (true, false) => Action::Styles,
            (true, true) => Action::Nothing,
        };

        Instruction {
            state: self.name(),
            action,
            styles,
            failure: self.failure.as_ref(),
            changed_ms: u64::try_from(self.changed.elapsed().as_millis()).unwrap_or(u64::MAX),
            warnings: &self.warnings[..self.warnings.len().min(WARNINGS_MAX)],
            warning_count: self.warnings.len(),
            knows_all_warnings: self.knows_all_warnings,
        }
    }
}

fn is_warning(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Warning
}

/// Whether the contents of a style sheet have changed.
///
/// For new and removed ones, pages need to be reloaded.
fn is_style(change: &Change) -> bool {
    change.path.ends_with(".css") && change.bytes_before.is_some() && change.bytes_after.is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cannery_follow::Filter;

    use super::*;

    /// Requests a page. When this requests a build, returns the time before which it must not have started.
    fn requested_build(live: &Live, messages: &Receiver<Message>) -> Option<Instant> {
        live.inspect_if_needed().expect("the folder is small");
        match messages.try_recv() {
            Ok(Message::Build(_, found)) => Some(found.since),
            Ok(Message::Finish(_)) => None,
            _ => panic!("a request sends one of these messages"),
        }
    }

    /// It is possible for a file to be saved between the start of a scan and a request.
    #[test]
    fn request_shares_only_a_scan_that_begins_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let inspector = Inspector::new(folder.path().to_owned(), Filter::new(|_, _| true));
        let (updates, messages) = channel();
        let live = Live::new(inspector, updates, Pages::None);
        fs::write(folder.path().join("index.html"), "edited").unwrap();
        live.inspection().last_began = Some(Instant::now() + Duration::from_secs(3600));
        assert_eq!(requested_build(&live, &messages), None, "another request has requested the build");
        live.inspection().last_began = Some(Instant::now());
        assert!(requested_build(&live, &messages).is_some());
    }

    /// The build after a scan may have started during that scan, and may therefore have read a file too early.
    ///
    /// However, a build that has started after the scan must not be repeated, even if it leaves out files found by the scan.
    #[test]
    fn scan_after_a_change_requests_what_the_change_did() {
        let folder = tempfile::tempdir().unwrap();
        let inspector = Inspector::new(folder.path().to_owned(), Filter::new(|_, _| true));
        let (updates, messages) = channel();
        let live = Live::new(inspector, updates, Pages::None);
        assert_eq!(requested_build(&live, &messages), None);

        fs::write(folder.path().join("index.html"), "edited").unwrap();
        let mut includes_scan = Vec::new();
        loop {
            let began = Instant::now();
            let Some(since) = requested_build(&live, &messages) else { break };
            includes_scan.push(since >= began);
        }
        // Within one clock tick, the file could change once more, so each scan should find a change.
        assert_eq!(includes_scan.pop(), Some(false), "the last scan finds nothing new");
        assert!(!includes_scan.is_empty() && includes_scan.iter().all(|is_included| *is_included));
    }

    fn changed(paths: &[&str]) -> Vec<Change> {
        let change =
            |path: &&str| Change { path: (*path).to_owned(), bytes_before: Some(1), bytes_after: Some(2) };
        paths.iter().map(change).collect()
    }

    #[test]
    fn page_gets_the_style_sheets_of_its_time() {
        let mut state = SiteState::new();
        let names: Vec<String> =
            [&["a.css"][..], &["b.css", "c.css"], &["a.css"], &["d.html", "e.css"], &["f.css"]]
                .iter()
                .map(|paths| {
                    let name = state.name();
                    assert_eq!(state.serve(&changed(paths), &[], Effort::Quick), StateChange::New);
                    if paths.contains(&"a.css") {
                        assert_eq!(state.instruction(name.as_bytes()).styles, ["a.css"]);
                    }
                    name
                })
                .collect();
        // Another change than that of a style sheet covers all before.
        let actions: Vec<Action> =
            names.iter().map(|name| state.instruction(name.as_bytes()).action).collect();
        assert_eq!(actions, [Action::Reload, Action::Reload, Action::Reload, Action::Reload, Action::Styles]);
        assert_eq!(state.instruction(names[4].as_bytes()).styles, ["f.css"]);
        assert_eq!(state.instruction(state.name().as_bytes()).action, Action::Nothing);
    }

    #[test]
    fn more_style_sheets_than_are_kept_reload_pages() {
        let mut state = SiteState::new();
        let first = state.name();
        for number in 0..=STYLES_MAX {
            assert_eq!(state.styles.len(), number);
            state.serve(&changed(&[&format!("{number}.css")]), &[], Effort::Quick);
        }
        assert!(state.styles.is_empty());
        assert_eq!(state.instruction(first.as_bytes()).action, Action::Reload);
    }

    /// When the user has hidden a warning, pages must not forget this before the warning is found again by the
    /// complete build of another process.
    #[test]
    fn all_warnings_are_known_after_a_complete_build() {
        let mut state = SiteState::new();
        state.serve(&[], &[], Effort::Quick);
        assert!(!state.instruction(b"").knows_all_warnings);
        assert_eq!(state.serve(&[], &[], Effort::Full), StateChange::None);
        state.serve(&changed(&["index.html"]), &[], Effort::Quick);
        assert!(state.instruction(b"").knows_all_warnings);
    }

    #[test]
    fn warnings_of_links_stay_until_the_complete_build() {
        let mut state = SiteState::new();
        let link = Diagnostic::warning(b"a.html", "broken-link", "is broken");
        let rule = Diagnostic::warning(b"_redirects", "unknown-code", "is not supported");
        let note = Diagnostic::note(b".", "archive-skipped", "is left out");
        let found = [rule.clone(), link.clone(), note];
        assert_eq!(state.serve(&[], &found, Effort::Full), StateChange::New);
        assert_eq!(state.warnings, [rule.clone(), link.clone()]);
        assert_eq!(state.serve(&[], &[], Effort::Quick), StateChange::New);
        assert_eq!(state.warnings, [link]);
        assert_eq!(state.serve(&[], &[], Effort::Full), StateChange::New);
        assert!(state.warnings.is_empty());
        assert_eq!(state.serve(&[], &[], Effort::Full), StateChange::None, "nothing is new");

        let many = vec![rule; WARNINGS_MAX + 1];
        state.serve(&[], &many, Effort::Quick);
        let instruction = state.instruction(b"");
        assert_eq!((instruction.warnings.len(), instruction.warning_count), (WARNINGS_MAX, WARNINGS_MAX + 1));
    }
}
