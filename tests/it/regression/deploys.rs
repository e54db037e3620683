//! Release directories: deploys and rollbacks that break no open page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::{Response, Server, compile, request_at, run, server_command, wait_until, write_folder};

/// A release directory.
struct Directory {
    folder: tempfile::TempDir,
}

impl Directory {
    fn new() -> Directory {
        Directory { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self) -> String {
        self.folder.path().to_str().unwrap().to_owned()
    }

    /// Builds release `number`: a page that names its own script, which is immutable, and a style sheet that is not.
    fn build(&self, number: u32, flags: &[&str]) {
        let script = format!("assets/app-{number}.js");
        let page = format!("<script src=/{script}></script>");
        let mut files = vec![
            ("index.html", page),
            (script.as_str(), format!("release {number}")),
            ("style.css", format!("release {number}")),
            ("200.html", "the app".to_owned()),
        ];
        let only = format!("only-{number}.txt");
        files.push((&only, "not immutable".to_owned()));
        self.build_files(&format!("{number}.cdb"), &files, flags);
    }

    fn build_files(&self, name: &str, files: &[(&str, String)], flags: &[&str]) {
        let source = tempfile::tempdir().unwrap();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_bytes(), text.as_bytes())).collect();
        write_folder(source.path(), &files);
        let serial = name.trim_end_matches(".cdb");
        let own = ["--immutable", "/assets/", "--serial", serial];
        compile(source.path(), &self.path(name), &[&own, flags].concat());
    }

    fn uses(&self, release: &str) -> String {
        let output = run("cannery", &["releases", &self.text(), "--use", release]);
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{printed}");
        printed
    }
}

fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

/// Returns the response for the script of a release.
fn script(server: &Server, number: u32) -> (u16, String) {
    let response = server.get(&format!("/assets/app-{number}.js"));
    (response.status, text(&response).to_owned())
}

fn has(number: u32) -> (u16, String) {
    (200, format!("release {number}"))
}

/// After a rollback, open pages of the newer release could not load their remaining scripts.
#[test]
fn pages_survive_deploys_and_rollbacks() {
    let directory = Directory::new();
    directory.build(1, &[]);
    directory.uses("1");
    let server = Server::start(&["--releases", &directory.text()]);
    assert_eq!(script(&server, 1), has(1));
    assert_eq!(script(&server, 2).0, 404, "an asset is no page of the app");

    directory.build(2, &[]);
    directory.uses("2");
    server.await_line("serves a new release");
    assert_eq!((script(&server, 1), script(&server, 2)), (has(1), has(2)));

    let printed = directory.uses("previous");
    assert!(
        printed.contains("1 immutable file of 2.cdb is not in 1.cdb") && printed.contains("--releases"),
        "{printed}"
    );
    server.await_line("serves a new release");
    assert_eq!((script(&server, 1), script(&server, 2)), (has(1), has(2)));
    assert_eq!(
        text(&server.get("/style.css")),
        "release 1",
        "mutable paths are those of the current release"
    );
    assert_eq!(server.get("/only-2.txt").status, 404, "mutable paths disappear with their release");
}

