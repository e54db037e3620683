//! Tests of the order in which builds end, and of builds caused by scans.

use std::convert::Infallible;
use std::fs;
use std::mem;
use std::sync::mpsc;

use cannery_archiver::Options;

use super::*;
use crate::FolderChanges;

/// Records what it receives.
#[derive(Default)]
struct Recorder(Vec<&'static str>);

impl BuildSink for Recorder {
    type Error = Infallible;

    fn publish(&mut self, _archive: &File) -> Result<(), Infallible> {
        self.0.push("published");
        Ok(())
    }

    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), Infallible> {
        self.0.push(match event {
            FolderEvent::Rebuilt { .. } => "rebuilt",
            FolderEvent::Compressed { .. } => "compressed",
            FolderEvent::Failed(_) => "failed",
            FolderEvent::CompressionNotStarted(_) => "not started",
            FolderEvent::Polling { .. } => "polling",
        });
        Ok(())
    }
}

/// Returns the updater of this folder.
fn updater(folder: &Path, compiler: Compiler, first: &Build) -> Updater<Recorder> {
    let changes = FolderChanges::of(&Options::new(folder, ""));
    changes.into_updater(compiler, first, Compression::InBackground, Recorder::default())
}

/// The browser used to hide the failure again when a build ended that had been started before the
/// change.
#[test]
fn failure_stands_when_an_earlier_build_ends() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home ".repeat(100)).unwrap();
    let compiler = Compiler::new(Options::new(folder.path(), ""));
    let build = |compiler: &Compiler, effort| compiler.build(effort, &CancelFlag::default(), &()).unwrap();
    let first = build(&compiler, Effort::Quick);
    let complete = build(&compiler, Effort::Full);
    let mut updater = updater(folder.path(), compiler, &first);

    updater.background = Some(BackgroundBuild::new(PlannedBuild::now()));
    fs::write(folder.path().join("_headers"), "/*\n  Basic-Auth: a:b\n").unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();
    assert_eq!(updater.sink.0, ["failed", "published"]);

    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert_eq!(updater.sink.0.last(), Some(&"rebuilt"));
}

/// Returns a folder with one page, and the updater that serves it.
fn serving() -> (tempfile::TempDir, Updater<Recorder>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let compiler = Compiler::new(Options::new(folder.path(), ""));
    let first = compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap();
    let updater = updater(folder.path(), compiler, &first);
    (folder, updater)
}

impl PlannedBuild {
    /// Plans a build that no change may defer any longer.
    fn overdue() -> PlannedBuild {
        let now = Instant::now();
        PlannedBuild { at: now, deadline: now }
    }
}

impl BackgroundBuild {
    /// Returns a build without a thread.
    fn new(plan: PlannedBuild) -> BackgroundBuild {
        BackgroundBuild { plan, cancel: CancelFlag::default(), state: BackgroundState::Current }
    }
}

impl Updater<Recorder> {
    /// Writes other content into the page and serves it.
    fn edit(&mut self, folder: &tempfile::TempDir, content: &str) {
        fs::write(folder.path().join("index.html"), content).unwrap();
        self.update(Instant::now(), HeldBack::Removals).unwrap();
    }

    /// Writes a rule that can't be compiled, and fails to serve it.
    fn fail(&mut self, folder: &tempfile::TempDir) {
        fs::write(folder.path().join("_headers"), "/*\n  Basic-Auth: a:b\n").unwrap();
        self.update(Instant::now(), HeldBack::Removals).unwrap();
    }

    fn background_state(&self) -> Option<BackgroundState> {
        self.background.as_ref().map(|background| background.state)
    }

    /// Returns a build of the folder as it is now, with all content compressed.
    fn complete(&self) -> Build {
        self.compiler.build(Effort::Full, &CancelFlag::default(), &()).unwrap()
    }

    /// Handles a scan and returns the notifications of any builds caused by it.
    fn after_scan(&mut self, since: Instant, state: Option<FilesState>) -> Vec<&'static str> {
        self.sink.0.clear();
        self.update_to(&ScanResult { since, state }).unwrap();
        mem::take(&mut self.sink.0)
    }
}

