//! `cannery serve` while its folder is edited: every change is served.

use std::fs::{self, File, FileTimes};
use std::io::{BufRead, BufReader, Write};
#[cfg(target_os = "linux")]
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
#[cfg(target_os = "linux")]
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::harness::{Response, Server, TIMEOUT, compile, request_at, run};
use crate::served_folder::{assert_download_ends_as_it_began, large_content};

/// A folder that is served and edited.
pub(crate) struct Live {
    child: Child,
    pub(crate) address: String,
    /// The events, as JSON.
    events: Receiver<String>,
    root: PathBuf,
    pub(crate) folder: tempfile::TempDir,
}

impl Live {
    /// Serves a folder with these files, at `site` in a temporary directory.
    fn start(files: &[(&str, &str)], flags: &[&str]) -> Live {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("site");
        fs::create_dir(&root).unwrap();
        for (name, content) in files {
            write(&root, name, content);
        }
        Live::start_at(folder, root, flags)
    }

    /// Serves the folder `root`, which is in `folder`.
    pub(crate) fn start_at(folder: tempfile::TempDir, root: PathBuf, flags: &[&str]) -> Live {
        Live::start_by(Command::new(env!("CARGO_BIN_EXE_cannery")), folder, root, flags)
    }

    /// Starts `cannery` by this command, which lacks the arguments.
    pub(crate) fn start_by(
        mut command: Command,
        folder: tempfile::TempDir,
        root: PathBuf,
        flags: &[&str],
    ) -> Live {
        command
            .arg("serve")
            .arg(&root)
            .args(["--json", "--bind", "127.0.0.1:0", "--threads", "1", "--no-live-reload"])
            .args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut live = Live { child, address: String::new(), events, root, folder };
        let listening = live.event("listening");
        live.address = listening.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        live
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the folder for a process outside its namespace: a mount is visible only inside.
    #[cfg(target_os = "linux")]
    fn mounted_root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.child.id(), self.root.display()))
    }

    /// Waits for an event, and returns it.
    pub(crate) fn event(&self, name: &str) -> String {
        let wanted = format!("\"event\":\"{name}\"");
        loop {
            match self.events.recv_timeout(TIMEOUT) {
                Ok(event) if event.contains(&wanted) => return event,
                Ok(_) => {}
                Err(error) => panic!("{error}: no event {name}"),
            }
        }
    }

    fn get(&self, target: &str) -> Response {
        request_at(&self.address, "GET", target, "")
    }

    /// Returns the content at a path, or `None` if there is nothing.
    fn content(&self, target: &str) -> Option<String> {
        let response = self.get(target);
        (response.status == 200).then(|| String::from_utf8(response.body).unwrap())
    }

    /// Waits until the path has this content.
    fn await_content(&self, target: &str, expected: Option<&str>, change: &str) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let content = self.content(target);
            if content.as_deref() == expected {
                return;
            }
            assert!(Instant::now() < end, "{change}: {target} still has {content:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(root: &Path, name: &str, content: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A way in which editors and tools save a file.
type Save = (&'static str, fn(&Path, &str));

const SAVES: [Save; 5] = [
    ("truncated and written", |path, content| fs::write(path, content).unwrap()),
    ("written in pieces", |path, content| {
        let mut file = File::create(path).unwrap();
        for piece in content.as_bytes().chunks(100) {
            file.write_all(piece).unwrap();
        }
    }),
    ("renamed over", |path, content| {
        let next = path.with_extension("tmp");
        fs::write(&next, content).unwrap();
        fs::rename(&next, path).unwrap();
    }),
    ("moved to a backup and written", |path, content| {
        let backup = path.with_extension("html~");
        fs::rename(path, &backup).unwrap();
        fs::write(path, content).unwrap();
        fs::remove_file(backup).unwrap();
    }),
    ("removed and written", |path, content| {
        fs::remove_file(path).unwrap();
        fs::write(path, content).unwrap();
    }),
];

#[test]
fn every_way_of_saving_is_served() {
    for flags in [&[][..], &["--poll=20"]] {
        let live = Live::start(&[("index.html", "home"), ("docs/a.html", "a")], flags);

        assert_eq!(live.content("/").as_deref(), Some("home"));
        for (way, save) in SAVES {
            for (path, target) in [("index.html", "/"), ("docs/a.html", "/docs/a")] {
                save(&live.root.join(path), way);
                live.await_content(target, Some(way), way);
            }
        }

        fs::remove_file(live.root.join("docs/a.html")).unwrap();
        live.await_content("/docs/a", None, "removed");
        write(&live.root, "new/deep/er.html", "new");
        live.await_content("/new/deep/er", Some("new"), "created in new folders");
        fs::rename(live.root.join("new"), live.root.join("moved")).unwrap();
        live.await_content("/moved/deep/er", Some("new"), "moved");
        live.await_content("/new/deep/er", None, "moved away");

        write(&live.root, "_redirects", "/old /moved/deep/er 301\n");
        let end = Instant::now() + TIMEOUT;
        while live.get("/old").status != 301 {
            assert!(Instant::now() < end, "a rule");
        }
    }
}

/// A clock that was set back or forward leaves such times, and so do archives that are unpacked.
#[test]
fn saved_files_may_have_any_modification_time() {
    let now = SystemTime::now();
    let year = Duration::from_secs(365 * 24 * 3600);
    let times = [UNIX_EPOCH, now - year, now + year, now - Duration::from_secs(1), now + 50 * year];
    for flags in [&[][..], &["--poll=20"]] {
        let live = Live::start(&[("index.html", "version 0")], flags);
        for (number, time) in (1..).zip(times) {
            // In place and by renaming, always of the same length.
            let content = format!("version {number}");
            let path = live.root.join("index.html");
            let written = if number % 2 == 0 { path.clone() } else { path.with_extension("tmp") };
            fs::write(&written, &content).unwrap();
            let file = File::options().write(true).open(&written).unwrap();
            file.set_times(FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
            drop(file);
            fs::rename(&written, &path).unwrap();
            live.await_content("/", Some(&content), "any time");
        }
    }
}

#[test]
fn open_download_ends_as_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("large.bin"), large_content(b'a')).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    let live = Live::start_at(folder, root, &[]);
    assert_download_ends_as_it_began(&live.address, &live.root);
}

/// The ID of a user without privileges, and of its group.
#[cfg(target_os = "linux")]
const UNPRIVILEGED: u32 = 65_534;

/// As another user than root, who may read everything.
#[test]
#[cfg(target_os = "linux")]
fn last_version_is_served_while_a_file_is_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    write(&root, "index.html", "home");
    write(&root, "a.html", "before");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    if rustix::process::getuid().is_root() {
        set_mode(folder.path(), 0o755);
        let program = command.get_program().to_owned();
        if Command::new(&program).arg("--version").uid(UNPRIVILEGED).output().is_err() {
            println!("skipped: user {UNPRIVILEGED} may not run {}", program.display());
            return;
        }
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    let live = Live::start_by(command, folder, root, &[]);
    assert_eq!(live.content("/a").as_deref(), Some("before"));

    let next = live.root.join("next.tmp");
    fs::write(&next, "unreadable").unwrap();
    set_mode(&next, 0o000);
    fs::rename(&next, live.root.join("a.html")).unwrap();
    // It is part of the next build, which may be the one in the background.
    let event = loop {
        let event = live.events.recv_timeout(TIMEOUT).unwrap();
        if event.contains("unreadable-file") {
            break event;
        }
    };
    assert!(event.contains("a.html") && event.contains(".canneryignore"), "{event}");
    assert_eq!(live.content("/a").as_deref(), Some("before"), "the last version");
    write(&live.root, "index.html", "another");
    live.await_content("/", Some("another"), "other files are updated");
    let new = live.root.join("new.html");
    fs::write(&new, "new").unwrap();
    set_mode(&new, 0o000);
    write(&live.root, "end.html", "end");
    live.await_content("/end", Some("end"), "a new file is unreadable");
    assert_eq!(live.content("/new"), None);

    set_mode(&live.root.join("a.html"), 0o644);
    live.await_content("/a", Some("unreadable"), "readable again");

    // The same for a folder.
    write(&live.root, "sub/page.html", "first");
    live.await_content("/sub/page", Some("first"), "a new folder");
    let sub = live.root.join("sub");
    for mode in [0o000, 0o444] {
        set_mode(&sub, mode);
        write(&live.root, "index.html", &format!("mode {mode}"));
        live.await_content("/", Some(&format!("mode {mode}")), "other files are updated");
        assert_eq!(live.content("/sub/page").as_deref(), Some("first"), "mode {mode:o}");
        set_mode(&sub, 0o755);
    }
    write(&live.root, "sub/page.html", "second");
    live.await_content("/sub/page", Some("second"), "readable again");
}

#[cfg(target_os = "linux")]
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn file_is_served_when_its_writer_closes_it() {
    let live = Live::start(&[("index.html", "before")], &[]);
    let mut file = File::create(live.root.join("index.html")).unwrap();
    file.write_all(b"half").unwrap();
    write(&live.root, "other.html", "other");
    live.await_content("/other", Some("other"), "another file meanwhile");
    assert_eq!(live.content("/").as_deref(), Some("before"));
    file.write_all(b" and half").unwrap();
    drop(file);
    live.await_content("/", Some("half and half"), "closed");
}

#[test]
fn folder_may_vanish_and_return() {
    let live = Live::start(&[("index.html", "home")], &[]);
    let away = live.folder.path().join("away");
    fs::rename(&live.root, &away).unwrap();
    let failed = live.event("failed");
    assert!(failed.contains("check that it exists"), "{failed}");
    assert_eq!(live.content("/").as_deref(), Some("home"), "the last version");
    fs::rename(&away, &live.root).unwrap();
    write(&live.root, "index.html", "back");
    live.await_content("/", Some("back"), "returned");
    // A build tool removes everything before it writes the new version.
    fs::remove_file(live.root.join("index.html")).unwrap();
    let failed = live.event("failed");
    assert!(failed.contains("no file"), "{failed}");
    assert_eq!(live.content("/").as_deref(), Some("back"), "the last version");
    write(&live.root, "index.html", "built");
    live.await_content("/", Some("built"), "built again");
}

#[test]
fn folders_may_be_swapped_and_links_turned() {
    let folder = tempfile::tempdir().unwrap();
    for release in ["1", "2", "3"] {
        write(&folder.path().join(release), "index.html", release);
    }
    let root = folder.path().join("current");
    symlink("1", &root).unwrap();
    let live = Live::start_at(folder, root, &[]);
    assert_eq!(live.content("/").as_deref(), Some("1"));
    let next = live.folder.path().join("next");
    symlink("2", &next).unwrap();
    fs::rename(&next, &live.root).unwrap();
    live.await_content("/", Some("2"), "turned");
    write(&live.root, "index.html", "two");
    live.await_content("/", Some("two"), "edited after");
    fs::remove_file(&live.root).unwrap();
    fs::rename(live.folder.path().join("3"), &live.root).unwrap();
    live.await_content("/", Some("3"), "swapped");
}

#[test]
fn broken_rules_are_reported_until_fixed() {
    let live = Live::start(&[("index.html", "home")], &[]);
    write(&live.root, "_redirects", "/a /b 301\n/old /new 999\n");
    let built = live.event("built");
    let is_reported = built.contains("\"file\":\"_redirects\",\"line\":2") && built.contains("unknown-code");
    assert!(is_reported, "{built}");
    write(&live.root, "_redirects", "/private / 403\n");
    let failed = live.event("failed");
    assert!(failed.contains("\"line\":1") && failed.contains("access-control"), "{failed}");
    assert_eq!(live.get("/a").status, 301, "the last version");
    write(&live.root, "_redirects", "/a / 302\n");
    let end = Instant::now() + TIMEOUT;
    while live.get("/a").status != 302 {
        assert!(Instant::now() < end, "fixed");
    }
}

#[test]
fn many_files_may_change_at_once() {
    let live = Live::start(&[("index.html", "home")], &[]);
    for content in ["first", "second"] {
        for number in 0..1000 {
            write(&live.root, &format!("{}/{number}.txt", number % 10), &format!("{content} {number}"));
        }
        for number in [0, 500, 999] {
            let target = format!("/{}/{number}.txt", number % 10);
            live.await_content(&target, Some(&format!("{content} {number}")), content);
        }
    }
    fs::remove_dir_all(live.root.join("0")).unwrap();
    live.await_content("/0/0.txt", None, "removed");
    assert_eq!(live.content("/1/1.txt").as_deref(), Some("second 1"));
}

#[test]
fn contents_are_compressed_in_the_background() {
    let page = |word: &str| format!("{word} and {word} ").repeat(100);
    let live = Live::start(&[("index.html", &page("this"))], &[]);
    let assert_compressed = |change: &str| {
        live.event("compressed");
        let response = request_at(&live.address, "GET", "/", "Accept-Encoding: br\r\n");
        assert_eq!(response.field("Content-Encoding"), Some("br"), "{change}");
    };
    assert_compressed("at the start");
    write(&live.root, "index.html", &page("that"));
    live.event("built");
    assert_compressed("after a change");
}

#[test]
fn production_responses_are_those_of_a_deployed_archive() {
    let page = "a page and a page and a page. ".repeat(50);
    let files = [
        ("index.html", page.as_str()),
        ("a.css", "body { margin: 0 }"),
        ("docs/b.txt", "text"),
        ("_headers", "/a.css\n  Cache-Control: max-age=60\n  X-One: 1\n"),
        ("_redirects", "/old / 301\n"),
        ("404.html", "not here"),
    ];

    let codings = ["--compress", "identity,gzip,brotli,zstd"];
    let live = Live::start(&files, &[&["--production"][..], &codings].concat());
    live.event("compressed");
    let archive = live.folder.path().join("site.cdb");
    compile(&live.root, &archive, &codings);
    let deployed = Server::start(&["--archive", archive.to_str().unwrap()]);

    for target in ["/", "/a.css", "/docs/", "/docs/b.txt", "/old", "/none"] {
        for fields in ["", "Accept-Encoding: br, gzip\r\n", "Accept-Encoding: zstd\r\n"] {
            let head = |response: &Response| {
                let fields = response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
                fields.cloned().collect::<Vec<_>>()
            };
            let ours = request_at(&live.address, "GET", target, fields);
            let theirs = request_at(&deployed.address, "GET", target, fields);
            assert_eq!((ours.status, head(&ours)), (theirs.status, head(&theirs)), "{target} {fields}");
            assert!(ours.body == theirs.body, "{target} {fields}");
        }
    }
}

#[test]
fn folder_that_cannot_be_served_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = folder.path().join("missing");
    for (path, words) in [(&file, "is not a folder"), (&missing, "check that it exists")] {
        let path = path.to_str().unwrap();
        let output = run("cannery", &["serve", path, "--bind", "127.0.0.1:0"]);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{printed}");
        assert!(printed.contains(path) && printed.contains(words), "{printed}");
    }
}

