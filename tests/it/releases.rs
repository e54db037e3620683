//! `cannery releases`: lists a release directory, selects and rolls back a release; open pages work after deploys.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{
    Response, Server, compile, request_at, run, server_command, skip_outside, wait_until, write_folder,
};

/// A release directory.
struct ReleaseDir {
    folder: tempfile::TempDir,
}

impl ReleaseDir {
    fn new() -> ReleaseDir {
        ReleaseDir { folder: tempfile::tempdir().unwrap() }
    }

    /// Builds three releases, each with `--previous`, and makes the last one current.
    fn with_three() -> ReleaseDir {
        let releases = ReleaseDir::new();
        for number in 1..=3 {
            let text = format!("release {number}\n");
            let style = format!("assets/{number}.css");
            let previous = releases.path(&format!("{}.cdb", number - 1));
            let mut flags = vec!["--immutable", "/assets/*"];
            if number > 1 {
                flags.extend(["--previous", previous.to_str().unwrap()]);
            }
            releases.build(&format!("{number}.cdb"), &[("index.html", &text), (&style, "a{}")], &flags);
        }
        releases.select("3");
        releases
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn build(&self, name: &str, files: &[(&str, &str)], flags: &[&str]) {
        let source = tempfile::tempdir().unwrap();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_bytes(), text.as_bytes())).collect();
        write_folder(source.path(), &files);
        compile(source.path(), &self.path(name), flags);
    }

    fn run(&self, flags: &[&str]) -> Output {
        run("cannery", &[&["releases", self.folder.path().to_str().unwrap()], flags].concat())
    }

    /// Selects a release, which must succeed, and returns the list that the command prints.
    fn select(&self, release: &str) -> Value {
        self.json(&["--use", release])
    }

    fn json(&self, flags: &[&str]) -> Value {
        let output = self.run(&[flags, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Panics unless `--use` of this release fails with these words and changes nothing.
    fn assert_refused(&self, release: &str, code: i32, words: &str) {
        let before = fs::read_link(self.path("current")).ok();
        let output = self.run(&["--use", release]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{release}: {stderr}");
        assert!(stderr.contains(words), "{release}: `{words}` is not in {stderr}");
        assert_eq!(fs::read_link(self.path("current")).ok(), before, "{release}");
    }
}

fn column(list: &Value, name: &str) -> Vec<Value> {
    list["releases"].as_array().unwrap().iter().map(|release| release[name].clone()).collect()
}

#[test]
fn list_describes_each_release() {
    let releases = ReleaseDir::with_three();
    fs::write(releases.path("notes.txt"), "no archive").unwrap();
    fs::write(releases.path(".hidden.cdb"), "an incomplete copy").unwrap();
    fs::write(releases.path("broken.cdb"), "no archive either").unwrap();
    let sound = fs::read(releases.path("1.cdb")).unwrap();
    fs::write(releases.path("half"), &sound[..sound.len() - 1]).unwrap();
    let list = releases.json(&[]);
    assert_eq!(list["current"], "3.cdb");
    assert_eq!(column(&list, "name")[..3], ["3.cdb", "2.cdb", "1.cdb"]);
    assert_eq!(column(&list, "current"), [true, false, false, false, false]);
    assert_eq!(column(&list, "serial")[..3], [3, 2, 1]);
    assert_eq!(column(&list, "carried")[..3], [2, 1, 0]);
    assert_eq!(column(&list, "paths")[..3], [6, 5, 4]);
    assert_eq!(list["releases"][2]["bytes"], sound.len());
    assert_eq!(list["releases"][0]["digest"].as_str().unwrap().len(), 64);
    let mut damaged = column(&list, "name")[3..].to_vec();
    damaged.sort_by_key(ToString::to_string);
    assert_eq!(damaged, ["broken.cdb", "half"]);
    assert!(column(&list, "damaged")[3..].iter().all(|why| why.as_str().is_some_and(|why| !why.is_empty())));

    let text = String::from_utf8(releases.run(&[]).stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("3.cdb  ") && lines[0].contains("  current  "), "{text}");
    assert!(lines[0].contains("release 3  6 paths, 2 carried"), "{text}");
    assert!(lines[3].contains("damaged: ") && lines.len() == 5, "{text}");
}

#[test]
fn rollback_is_one_command() {
    let releases = ReleaseDir::with_three();
    let server = Server::start(&["--archive", releases.path("current").to_str().unwrap()]);
    for (release, current, body) in [
        ("previous", "2.cdb", "release 2\n"),
        ("previous", "1.cdb", "release 1\n"),
        ("3", "3.cdb", "release 3\n"),
        ("2.cdb", "2.cdb", "release 2\n"),
    ] {
        assert_eq!(releases.select(release)["current"], current);
        server.await_line("serves a new release");
        assert_eq!(String::from_utf8(server.get("/").body).unwrap(), body);
    }
    assert_eq!(fs::read_link(releases.path("current")).unwrap(), Path::new("2.cdb"), "the link is relative");
}

#[test]
fn invalid_releases_are_refused() {
    let releases = ReleaseDir::with_three();
    releases.assert_refused("4", 3, "no release `4`");
    releases.assert_refused("nonsense", 3, "no release `nonsense`");
    let mut changed = fs::read(releases.path("2.cdb")).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(releases.path("changed.cdb"), &changed).unwrap();
    releases.assert_refused("changed", 3, "changed.cdb");
    fs::write(releases.path("cut.cdb"), &changed[..3000]).unwrap();
    releases.assert_refused("cut.cdb", 3, "cut.cdb");
    releases.assert_refused("previous.cdb", 3, "no release");
    releases.select("1");
    releases.assert_refused("previous", 3, "before 1.cdb");
}

#[test]
fn repeated_serial_is_ambiguous() {
    let releases = ReleaseDir::with_three();
    fs::copy(releases.path("1.cdb"), releases.path("2-again.cdb")).unwrap();
    fs::rename(releases.path("1.cdb"), releases.path("one.cdb")).unwrap();
    releases.assert_refused("1", 3, "several releases have the serial 1");
    assert_eq!(releases.select("one")["current"], "one.cdb");
    assert_eq!(releases.select("2-again.cdb")["current"], "2-again.cdb");
    fs::rename(releases.path("3.cdb"), releases.path("1.cdb")).unwrap();
    assert_eq!(releases.select("1")["current"], "1.cdb", "a name takes precedence over a serial");
}

#[test]
fn missing_previous_release_is_an_error() {
    let releases = ReleaseDir::with_three();
    let source = releases.path("source");
    let archive = releases.path("4.cdb");
    write_folder(&source, &[(b"a.css", b"1")]);
    let build = |flags: &[&str]| {
        let source = source.to_str().unwrap();
        let archive = archive.to_str().unwrap();
        let places = ["--sources", source, "--archive", archive, "--allow-empty"];
        let output = run("cannery-archiver", &[&places, flags].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = build(&["--previous", "/nowhere/at/all.cdb"]);
    assert!(code == Some(3) && stderr.contains("/nowhere/at/all.cdb"), "{code:?}: {stderr}");
    let three = releases.path("3.cdb");
    let (code, stderr) = build(&["--previous", three.to_str().unwrap(), "--serial", "3"]);
    assert!(code == Some(2) && stderr.contains("--serial 3"), "{code:?}: {stderr}");
    assert!(!archive.exists());
    assert_eq!(build(&["--previous", three.to_str().unwrap(), "--serial", "2026"]).0, Some(0));
    assert_eq!(releases.select("2026")["current"], "4.cdb");
}

#[test]
fn file_in_place_of_the_link_is_kept() {
    let releases = ReleaseDir::new();
    let empty = String::from_utf8(releases.run(&[]).stdout).unwrap();
    assert!(empty.contains("no archive"), "{empty}");
    releases.build("1.cdb", &[("a.css", "1")], &[]);
    releases.assert_refused("previous", 3, "current yet");
    assert_eq!(releases.json(&[])["current"], Value::Null);
    releases.build("current", &[("a.css", "2")], &[]);
    let before = fs::read(releases.path("current")).unwrap();
    releases.assert_refused("1.cdb", 4, "is not a symbolic link");
    assert!(fs::read(releases.path("current")).unwrap() == before);
    assert_eq!(column(&releases.json(&[]), "name"), ["1.cdb"]);
    fs::remove_file(releases.path("current")).unwrap();
    symlink("nowhere", releases.path("current")).unwrap();
    assert_eq!(releases.select("1")["current"], "1.cdb");
    let missing = run("cannery", &["releases", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn missing_directory_is_named() {
    let output = run("cannery-server", &["--releases", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the directory /nowhere/at/all does not exist"), "{stderr}");
}

/// Returns the files of an application. The names of its assets change with each release.
fn app(number: u32) -> Vec<(String, String)> {
    let page = format!(
        "<!doctype html><title>{number}</title><link rel=icon href=data:,>\
         <link rel=stylesheet href=/assets/style-{number}.css>\
         <script type=module src=/assets/app-{number}.js></script>\
         <p id=eager></p><p id=lazy></p><img src=/assets/picture-{number}.svg><button>more</button>"
    );

    let script = format!(
        "document.querySelector('#eager').textContent = 'app {number}';\n\
         document.querySelector('button').onclick = () => import('./lazy-{number}.js');\n"
    );
    let lazy = format!(
        "import {{ words }} from './words-{number}.js';\n\
         document.querySelector('#lazy').textContent = words;\n"
    );
    let picture = format!("<svg xmlns='http://www.w3.org/2000/svg' width='{number}0' height='10'/>");

    [
        ("index.html".to_owned(), page),
        (format!("assets/app-{number}.js"), script),
        (format!("assets/lazy-{number}.js"), lazy),
        (format!("assets/words-{number}.js"), format!("export const words = 'words {number}';\n")),
        (format!("assets/style-{number}.css"), format!("body {{ color: rgb({number}, 0, 0) }}\n")),
        (format!("assets/picture-{number}.svg"), picture),
    ]
    .into()
}

#[test]
fn open_page_works_after_two_deploys() {
    if skip_outside() {
        return;
    }
    let releases = ReleaseDir::new();
    let deploy = |number: u32| {
        let files = app(number);
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let previous = releases.path("current");
        let mut flags = vec!["--immutable", "/assets/*"];
        if number > 1 {
            flags.extend(["--previous", previous.to_str().unwrap()]);
        }
        releases.build(&format!("{number}.cdb"), &files, &flags);
        releases.select(&number.to_string());
    };

    deploy(1);
    let server = Server::start(&["--archive", releases.path("current").to_str().unwrap()]);
    let mut browser = Command::new("node");
    browser.args(["tests/outside/old_page.mjs", &format!("http://{}/", server.address)]);
    let mut browser = browser.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(browser.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("loaded"));
    for number in 2..=3 {
        deploy(number);
        server.await_line("serves a new release");
    }
    browser.stdin.take().unwrap().write_all(b"\n").unwrap();
    let shown: Vec<_> = lines.collect();
    assert!(browser.wait().unwrap().success(), "{shown:?}");
    let old = "app 1 | rgb(1, 0, 0) | 10 | words 1";
    let new = "app 3 | rgb(3, 0, 0) | 30 | words 3";
    assert_eq!(shown, [old, old, new]);
}

/// A server whose messages are all kept, also those before it listens.
struct LoggedServer {
    child: Child,
    log: PathBuf,
    address: String,
}

impl LoggedServer {
    fn start(releases: &ReleaseDir) -> LoggedServer {
        let log = releases.path("server.log");
        let mut command = server_command();
        command.arg("--releases").arg(releases.folder.path()).args([
            "--bind",
            "127.0.0.1:0",
            "--threads",
            "1",
        ]);
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut server = LoggedServer { child, log, address: String::new() };
        wait_until("the server listens", || server.messages().contains("listening at "));
        let messages = server.messages();
        let address = messages.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        server.address = address.to_owned();
        server
    }

    fn messages(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a warning about a file, and returns it.
    fn await_warning(&self, name: &str) -> String {
        let find = || {
            let messages = self.messages();
            let found = messages.lines().find(|line| line.contains(&format!("/{name}: ")));
            found.map(str::to_owned)
        };
        wait_until(name, || find().is_some());
        find().unwrap()
    }

    fn get(&self, target: &str) -> Response {
        request_at(&self.address, "GET", target, "")
    }
}

impl Drop for LoggedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds releases, each with an asset of its own, and makes the last one current.
fn build_with_assets(releases: &ReleaseDir, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers.clone() {
        let asset = format!("assets/{number}.js");
        let content = format!("content of {number}");
        let flags = ["--immutable", "/assets/*", "--compress", "identity", "--serial", &number.to_string()];
        releases.build(&format!("{number}.cdb"), &[("index.html", "page"), (&asset, &content)], &flags);
    }
    releases.select(&numbers.end().to_string());
}

/// Changes one byte of a content in an archive.
pub(crate) fn damage(archive: &Path, content: &[u8]) {
    let mut bytes = fs::read(archive).unwrap();
    let place = bytes.windows(content.len()).position(|window| window == content).unwrap();
    bytes[place] ^= 1;
    fs::write(archive, bytes).unwrap();
}

/// At startup, other releases weren't read, so damaged content was served as immutable. Those that are no archives any more were
/// never mentioned.
#[test]
fn damaged_releases_are_named_and_not_served() {
    let releases = ReleaseDir::new();
    build_with_assets(&releases, 1..=4);
    damage(&releases.path("2.cdb"), b"content of 2");
    let whole = fs::read(releases.path("1.cdb")).unwrap();
    fs::write(releases.path("cut.cdb"), &whole[..whole.len() - 1]).unwrap();
    fs::write(releases.path("cut"), &whole[..whole.len() - 1]).unwrap();
    fs::write(releases.path("empty.cdb"), "").unwrap();
    fs::write(releases.path("foreign.cdb"), "no archive ".repeat(1000)).unwrap();
    fs::create_dir(releases.path("folder.cdb")).unwrap();
    // None of these is meant as an archive.
    fs::write(releases.path("notes.txt"), "some words").unwrap();
    fs::write(releases.path(".copying.cdb"), &whole[..1000]).unwrap();
    symlink("cut.cdb", releases.path("link.cdb")).unwrap();

    let server = LoggedServer::start(&releases);
    for (name, words) in [
        ("2.cdb", "digest"),
        ("cut.cdb", "truncated"),
        ("cut", "truncated"),
        ("empty.cdb", "0 bytes"),
        ("foreign.cdb", "not an archive"),
        ("folder.cdb", "directory"),
    ] {
        let warning = server.await_warning(name);
        assert!(warning.contains("warning:") && warning.contains(words), "{warning}");
        assert!(warning.contains("is not served"), "{warning}");
    }
    for name in ["notes.txt", ".copying.cdb", "link.cdb", "1.cdb", "3.cdb"] {
        assert!(!server.messages().contains(&format!("/{name}: ")), "{name}: {}", server.messages());
    }
    assert_eq!(server.get("/assets/2.js").status, 404);
    for number in [1, 3, 4] {
        let body = format!("content of {number}");
        assert_eq!(server.get(&format!("/assets/{number}.js")).body, body.as_bytes());
    }

    // The same while the server runs. A file that is replaced by a whole one is served.
    fs::write(releases.path("later.cdb.tmp"), &whole[..whole.len() - 1]).unwrap();
    fs::rename(releases.path("later.cdb.tmp"), releases.path("later.cdb")).unwrap();
    let warning = server.await_warning("later.cdb");
    assert!(warning.contains("truncated"), "{warning}");
    let source = ReleaseDir::new();
    build_with_assets(&source, 2..=2);
    fs::copy(source.path("2.cdb"), releases.path(".2.cdb")).unwrap();
    fs::rename(releases.path(".2.cdb"), releases.path("2.cdb")).unwrap();
    wait_until("the whole release", || server.get("/assets/2.js").body == b"content of 2");
}

/// More than a server verifies before it is ready.
const LARGE_BYTES: usize = 70 << 20;

#[test]
fn large_releases_are_verified_in_the_background() {
    let releases = ReleaseDir::new();
    build_with_assets(&releases, 1..=4);
    // The newer of two large ones is damaged, after its asset.
    let large = "x".repeat(LARGE_BYTES);
    for number in [2, 3] {
        let asset = format!("assets/{number}.js");
        let content = format!("content of {number}");
        let flags = ["--immutable", "/assets/*", "--compress", "identity", "--serial", &number.to_string()];
        let files = [("large.bin", large.as_str()), (&asset, &content), ("z", "the end")];
        releases.build(&format!("{number}.cdb"), &files, &flags);
    }
    damage(&releases.path("3.cdb"), b"content of 3");
    let server = LoggedServer::start(&releases);
    assert_eq!(server.get("/assets/4.js").body, b"content of 4");
    // Until then, and afterwards if it is damaged, no byte is served.
    let served = |target: &str, content: &[u8]| {
        let response = server.get(target);
        assert!(response.status == 404 || response.body == content, "{response:?}");
        response.status == 200
    };
    wait_until("both whole releases", || {
        assert!(!served("/assets/3.js", b"content of 3"));
        served("/assets/1.js", b"content of 1") && served("/assets/2.js", b"content of 2")
    });
    let warning = server.await_warning("3.cdb");
    assert!(warning.contains("digest"), "{warning}");
}

/// All processes of a server must know the files of a release before one of them serves its pages.
#[test]
fn new_release_settles_before_the_switch() {
    let releases = ReleaseDir::new();
    for number in ["1", "2"] {
        releases.build(&format!("{number}.cdb"), &[("index.html", number)], &["--serial", number]);
    }
    let switch = |release: &str, settle: &str| {
        let began = Instant::now();
        releases.json(&["--use", release, "--settle", settle]);
        began.elapsed()
    };
    // Nothing is served yet.
    let first = switch("1", "600000");
    assert!(first < Duration::from_secs(600), "{first:?}");

    let named = Instant::now();
    releases.build("2.cdb", &[("index.html", "two")], &["--serial", "2"]);
    switch("2", "3000");
    assert!(named.elapsed() >= Duration::from_secs(3));
}

/// Another command may remove old releases while this one verifies what it was asked for.
#[test]
fn release_removed_before_the_switch_is_refused() {
    let releases = ReleaseDir::with_three();
    let lock = fs::File::open(releases.folder.path()).unwrap();
    lock.lock().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    command.args(["releases", releases.folder.path().to_str().unwrap(), "--use", "2", "--settle", "0"]);
    let mut switch = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let waits = |line: &str| line.contains(" -> FLOCK ") && line.contains(&format!(" {} ", switch.id()));
    wait_until("the command waits", || fs::read_to_string("/proc/locks").unwrap().lines().any(waits));

    fs::remove_file(releases.path("2.cdb")).unwrap();
    drop(lock);
    let mut stderr = String::new();
    switch.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(switch.wait().unwrap().code(), Some(3), "{stderr}");
    assert!(stderr.contains("2.cdb"), "{stderr}");
    assert_eq!(fs::read_link(releases.path("current")).unwrap(), Path::new("3.cdb"));
}
