//! New releases under a running server: taken up whole, or refused, and nobody notices.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::site::{Server, compile, pages, parse, write_folder};

/// A folder in which releases are made.
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
    fn make(&self, name: &str, files: &[(&[u8], &[u8])]) -> PathBuf {
        let source = tempfile::tempdir().unwrap();
        write_folder(source.path(), files);
        let archive = self.path(name);
        compile(source.path(), &archive, &["--compress", "identity,gzip"]);
        archive
    }

    /// A release whose every page says which one it is.
    fn numbered(&self, name: &str, number: usize) -> PathBuf {
        let small = format!("release {number}\n");
        let large = small.repeat(40_000);
        self.make(name, &[(b"small.txt", small.as_bytes()), (b"large.txt", large.as_bytes())])
    }

    fn serve(&self, archive: &Path, flags: &[&str]) -> Server {
        Server::start(&[&["--archive", archive.to_str().unwrap()], flags].concat())
    }
}

fn body(server: &Server, target: &str) -> String {
    String::from_utf8(server.get(target).body).unwrap()
}

#[test]
fn a_new_archive_is_served_as_soon_as_it_is_there() {
    let releases = Releases::new();
    let archive = releases.numbered("site.cdb", 1);
    let server = releases.serve(&archive, &[]);
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    releases.numbered("site.cdb", 2);
    let line = server.await_line("serves a new release");
    assert!(line.contains(" paths") && line.contains("digest "), "{line}");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn without_watching_a_new_archive_waits_for_the_signal() {
    let releases = Releases::new();
    let archive = releases.numbered("site.cdb", 1);
    let server = releases.serve(&archive, &["--watch-disable"]);
    server.signal("HUP");
    server.await_line("no archive has changed");
    releases.numbered("site.cdb", 2);
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    server.signal("HUP");
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn a_symlink_that_is_turned_is_a_release_and_turned_back_a_rollback() {
    let releases = Releases::new();
    releases.numbered("1.cdb", 1);
    releases.numbered("2.cdb", 2);
    let current = releases.path("current");
    let turn = |target: &str| {
        let next = releases.path("next");
        symlink(target, &next).unwrap();
        fs::rename(&next, &current).unwrap();
    };
    turn("1.cdb");
    let server = releases.serve(&current, &[]);
    for (target, expected) in [("2.cdb", "release 2\n"), ("1.cdb", "release 1\n"), ("2.cdb", "release 2\n")] {
        turn(target);
        server.await_line("serves a new release");
        assert_eq!(body(&server, "/small.txt"), expected);
    }
}

#[test]
fn what_is_no_archive_is_refused_and_the_old_one_goes_on() {
    let releases = Releases::new();
    let archive = releases.numbered("site.cdb", 1);
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
    server.await_line("still served");
    assert_eq!(body(&server, "/small.txt"), "release 1\n");
    fs::remove_dir(&archive).unwrap();
    releases.numbered("site.cdb", 3);
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 3\n");
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has leases")]
fn an_archive_that_is_written_into_is_served_as_it_was() {
    for (flags, notice) in
        [(["--archive-mmap"].as_slice(), "somebody writes into this file"), (&[], "still served")]
    {
        written_into(flags, notice);
    }
}

/// Writes into an archive in each way there is, until the server notices.
fn written_into(flags: &[&str], notice: &str) {
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
        let archive = releases.numbered(&format!("{name}.cdb"), 1);
        let server = releases.serve(&archive, flags);
        let whole = server.get("/large.txt").body;
        // One connection is in the middle of the answer.
        let mut slow = server.connect();
        slow.write_all(b"GET /large.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut begun = vec![0; 1000];
        slow.read_exact(&mut begun).unwrap();
        change(&archive);
        server.await_line(notice);
        assert!(server.get("/large.txt").body == whole, "{name}: afterwards");
        slow.read_to_end(&mut begun).unwrap();
        assert!(parse(&begun, false).0.body == whole, "{name} {flags:?}: on the way");
        if notice != "still served" {
            server.await_line("still served");
        }
    }
}

#[test]
#[cfg_attr(feature = "portable", ignore = "only Linux has leases")]
fn a_good_archive_written_in_place_is_taken_up_when_it_is_whole() {
    let releases = Releases::new();
    let (archive, next) = (releases.numbered("site.cdb", 1), releases.numbered("next.cdb", 2));
    let server = releases.serve(&archive, &["--archive-mmap"]);
    fs::copy(next, &archive).unwrap();
    server.await_line("somebody writes into this file");
    server.await_line("serves a new release");
    assert_eq!(body(&server, "/small.txt"), "release 2\n");
}

#[test]
fn each_host_has_its_site() {
    let releases = Releases::new();
    let make = |name: &str| releases.make(name, &pages(&[("index.html", name.to_owned().leak())]));
    let (a, b, c) = (make("a.cdb"), make("b.cdb"), make("c.cdb"));
    let (a, b, c) = (a.display(), b.display(), c.display());
    let ask = |server: &Server, host: &str, target: &str| {
        let response = server.ask_host(host, "GET", target, "");
        (response.status, String::from_utf8(response.body).unwrap())
    };
    let named = [format!("example.com={a}"), format!("*.example.com={b}")];
    let server = Server::start_everywhere(&[
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
        assert_eq!(ask(&server, host, "/"), (200, expected.to_owned()), "{host:?}");
    }
    assert_eq!(ask(&server, "other", "http://example.com/").1, "a.cdb", "the target comes before `Host`");

    // The nearest counts, wherever it stands.
    let (exact, deep) = (format!("exact.example.com={a}"), format!("*.deep.example.com={c}"));
    for order in [[&exact, &named[1], &deep], [&deep, &named[1], &exact]] {
        let server = Server::start_everywhere(&order.map(|named| ["--archive", named]).concat());
        for (host, expected) in [
            ("exact.example.com", "a.cdb"),
            ("www.example.com", "b.cdb"),
            ("deep.example.com", "b.cdb"),
            ("x.deep.example.com", "c.cdb"),
        ] {
            assert_eq!(ask(&server, host, "/").1, expected, "{host} {order:?}");
        }
    }

    let server = Server::start_everywhere(&["--archive", &named[0], "--archive", &named[1]]);
    assert_eq!(ask(&server, "example.com", "/").1, "a.cdb");
    assert_eq!(ask(&server, "example.org", "/").0, 421);
}

#[test]
fn requests_for_several_sites_on_one_connection_get_each_its_bytes() {
    let releases = Releases::new();
    let contents = ["a", "b"].map(|name| format!("{name} ").repeat(20_000));
    let archives = ["a", "b"].map(|name| releases.path(name));
    for (content, archive) in contents.iter().zip(&archives) {
        releases.make(archive.file_name().unwrap().to_str().unwrap(), &[(b"large.txt", content.as_bytes())]);
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
        let (response, others) = parse(rest, false);
        rest = others;
        assert!(response.body == contents[usize::from(host == "b")].as_bytes());
    }
    assert!(rest.is_empty());
}

/// Everything under full load: keep-alive, pipelined, and a reader that is slow. With `CANNERY_SLOW` set
/// for half a minute, else for a few seconds.
#[test]
fn under_full_load_no_request_fails_and_no_bytes_are_mixed() {
    let time = if std::env::var_os("CANNERY_SLOW").is_some() { 30 } else { 3 };
    let releases = Releases::new();
    for number in 0..4 {
        releases.numbered(&format!("{number}.cdb"), number);
    }
    let archive = releases.path("site.cdb");
    fs::copy(releases.path("0.cdb"), &archive).unwrap();
    let server = releases.serve(&archive, &["--watch-disable"]);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let before = resources(server.pid());
    std::thread::scope(|scope| {
        for pipelined in [1, 1, 8] {
            let (stop, answered, server) = (&stop, &answered, &server.address);
            scope.spawn(move || load(server, pipelined, stop, answered));
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
    println!("{} answers; descriptors and KiB {before:?}, then {after:?}", answered.load(Ordering::Relaxed));
    assert!(answered.load(Ordering::Relaxed) > 100);
    assert!(after.0 <= before.0 + 3, "descriptors: {before:?}, then {after:?}");
    assert!(after.1 <= before.1 + 8 * 1024, "memory: {before:?}, then {after:?}");
}

/// Asks for both files in turn, so many requests at a time, and holds each answer against its release.
fn load(address: &str, pipelined: usize, stop: &AtomicBool, answered: &AtomicUsize) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /large.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let requests = request.repeat(pipelined);
    let mut received = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(requests.as_bytes()).unwrap();
        let mut left = 2 * pipelined;
        while left > 0 {
            let bytes = stream.read(&mut buffer).unwrap();
            assert!(bytes > 0, "the connection was closed");
            received.extend_from_slice(&buffer[..bytes]);
            while left > 0 && is_whole(&received) {
                let (response, rest) = parse(&received, false);
                assert_eq!(response.status, 200);
                let text = std::str::from_utf8(&response.body).unwrap();
                let first = text.lines().next().unwrap();
                assert!(text.lines().all(|line| line == first), "mixed bytes");
                received = rest.to_vec();
                left -= 1;
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether bytes hold a whole answer.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    bytes.len() >= head + 4 + length.parse::<usize>().unwrap()
}

/// Open descriptors, and private memory in KiB.
fn resources(pid: u32) -> (usize, usize) {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    (descriptors, line.trim().trim_end_matches(" kB").parse().unwrap())
}
