//! Tests of the order in which builds end.

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