#[test]
fn error_in_the_folder_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "_redirects", "/private / 403\n");
    let output = run("cannery", &["serve", folder.path().to_str().unwrap(), "--bind", "127.0.0.1:0"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(
        printed.contains("_redirects:1: error:") && printed.contains("1 error in the folder"),
        "{printed}"
    );
}

#[test]
fn folder_is_compiled_once_without_following() {
    let live = Live::start(&[("index.html", "home")], &["--no-follow"]);
    live.event("compressed");
    write(&live.root, "index.html", "changed");
    assert!(live.events.recv_timeout(Duration::from_millis(500)).is_err());
    assert_eq!(live.content("/").as_deref(), Some("home"));
}

/// Returns a command that runs `cannery` in a user namespace, after this shell command. Returns `None` if the system has no such
/// namespaces, or denies the command, and prints that.
#[cfg(target_os = "linux")]
fn in_namespace(before: &str) -> Option<Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command
    };
    let is_possible = unshare(before).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !is_possible {
        println!("skipped: `{before}` isn't possible in a user namespace here");
    }
    let mut command = unshare(&format!("{before} && exec \"$@\""));
    command.arg(env!("CARGO_BIN_EXE_cannery"));
    is_possible.then_some(command)
}

#[test]
#[cfg(target_os = "linux")]
fn folder_with_too_many_directories_is_polled() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    for name in ["index.html", "1/a.html", "2/a.html", "3/a.html", "4/a.html"] {
        write(&root, name, "before");
    }
    // Watches are counted for each user of a namespace.
    let Some(command) = in_namespace("echo 4 > /proc/sys/user/max_inotify_watches") else { return };
    let live = Live::start_by(command, folder, root, &[]);
    let event = live.event("polling");
    assert!(event.contains("max_user_watches"), "{event}");
    for name in ["1/a", "4/a"] {
        write(&live.root, &format!("{name}.html"), "after");
        live.await_content(&format!("/{name}"), Some("after"), "polled");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn folder_is_polled_without_an_event_queue() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    write(&root, "index.html", "before");
    let Some(command) = in_namespace("echo 0 > /proc/sys/user/max_inotify_instances") else { return };
    let live = Live::start_by(command, folder, root, &[]);
    let event = live.event("polling");
    assert!(event.contains("max_user_instances"), "{event}");
    write(&live.root, "index.html", "after");
    live.await_content("/", Some("after"), "polled");
}