#[test]
fn response_is_that_of_the_earlier_release() {
    let directory = Directory::new();
    directory.build(1, &[]);
    directory.build(2, &[]);
    directory.uses("1");
    let server = Server::start(&["--releases", &directory.text()]);
    let before = server.get("/assets/app-1.js");
    directory.uses("2");
    server.await_line("serves a new release");
    let after = server.get("/assets/app-1.js");
    assert_eq!((after.status, &after.body), (200, &before.body));
    for name in ["Cache-Control", "ETag", "Content-Type", "Content-Length"] {
        assert_eq!(after.field(name), before.field(name), "{name}");
    }
    let etag = after.field("ETag").unwrap();
    let conditional = server.request("GET", "/assets/app-1.js", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(conditional.status, 304);
    let range = server.request("GET", "/assets/app-1.js", "Range: bytes=0-6\r\n");
    assert_eq!((range.status, text(&range)), (206, "release"));
}

#[test]
fn rules_of_the_current_release_apply_to_carried_files() {
    let directory = Directory::new();
    directory.build(1, &[]);
    let rules = "/assets/app-1.js /gone 302\n/assets/app-2.js /moved 301\n/assets/* /any 302\n/forced/* /never 302!\n";
    let files = [("index.html", "page".to_owned()), ("_redirects", rules.to_owned())];
    directory.build_files("3.cdb", &files, &[]);
    let files = [
        ("index.html", "page".to_owned()),
        ("assets/app-4.js", "release 4".to_owned()),
        ("forced/a.js", "forced".to_owned()),
    ];
    directory.build_files("4.cdb", &files, &["--immutable", "/forced/"]);
    directory.uses("3");
    let server = Server::start(&["--releases", &directory.text()]);
    assert_eq!(server.get("/assets/app-1.js").status, 302, "a rule for just this path");
    assert_eq!(server.get("/assets/app-4.js").status, 200, "before patterns");
    assert_eq!(server.get("/assets/other.js").status, 302);
    assert_eq!(server.get("/forced/a.js").status, 302, "a rule that counts before files");
}

#[test]
fn archives_are_added_and_removed_while_serving() {
    let directory = Directory::new();
    (1..=4).for_each(|number| directory.build(number, &[]));
    directory.uses("4");
    let server = Server::start(&["--releases", &directory.text(), "--releases-kept", "2"]);
    let status = |number| script(&server, number).0;
    assert_eq!(
        [1, 2, 3, 4].map(status),
        [404, 200, 200, 200],
        "the newest two in addition to the current one"
    );

    fs::remove_file(directory.path("3.cdb")).unwrap();
    server.await_line("2.cdb, 1.cdb");
    assert_eq!([1, 2, 3, 4].map(status), [200, 200, 404, 200]);

    directory.build(5, &[]);
    server.await_line("5.cdb, 2.cdb");
    assert_eq!([1, 2, 5].map(status), [404, 200, 200]);

    // A damaged archive is skipped and reported.
    let mut damaged = fs::read(directory.path("5.cdb")).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::remove_file(directory.path("5.cdb")).unwrap();
    fs::write(directory.path("6.cdb"), damaged).unwrap();
    server.signal("HUP");
    server.await_line("6.cdb: ");
    assert_eq!([1, 2, 5].map(status), [200, 200, 404]);

    // So is one of another release of the format.
    let mut other_version = fs::read(directory.path("2.cdb")).unwrap();
    let place = other_version.windows(4).position(|window| window == b"CANR").unwrap() + 4;
    other_version[place] = 99;
    fs::write(directory.path("7.cdb"), other_version).unwrap();
    let line = server.await_line("7.cdb: ");
    assert!(line.contains("format version 99"), "{line}");
    assert_eq!([1, 2, 5].map(status), [200, 200, 404]);
}

/// A page with a hash in its name was served for as long as an earlier archive had it.
#[test]
fn deleted_page_stays_deleted() {
    let directory = Directory::new();
    let page = || "page".to_owned();
    let files = [("index.html", page()), ("assets/draft-63b2c4069545.html", page())];
    directory.build_files("1.cdb", &files, &[]);
    directory.build_files("2.cdb", &files[..1], &[]);
    directory.uses("2");
    let server = Server::start(&["--releases", &directory.text()]);
    for path in ["/assets/draft-63b2c4069545.html", "/assets/draft-63b2c4069545"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

/// The earlier archive still answered for a file that a pattern leaves out.
#[test]
fn withdrawn_file_is_gone_although_an_earlier_archive_has_it() {
    let directory = Directory::new();
    directory.build(1, &[]);
    let previous = directory.text();
    directory.build(2, &["--previous", &previous, "--ignore", "/assets/app-1.js"]);
    directory.uses("2");
    let server = Server::start(&["--releases", &directory.text()]);
    let response = server.get("/assets/app-1.js");
    assert_eq!((response.status, response.field("Cache-Control")), (410, Some("no-store")));
    assert_eq!(script(&server, 2), has(2));
    let archive = directory.path("2.cdb").to_str().unwrap().to_owned();
    let explained = run("cannery", &["explain", &archive, "/assets/app-1.js"]);
    assert!(String::from_utf8_lossy(&explained.stdout).contains("It was withdrawn."));
}

/// The response was a line of plain text, although the site had a page for this error.
#[test]
fn withdrawn_file_has_the_error_page_of_the_site() {
    let directory = Directory::new();
    directory.build(1, &[]);
    let files = [
        ("index.html", "home".to_owned()),
        ("410.html", "<p>gone".to_owned()),
        ("assets/_410.html", "<p>gone from assets".to_owned()),
        ("_headers", "/assets/*\n  X-Site: 1\n  Cache-Control: immutable\n".to_owned()),
    ];
    let previous = directory.text();
    let flags = ["--previous", &previous, "--ignore", "/assets/app-1.js"];
    let flags = [&flags[..], &["--immutable", "/none/"]].concat();
    directory.build_files("2.cdb", &files, &flags);
    directory.uses("2");
    let server = Server::start(&["--releases", &previous]);
    let response = server.get("/assets/app-1.js");
    assert_eq!((response.status, text(&response)), (410, "<p>gone from assets"));
    let fields = ["Content-Type", "Cache-Control", "X-Site"].map(|name| response.field(name).unwrap());
    assert_eq!(fields, ["text/html; charset=utf-8", "no-store", "1"]);

    // The next release withdraws it too, and has another page.
    directory.build_files("3.cdb", &files[..2], &flags);
    directory.uses("3");
    server.await_line("serves a new release");
    let response = server.get("/assets/app-1.js");
    assert_eq!((response.status, text(&response)), (410, "<p>gone"));
}

#[test]
fn each_host_has_its_release_directory() {
    let one = Directory::new();
    let other = Directory::new();
    for directory in [&one, &other] {
        directory.build(1, &[]);
    }
    one.build(2, &[]);
    one.uses("2");
    other.uses("1");
    let first = format!("one.test={}", one.text());
    let second = other.text();
    let server = Server::start(&["--releases", &first, "--releases", &second, "--processes", "2"]);
    let status = |host: &str, number: u32| {
        server.request_host(host, "GET", &format!("/assets/app-{number}.js"), "").status
    };
    assert_eq!([status("one.test", 1), status("one.test", 2)], [200, 200]);
    assert_eq!([status("other.test", 1), status("other.test", 2)], [200, 404]);
}

#[test]
fn removed_site_stays_removed() {
    let directory = Directory::new();
    let script = || "script".to_owned();
    let files = [
        ("index.html", "page".to_owned()),
        ("_hosts/a.test/index.html", "page".to_owned()),
        ("_hosts/a.test/assets/a.js", script()),
        ("_hosts/b.test/index.html", "page".to_owned()),
        ("_hosts/b.test/assets/b.js", script()),
    ];
    directory.build_files("1.cdb", &files, &["--immutable", "assets"]);
    directory.build_files("2.cdb", &[files[0].clone(), files[1].clone()], &[]);
    directory.uses("2");
    let server = Server::start(&["--releases", &directory.text()]);
    let status = |host: &str, path: &str| server.request_host(host, "GET", path, "").status;
    assert_eq!(status("a.test", "/assets/a.js"), 200);
    assert_eq!(status("b.test", "/assets/b.js"), 404);
    assert_eq!(status("a.test", "/assets/b.js"), 404);
}

fn build(directory: &Directory, name: &str, flags: &[&str]) -> (i32, String) {
    let source = tempfile::tempdir().unwrap();
    write_folder(source.path(), &[(b"index.html", b"page")]);
    let archive = directory.path(name);
    let places = ["--sources", source.path().to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    let Output { status, stderr, .. } = run("cannery-archiver", &[&places, flags].concat());
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

fn serial(directory: &Directory, name: &str) -> u64 {
    let list = run("cannery", &["releases", &directory.text(), "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let releases = list["releases"].as_array().unwrap();
    releases.iter().find(|release| release["name"] == name).unwrap()["serial"].as_u64().unwrap()
}

/// After a rollback, `--previous current` created a second release with the same number, without the files of the first.
#[test]
fn build_after_a_rollback_counts_all_releases() {
    let directory = Directory::new();
    (1..=3).for_each(|number| directory.build(number, &[]));
    directory.uses("2");
    let current = directory.path("current").to_str().unwrap().to_owned();
    let (code, printed) = build(&directory, "fix.cdb", &["--previous", &current]);
    assert!(
        code == 2 && printed.contains("3.cdb is release 3 already") && printed.contains("--previous"),
        "{printed}"
    );
    let (code, printed) = build(&directory, "fix.cdb", &["--previous", &directory.text(), "--serial", "3"]);
    assert!(code == 2 && printed.contains("--serial 3"), "{printed}");
    assert!(!directory.path("fix.cdb").exists());

    assert_eq!(build(&directory, "fix.cdb", &["--previous", &directory.text()]).0, 0);
    assert_eq!(serial(&directory, "fix.cdb"), 4);
    let server = Server::start(&["--archive", directory.path("fix.cdb").to_str().unwrap()]);
    assert_eq!([1, 2, 3].map(|number| script(&server, number)), [1, 2, 3].map(has), "all are carried");

    // A repeated build under its own name is the same release.
    assert_eq!(build(&directory, "fix.cdb", &["--previous", &directory.text()]).0, 0);
    assert_eq!(serial(&directory, "fix.cdb"), 4);
}

/// The first deploy of a pipeline needed another command line than the later ones.
#[test]
fn first_release_needs_no_previous_one() {
    let directory = Directory::new();
    let (code, printed) = build(&directory, "1.cdb", &["--previous", &directory.text(), "--strict"]);
    assert!(code == 0 && printed.contains("first release"), "{printed}");
    fs::remove_file(directory.path("1.cdb")).unwrap();
    let current = directory.path("current").to_str().unwrap().to_owned();
    assert_eq!(build(&directory, "1.cdb", &["--previous", &current, "--strict"]).0, 0);
    assert_eq!(serial(&directory, "1.cdb"), 1);

    // If there is a release, a missing link is an error, as is any other missing file.
    let (code, printed) = build(&directory, "2.cdb", &["--previous", &current]);
    assert!(code == 3 && printed.contains("current"), "{printed}");
    assert_eq!(build(&directory, "2.cdb", &["--previous", "/nowhere/at/all"]).0, 3);
}

/// Clients load scripts of an earlier release during deploys, removals and a takeover.
#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux spreads connections over processes")]
fn earlier_files_survive_deploys_and_a_takeover() {
    let directory = Directory::new();
    for number in 1..=2 {
        directory.build(number, &[]);
    }
    directory.uses("2");
    let mut command = server_command();
    command.args([
        "--releases",
        &directory.text(),
        "--bind",
        "127.0.0.1:0",
        "--processes",
        "2",
        "--threads",
        "1",
    ]);
    let mut server = Server::run(command);
    let address = server.address.clone();
    let script = |number: u32| {
        let response = request_at(&address, "GET", &format!("/assets/app-{number}.js"), "");
        (response.status, text(&response).to_owned())
    };
    let style = || request_at(&address, "GET", "/style.css", "").body;

    let stop = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    let mut successor = 0;
    std::thread::scope(|scope| {
        for number in [1, 2, 1, 2] {
            let stop = &stop;
            let answered = &answered;
            let script = &script;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let found = script(number);
                    if found != has(number) {
                        stop.store(true, Ordering::Relaxed);
                        panic!("script of release {number}: {found:?}");
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let await_answers = || {
            let before = answered.load(Ordering::Relaxed);
            wait_until("answers", || {
                stop.load(Ordering::Relaxed) || answered.load(Ordering::Relaxed) > before + 100
            });
        };
        await_answers();
        directory.build(3, &[]);
        directory.uses("3");
        wait_until("release 3", || style() == b"release 3");
        await_answers();

        server.signal("USR2");
        let line = server.await_line("to take over");
        successor = line.split(' ').find_map(|word| word.parse::<u32>().ok()).unwrap();
        assert_eq!(server.wait(), Some(0), "the old program leaves");
        await_answers();

        directory.uses("1");
        wait_until("release 1", || style() == b"release 1");
        fs::remove_file(directory.path("3.cdb")).unwrap();
        wait_until("release 3 is gone", || script(3).0 == 404);
        await_answers();
        stop.store(true, Ordering::Relaxed);
    });
    assert!(Command::new("kill").args(["-TERM", &successor.to_string()]).status().unwrap().success());
    wait_until("the new program ends", || !Path::new(&format!("/proc/{successor}")).exists());
}

/// Names of Nuxt, Gatsby, Trunk, Angular and Create React App were cached for an hour, and those of minified pages of Vite.
#[test]
fn names_of_build_tools_are_immutable_unless_their_bytes_change() {
    let md5 = "6d5e1bd4ae0a4d3a8d4e1b0a3d5c7e91";
    let gatsby_file = format!("static/{md5}/photo.png");
    let page = "<link rel=stylesheet href=/assets/style-CqxJ3kLm.css crossorigin>\
                <script crossorigin src=/assets/index-DKwAzefS.js type=module></script>\
                <script nomodule crossorigin id=vite-legacy-entry data-src=/assets/index-legacy-D9kLm2xQ.js></script>\
                <script src=main-ABCDEFGH.js type=module></script>";
    let immutable = [
        "_nuxt/DKwAzefS.js",
        "static/js/main.abcdef12.chunk.js",
        gatsby_file.as_str(),
        "webpack-runtime-8f3e2a1b9c0d4e5f6a7b.js",
        "wasm/app-0123456789abcdef.js",
        "wasm/app-0123456789abcdef_bg.wasm",
        "assets/style-CqxJ3kLm.css",
        "assets/index-DKwAzefS.js",
        "assets/index-legacy-D9kLm2xQ.js",
        "main-ABCDEFGH.js",
        "chunk-XYZABCDE.js",
    ];
    let mutable = [
        "_nuxt/builds/latest.json",
        "page-data/app-data.json",
        "page-data/index/page-data.json",
        "static/js/jquery.js",
        "assets/main-settings.css",
        "logo-ABSTRACT.svg",
        "chunk-ABSTRACT.js",
    ];
    let site = |changed: &str| {
        let content = |path: &str| match path {
            "main-ABCDEFGH.js" => "import './chunk-XYZABCDE.js'".to_owned(),
            _ if path == changed => "new".to_owned(),
            _ => format!("of {path}"),
        };
        let mut files: Vec<(&str, String)> =
            immutable.iter().chain(&mutable).map(|path| (*path, content(path))).collect();
        files.push(("index.html", page.to_owned()));
        files
    };
    let is_immutable = |server: &Server, path: &str| {
        server.get(&format!("/{path}")).field("Cache-Control").unwrap().contains("immutable")
    };
    let directory = Directory::new();
    directory.build_files("1.cdb", &site(""), &["--immutable", "!/assets/"]);
    let server = Server::start(&[directory.path("1.cdb").to_str().unwrap()]);
    for path in immutable {
        assert!(is_immutable(&server, path), "{path}");
    }
    for path in mutable {
        assert!(!is_immutable(&server, path), "{path}");
    }

    let previous = directory.text();
    directory.build_files(
        "2.cdb",
        &site("_nuxt/DKwAzefS.js"),
        &["--immutable", "!/assets/", "--previous", &previous],
    );
    let server = Server::start(&[directory.path("2.cdb").to_str().unwrap()]);
    assert!(!is_immutable(&server, "_nuxt/DKwAzefS.js"), "its bytes have changed");
    assert!(is_immutable(&server, "assets/index-DKwAzefS.js"));
}

/// Hashes of Angular may have letters only, which look like a word.
#[test]
fn change_of_an_angular_entry_point_proves_its_names() {
    let directory = Directory::new();
    let site = |main: &'static str, chunk: &'static str| {
        vec![
            ("index.html", "home".to_owned()),
            (main, format!("{main} {chunk}")),
            (chunk, chunk.to_owned()),
            ("logo-ABSTRACT.svg", "<svg/>".to_owned()),
        ]
    };

    let previous = directory.text();
    directory.build_files("1.cdb", &site("main-ABCDEFGH.js", "chunk-XYZABCDE.js"), &[]);
    let flags = ["--previous", previous.as_str()];
    directory.build_files("2.cdb", &site("main-IJKLMNOP.js", "chunk-HELLOABC.js"), &flags);

    let server = Server::start(&[directory.path("2.cdb").to_str().unwrap()]);
    let caching = |path: &str| server.get(path).field("Cache-Control").unwrap().to_owned();
    for path in ["/main-IJKLMNOP.js", "/chunk-HELLOABC.js"] {
        assert!(caching(path).contains("immutable"), "{path}");
    }
    assert!(!caching("/logo-ABSTRACT.svg").contains("immutable"));
    assert_eq!(server.get("/main-ABCDEFGH.js").status, 200, "carried for pages that are open");
}

/// A rule for one host, beside fields of an earlier release, sent these fields twice.
#[test]
fn carried_file_has_each_field_once() {
    let directory = Directory::new();
    let headers = "/*\n  X-All: 1\nhttps://a.example/*\n  X-Host: 1\n".to_owned();
    let site = |script: &'static str| {
        vec![("index.html", "home".to_owned()), (script, script.to_owned()), ("_headers", headers.clone())]
    };
    let previous = directory.text();
    directory.build_files("1.cdb", &site("assets/a.js"), &[]);
    directory.build_files("2.cdb", &site("assets/b.js"), &["--previous", &previous]);
    let server = Server::start(&[directory.path("2.cdb").to_str().unwrap()]);
    for target in ["/assets/a.js", "/assets/b.js"] {
        let response = server.request_host("a.example", "GET", target, "");
        assert_eq!(response.status, 200, "{target}");
        for name in ["X-All", "X-Host", "Cache-Control", "Content-Type"] {
            let count = response.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
            assert_eq!(count, 1, "{target}: {name}: {:?}", response.fields);
        }
    }
}

/// A release that couldn't be opened for lack of descriptors counted as damaged, and was never served.
#[test]
fn lack_of_descriptors_delays_a_release() {
    let directory = Directory::new();
    directory.build(1, &[]);
    directory.uses("1");
    let server = Server::start(&["--releases", &directory.text()]);
    let pid = server.pid().to_string();
    let limit = |descriptors: &str| {
        let limit = format!("--nofile={descriptors}:");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    directory.build(2, &[]);
    server.await_line("other releases");
    // Open files stay open.
    limit("0");
    directory.uses("2");
    server.await_line("current: cannot read the archive: Too many open files");
    limit(&(descriptors + 50).to_string());
    server.await_line("serves a new release");
    assert_eq!((script(&server, 1), script(&server, 2)), (has(1), has(2)));

    // The same for a release that isn't current.
    limit("0");
    directory.build(3, &[]);
    server.await_line("Too many open files");
    limit(&(descriptors + 50).to_string());
    wait_until("the release is known", || script(&server, 3) == has(3));
}
