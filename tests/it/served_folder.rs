//! `cannery-server --folder`: a folder is served as its archive would be, and so is every change of it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cannery_testkit::http1::{self, Client};

use crate::harness::{
    Response, Server, TIMEOUT, compile, pages, request_at, run, server_command, wait_until, write_folder,
};

const SITE: [(&str, &str); 7] = [
    (
        "index.html",
        "a page and a page and a page and a page and a page and a page and a page and a page and a page",
    ),
    ("a.css", "body { margin: 0 }"),
    ("docs/b.txt", "text"),
    ("_headers", "/a.css\n  Cache-Control: max-age=60\n  X-One: 1\n"),
    ("_redirects", "/old / 301\n"),
    ("404.html", "not here"),
    ("_hosts/b.example/index.html", "another host"),
];

/// Writes the site into a folder `site` of a temporary directory.
fn site() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    write_folder(&root, &pages(&SITE));
    fs::write(root.join("index.html"), SITE[0].1.repeat(20)).unwrap();
    (folder, root)
}

fn serve(root: &Path, flags: &[&str]) -> Server {
    Server::start(&[&["--folder", root.to_str().unwrap()], flags].concat())
}

/// Waits until a path has this content.
fn await_content(server: &Server, target: &str, expected: &str) {
    wait_until(&format!("{target}: {expected}"), || server.get(target).body == expected.as_bytes());
}

/// Waits until a content is compressed. Over one transport, because another one may have the next version already.
fn await_coding(server: &Server, target: &str, coding: &str) {
    let line = format!("Accept-Encoding: {coding}\r\n");
    wait_until(&format!("{target}: {coding}"), || {
        request_at(&server.address, "GET", target, &line).field("Content-Encoding") == Some(coding)
    });
}

/// Longer than the buffers of a connection.
const LARGE_BYTES: usize = 24 << 20;

pub(crate) fn large_content(byte: u8) -> Vec<u8> {
    vec![byte; LARGE_BYTES]
}

/// Asserts that a download of `large.bin` ends as it began, although the file is replaced meanwhile.
pub(crate) fn assert_download_ends_as_it_began(address: &str, root: &Path) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!("GET /large.bin HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = vec![0; 4096];
    stream.read_exact(&mut received).unwrap();

    let next = root.join("next.tmp");
    fs::write(&next, large_content(b'b')).unwrap();
    fs::rename(&next, root.join("large.bin")).unwrap();
    wait_until("the new content", || {
        request_at(address, "GET", "/large.bin", "Range: bytes=0-0\r\n").body == b"b"
    });
    stream.read_to_end(&mut received).unwrap();
    let (response, rest) = http1::parse(&received, "GET");
    assert!(rest.is_empty() && response.status == 200);
    assert!(response.body == large_content(b'a'), "the content from before the edit");
}

fn without_date(response: &Response) -> (u16, Vec<(String, String)>, &[u8]) {
    let fields = response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    (response.status, fields.cloned().collect(), &response.body)
}

