//! Builds: untrusted or read-only caches, folders that are no site, links out of the folder, interrupted builds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Server, run, signal, write_folder};
use crate::random::letters;

/// A directory with a site and its archive.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_bytes(), text.as_bytes())).collect();
        write_folder(&folder.path().join("site"), &files);
        Place { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn arguments(&self) -> [String; 4] {
        ["--sources".into(), self.text("site"), "--archive".into(), self.text("site.cdb")]
    }

    /// Builds the folder. Returns the exit code and standard error.
    fn build(&self, flags: &[&str]) -> (i32, String) {
        let places = self.arguments();
        let words: Vec<&str> = places.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let Output { status, stderr, .. } = run("cannery-archiver", &words);
        (status.code().unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Builds the folder. Panics unless the archiver succeeds without a message.
    fn builds(&self, flags: &[&str]) {
        assert_eq!(self.build(flags), (0, String::new()));
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    let mut files: Vec<_> = entries.flat_map(below).collect();
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A cached result was used if its digest matched, even if it decoded to other content.
#[test]
fn poisoned_compression_cache_is_rejected() {
    let good = "the good page, many times over ".repeat(40);
    let evil = "<script>alert('from the cache')</script> ".repeat(40);
    let place = Place::new(&[("index.html", &good), ("evil.html", &evil)]);
    let cache = place.text("cache");
    for coding in ["gzip", "brotli", "zstd"] {
        let flags = ["--compress", coding, "--compress-cache", &cache];
        place.builds(&flags);
        let clean = fs::read(place.path("site.cdb")).unwrap();

        // After the magic number and the content's digest come the result's digest and the result.
        let results = files_below(&place.path("cache"));
        let [one, other] = [0, 1].map(|place| fs::read(&results[place]).unwrap());
        fs::write(&results[0], [&one[..40], &other[40..]].concat()).unwrap();
        fs::write(&results[1], [&other[..40], &one[40..]].concat()).unwrap();
        let (code, printed) = place.build(&flags);
        assert!(
            code == 0 && printed.contains("[cache-untrue]") && printed.contains("2 results"),
            "{printed}"
        );
        assert!(fs::read(place.path("site.cdb")).unwrap() == clean, "{coding}: the poison was published");

        let (code, printed) = place.build(&[&flags[..], &["--strict"]].concat());
        assert!(code == 0 && printed.is_empty(), "{printed}");
        fs::remove_dir_all(&cache).unwrap();
    }
}

#[test]
fn source_cache_writable_by_others_is_rejected() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(&[("index.html", "page")]);
    let cache = place.text("cache");
    place.builds(&["--sources-cache", &cache]);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, printed) = place.build(&["--sources-cache", &cache, "--strict"]);
    assert!(code == 0 && printed.contains("[cache-unused]") && printed.contains("mode 666"), "{printed}");
    place.builds(&["--sources-cache", &cache]);
}

/// If the disk of a cache was full, the build failed.
#[test]
#[cfg(target_os = "linux")]
fn unwritable_caches_cause_a_warning() {
    let place = Place::new(&[("index.html", &"page ".repeat(100))]);
    let flags = ["--compress-cache", "/proc/cannery", "--sources-cache", "/proc/cannery.sources", "--strict"];
    let (code, printed) = place.build(&flags);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(printed.matches("[cache-unwritable]").count(), 2, "{printed}");
    assert!(place.path("site.cdb").exists());
}

/// A pipeline that built the wrong folder replaced the site by an empty one.
#[test]
fn folder_without_a_site_replaces_no_archive() {
    let place = Place::new(&[("index.html", "page")]);
    place.builds(&[]);
    let good = fs::read(place.path("site.cdb")).unwrap();
    let refuses = |words: &str| {
        let (code, printed) = place.build(&[]);
        assert!(
            code == 3 && printed.contains(words) && printed.contains("--allow-empty"),
            "{code}: {printed}"
        );
        assert!(fs::read(place.path("site.cdb")).unwrap() == good);
    };
    let site = place.path("site");
    fs::remove_file(site.join("index.html")).unwrap();
    refuses("contains no file");
    fs::create_dir(site.join("assets")).unwrap();
    fs::write(site.join("assets/app.js"), "1").unwrap();
    refuses("no page for `/`");
    place.builds(&["--allow-empty"]);
    assert!(fs::read(place.path("site.cdb")).unwrap() != good);
}

#[test]
fn rules_fallbacks_listings_and_hosts_count_as_a_site() {
    let sites: [&[(&str, &str)]; 5] = [
        &[("_redirects", "/ /en/ 302\n"), ("en/index.html", "page")],
        &[("_redirects", "/* https://example.com/:splat 301\n")],
        &[("200.html", "app")],
        &[("_hosts/a.example/index.html", "page")],
        &[("home.htm", "page"), ("index.htm", "page")],
    ];
    for files in sites {
        assert_eq!(Place::new(files).build(&[]).0, 0, "{files:?}");
    }
    let place = Place::new(&[("a.txt", "file")]);
    place.builds(&["--include-folder-listing"]);
    let place = Place::new(&[("_redirects", "/old/* /new/:splat 301\n"), ("new/a.html", "page")]);
    assert_eq!(place.build(&[]).0, 3);
}

/// The target of a symbolic link, for example from a pull request, was published without a warning.
#[test]
fn links_out_of_the_folder_are_reported() {
    let place = Place::new(&[("index.html", "page")]);
    fs::write(place.path("secret.txt"), "secret").unwrap();
    symlink("../secret.txt", place.path("site").join("notes.txt")).unwrap();
    symlink("index.html", place.path("site").join("home.html")).unwrap();
    let (code, printed) = place.build(&[]);
    let remarks = printed.matches("[symlink-outside]").count();
    assert!(code == 0 && remarks == 1 && printed.starts_with("notes.txt: warning:"), "{printed}");
    fs::remove_file(place.path("site.cdb")).unwrap();
    assert_eq!(place.build(&["--strict"]).0, 5);
    assert!(!place.path("site.cdb").exists());
    place.builds(&["--strict", "--ignore", "notes.txt"]);
    place.builds(&["--strict", "--follow-links"]);
    let server = Server::start(&["--archive", &place.text("site.cdb")]);
    assert_eq!(server.get("/notes.txt").body, b"secret");
}

/// Thirteen levels of two links each caused 8,192 walks, and each further level twice as many.
#[test]
fn fanned_out_links_end_with_a_warning() {
    let place = Place::new(&[("index.html", "page"), ("60/leaf.txt", "leaf")]);
    for level in 0..60 {
        let folder = place.path("site").join(level.to_string());
        fs::create_dir(&folder).unwrap();
        symlink(format!("../{}", level + 1), folder.join("a")).unwrap();
        symlink(format!("../{}", level + 1), folder.join("b")).unwrap();
    }
    let (code, printed) = place.build(&[]);
    assert!(code == 0 && printed.contains("[symlink-fan]"), "{code}: {printed}");
}

/// Waits until a running build has created a temporary file in a folder.
fn wait_for_file(build: &mut Child, folder: &Path, is_temporary: impl Fn(&str) -> bool) {
    let started = Instant::now();
    while !names(folder).iter().any(|name| is_temporary(name)) {
        assert!(build.try_wait().unwrap().is_none(), "it ended too soon");
        assert!(started.elapsed() < Duration::from_secs(60), "it creates no temporary file");
        std::thread::yield_now();
    }
}

fn begin_long_build(place: &Place, flags: &[&str]) -> Child {
    // Programs that are started in the background ignore SIGINT, and so do their children.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(env!("CARGO_BIN_EXE_cannery-archiver"));
    command.args(place.arguments()).args(["--compress", "brotli"]).args(flags);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn is_temporary(name: &str) -> bool {
    name.ends_with(".tmp")
}

/// After Ctrl-C, a temporary file of the archive's size remained.
#[test]
fn interrupted_build_leaves_no_files() {
    let place = Place::new(&[("index.html", "page")]);
    fs::write(place.path("site").join("long.txt"), letters(8_000_000)).unwrap();
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let mut build = begin_long_build(&place, &[]);
        wait_for_file(&mut build, place.folder.path(), is_temporary);
        signal(&build, name);
        assert_eq!(build.wait().unwrap().signal(), Some(number), "{name}");
        assert_eq!(names(place.folder.path()), ["site"], "{name}");
    }
}

/// The temporary file of a killed build was removed only by a build of the same archive.
#[test]
fn next_build_removes_files_of_a_killed_one() {
    let place = Place::new(&[("index.html", "page")]);
    fs::write(place.path("site").join("long.txt"), letters(8_000_000)).unwrap();
    let mut build = begin_long_build(&place, &[]);
    wait_for_file(&mut build, place.folder.path(), is_temporary);
    build.kill().unwrap();
    build.wait().unwrap();
    assert_eq!(names(place.folder.path()).len(), 2);
    fs::remove_file(place.path("site").join("long.txt")).unwrap();
    let other = place.text("other.cdb");
    let output = run("cannery-archiver", &["--sources", &place.text("site"), "--archive", &other]);
    assert!(output.status.success());
    assert_eq!(names(place.folder.path()), ["other.cdb", "site"]);
}

/// After Ctrl-C or SIGKILL during the build, a temporary directory remained.
#[test]
fn serve_creates_no_temporary_files() {
    let place = Place::new(&[("index.html", "page")]);
    let temporary = place.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    command.args(["serve", &place.text("site"), "--bind", "127.0.0.1:0", "--json"]).env("TMPDIR", &temporary);
    let mut serve = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut events = BufReader::new(serve.stdout.take().unwrap()).lines().map(Result::unwrap);
    let is_compressed = events.any(|event| event.contains(r#""event":"compressed""#));
    assert_eq!(names(&temporary), [""; 0]);
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(is_compressed, "no build was complete");
    assert_eq!(names(&temporary), [""; 0]);
}