#[test]
fn scan_of_what_is_served_causes_no_build() {
    let (_folder, mut updater) = serving();
    let state = files_state(&updater.current.files);
    assert!(updater.after_scan(Instant::now(), Some(state)).is_empty());
    assert_eq!(updater.last_build, None);
    // The scan has found directories, or a file that could have changed once more.
    assert_eq!(updater.after_scan(Instant::now(), None), ["rebuilt"]);
}

/// Before the folder is watched, only scans find changes. A page showed a failure forever that was undone then.
#[test]
fn scan_of_what_is_served_ends_a_failure() {
    let (folder, mut updater) = serving();
    let state = files_state(&updater.current.files);
    updater.fail(&folder);
    fs::remove_file(folder.path().join("_headers")).unwrap();
    assert_eq!(updater.after_scan(Instant::now(), Some(state)), ["rebuilt"]);
    assert!(updater.after_scan(Instant::now(), Some(state)).is_empty());
}

/// Another background build would have nothing to do, and tools would be told for a second time that everything is compressed.
#[test]
fn unchanged_site_is_compressed_once() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join("index.html"), "home ".repeat(100)).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.planned.is_some());
    updater.compress().unwrap();
    let complete = updater.complete();
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();

    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.planned.is_none());
    fs::write(folder.path().join("index.html"), "changed ".repeat(100)).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.planned.is_some());
}

#[test]
fn changes_defer_compression_until_its_deadline() {
    let now = Instant::now();
    let distant = PlannedBuild { at: now, deadline: now + Duration::from_secs(3600) };
    let next = PlannedBuild::after_change(Some(distant));
    assert!(next.at >= now + COMPRESS_DELAY);
    assert_eq!(next.deadline, distant.deadline);

    let deadline = now + Duration::from_millis(100);
    let next = PlannedBuild::after_change(Some(PlannedBuild { at: now, deadline }));
    assert_eq!((next.at, next.deadline), (deadline, deadline));
}

/// If each change were to set a new deadline, a folder that changes all the time would never be
/// compressed.
#[test]
fn canceled_compression_keeps_its_deadline() {
    let (folder, mut updater) = serving();
    let deadline = updater.planned.unwrap().deadline;
    updater.compress().unwrap();
    assert_eq!(updater.next_build(), None, "one build in the background at a time");

    updater.edit(&folder, "edited");
    assert_eq!(updater.background_state(), Some(BackgroundState::Canceled));
    updater.on_compressed(Err(Error::Canceled), Duration::ZERO).unwrap();
    assert_eq!(updater.planned.unwrap().deadline, deadline);
    assert_eq!(updater.next_build(), updater.planned.map(|planned| planned.at));

    updater.compress().unwrap();
    let complete = updater.complete();
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();
    assert_eq!(updater.next_build(), None);
}

#[test]
fn changes_do_not_cancel_overdue_compression() {
    let (folder, mut updater) = serving();
    let overdue = PlannedBuild::overdue();
    updater.background = Some(BackgroundBuild::new(overdue));
    updater.planned = None;
    updater.edit(&folder, "edited");
    updater.edit(&folder, "edited again");
    assert_eq!(updater.background_state(), Some(BackgroundState::Superseded));
    assert!(updater.planned.unwrap().deadline > overdue.deadline, "the next one may be deferred");
    assert!(!updater.has_overdue_build());
}

/// A failure must not make the overdue build one that the next change cancels.
#[test]
fn overdue_compression_that_ends_after_a_failure_is_served() {
    let (folder, mut updater) = serving();
    updater.background = Some(BackgroundBuild::new(PlannedBuild::overdue()));
    let complete = updater.complete();
    updater.fail(&folder);
    assert_eq!(updater.background_state(), Some(BackgroundState::Superseded));
    updater.on_compressed(Ok(complete), Duration::ZERO).unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["failed"], "the contents are too short to be compressed");

    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.planned.is_some(), "no report says that everything is compressed");
}

/// The build in the background would report the failure once more.
#[test]
fn failed_build_is_not_compressed() {
    let (folder, mut updater) = serving();
    updater.fail(&folder);
    assert_eq!(updater.next_build(), None);
    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.next_build().is_some());
}

