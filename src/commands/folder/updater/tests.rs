//! Tests of the order in which builds end, and of the builds that scans cause.

use std::cell::RefCell;
use std::fs;

use cannery_archiver::Options;

use super::*;
use crate::commands::folder::event_log::Style;

/// Records its notifications.
#[derive(Default)]
struct Recorder(RefCell<Vec<&'static str>>);

impl BuildSink for Recorder {
    fn publish(&self, _archive: File) -> Result<(), Stopped> {
        self.0.borrow_mut().push("published");
        Ok(())
    }

    fn served(&self, _changes: &[Change]) {
        self.0.borrow_mut().push("served");
    }

    fn failed(&self, _failure: &BuildFailure) {
        self.0.borrow_mut().push("failed");
    }
}

/// A page in the browser hid the failure again when a build ended that had begun before the change.
#[test]
fn failure_stands_when_an_earlier_build_ends() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home ".repeat(100)).unwrap();
    let compiler = Compiler::new(Options::new(folder.path(), ""));
    let build = |compiler: &Compiler, effort| compiler.build(effort, &CancelFlag::default(), &()).unwrap();
    let first = build(&compiler, Effort::Quick);
    let complete = build(&compiler, Effort::Full);
    let log = EventLog::new(Style::Quiet);
    let mut updater = Updater::new(compiler, &first, Messages::new(), Recorder::default(), log);

    updater.background = Some(CancelFlag::default());
    fs::write(folder.path().join("_headers"), "/*\n  Basic-Auth: a:b\n").unwrap();
    updater.update(Instant::now()).unwrap();
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();
    assert_eq!(*updater.sink.0.borrow(), ["failed", "published"]);

    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now()).unwrap();
    assert_eq!(updater.sink.0.borrow().last(), Some(&"served"));
}

/// Returns a folder with one page, and the updater that serves it.
fn serving() -> (tempfile::TempDir, Updater<Recorder>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let compiler = Compiler::new(Options::new(folder.path(), ""));
    let first = compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap();
    let log = EventLog::new(Style::Quiet);
    let updater = Updater::new(compiler, &first, Messages::new(), Recorder::default(), log);
    (folder, updater)
}

impl Updater<Recorder> {
    /// Handles a scan. Returns the notifications of the builds that it causes.
    fn after_scan(&mut self, at: Instant, state: Option<FilesState>) -> Vec<&'static str> {
        self.sink.0.borrow_mut().clear();
        self.update_to(&Found { at, state }).unwrap();
        self.sink.0.take()
    }
}

#[test]
fn scan_of_what_is_served_causes_no_build() {
    let (_folder, mut updater) = serving();
    let state = state_of(&updater.served.files);
    assert!(updater.after_scan(Instant::now(), Some(state)).is_empty());
    assert_eq!(updater.last_build, None);
    // The scan has found directories, or a file that could have changed once more.
    assert_eq!(updater.after_scan(Instant::now(), None), ["served"]);
}

/// Another build in the background would have nothing to do, and tools would learn a second time that everything is compressed.
#[test]
fn unchanged_site_is_compressed_once() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join("index.html"), "home ".repeat(100)).unwrap();
    updater.update(Instant::now()).unwrap();
    assert!(updater.is_incomplete);
    let complete = updater.compiler.build(Effort::Full, &CancelFlag::default(), &()).unwrap();
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();

    updater.update(Instant::now()).unwrap();
    assert!(!updater.is_incomplete);
    fs::write(folder.path().join("index.html"), "changed ".repeat(100)).unwrap();
    updater.update(Instant::now()).unwrap();
    assert!(updater.is_incomplete);
}

#[test]
fn scan_of_a_change_causes_one_build() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join("index.html"), "edited").unwrap();
    let scanned = Instant::now();
    let other = FilesState::default();
    assert_eq!(updater.after_scan(scanned, Some(other)), ["published", "served"]);
    assert!(updater.after_scan(scanned, Some(other)).is_empty(), "the build has begun since");
    let state = state_of(&updater.served.files);
    assert!(updater.after_scan(Instant::now(), Some(state)).is_empty());
    assert!(!updater.scans_first);
}

/// Otherwise the first request after each event would cause another build.
#[test]
fn scan_precedes_builds_that_leave_out_what_it_finds() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join(".canneryignore"), "*.txt\n").unwrap();
    fs::write(folder.path().join("a.txt"), "left out").unwrap();
    assert_eq!(updater.after_scan(Instant::now(), None), ["published", "served"]);
    assert!(!updater.scans_first);
    fs::write(folder.path().join("a.txt"), "left out, and edited").unwrap();
    assert_eq!(updater.after_scan(Instant::now(), Some(FilesState::default())), ["served"]);
    assert!(updater.scans_first);
}
