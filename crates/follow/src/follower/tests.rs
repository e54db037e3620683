//! Tests with real folders: each way of changing a file is reported.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;

use super::*;

/// Longer than any report takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Time after which no report is expected: several times the longest delay.
const SILENCE: Duration = Duration::from_millis(400);

struct Followed {
    _follower: Follower,
    /// The report of polling at the start.
    polling: Option<Event>,
    events: Receiver<Event>,
}

impl Followed {
    fn start(root: &Path, mode: Mode) -> Followed {
        let filter = |path: &Path, _: bool| !path.to_string_lossy().contains("ignored");
        let settings = Settings { root: root.to_owned(), mode, filter: Filter::new(filter) };
        let (sender, events) = channel();
        let follower = Follower::start(settings, move |event| drop(sender.send(event))).unwrap();
        let reported = |event| (event != Event::Started).then_some(event);
        let polling = reported(events.recv_timeout(TIMEOUT).unwrap());
        if polling.is_some() {
            assert_eq!(events.recv_timeout(TIMEOUT), Ok(Event::Started));
        }
        Followed { _follower: follower, polling, events }
    }

    fn await_change(&self, change: &str) {
        loop {
            match self.events.recv_timeout(TIMEOUT) {
                Ok(Event::Changed) => break,
                Ok(Event::Started | Event::Polling { .. }) => {}
                Err(error) => panic!("{change}: {error}"),
            }
        }
        // Changes may be reported twice. We must not mistake the second report for the next
        // change.
        while self.events.recv_timeout(SILENCE).is_ok() {}
    }

    fn assert_silent(&self, change: &str) {
        assert_eq!(self.events.recv_timeout(SILENCE), Err(RecvTimeoutError::Timeout), "{change}");
    }
}

/// Runs each change in a folder, and expects a report of each.
fn assert_changes_are_reported(mode: Mode) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir_all(root.join("docs")).unwrap();
    fs::create_dir_all(root.join("ignored")).unwrap();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(root.join("docs/b"), "b").unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("c"), "c").unwrap();
    symlink(shared.join("c"), root.join("c")).unwrap();
    let followed = Followed::start(&root, mode);

    type Change = (&'static str, fn(&Path));
    let changes: [Change; 14] = [
        ("truncate and write", |root| fs::write(root.join("a"), "another").unwrap()),
        ("append", |root| {
            let mut file = File::options().append(true).open(root.join("docs/b")).unwrap();
            file.write_all(b"more").unwrap();
        }),
        ("rename over", |root| {
            fs::write(root.join("new"), "new").unwrap();
            fs::rename(root.join("new"), root.join("a")).unwrap();
        }),
        ("move away and write", |root| {
            fs::rename(root.join("a"), root.join("a~")).unwrap();
            fs::write(root.join("a"), "newer").unwrap();
        }),
        ("create", |root| fs::write(root.join("d"), "d").unwrap()),
        ("remove", |root| fs::remove_file(root.join("d")).unwrap()),
        ("new folder", |root| {
            fs::create_dir(root.join("deep")).unwrap();
            fs::create_dir(root.join("deep/er")).unwrap();
            fs::write(root.join("deep/er/e"), "e").unwrap();
        }),
        ("file in a new folder", |root| fs::write(root.join("deep/er/e"), "other").unwrap()),
        ("moved folder", |root| fs::rename(root.join("deep"), root.join("moved")).unwrap()),
        ("file in a moved folder", |root| fs::write(root.join("moved/er/e"), "different").unwrap()),
        ("folder moved there and back", |root| {
            fs::rename(root.join("moved"), root.join("away")).unwrap();
            fs::rename(root.join("away"), root.join("moved")).unwrap();
            fs::write(root.join("a"), "away and back").unwrap();
        }),
        ("file in it", |root| fs::write(root.join("moved/er/e"), "back again").unwrap()),
        ("target of a link", |root| fs::write(root.parent().unwrap().join("shared/c"), "linked").unwrap()),
        ("removed folder", |root| fs::remove_dir_all(root.join("moved")).unwrap()),
    ];
    for (name, change) in changes {
        change(&root);
        followed.await_change(name);
    }
}

#[test]
fn events_report_changes() {
    assert_changes_are_reported(Mode::Auto);
}

#[test]
fn polling_reports_changes() {
    assert_changes_are_reported(Mode::Polling(Some(Duration::from_millis(20))));
}

#[test]
fn polling_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let interval = Duration::from_millis(30);
    let followed = Followed::start(folder.path(), Mode::Polling(Some(interval)));
    let expected = Event::Polling { interval, reason: PollingReason::Requested };
    assert_eq!(followed.polling, Some(expected));
}

#[test]
fn reading_and_ignored_names_are_silent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let followed = Followed::start(folder.path(), Mode::Auto);
    fs::read(folder.path().join("a")).unwrap();
    fs::read_dir(folder.path()).unwrap().count();
    followed.assert_silent("reading");
    fs::write(folder.path().join("ignored"), "a").unwrap();
    followed.assert_silent("ignored");
}

#[test]
fn folder_may_vanish_and_return() {
    for mode in [Mode::Auto, Mode::Polling(None)] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/site");
        let followed = Followed::start(&root, mode);
        fs::create_dir_all(&root).unwrap();
        followed.await_change("created");
        fs::write(root.join("a"), "a").unwrap();
        followed.await_change("written");
        fs::remove_dir_all(folder.path().join("deep")).unwrap();
        followed.await_change("removed");
        fs::create_dir_all(&root).unwrap();
        followed.await_change("created again");
        fs::write(root.join("a"), "a").unwrap();
        followed.await_change("written again");
    }
}

#[test]
fn folders_may_be_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    let next = folder.path().join("next");
    for directory in [&root, &next] {
        fs::create_dir(directory).unwrap();
    }
    let followed = Followed::start(&root, Mode::Auto);
    fs::rename(&root, folder.path().join("old")).unwrap();
    fs::rename(&next, &root).unwrap();
    followed.await_change("swapped");
    fs::write(root.join("a"), "a").unwrap();
    followed.await_change("written");
}

#[test]
fn symlinks_on_the_way_may_turn() {
    let folder = tempfile::tempdir().unwrap();
    for release in ["1/site", "2/site"] {
        fs::create_dir_all(folder.path().join(release)).unwrap();
    }
    let current = folder.path().join("current");
    symlink("1", &current).unwrap();
    let root = current.join("site");
    let followed = Followed::start(&root, Mode::Auto);
    fs::write(root.join("a"), "a").unwrap();
    followed.await_change("written");
    let next = folder.path().join("next");
    symlink("2", &next).unwrap();
    fs::rename(&next, &current).unwrap();
    followed.await_change("turned");
    fs::write(root.join("a"), "a").unwrap();
    followed.await_change("written after");
}

/// If a directory was created between the walk and the watch of its parent, it used to remain
/// unwatched.
#[test]
fn directories_created_at_the_start_are_watched() {
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let paths: Vec<PathBuf> =
            (0..100).map(|number| root.join(format!("{}/{number}", number % 10))).collect();
        let followed = thread::scope(|scope| {
            scope.spawn(|| paths.iter().for_each(|path| fs::create_dir_all(path).unwrap()));
            Followed::start(&root, Mode::Auto)
        });
        while followed.events.recv_timeout(SILENCE).is_ok() {}
        for path in paths.iter().step_by(33) {
            fs::write(path.join("a"), "a").unwrap();
            followed.await_change("a file in a new directory");
        }
    }
}