/// A folder that is broken and fixed again and again would never be compressed.
#[test]
fn failure_keeps_the_deadline_of_compression() {
    let (folder, mut updater) = serving();
    let overdue = PlannedBuild::overdue();
    updater.planned = Some(overdue);
    updater.fail(&folder);
    assert!(!updater.has_overdue_build(), "it would fail");
    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert_eq!(updater.planned.map(|planned| planned.deadline), Some(overdue.deadline));
    assert!(updater.has_overdue_build());
}

/// A retry that remained planned in the past was repeated without a pause.
#[test]
fn failure_ends_retries() {
    let (folder, mut updater) = serving();
    updater.retry_later();
    updater.fail(&folder);
    assert_eq!(updater.next_build(), None);

    fs::remove_file(folder.path().join("_headers")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    updater.compress().unwrap();
    updater.retry_later();
    let broken = Error::Read { path: "a".into(), source: io::ErrorKind::PermissionDenied.into() };
    updater.on_compressed(Err(broken), Duration::ZERO).unwrap();
    assert_eq!(updater.next_build(), None);
}

#[test]
fn retry_precedes_compression() {
    let (_folder, mut updater) = serving();
    assert_eq!(updater.next_build(), updater.planned.map(|planned| planned.at));
    updater.retry_later();
    assert_eq!(updater.next_build(), updater.retry.map(|retry| retry.at));
    let pause = updater.retry.unwrap().pause;
    updater.retry_later();
    assert_eq!(updater.retry.unwrap().pause, pause * 2);
}

/// Building a large folder may take as long as the follower waits between two reports.
#[test]
fn overdue_compression_precedes_messages() {
    let (_folder, mut updater) = serving();
    updater.planned = Some(PlannedBuild::overdue());
    let (done, is_done) = mpsc::channel();
    updater.sender.send(Message::Finish(done)).unwrap();
    assert_eq!(updater.handle_next().unwrap(), ControlFlow::Continue(()));
    is_done.try_recv().expect("the message was handled");
    assert!(updater.background.is_some());
}

#[test]
fn scan_of_a_change_causes_one_build() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join("index.html"), "edited").unwrap();
    let scanned = Instant::now();
    let other = FilesState::default();
    assert_eq!(updater.after_scan(scanned, Some(other)), ["published", "rebuilt"]);
    assert!(updater.after_scan(scanned, Some(other)).is_empty(), "the build has begun since");
    let state = files_state(&updater.current.files);
    assert!(updater.after_scan(Instant::now(), Some(state)).is_empty());
    assert!(!updater.scans_first);
}

/// Otherwise the first request after each event would cause another build.
#[test]
fn scan_precedes_builds_that_leave_out_what_it_finds() {
    let (folder, mut updater) = serving();
    fs::write(folder.path().join(".canneryignore"), "*.txt\n").unwrap();
    fs::write(folder.path().join("a.txt"), "left out").unwrap();
    assert_eq!(updater.after_scan(Instant::now(), None), ["published", "rebuilt"]);
    assert!(!updater.scans_first);
    fs::write(folder.path().join("a.txt"), "left out, and edited").unwrap();
    assert_eq!(updater.after_scan(Instant::now(), Some(FilesState::default())), ["rebuilt"]);
    assert!(updater.scans_first);

    // When a later scan still differs, this should cause a build, as another file may have
    // changed since.
    assert_eq!(updater.after_scan(Instant::now(), Some(FilesState::default())), ["rebuilt"]);
}

/// One save in three steps used to count as three changes, and pages would be reloaded three times.
#[test]
fn steps_of_a_save_are_one_change() {
    let (folder, mut updater) = serving();
    let path = |name: &str| folder.path().join(name);
    let step = |updater: &mut Updater<Recorder>| {
        // However long the test takes.
        updater.saving_since = updater.saving_since.map(|_| Instant::now());
        updater.update(Instant::now(), HeldBack::Steps).unwrap();
        mem::take(&mut updater.sink.0)
    };
    fs::rename(path("index.html"), path("index.html.old")).unwrap();
    // The folder lacks its start page.
    assert!(step(&mut updater).is_empty());
    fs::write(path("index.html"), "edited").unwrap();
    assert!(step(&mut updater).is_empty(), "the old version may be removed");
    assert!(updater.retry.is_some(), "or not, and is served then");
    fs::remove_file(path("index.html.old")).unwrap();
    assert_eq!(step(&mut updater), ["published", "rebuilt"]);
    assert_eq!(updater.saving_since, None);

    fs::write(path("index.html.txt"), "stays").unwrap();
    assert!(step(&mut updater).is_empty());
    updater.saving_since = updater.saving_since.map(|since| since.checked_sub(SAVE_MAX).unwrap());
    updater.update(Instant::now(), HeldBack::Steps).unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "rebuilt"]);
    fs::write(path("other.html"), "new").unwrap();
    assert_eq!(step(&mut updater), ["published", "rebuilt"], "a name of its own");
}

