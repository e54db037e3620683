//! `cannery bundle`: one executable with the server and a site.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::{Server, compile, request_at, run, wait_until, write_folder};
use crate::processes::{Orphan, replace_program};

const SERVER: &str = env!("CARGO_BIN_EXE_cannery-server");

/// The page size by which an archive is aligned in a file.
const PAGE_BYTES: u64 = 4096;

/// Length of a body that makes an archive too large to be checked before the server starts.
const LARGE_BYTES: usize = 20 << 20;

/// A directory for archives and executables.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Compiles an archive with this content at `/a.txt`.
    fn archive(&self, name: &str, content: &str) -> String {
        self.archive_with(name, &[("a.txt", content.as_bytes())])
    }

    fn archive_with(&self, name: &str, files: &[(&str, &[u8])]) -> String {
        let source = tempfile::tempdir().unwrap();
        for (path, content) in files {
            write_folder(source.path(), &[(path.as_bytes(), content)]);
        }
        compile(source.path(), &self.path(name), &["--compress", "identity,gzip"]);
        self.text(name)
    }

    /// Writes the executable of this name.
    fn bundle(&self, archive: &str, name: &str) -> String {
        succeeds(&run("cannery", &["bundle", archive, "-o", &self.text(name)]));
        self.text(name)
    }

    /// Copies a file, and changes the copy in a separate process: another test may start a process that would inherit the
    /// descriptor, and then the copy could not be executed (`ETXTBSY`).
    fn changed(&self, file: &str, name: &str, script: &str) -> String {
        let copy = self.text(name);
        let script = format!("cp {file} {copy} && {script}{copy}");
        succeeds(&Command::new("sh").args(["-c", &script]).output().unwrap());
        copy
    }
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn assert_fails(output: &Output, code: i32, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(words) && !stderr.contains("panicked"), "`{words}` is not in {stderr}");
}

