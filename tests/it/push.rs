//! `cannery push`, `rollback`, `status` and `diff`: on this machine, and through a program that stands for `ssh`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Server, compile, is_slow, request_at, run, wait_until, write_folder};

/// A place with a site, release directories, and a cache of its own.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes release `number` of the site: a page, an asset of its own, and a large file that stays.
    pub(crate) fn write_site(&self, number: u32) {
        let site = self.path("public");
        if site.exists() {
            fs::remove_dir_all(&site).unwrap();
        }
        let page = page(number);
        let asset = asset_path(number);
        let large: String = (0..20_000).map(|line| format!("{}\n", line * 7919 % 10_007)).collect();
        write_folder(
            &site,
            &[
                (b"index.html", page.as_bytes()),
                (asset.as_bytes(), asset_content(number).as_bytes()),
                (b"large.txt", large.as_bytes()),
            ],
        );
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.args(arguments).env("XDG_CACHE_HOME", self.path("cache")).stdin(Stdio::null());
        // Tests that don't ask several servers needn't wait for all of them.
        let is_missing = |flag: &str| !arguments.contains(&flag) && !arguments.contains(&"--");
        if matches!(arguments.first(), Some(&"push" | &"follow")) && is_missing("--settle") {
            command.args(["--settle", "0"]);
        }
        if arguments.first() == Some(&"push") && is_missing("--settle-nodes") {
            command.args(["--settle-nodes", "0"]);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Pushes the site into the release directory of this name.
    fn push(&self, directory: &str) -> Value {
        self.json(&["push", &self.text(directory), &self.text("public")])
    }

    /// Returns the names in a release directory, hidden ones too.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn current(&self, directory: &str) -> String {
        let link = fs::read_link(self.path(directory).join("current")).unwrap();
        link.to_str().unwrap().to_owned()
    }

    /// Writes a program that takes the arguments of `ssh`, and runs `cannery` on this machine after the shell commands `before`.
    pub(crate) fn fake_ssh(&self, name: &str, before: &str) -> String {
        let path = self.path(name);
        let programs = Path::new(env!("CARGO_BIN_EXE_cannery")).parent().unwrap().display();
        // The last argument is the command, and the one before it the host.
        let script = format!(
            "#!/bin/sh\nPATH={programs}:$PATH\nfor last; do :; done\n{before}\neval \"exec $last\"\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Returns the page of release `number`.
pub(crate) fn page(number: u32) -> String {
    format!("<!doctype html><title>release {number}</title>")
}

/// Returns the path of the asset of release `number`, without a slash. The hash in such a name has eight characters.
pub(crate) fn asset_path(number: u32) -> String {
    match number {
        0..10 => format!("_astro/app.A1b2C3d{number}.js"),
        _ => format!("_astro/app.A1b2C{number:03}.js"),
    }
}

pub(crate) fn asset_content(number: u32) -> String {
    format!("run({number})")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn pushed_folder_is_served_and_rolled_back() {
    let place = Place::new();
    place.write_site(1);
    let first = place.push("releases");
    assert_eq!(first["targets"][0]["release"], "1.cdb");
    assert_eq!(first["targets"][0]["activated"], true);
    let server = Server::start(&["--releases", &place.text("releases")]);
    let page = |server: &Server| String::from_utf8(server.get("/").body).unwrap();
    assert!(page(&server).contains("release 1"));

    place.write_site(2);
    let second = place.push("releases");
    assert_eq!(second["targets"][0]["before"], "1.cdb");
    server.await_line("serves a new release");
    assert!(page(&server).contains("release 2"));
    assert_eq!(server.get("/_astro/app.A1b2C3d1.js").status, 200, "open pages still work");
    let sent = second["targets"][0]["recipe_bytes"].as_u64().unwrap()
        + second["targets"][0]["body_bytes"].as_u64().unwrap();
    assert!(sent < second["archive_bytes"].as_u64().unwrap() / 10, "{second}");
    assert_eq!(second["targets"][0]["bodies"], 2, "a page and a script");

    // The pushed archive is like one that was built there: it is intact, and carries the old asset.
    let releases = place.path("releases");
    let verified = run("cannery", &["verify", releases.join("2.cdb").to_str().unwrap()]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    let carried =
        place.json(&["inspect", releases.join("2.cdb").to_str().unwrap(), "/_astro/app.A1b2C3d1.js"]);
    assert!(carried.to_string().contains("arried"), "{carried}");

    let rolled_back = place.json(&["rollback", &place.text("releases")]);
    assert_eq!((&rolled_back[0]["release"], &rolled_back[0]["before"]), (&"1.cdb".into(), &"2.cdb".into()));
    wait_until("release 1 is served again", || page(&server).contains("release 1"));
    assert_eq!(server.get("/_astro/app.A1b2C3d2.js").status, 200, "pages of release 2 still work");
    assert_eq!(place.names("releases"), [".rolled-back.json", "1.cdb", "2.cdb", "current"]);

    // After a rollback, the next release has a serial of its own.
    place.write_site(3);
    assert_eq!(place.push("releases")["serial"], 3);
}

#[test]
fn same_archive_is_not_transferred_again() {
    let place = Place::new();
    place.write_site(1);
    compile(&place.path("public"), &place.path("site.cdb"), &[]);
    let push = || place.json(&["push", &place.text("releases"), &place.text("site.cdb")]);
    let first = push();
    assert!(first["targets"][0]["body_bytes"].as_u64().unwrap() > 0);
    let again = push();
    assert_eq!(again["targets"][0]["body_bytes"], 0);
    assert_eq!(again["targets"][0]["before"], Value::Null);
    assert!(
        fs::read(place.path("site.cdb")).unwrap() == fs::read(place.path("releases").join("1.cdb")).unwrap()
    );

    // Another archive with the same serial gets a name of its own.
    place.write_site(2);
    compile(&place.path("public"), &place.path("site.cdb"), &[]);
    let other = push();
    let name = other["targets"][0]["release"].as_str().unwrap().to_owned();
    assert!(name.starts_with("1-") && name.ends_with(".cdb"), "{name}");
    assert_eq!(place.current("releases"), name);
}

#[test]
fn staged_release_answers_for_its_assets_only() {
    let place = Place::new();
    place.write_site(1);
    place.push("releases");
    let server = Server::start(&["--releases", &place.text("releases")]);
    place.write_site(2);
    let target = place.text("releases");
    compile(&place.path("public"), &place.path("2.cdb"), &["--previous", &target]);
    let staged = place.json(&["push", "--stage-only", &target, &place.text("2.cdb")]);
    assert_eq!(staged["targets"][0]["activated"], false);
    assert_eq!(place.current("releases"), "1.cdb");
    let asset = || server.get("/_astro/app.A1b2C3d2.js").status;
    wait_until("the asset of the staged release is served", || asset() == 200);
    assert!(String::from_utf8(server.get("/").body).unwrap().contains("release 1"));

    let status = place.json(&["status", &target]);
    assert_eq!(status[0]["releases"][0]["name"], "2.cdb");
    assert_eq!(status[0]["releases"][1]["current"], true);
    let activated = place.json(&["push", &target, &place.text("2.cdb")]);
    assert_eq!(activated["targets"][0]["body_bytes"], 0, "it was there");
    assert_eq!(place.current("releases"), "2.cdb");
}

#[test]
fn no_target_switches_unless_all_have_the_release() {
    let place = Place::new();
    place.write_site(1);
    let (good, bad) = (place.text("good"), place.text("missing/parent"));
    let site = place.text("public");
    let output = place.run(&["push", &good, &bad, &site]);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert!(errors.contains("missing/parent") && errors.contains("no target was switched"), "{errors}");
    assert!(errors.contains(&format!("staged: {good}")), "{errors}");
    assert_eq!(place.names("good"), ["1.cdb"], "staged, but not current");

    // The same command finishes once the cause is gone.
    fs::create_dir(place.path("missing")).unwrap();
    let pushed = place.json(&["push", &good, &bad, &site]);
    assert_eq!([&pushed["targets"][0]["activated"], &pushed["targets"][1]["activated"]], [true, true]);
    assert_eq!([place.current("good"), place.current("missing/parent")], ["1.cdb", "1.cdb"]);

    place.write_site(2);
    let other = place.text("another/parent");
    let output = place.run(&["push", "--quorum", "1", &good, &other, &site]);
    assert!(output.status.success() && stderr(&output).contains("another/parent"), "{}", stderr(&output));
    assert_eq!(place.current("good"), "2.cdb");
}

#[test]
fn unchanged_folder_is_no_new_release() {
    let place = Place::new();
    let (target, site) = (place.text("releases"), place.text("public"));
    for number in [1, 2] {
        place.write_site(number);
        place.push("releases");
    }
    let names = ["1.cdb", "2.cdb", "current"];
    let pushed = place.push("releases");
    assert_eq!([&pushed["targets"][0]["unchanged"], &pushed["targets"][0]["activated"]], [true, true]);
    // Without a cache, and with new times of modification.
    fs::remove_dir_all(place.path("cache")).unwrap();
    place.write_site(2);
    let output = place.run(&["push", &target, &site]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("2.cdb was live already; nothing has changed"),
        "{text}"
    );
    assert_eq!(place.names("releases"), names);

    // The newest release is what the folder has, so that is published again.
    place.json(&["rollback", &target]);
    let pushed = place.push("releases");
    assert_eq!(
        (&pushed["targets"][0]["before"], &pushed["targets"][0]["body_bytes"]),
        (&"1.cdb".into(), &0.into())
    );
    assert_eq!(
        (place.names("releases"), place.current("releases")),
        (names.map(str::to_owned).to_vec(), "2.cdb".to_owned())
    );

    // Each of these is a change, even though no content of a page is new.
    let page = fs::read_to_string(place.path("public").join("index.html")).unwrap();
    let changes = [
        ("_headers", "/*\n  X-Frame-Options: DENY\n"),
        ("_redirects", "/old /large.txt 301\n"),
        ("copy.txt", &page),
    ];
    for (number, (name, content)) in (3..).zip(changes) {
        fs::write(place.path("public").join(name), content).unwrap();
        assert_eq!(place.push("releases")["serial"], number, "{name}");
    }
    fs::remove_file(place.path("public").join("copy.txt")).unwrap();
    assert_eq!(place.push("releases")["serial"], 6);
}

/// Ends a thread of the test, also if the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_asset_is_missing_during_releases_and_rollbacks() {
    let place = Place::new();
    place.write_site(1);
    place.push("releases");
    let server = Server::start(&["--releases", &place.text("releases")]);
    let address = server.address.as_str();
    let get = |target: &str| request_at(address, "GET", target, "");
    let is_done = AtomicBool::new(false);
    let visit = || {
        let mut pages = 0;
        while !is_done.load(Ordering::Relaxed) {
            let page = String::from_utf8(get("/").body).unwrap();
            let number = page.split_once("release ").unwrap().1.split('<').next().unwrap().to_owned();
            let asset = get(&format!("/_astro/app.A1b2C3d{number}.js"));
            assert_eq!((asset.status, asset.body), (200, format!("run({number})").into_bytes()));
            pages += 1;
        }
        pages
    };
    let await_release = |number: u32| {
        let title = format!("release {number}<");
        wait_until("the release is served", || String::from_utf8(get("/").body).unwrap().contains(&title));
    };
    thread::scope(|scope| {
        let done = Done(&is_done);
        let visitor = scope.spawn(visit);
        for number in 2..=5 {
            place.write_site(number);
            place.push("releases");
            await_release(number);
            if number % 2 == 0 {
                place.json(&["rollback", &place.text("releases")]);
                await_release(number - 1);
            }
        }
        drop(done);
        assert!(visitor.join().unwrap() > 0);
    });
}

#[test]
fn two_pushes_at_once_are_both_complete() {
    let place = Place::new();
    place.write_site(1);
    place.push("releases");
    let (site, other) = (place.text("public"), Place::new());
    place.write_site(2);
    other.write_site(3);
    let target = place.text("releases");
    let mut first = place.command(&["push", &target, &site]).stdout(Stdio::null()).spawn().unwrap();
    let mut second =
        other.command(&["push", &target, &other.text("public")]).stdout(Stdio::null()).spawn().unwrap();
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    let names = place.names("releases");
    assert_eq!(names.len(), 4, "three releases and a link: {names:?}");
    for name in names.iter().filter(|name| *name != "current") {
        let verified = run("cannery", &["verify", place.path("releases").join(name).to_str().unwrap()]);
        assert!(verified.status.success(), "{}", stderr(&verified));
    }
    assert!(names.contains(&place.current("releases")));
}

#[test]
fn killed_pushes_change_nothing_and_leave_nothing() {
    let place = Place::new();
    place.write_site(1);
    place.push("releases");
    let target = format!("host:{}", place.text("releases"));
    let ssh = place.fake_ssh("ssh", &format!("echo $$ > {}", place.text("receiver.pid")));
    let slow = is_slow();
    let rounds = if slow { 50 } else { 6 };
    for number in 2..2 + rounds {
        place.write_site(number);
        let _ = fs::remove_file(place.path("receiver.pid"));
        let before = place.current("releases");
        let mut push = place.command(&["push", "--ssh", &ssh, &target, &place.text("public")]);
        let mut push = push.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Any moment is as good as another. A push takes some hundred milliseconds.
        thread::sleep(Duration::from_millis(23 * (u64::from(number) * 7 % 13)));
        let pid = if number % 2 == 0 {
            push.id().to_string()
        } else {
            fs::read_to_string(place.path("receiver.pid")).unwrap_or_default().trim().to_owned()
        };
        if !pid.is_empty() {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status().unwrap();
        }
        let succeeded = push.wait().unwrap().success();

        // A receiver that lost its client may still be there for a moment.
        wait_until("the receiver has ended", || {
            let pid = fs::read_to_string(place.path("receiver.pid")).unwrap_or_default();
            pid.trim().is_empty() || !Path::new("/proc").join(pid.trim()).join("exe").exists()
        });
        let current = place.path("releases").join("current");
        let verified = run("cannery", &["verify", current.to_str().unwrap()]);
        assert!(verified.status.success(), "release {number}: {}", stderr(&verified));
        // A killed client may have asked for the switch already. Without a switch, the old release stays.
        assert!(!succeeded || place.current("releases") != before, "release {number}");
    }

    place.write_site(99);
    place.json(&["push", "--ssh", &ssh, &target, &place.text("public")]);
    let hidden: Vec<_> = place.names("releases").into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(hidden, Vec::<String>::new());
}

#[test]
fn full_disk_is_reported_and_changes_nothing() {
    let place = Place::new();
    place.write_site(1);
    fs::create_dir(place.path("small")).unwrap();
    let disk = place.text("small");
    let mount = format!("mount -t tmpfs -o size=64k tmpfs {disk} || exit 3");
    let trial = Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-c", &mount]).output();
    if !trial.is_ok_and(|output| output.status.success()) {
        println!("skipped: this test needs the right to mount a file system in a namespace");
        return;
    }
    let inner = place.fake_ssh("inner", &mount);
    let ssh = place.path("ssh");
    fs::write(&ssh, format!("#!/bin/sh\nexec unshare --mount --map-root-user {inner} \"$@\"\n")).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();

    let output = place.run(&[
        "push",
        "--ssh",
        ssh.to_str().unwrap(),
        &format!("host:{disk}/site"),
        &place.text("public"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("No space left") && stderr(&output).contains("make room"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn hosts_that_cannot_receive_are_explained() {
    let place = Place::new();
    place.write_site(1);
    let site = place.text("public");
    for (before, code, words) in [
        ("echo 'sh: cannery: not found' >&2; exit 127", 1, "install Cannery there"),
        ("echo 'Connection refused' >&2; exit 255", 1, "cannot connect to"),
        ("echo Welcome to this host", 1, ".bashrc"),
        ("exit 0", 1, "ended before it said hello"),
    ] {
        let ssh = place.fake_ssh("ssh", before);
        let output = place.run(&["push", "--ssh", &ssh, "web@host.example:/srv/site", &site]);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(words) && errors.contains("host.example"), "`{words}` is not in {errors}");
    }
    let output = place
        .command(&["push", "host:/srv/site", &site])
        .env("CANNERY_SSH", "/nowhere/ssh")
        .output()
        .unwrap();
    assert!(stderr(&output).contains("/nowhere/ssh"), "{}", stderr(&output));
    for target in ["-oProxyCommand=true:/srv", "ftp://host/site", "host:"] {
        let output = place.run(&["push", "--", target, &site]);
        assert_eq!(output.status.code(), Some(2), "{target}: {}", stderr(&output));
    }
    let output = place.run(&["push", &place.text("releases"), &place.text("nothing")]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn old_releases_are_removed_and_others_are_kept() {
    let place = Place::new();
    for number in 1..=5 {
        place.write_site(number);
        if number == 2 {
            fs::copy(place.path("releases").join("1.cdb"), place.path("releases").join("mine.cdb")).unwrap();
        }
        place.json(&["push", "--keep", "2", &place.text("releases"), &place.text("public")]);
    }
    assert_eq!(place.names("releases"), ["4.cdb", "5.cdb", "current", "mine.cdb"]);
}

#[test]
fn damaged_release_is_not_activated() {
    let place = Place::new();
    for number in 1..=2 {
        place.write_site(number);
        place.push("releases");
    }
    let one = place.path("releases").join("1.cdb");
    let mut bytes = fs::read(&one).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&one, bytes).unwrap();
    let output = place.run(&["rollback", &place.text("releases")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1.cdb"), "{}", stderr(&output));
    assert_eq!(place.current("releases"), "2.cdb");
    let output = place.run(&["rollback", &place.text("releases"), "--to", "7"]);
    assert!(stderr(&output).contains("no release `7`"), "{}", stderr(&output));
}

#[test]
fn status_names_targets_that_are_behind() {
    let place = Place::new();
    place.write_site(1);
    let (one, two) = (place.text("one"), place.text("two"));
    place.json(&["push", &one, &two, &place.text("public")]);
    place.write_site(2);
    place.json(&["push", &one, &place.text("public")]);
    let status = place.json(&["status", &one, &two]);
    assert_eq!([&status[0]["behind"], &status[1]["behind"]], [false, true]);
    let text = String::from_utf8(place.run(&["status", &one, &two]).stdout).unwrap();
    assert!(text.contains("behind the other targets") && text.contains("2.cdb"), "{text}");
    fs::create_dir(place.path("empty")).unwrap();
    let empty = place.json(&["status", &place.text("empty")]);
    assert_eq!(empty[0]["releases"].as_array().unwrap().len(), 0);
}

#[test]
fn diff_names_each_kind_of_change() {
    let place = Place::new();
    write_folder(
        &place.path("a"),
        &[(b"index.html", b"1"), (b"gone.txt", b"gone"), (b"from.txt", b"moved"), (b"same.txt", b"same")],
    );
    write_folder(
        &place.path("b"),
        &[
            (b"index.html", b"2"),
            (b"new.txt", b"new"),
            (b"to.txt", b"moved"),
            (b"same.txt", b"same"),
            (b"_headers", b"/same.txt\n  X-A: b\n"),
            (b"_redirects", b"/old/* /new/:splat 301\n"),
        ],
    );
    for name in ["a", "b"] {
        compile(&place.path(name), &place.path(&format!("{name}.cdb")), &[]);
    }
    let (a, b) = (place.text("a.cdb"), place.text("b.cdb"));
    let diff = place.json(&["diff", &a, &b]);
    let has = |list: &str, path: &str| diff[list].as_array().unwrap().iter().any(|found| found == path);
    assert!(
        has("added", "/new.txt") && has("removed", "/gone.txt") && has("changed", "/index.html"),
        "{diff}"
    );
    assert!(has("headers", "/same.txt") && has("rules", "/"), "{diff}");
    let moved =
        |suffix: &str| serde_json::json!({ "from": format!("/from{suffix}"), "to": format!("/to{suffix}") });
    assert_eq!(diff["moved"], serde_json::json!([moved(""), moved(".txt")]));
    assert!(diff["push_bytes"].as_u64() > Some(0) && !has("changed", "/same.txt"), "{diff}");

    let same = place.json(&["diff", &a, &a]);
    assert_eq!(same["visitor_bytes"], 0);
    let text = String::from_utf8(place.run(&["diff", &a, &a]).stdout).unwrap();
    assert!(text.contains("no path, header field or rule differs"), "{text}");
}

#[test]
fn receive_refuses_terminals_and_text() {
    let place = Place::new();
    let mut receive = place.command(&["receive", &place.text("releases")]);
    let mut receive = receive.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(receive.stdin.as_mut().unwrap(), b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let output = receive.wait_with_output().unwrap();
    assert_eq!(output.stdout[0], b'!', "a refusal");
    assert!(!place.path("releases").exists());
}

#[test]
fn site_with_errors_or_strict_warnings_is_not_published() {
    let place = Place::new();
    let (target, store) = (place.text("releases"), format!("file://{}", place.text("store")));
    for (file, content, flags, code, why) in [
        ("_headers", "/*\n  Basic-Auth: a:b\n", &[][..], 3, "1 error in the folder: nothing was published"),
        (
            "_redirects",
            "/a b c d\n",
            &["--strict"],
            5,
            "1 warning in the folder, and --strict: nothing was published",
        ),
    ] {
        place.write_site(1);
        fs::write(place.path("public").join(file), content).unwrap();
        for target in [&target, &store] {
            let output = place.run(&[&["push", target, &place.text("public")], flags].concat());
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{text}");
            assert!(text.contains(why) && !text.contains(".cdb"), "{text}");
        }
        fs::remove_file(place.path("public").join(file)).unwrap();
    }
    assert!(!place.path("releases").exists());
    // The folder shows early that the store can be written.
    assert_eq!(place.names("store"), Vec::<String>::new());
}

#[test]
fn nothing_is_released_into_a_site() {
    let place = Place::new();
    place.write_site(1);
    let (site, archive) = (place.text("public"), place.text("site.cdb"));
    compile(&place.path("public"), &place.path("site.cdb"), &["--serial", "1"]);
    let names = place.names("public");
    for arguments in [["push", &site, &site], ["push", &site, &archive]] {
        let output = place.run(&arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("has files that aren't releases, such as index.html"), "{text}");
        assert!(text.contains("name the release directory first and then the site"), "{text}");
        assert_eq!(place.names("public"), names);
    }
    // A directory with other files, but without a page.
    fs::create_dir(place.path("notes")).unwrap();
    fs::write(place.path("notes/todo.txt"), "").unwrap();
    assert_eq!(place.run(&["push", &place.text("notes"), &archive]).status.code(), Some(1));
    fs::rename(place.path("notes/todo.txt"), place.path("notes/.hidden")).unwrap();
    assert!(place.run(&["push", &place.text("notes"), &archive]).status.success());
    assert_eq!(place.current("notes"), "1.cdb");
}

#[test]
fn missing_directories_are_named() {
    let place = Place::new();
    let missing = place.text("missing");
    let failed = |arguments: &[&str], code: i32| {
        let output = place.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    };
    for command in ["status", "rollback"] {
        let text = failed(&[command, &missing], 1);
        assert!(text.contains(&format!("the directory {missing} does not exist")), "{text}");
    }
    place.write_site(1);
    let parent = format!("{missing}/releases");
    let text = failed(&["push", &parent, &place.text("public")], 4);
    assert!(text.contains("cannot create the directory"), "{text}");

    place.push("releases");
    let text = failed(&["rollback", &place.text("releases"), "--to", "99"], 1);
    assert!(text.contains("there is no release `99`") && text.contains("`cannery status TARGET`"), "{text}");
}