/// A page that was requested in the middle of a save was missing, and the terminal said that it was removed and is new.
#[test]
fn requests_wait_while_a_file_is_moved_away() {
    let (folder, mut updater) = serving();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.html"), "before").unwrap();
    updater.update(Instant::now(), HeldBack::Steps).unwrap();
    mem::take(&mut updater.sink.0);
    let sender = updater.sender.clone();
    let request = |updater: &mut Updater<Recorder>| {
        let (done, is_done) = mpsc::channel();
        // As if a scan had found another state.
        let found = ScanResult { since: Instant::now(), state: Some(FilesState::default()) };
        sender.send(Message::Build(done, found)).unwrap();
        let _ = updater.handle_next().unwrap();
        is_done
    };

    fs::rename(path("a.html"), path("a.html~")).unwrap();
    updater.planned = None;
    let during = request(&mut updater);
    assert!(updater.sink.0.is_empty() && updater.saving_since.is_some());
    // However long the test takes.
    updater.saving_since = Some(Instant::now() + Duration::from_secs(3600));
    assert!(!updater.scans_first, "the scan has seen what the build has");
    let (done, shares_the_build) = mpsc::channel();
    sender.send(Message::Finish(done)).unwrap();
    let _ = updater.handle_next().unwrap();
    assert!(shares_the_build.try_recv().is_err(), "it would get the previous version");
    fs::write(path("a.html"), "after").unwrap();
    let after = request(&mut updater);
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "rebuilt"]);
    assert_eq!((during.try_recv(), after.try_recv()), (Ok(()), Ok(())));

    // The removal of a file is one after a while.
    fs::remove_file(path("a.html")).unwrap();
    let removed = request(&mut updater);
    updater.saving_since = Instant::now().checked_sub(SAVE_MAX);
    sender.send(Message::Folder(Event::Changed, Instant::now())).unwrap();
    let _ = updater.handle_next().unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "rebuilt"]);
    assert_eq!(removed.try_recv(), Ok(()));
}

/// An overdue build published a file as deleted in the middle of a save.
#[test]
fn compression_that_finds_a_step_of_a_save_is_not_served() {
    let (folder, mut updater) = serving();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.html"), "before").unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    mem::take(&mut updater.sink.0);

    fs::rename(path("a.html"), path("a.html.old")).unwrap();
    let build = updater.complete();
    updater.background = Some(BackgroundBuild::new(PlannedBuild::overdue()));
    updater.planned = None;
    updater.on_compressed(Ok(build), Duration::ZERO).unwrap();
    assert!(updater.sink.0.is_empty() && updater.retry.is_some());
    fs::write(path("a.html"), "after").unwrap();
    fs::remove_file(path("a.html.old")).unwrap();
    updater.update(Instant::now(), HeldBack::Steps).unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "rebuilt"]);
    assert!(updater.planned.is_some());

    // The removal of a file is one after a while.
    fs::remove_file(path("a.html")).unwrap();
    let build = updater.complete();
    updater.saving_since = Instant::now().checked_sub(SAVE_MAX);
    updater.background = Some(BackgroundBuild::new(PlannedBuild::overdue()));
    updater.on_compressed(Ok(build), Duration::ZERO).unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "compressed"]);
}

/// While a build tool had emptied the folder, open pages used to be replaced by a listing.
#[test]
fn emptied_folder_is_unfinished_for_a_moment() {
    let (folder, mut updater) = serving();
    fs::remove_file(folder.path().join("index.html")).unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert!(updater.sink.0.is_empty() && updater.retry.is_some());
    fs::write(folder.path().join("index.html"), "built again").unwrap();
    updater.update(Instant::now(), HeldBack::Removals).unwrap();
    assert_eq!(mem::take(&mut updater.sink.0), ["published", "rebuilt"]);
}