fn length(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Starts an executable on a free port, in its complete sandbox.
fn start(app: &str, arguments: &[&str]) -> Server {
    let mut command = Command::new(app);
    command.args(["--bind", "127.0.0.1:0", "--threads", "2"]).args(arguments);
    if !cfg!(feature = "portable") {
        let policy = std::env::var("CANNERY_TEST_SANDBOX").unwrap_or_else(|_| "require".into());
        command.args(["--sandbox", &policy]);
    }
    Server::run(command)
}

/// Returns the content of `/a.txt`.
fn content(server: &Server) -> String {
    String::from_utf8(server.get("/a.txt").body).unwrap()
}

#[test]
fn bundle_is_server_and_archive_in_one_file() {
    let bench = Bench::new();
    let archive = bench.archive("site.cdb", "one");
    let app = bench.bundle(&archive, "app");
    assert!(length(&app) <= length(SERVER) + length(&archive) + PAGE_BYTES);
    assert!(fs::read(&app).unwrap().starts_with(&fs::read(SERVER).unwrap()), "the program is unchanged");
    assert_eq!((length(&app) - length(&archive)) % PAGE_BYTES, 0, "the archive begins at a page");
    assert_eq!(fs::metadata(&app).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(fs::read(&app).unwrap() == fs::read(bench.bundle(&archive, "again")).unwrap(), "deterministic");

    let server = start(&app, &[]);
    assert_eq!(content(&server), "one");
    assert_eq!(server.get("/missing").status, 404);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn commands_read_bundles_like_archives() {
    let bench = Bench::new();
    let archive = bench.archive("site.cdb", "one\n");
    let app = bench.bundle(&archive, "app");
    for command in [
        &["inspect", "FILE"][..],
        &["inspect", "FILE", "--list"],
        &["inspect", "FILE", "/a.txt", "--json"],
        &["verify", "FILE", "--json"],
        &["explain", "FILE", "/a.txt", "--json"],
    ] {
        let of = |file: &str| {
            let arguments: Vec<_> =
                command.iter().map(|word| if *word == "FILE" { file } else { *word }).collect();
            let output = run("cannery", &arguments);
            succeeds(&output);
            String::from_utf8(output.stdout).unwrap().replace(file, "FILE")
        };
        let (of_archive, of_app) = (of(&archive), of(&app));
        // `inspect` aligns its columns with the length of the name.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&of_archive), words(&of_app), "{command:?}");
    }
    succeeds(&run("cannery", &["extract", &app, &bench.text("restored")]));
    assert_eq!(fs::read(bench.path("restored/a.txt")).unwrap(), b"one\n");

    // The archive of a bundle goes into another one.
    let again = bench.bundle(&app, "again");
    assert!(fs::read(app).unwrap() == fs::read(again).unwrap());
}

#[test]
fn replaced_archive_is_served_at_once() {
    let bench = Bench::new();
    let app = bench.bundle(&bench.archive("one.cdb", "one"), "app");
    fs::set_permissions(&app, fs::Permissions::from_mode(0o750)).unwrap();
    let server = start(&app, &[]);
    assert_eq!(content(&server), "one");

    let next = bench.archive("two.cdb", "two");
    succeeds(&run("cannery", &["bundle", "--replace", &next, &app]));
    server.await_line("serves a new release");
    assert_eq!(content(&server), "two");
    assert_eq!(fs::metadata(&app).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(fs::read(&app).unwrap() == fs::read(bench.bundle(&next, "other")).unwrap());
    assert_eq!(server.stop(), Some(0));
    assert_eq!(content(&start(&app, &[])), "two");
}

#[test]
fn takeover_serves_the_new_bundle() {
    let bench = Bench::new();
    let current = bench.path("current");
    let link = |target: &str| {
        let next = bench.path("next");
        symlink(target, &next).unwrap();
        fs::rename(next, &current).unwrap();
    };
    bench.bundle(&bench.archive("one.cdb", "one"), "app-1");
    bench.bundle(&bench.archive("two.cdb", "two"), "app-2");
    link("app-1");
    let flags = ["--processes", "2", "--threads", "1", "--watch-disable"];
    let mut old = start(current.to_str().unwrap(), &flags);
    let address = old.address.clone();
    assert_eq!(content(&old), "one");

    link("app-2");
    old.signal("USR2");
    let new = Orphan::await_takeover(&old);
    assert_eq!(old.wait(), Some(0), "the old supervisor exits");
    assert_eq!(request_at(&address, "GET", "/a.txt", "").body, b"two");

    // The processes follow the link too.
    link("app-1");
    Command::new("kill").args(["-HUP", &new.pid().to_string()]).status().unwrap();
    wait_until("the processes reload", || request_at(&address, "GET", "/a.txt", "").body == b"one");
    new.stop();
}

#[test]
fn takeover_by_a_damaged_bundle_keeps_the_old_one() {
    let bench = Bench::new();
    let large = vec![b'x'; LARGE_BYTES];
    let archive = bench.archive_with("one.cdb", &[("a.txt", b"one"), ("large.bin", &large)]);
    let app = bench.bundle(&archive, "app");
    let server = start(&app, &["--processes", "1", "--threads", "1", "--watch-disable"]);
    let damaged = damage(&bench, &app, &archive, LARGE_BYTES as u64 / 2);
    replace_program(Path::new(&app), Path::new(&damaged));
    server.signal("USR2");
    let line = server.await_line("does not take over");
    assert!(line.contains("exit status: 3"), "{line}");
    assert_eq!(content(&server), "one");
}

/// Returns a copy of an executable with a changed byte at this offset in its archive.
fn damage(bench: &Bench, app: &str, archive: &str, offset: u64) -> String {
    let offset = length(app) - length(archive) + offset;
    let script = format!("printf '\\377' | dd conv=notrunc bs=1 seek={offset} 2>/dev/null of=");
    bench.changed(app, "damaged", &script)
}

#[test]
fn changed_bundle_does_not_start() {
    let bench = Bench::new();
    let archive = bench.archive("site.cdb", "some content that is changed below");
    let app = bench.bundle(&archive, "app");
    let last = length(&archive) - 10;
    // In the facts, in a record, and in a hash table, which is zero there or not.
    for offset in [2048 + 15 + 70, 2300, last] {
        let damaged = damage(&bench, &app, &archive, offset);
        assert_fails(&run(&damaged, &["--bind", "127.0.0.1:0"]), 3, "corrupt archive");
        assert_fails(&run("cannery", &["verify", &damaged]), 3, "corrupt archive");
    }
}

#[test]
fn changed_large_bundle_ends_with_an_error() {
    let bench = Bench::new();
    let large = vec![b'x'; LARGE_BYTES];
    let archive = bench.archive_with("site.cdb", &[("a.txt", b"one"), ("large.bin", &large)]);
    let app = bench.bundle(&archive, "app");
    let server = start(&app, &[]);
    assert_eq!(content(&server), "one");
    assert_eq!(server.get("/large.bin").body.len(), LARGE_BYTES);
    assert_eq!(server.stop(), Some(0));

    let damaged = damage(&bench, &app, &archive, LARGE_BYTES as u64 / 2);
    for flags in [&[][..], &["--processes", "2"]] {
        let flags = [&["--bind", "127.0.0.1:0", "--threads", "1"], flags].concat();
        let child = Command::new(&damaged).args(flags).stderr(Stdio::piped()).spawn().unwrap();
        assert_fails(&child.wait_with_output().unwrap(), 3, "corrupt archive: its digest is");
    }
}

#[test]
fn truncated_bundle_does_not_start() {
    let bench = Bench::new();
    let archive = bench.archive("site.cdb", "content");
    let app = bench.bundle(&archive, "app");
    let start = length(&app) - length(&archive);
    let program = length(SERVER);

    for (name, bytes, words) in [
        ("last-byte", length(&app) - 1, "truncated or extended"),
        ("records", start + 2300, "truncated or extended"),
        ("first-record", start + 2100, "only 2100 bytes"),
        ("first-key", start + 2060, "its first record is not `cannery`"),
        ("header", start + 100, "only 100 bytes"),
        ("padding", program + 1, "only 0 bytes"),
        ("extended", length(&app) + 1, "truncated or extended"),
    ] {
        let cut = bench.changed(&app, name, &format!("truncate -s {bytes} "));
        assert_fails(&run(&cut, &["--bind", "127.0.0.1:0"]), 3, words);
        assert_fails(&run("cannery", &["inspect", &cut]), 3, words);
    }

    // The rest is the server, byte for byte.
    let whole = bench.changed(&app, "program", &format!("truncate -s {program} "));
    assert_fails(&run(&whole, &["--bind", "127.0.0.1:0"]), 2, "name the archive to serve");
    assert_fails(&run("cannery", &["inspect", &whole]), 3, "a program without one");
}

#[test]
fn named_archives_take_precedence() {
    let bench = Bench::new();
    let app = bench.bundle(&bench.archive("one.cdb", "one"), "app");
    let other = bench.archive("two.cdb", "two");
    assert_eq!(content(&start(&app, &[&other])), "two");

    let named = format!("two.example={other}");
    let server = start(&app, &[&named]);
    let of = |host: &str| server.request_host(host, "GET", "/a.txt", "").body;
    assert_eq!((of("two.example"), of("else.example")), (b"two".to_vec(), b"one".to_vec()));
}

#[test]
fn wrong_files_are_refused() {
    let bench = Bench::new();
    let archive = bench.archive("site.cdb", "one");
    let app = bench.text("app");
    let bundle = |arguments: &[&str]| run("cannery", &[&["bundle"], arguments].concat());

    fs::write(bench.path("script"), "#!/bin/sh\n").unwrap();
    let script = bench.text("script");
    let cut = bench.changed(SERVER, "cut", "truncate -s 100000 ");

    assert_fails(&bundle(&[&archive]), 2, "--output");
    assert_fails(&bundle(&[&archive, "-o", &app, "--server", &script]), 3, "not a program");
    assert_fails(&bundle(&[&archive, "-o", &app, "--server", &cut]), 3, "truncated");
    assert_fails(&bundle(&[&archive, "-o", &app, "--server", "/nowhere"]), 3, "/nowhere");
    assert_fails(
        &bundle(&[&archive, "-o", &app, "--server", env!("CARGO_BIN_EXE_cannery")]),
        3,
        "not the server",
    );
    assert_fails(&bundle(&[&script, "-o", &app]), 3, "isn't an archive");
    assert_fails(&bundle(&[&archive, "-o", "/nowhere/app"]), 4, "/nowhere/app");
    assert_fails(&bundle(&["--replace", &archive, SERVER]), 3, "no archive to replace");

    assert!(!Path::new(&app).exists());
}