#[test]
fn codings_can_be_chosen() {
    let (_folder, root) = site();
    let server = serve(&root, &["--folder-compress", "zstd"]);
    await_coding(&server, "/", "zstd");
    let response = request_at(&server.address, "GET", "/", "Accept-Encoding: br, gzip\r\n");
    assert_eq!((response.status, response.field("Content-Encoding")), (200, None));

    let output =
        server_command().arg("--folder").arg(&root).args(["--folder-compress", "lzma"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("lzma") && error.contains("zstd"), "{error}");
}

#[test]
fn responses_are_those_of_a_deployed_archive() {
    let (folder, root) = site();
    let server = Server::start_on_all_transports(&["--folder", root.to_str().unwrap()]);
    await_coding(&server, "/", "br");
    let archive = folder.path().join("site.cdb");
    compile(&root, &archive, &[]);
    let deployed = Server::start(&["--archive", archive.to_str().unwrap()]);
    for host in ["localhost", "b.example"] {
        for target in ["/", "/a.css", "/docs/", "/docs/b.txt", "/old", "/none"] {
            for fields in
                ["", "Accept-Encoding: br, gzip\r\n", "Range: bytes=2-5\r\n", "If-None-Match: *\r\n"]
            {
                let ours = server.request_host(host, "GET", target, fields);
                let theirs = deployed.request_host(host, "GET", target, fields);
                assert_eq!(without_date(&ours), without_date(&theirs), "{host} {target} {fields}");
            }
        }
    }
}

#[test]
fn changes_are_served() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    assert_eq!(server.get("/docs/b.txt").body, b"text");
    fs::write(root.join("docs/b.txt"), "changed").unwrap();
    await_content(&server, "/docs/b.txt", "changed");
    fs::create_dir(root.join("new")).unwrap();
    fs::write(root.join("new/page.html"), "new").unwrap();
    await_content(&server, "/new/page", "new");
    fs::remove_file(root.join("docs/b.txt")).unwrap();
    await_content(&server, "/docs/b.txt", "not here");
    fs::write(root.join("index.html"), "another page ".repeat(100)).unwrap();
    await_coding(&server, "/", "br");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn several_folders_and_archives_have_their_hosts() {
    let (folder, root) = site();
    let other = folder.path().join("other");
    write_folder(&other, &pages(&[("index.html", "other")]));
    let third = folder.path().join("third");
    write_folder(&third, &pages(&[("index.html", "third")]));
    let archive = folder.path().join("third.cdb");
    compile(&third, &archive, &[]);
    let named = format!("other.example={}", other.display());
    let archive = format!("third.example={}", archive.display());
    let server = serve(&root, &["--folder", &named, &archive]);
    let body = |host: &str| server.request_host(host, "GET", "/", "").body;
    assert_eq!(body("other.example"), b"other");
    assert_eq!(body("third.example"), b"third");
    fs::write(other.join("index.html"), "changed").unwrap();
    wait_until("changed", || body("other.example") == b"changed");
    assert_eq!(body("b.example"), b"another host");
}

#[test]
fn last_version_is_served_while_the_folder_is_broken() {
    let (folder, root) = site();
    let server = serve(&root, &[]);
    let away = folder.path().join("away");
    fs::rename(&root, &away).unwrap();
    let line = server.await_line("error:");
    assert!(line.contains("check that it exists") && line.contains("still served"), "{line}");
    assert_eq!(server.get("/docs/b.txt").body, b"text");
    fs::rename(&away, &root).unwrap();
    fs::write(root.join("docs/b.txt"), "back").unwrap();
    await_content(&server, "/docs/b.txt", "back");

    // A folder at the same path is another one for the sandbox.
    fs::rename(&root, &away).unwrap();
    server.await_line("error:");
    write_folder(&root, &pages(&[("index.html", "replaced")]));
    await_content(&server, "/", "replaced");

    fs::write(root.join("_redirects"), "/private / 403\n").unwrap();
    server.await_line("_redirects:1: error:");
    assert_eq!(server.get("/").body, b"replaced");
    fs::write(root.join("_redirects"), "/private / 302\n").unwrap();
    wait_until("mended", || server.get("/private").status == 302);
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn links_may_be_turned() {
    let folder = tempfile::tempdir().unwrap();
    for release in ["1", "2"] {
        write_folder(&folder.path().join(release), &pages(&[("index.html", release)]));
    }
    let root = folder.path().join("current");
    std::os::unix::fs::symlink("1", &root).unwrap();
    let server = serve(&root, &[]);
    assert_eq!(server.get("/").body, b"1");
    let next = folder.path().join("next");
    std::os::unix::fs::symlink("2", &next).unwrap();
    fs::rename(&next, &root).unwrap();
    await_content(&server, "/", "2");
}

#[test]
fn links_out_of_the_folder_may_be_followed() {
    let (_folder, root) = site();
    let elsewhere = tempfile::tempdir().unwrap();
    write_folder(elsewhere.path(), &pages(&[("a/file.txt", "file"), ("b/docs/page.txt", "page")]));
    std::os::unix::fs::symlink(elsewhere.path().join("a/file.txt"), root.join("file.txt")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("b/docs"), root.join("more")).unwrap();
    let server = serve(&root, &["--follow-links"]);
    assert_eq!(server.get("/file.txt").body, b"file");
    assert_eq!(server.get("/more/page.txt").body, b"page");
    fs::write(elsewhere.path().join("b/docs/page.txt"), "changed").unwrap();
    await_content(&server, "/more/page.txt", "changed");
}

/// A user who could write into the folder could publish any file of the server's user, and a link to `/` kept the server from
/// starting.
#[test]
fn links_out_of_the_folder_are_left_out() {
    let (folder, root) = site();
    fs::write(folder.path().join("secret.key"), "secret").unwrap();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    link("/", "root");
    link("../secret.key", "s.txt");
    link("docs/b.txt", "inside.txt");
    link("loop", "loop");
    let server = serve(&root, &[]);
    assert_eq!((server.get("/s.txt").status, server.get("/root/etc/hostname").status), (404, 404));
    assert_eq!(server.get("/inside.txt").body, b"text");

    link("/proc/self/environ", "e.txt");
    link("/etc/hostname", "h.txt");
    fs::write(root.join("docs/b.txt"), "updated").unwrap();
    await_content(&server, "/docs/b.txt", "updated");
    await_content(&server, "/inside.txt", "updated");
    assert_eq!((server.get("/e.txt").status, server.get("/h.txt").status), (404, 404));
    assert!(server.await_line("h.txt: warning:").contains("left out"));
}

/// Updates stopped until the link was removed.
#[test]
#[cfg_attr(feature = "portable", ignore = "the sandbox needs Linux")]
fn link_that_the_sandbox_refuses_stops_no_update() {
    let (_folder, root) = site();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file.txt"), "later").unwrap();
    let server = serve(&root, &["--follow-links"]);
    std::os::unix::fs::symlink(elsewhere.path().join("file.txt"), root.join("later.txt")).unwrap();
    let warning = server.await_line("later.txt: warning:");
    assert!(warning.contains("left out"), "{warning}");
    fs::write(root.join("docs/b.txt"), "updated").unwrap();
    await_content(&server, "/docs/b.txt", "updated");
    assert_eq!(server.get("/later.txt").body, b"not here");
}

/// The process that was started again didn't know the last version of a file that was being replaced.
#[test]
#[cfg(target_os = "linux")]
fn compiler_that_is_started_again_knows_the_last_version() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    let (before, _) = compiler(&server);
    let mut writer = fs::File::create(root.join("docs/b.txt")).unwrap();
    writer.write_all(b"half").unwrap();
    kill(before);
    fs::write(root.join("a.css"), "body { margin: 1px }").unwrap();
    await_content(&server, "/a.css", "body { margin: 1px }");
    assert_eq!(server.get("/docs/b.txt").body, b"text");
    drop(writer);
    await_content(&server, "/docs/b.txt", "half");
}

#[test]
fn folder_that_cannot_be_served_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let cases = [(&file, "is not a folder"), (&missing, "check that it exists"), (&empty, "no file")];
    for (path, words) in cases {
        let path = path.to_str().unwrap();
        let output = server_command().args(["--folder", path, "--bind", "127.0.0.1:0"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{printed}");
        assert!(printed.contains(path) && printed.contains(words), "{printed}");
    }
    let path = empty.to_str().unwrap();
    let output = run("cannery-server", &["--folder", path, "--processes", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--processes"));
}

#[test]
fn missing_archiver_is_named() {
    let (folder, root) = site();
    let program = folder.path().join("cannery-server");
    fs::copy(env!("CARGO_BIN_EXE_cannery-server"), &program).unwrap();
    let output = run(program.to_str().unwrap(), &["--folder", root.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("needs") && printed.contains("install `cannery-archiver`"), "{printed}");
}

/// Returns the children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Returns the processes of a server with one folder: the one that compiles it, and its keeper.
pub(crate) fn compiler(server: &Server) -> (u32, u32) {
    let [keeper] = children(server.pid())[..] else { panic!("one process starts the compiler") };
    let [compiler] = children(keeper)[..] else { panic!("one process compiles") };
    (compiler, keeper)
}

#[cfg(target_os = "linux")]
fn kill(process: u32) {
    run("kill", &["-KILL", &process.to_string()]);
    wait_until("the process ends", || !Path::new(&format!("/proc/{process}/exe")).exists());
}

#[test]
#[cfg(target_os = "linux")]
fn compiler_that_ended_is_started_again() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    for content in ["first", "second"] {
        let (before, _) = compiler(&server);
        kill(before);
        fs::write(root.join("docs/b.txt"), content).unwrap();
        let line = server.await_line("started again");
        assert!(line.contains("warning:") && line.contains("still served"), "{line}");
        await_content(&server, "/docs/b.txt", content);
        assert_ne!(compiler(&server).0, before);
    }

    // The folder is broken when it starts again.
    let (before, _) = compiler(&server);
    fs::write(root.join("_redirects"), "/private / 403\n").unwrap();
    server.await_line("_redirects:1: error:");
    kill(before);
    server.await_line("_redirects:1: error:");
    assert_eq!(server.get("/docs/b.txt").body, b"second");
    fs::write(root.join("_redirects"), "/private / 302\n").unwrap();
    wait_until("mended", || server.get("/private").status == 302);
}

/// A service manager sends a signal to all processes of a service.
#[test]
#[cfg(target_os = "linux")]
fn signals_of_the_server_do_not_end_the_compiler() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    let (process, keeper) = compiler(&server);
    for signal in ["-HUP", "-USR1", "-USR2"] {
        run("kill", &[signal, &process.to_string(), &keeper.to_string()]);
    }
    fs::write(root.join("docs/b.txt"), "after the signals").unwrap();
    await_content(&server, "/docs/b.txt", "after the signals");
    assert_eq!(compiler(&server), (process, keeper));
}

#[test]
#[cfg(target_os = "linux")]
fn folder_is_compressed_within_a_limit_of_memory() {
    let (_folder, root) = site();
    let server = serve(&root, &["--limit-memory", "96"]);
    await_coding(&server, "/", "br");
    fs::write(root.join("docs/b.txt"), "changed ".repeat(10_000)).unwrap();
    await_coding(&server, "/docs/b.txt", "br");
    assert_eq!(server.stop(), Some(0));
}

/// Threads of the process panicked, or it aborted, with messages that named neither the limit nor a remedy.
#[test]
#[cfg(target_os = "linux")]
fn limit_of_memory_that_is_too_small_is_named() {
    let (_folder, root) = site();
    let server = serve(&root, &["--limit-memory", "32"]);
    fs::write(root.join("large.txt"), "not enough memory for this ".repeat(2_000_000)).unwrap();
    let line = server.await_line("--limit-memory");
    assert!(line.contains("warning:") && line.contains("raise `--limit-memory` from 32"), "{line}");
    assert_eq!(server.get("/a.css").body, b"body { margin: 0 }");
    fs::remove_file(root.join("large.txt")).unwrap();
    fs::write(root.join("docs/b.txt"), "changed").unwrap();
    await_content(&server, "/docs/b.txt", "changed");
}

#[test]
#[cfg(target_os = "linux")]
fn compilers_end_with_the_server() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    let (compiler, keeper) = compiler(&server);
    drop(server);
    for process in [compiler, keeper] {
        wait_until("it ends", || !Path::new(&format!("/proc/{process}/exe")).exists());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn folder_without_processes_is_still_served() {
    let (_folder, root) = site();
    let server = serve(&root, &[]);
    let (compiler, keeper) = compiler(&server);
    kill(keeper);
    kill(compiler);
    let line = server.await_line("has ended");
    assert!(line.contains("warning:") && line.contains("still served"), "{line}");
    assert_eq!(server.get("/docs/b.txt").body, b"text");
}

#[test]
#[cfg_attr(any(feature = "portable", not(target_os = "linux")), ignore = "the sandbox needs Linux")]
fn compiler_is_sandboxed() {
    let (_folder, root) = site();
    let server = serve(&root, &["--sandbox", "require"]);
    // All its threads have started when this is compressed.
    await_coding(&server, "/", "br");
    let (compiler, _) = compiler(&server);
    let mut checked = 0;
    for task in fs::read_dir(format!("/proc/{compiler}/task")).unwrap() {
        // Those that compress may end now.
        let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        assert!(status.contains("\nSeccomp:\t2\n") && status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        checked += 1;
    }
    assert!(checked > 0, "the thread that started the process goes on");
}

#[test]
fn open_download_ends_as_it_began() {
    let (_folder, root) = site();
    fs::write(root.join("large.bin"), large_content(b'a')).unwrap();
    let server = serve(&root, &[]);
    assert_download_ends_as_it_began(&server.address, &root);
}

/// The rate of a storm, and its length.
const STORM_FILES_PER_SECOND: u32 = 1000;
const STORM_FILES: u32 = 4000;

/// The number of files that a storm writes, in 10 directories, again and again.
const STORM_NAMES: u32 = 1000;

fn storm_path(number: u32) -> String {
    let name = number % STORM_NAMES;
    format!("storm/{}/{name}.txt", name % 10)
}

#[test]
fn newest_state_is_served_after_a_storm() {
    let (folder, root) = site();
    let next = folder.path().join("next");
    for number in 0..STORM_NAMES {
        write_folder(&root, &[(storm_path(number).as_bytes(), b"before")]);
    }
    let server = serve(&root, &[]);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let began = Instant::now();
            for number in 0..STORM_FILES {
                // Paced, as fast as the test demands and no faster.
                let next_at = began + Duration::from_secs(1) * number / STORM_FILES_PER_SECOND;
                std::thread::sleep(next_at.saturating_duration_since(Instant::now()));
                // A write may take longer than a half-written file is held back, so each file is complete when it appears.
                fs::write(&next, format!("version {number}")).unwrap();
                fs::rename(&next, root.join(storm_path(number))).unwrap();
            }
            began.elapsed()
        });

        // No request fails meanwhile.
        let mut client = Client::new(server.connect());
        let mut get = |target: &str| {
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client.request(request.as_bytes(), "GET").unwrap()
        };
        while !writer.is_finished() {
            assert_eq!(get("/a.css").body, b"body { margin: 0 }");
            let page = get(&format!("/{}", storm_path(rounds * 7)));
            let is_whole = page.body == b"before" || page.body.starts_with(b"version ");
            assert!(
                page.status == 200 && is_whole,
                "{} {:?}",
                page.status,
                String::from_utf8_lossy(&page.body)
            );
            rounds += 1;
        }
        println!("{STORM_FILES} files written in {:.1} s", writer.join().unwrap().as_secs_f64());
    });

    let ended = Instant::now();
    for number in STORM_FILES - STORM_NAMES..STORM_FILES {
        await_content(&server, &format!("/{}", storm_path(number)), &format!("version {number}"));
    }
    println!("{rounds} rounds; the newest state is served {:.2} s later", ended.elapsed().as_secs_f64());
}
