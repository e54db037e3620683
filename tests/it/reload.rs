//! Reload of archives while serving: releases are swapped atomically, or refused, without an effect on connections.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cannery_testkit::http1;

use crate::harness::{Server, compile, is_slow, pages, parse, run, write_folder};
use crate::releases::damage;
use crate::transports::connect;

/// A directory of releases.
struct Releases {
    folder: tempfile::TempDir,
}

impl Releases {
    fn new() -> Releases {
        Releases { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles these files into the archive of this name.
    fn build(&self, name: &str, files: &[(&[u8], &[u8])]) -> PathBuf {
        let source = tempfile::tempdir().unwrap();
        write_folder(source.path(), files);
        let archive = self.path(name);
        compile(source.path(), &archive, &["--compress", "identity,gzip"]);
        archive
    }

    /// Builds a release. Each of its pages contains its number.
    fn build_numbered(&self, name: &str, number: usize) -> PathBuf {
        let small = format!("release {number}\n");
        let large = small.repeat(40_000);
        self.build(name, &[(b"small.txt", small.as_bytes()), (b"large.txt", large.as_bytes())])
    }

    fn serve(&self, archive: &Path, flags: &[&str]) -> Server {
        Server::start(&[&["--archive", archive.to_str().unwrap()], flags].concat())
    }
}

fn body(server: &Server, target: &str) -> String {
    String::from_utf8(server.get(target).body).unwrap()
}

#[test]
fn new_archive_is_served_at_once() {
    let releases = Releases::new();
    let archive = releases.build_numbered("site.cdb", 1);
    let server = releases.serve(&archive, &[]);
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    releases.build_numbered("site.cdb", 2);
    let line = server.await_line("serves a new release");
    assert!(line.contains(" paths") && line.contains("digest "), "{line}");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn watch_disable_reloads_on_sighup_only() {
    let releases = Releases::new();
    let archive = releases.build_numbered("site.cdb", 1);
    let server = releases.serve(&archive, &["--watch-disable"]);
    server.signal("HUP");
    server.await_line("no archive has changed");
    releases.build_numbered("site.cdb", 2);
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    server.signal("HUP");
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn symlink_selects_the_release() {
    let releases = Releases::new();
    releases.build_numbered("1.cdb", 1);
    releases.build_numbered("2.cdb", 2);
    let current = releases.path("current");
    let select = |target: &str| {
        let next = releases.path("next");
        symlink(target, &next).unwrap();
        fs::rename(&next, &current).unwrap();
    };
    select("1.cdb");
    let server = releases.serve(&current, &[]);
    for (target, expected) in [("2.cdb", "release 2\n"), ("1.cdb", "release 1\n"), ("2.cdb", "release 2\n")] {
        select(target);
        server.await_line("serves a new release");
        assert_eq!(body(&server, "/small.txt"), expected);
    }
}

#[test]
fn damaged_archives_are_refused() {
    let releases = Releases::new();
    let archive = releases.build_numbered("site.cdb", 1);
    let server = releases.serve(&archive, &[]);

    let good = fs::read(&archive).unwrap();
    let mut changed = good.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let bad: [(&str, &[u8]); 5] = [
        ("cut", &good[..good.len() - 100]),
        ("foreign", b"this is no archive"),
        ("empty", b""),
        ("one bit", &changed),
        ("larger", &[good.as_slice(), b"x"].concat()),
    ];

    for (name, bytes) in bad {
        let next = releases.path("next");
        fs::write(&next, bytes).unwrap();
        fs::rename(&next, &archive).unwrap();
        let line = server.await_line("still served");
        assert!(line.contains("site.cdb"), "{name}: {line}");
        assert_eq!(body(&server, "/small.txt"), "release 1\n", "{name}");
    }

    fs::remove_file(&archive).unwrap();
    server.await_line("No such file");
    fs::create_dir(&archive).unwrap();
    // In the sandbox, the system only reports a missing permission.
    server.await_line("this is a folder, not an archive; the previous release is still served");
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    fs::remove_dir(&archive).unwrap();
    releases.build_numbered("site.cdb", 3);
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 3\n");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has leases")]
fn archive_written_in_place_is_served_unchanged() {
    for (flags, notice) in
        [(["--archive-mmap"].as_slice(), "this file is being modified"), (&[], "still served")]
    {
        assert_served_unchanged(flags, notice);
    }
}

/// Truncates, overwrites and empties an archive while a client reads from it.
fn assert_served_unchanged(flags: &[&str], notice: &str) {
    let releases = Releases::new();
    for (name, change) in [
        (
            "cut",
            (|path| OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap()) as fn(&Path),
        ),
        ("overwritten", |path| {
            let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
            OpenOptions::new().write(true).open(path).unwrap().write_all(&vec![b'x'; length]).unwrap();
        }),
        ("emptied", |path| fs::write(path, b"").unwrap()),
    ] {
        let archive = releases.build_numbered(&format!("{name}.cdb"), 1);
        let server = releases.serve(&archive, flags);

        let whole = server.get("/large.txt").body;
        // One connection receives the response meanwhile.
        let mut slow = server.connect();
        slow.write_all(b"GET /large.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut received = vec![0; 1000];
        slow.read_exact(&mut received).unwrap();

        change(&archive);
        server.await_line(notice);
        assert!(server.get("/large.txt").body == whole, "{name}: after the change");
        slow.read_to_end(&mut received).unwrap();
        assert!(parse(&received, "GET").0.body == whole, "{name} {flags:?}: during the change");
        if notice != "still served" {
            server.await_line("still served");
        }
    }
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has leases")]
fn archive_copied_in_place_is_served_when_complete() {
    let releases = Releases::new();
    let archive = releases.build_numbered("site.cdb", 1);
    let next = releases.build_numbered("next.cdb", 2);
    let server = releases.serve(&archive, &["--archive-mmap"]);
    fs::copy(next, &archive).unwrap();
    server.await_line("this file is being modified");
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn each_host_has_its_archive() {
    let releases = Releases::new();
    let make = |name: &str| releases.build(name, &pages(&[("index.html", name.to_owned().leak())]));
    let a = make("a.cdb");
    let b = make("b.cdb");
    let c = make("c.cdb");
    let a = a.display();
    let b = b.display();
    let c = c.display();
    let request = |server: &Server, host: &str, target: &str| {
        let response = server.request_host(host, "GET", target, "");
        (response.status, String::from_utf8(response.body).unwrap())
    };
    let named = [format!("example.com={a}"), format!("*.example.com={b}")];
    let server = Server::start_on_all_transports(&[
        "--archive",
        &named[0],
        "--archive",
        &named[1],
        "--archive",
        &c.to_string(),
    ]);
    for (host, expected) in [
        ("example.com", "a.cdb"),
        ("EXAMPLE.com:8080", "a.cdb"),
        ("example.com.", "a.cdb"),
        ("www.example.com", "b.cdb"),
        ("a.b.example.com", "b.cdb"),
        ("example.org", "c.cdb"),
        ("127.0.0.1", "c.cdb"),
        ("", "c.cdb"),
    ] {
        assert_eq!(request(&server, host, "/"), (200, expected.to_owned()), "{host:?}");
    }
    assert_eq!(
        request(&server, "other", "http://example.com/").1,
        "a.cdb",
        "the target takes precedence over `Host`"
    );

    // The nearest name is used, in any order of the flags.
    let exact = format!("exact.example.com={a}");
    let deep = format!("*.deep.example.com={c}");
    for order in [[&exact, &named[1], &deep], [&deep, &named[1], &exact]] {
        let server = Server::start_on_all_transports(&order.map(|named| ["--archive", named]).concat());
        for (host, expected) in [
            ("exact.example.com", "a.cdb"),
            ("www.example.com", "b.cdb"),
            ("deep.example.com", "b.cdb"),
            ("x.deep.example.com", "c.cdb"),
        ] {
            assert_eq!(request(&server, host, "/").1, expected, "{host} {order:?}");
        }
    }

    let server = Server::start_on_all_transports(&["--archive", &named[0], "--archive", &named[1]]);
    assert_eq!(request(&server, "example.com", "/").1, "a.cdb");
    assert_eq!(request(&server, "example.org", "/").0, 421);
}

#[test]
fn one_connection_may_request_several_hosts() {
    let releases = Releases::new();
    let contents = ["a", "b"].map(|name| format!("{name} ").repeat(20_000));
    let archives = ["a", "b"].map(|name| releases.path(name));
    for (content, archive) in contents.iter().zip(&archives) {
        releases.build(archive.file_name().unwrap().to_str().unwrap(), &[(b"large.txt", content.as_bytes())]);
    }
    let named = [format!("a={}", archives[0].display()), format!("b={}", archives[1].display())];
    let server = Server::start(&["--archive", &named[0], "--archive", &named[1]]);

    let hosts = ["a", "b", "b", "a", "a", "b"];
    let requests: String = hosts
        .iter()
        .enumerate()
        .map(|(place, host)| {
            let close = if place + 1 == hosts.len() { "Connection: close\r\n" } else { "" };
            format!("GET /large.txt HTTP/1.1\r\nHost: {host}\r\n{close}\r\n")
        })
        .collect();

    let answers = server.raw(requests.as_bytes());
    let mut rest = answers.as_slice();
    for host in hosts {
        let (response, others) = parse(rest, "GET");
        rest = others;
        assert!(response.body == contents[usize::from(host == "b")].as_bytes());
    }
    assert!(rest.is_empty());
}

/// Everything under full load: keep-alive, pipelined, and a reader that is slow. With `CANNERY_SLOW` set
/// for half a minute, else for a few seconds.
#[test]
fn reload_under_load_fails_no_request() {
    let time = if is_slow() { 30 } else { 3 };
    let releases = Releases::new();
    for number in 0..4 {
        releases.build_numbered(&format!("{number}.cdb"), number);
    }
    let archive = releases.path("site.cdb");
    fs::copy(releases.path("0.cdb"), &archive).unwrap();

    let server = releases.serve(&archive, &["--watch-disable"]);
    let stop = AtomicBool::new(false);
    let responses = AtomicUsize::new(0);
    let before = resources(server.pid());

    std::thread::scope(|scope| {
        for pipelined in [1, 1, 8] {
            let stop = &stop;
            let responses = &responses;
            let server = &server.address;
            scope.spawn(move || load(server, pipelined, stop, responses));
        }
        let end = Instant::now() + Duration::from_secs(time);
        let mut swaps = 0;
        while Instant::now() < end {
            let began = Instant::now();
            swaps += 1;
            let next = releases.path("next");
            fs::copy(releases.path(&format!("{}.cdb", swaps % 4)), &next).unwrap();
            fs::rename(&next, &archive).unwrap();
            server.signal("HUP");
            server.await_line("serves a new release");
            // Not to wait for anything, but to swap at the rate that the test is about.
            std::thread::sleep(Duration::from_millis(200).saturating_sub(began.elapsed()));
        }
        stop.store(true, Ordering::Relaxed);
        println!("{swaps} releases");
    });

    let after = resources(server.pid());
    println!(
        "{} responses; descriptors and KiB {before:?}, then {after:?}",
        responses.load(Ordering::Relaxed)
    );
    assert!(responses.load(Ordering::Relaxed) > 100);
    assert!(after.0 <= before.0 + 3, "descriptors: {before:?}, then {after:?}");
    assert!(after.1 <= before.1 + 8 * 1024, "memory: {before:?}, then {after:?}");
}

/// Requests both files, `pipelined` times each per batch, and checks that each response is of a single release.
fn load(address: &str, pipelined: usize, stop: &AtomicBool, responses: &AtomicUsize) {
    let mut client = http1::Client::new(connect(address));
    let request = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let requests = request.repeat(pipelined);
    while !stop.load(Ordering::Relaxed) {
        client.send(requests.as_bytes()).unwrap();
        for _ in 0..2 * pipelined {
            let response = client.receive("GET").unwrap();
            assert_eq!(response.status, 200);
            let text = std::str::from_utf8(&response.body).unwrap();
            let first = text.lines().next().unwrap();
            assert!(text.lines().all(|line| line == first), "mixed bytes");
            responses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the number of open descriptors, and the private memory in KiB.
fn resources(pid: u32) -> (usize, usize) {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    (descriptors, line.trim().trim_end_matches(" kB").parse().unwrap())
}

/// Only a reload verified archives: after a restart, a damaged one was served under the entity tag of the right bytes.
#[test]
fn damaged_archive_does_not_start() {
    let releases = Releases::new();
    let archive = releases.build_numbered("site.cdb", 1);
    symlink("site.cdb", releases.path("current")).unwrap();
    damage(&archive, b"release 1\n");
    let (archive, directory) = (archive.to_str().unwrap(), releases.folder.path().to_str().unwrap());
    for (flags, hint) in [
        (&["--archive", archive][..], "build it again"),
        (&["--archive", archive, "--archive-inmem"], "build it again"),
        (&["--archive", archive, "--processes", "2"], "build it again"),
        (&["--releases", directory], "--use NAME"),
    ] {
        let flags = [flags, &["--bind", "127.0.0.1:0", "--threads", "1"]].concat();
        let output = run("cannery-server", &flags);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{flags:?}: {text}");
        assert!(text.contains("corrupt archive: its digest is") && text.contains(hint), "{flags:?}: {text}");
    }
}

#[test]
fn large_archive_is_verified_while_it_is_served() {
    let releases = Releases::new();
    let large = vec![b'x'; 17 << 20];
    let archive = releases.path("site.cdb");
    let source = tempfile::tempdir().unwrap();
    write_folder(source.path(), &[(b"a.txt", b"some content"), (b"large.bin", &large)]);
    compile(source.path(), &archive, &["--compress", "identity"]);
    damage(&archive, b"some content");

    for flags in [&[][..], &["--processes", "2"]] {
        let server = releases.serve(&archive, flags);
        let line = server.await_line_since_start("served nevertheless");
        assert!(line.contains("warning: ") && line.contains("corrupt archive: its digest is"), "{line}");
        assert_eq!(server.get("/a.txt").status, 200);
    }
}