#[test]
#[cfg(target_os = "linux")]
fn folders_in_memory_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    let path = root.display();
    let mount = format!("mount -t tmpfs tmpfs {path} && echo before > {path}/index.html");
    let Some(command) = in_namespace(&mount) else { return };
    let live = Live::start_by(command, folder, root, &[]);
    assert_eq!(live.content("/").as_deref(), Some("before\n"));
    let mounted = live.mounted_root();
    for (way, save) in SAVES {
        save(&mounted.join("index.html"), way);
        live.await_content("/", Some(way), way);
    }
    write(&mounted, "new/deep/er.html", "new");
    live.await_content("/new/deep/er", Some("new"), "created in new folders");
    fs::remove_dir_all(mounted.join("new")).unwrap();
    live.await_content("/new/deep/er", None, "removed");
}

#[test]
#[cfg(target_os = "linux")]
fn overlays_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    for name in ["lower", "upper", "work", "site"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }

    write(&folder.path().join("lower"), "index.html", "below");
    write(&folder.path().join("lower"), "docs/a.html", "below");
    let path = folder.path().display();
    let mount = format!(
        "mount -t overlay overlay -o lowerdir={path}/lower,upperdir={path}/upper,workdir={path}/work {path}/site"
    );

    let Some(command) = in_namespace(&mount) else { return };
    let live = Live::start_by(command, folder, root, &[]);
    assert_eq!(live.content("/").as_deref(), Some("below"));
    let mounted = live.mounted_root();

    for (content, target) in [("once", "/"), ("twice", "/")] {
        write(&mounted, "index.html", content);
        live.await_content(target, Some(content), "copied up");
    }

    let next = mounted.join("docs/next");
    fs::write(&next, "renamed").unwrap();
    fs::rename(next, mounted.join("docs/a.html")).unwrap();
    live.await_content("/docs/a", Some("renamed"), "renamed over");
    fs::remove_file(mounted.join("docs/a.html")).unwrap();
    live.await_content("/docs/a", None, "removed");
}
