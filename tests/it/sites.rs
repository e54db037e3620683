//! `cannery-server --sites`: sites come and go while the server runs, and each is opened at its first request.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use cannery_testkit::http1;

use crate::harness::{Server, compile, pages, request_at, run, server_command, wait_until, write_folder};
use crate::processes::Orphan;
use crate::transports::connect_tls;

/// A directory of sites.
pub(crate) struct SiteDir {
    folder: tempfile::TempDir,
}

impl SiteDir {
    pub(crate) fn new() -> SiteDir {
        let sites = SiteDir { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(sites.path("")).unwrap();
        sites
    }

    /// Returns the path of something in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("sites").join(name)
    }

    pub(crate) fn text(&self) -> String {
        self.path("").to_str().unwrap().to_owned()
    }

    /// Builds a site with these files, and renames it to this path.
    pub(crate) fn build(&self, name: &str, files: &[(&'static str, &'static str)], flags: &[&str]) {
        let source = tempfile::tempdir().unwrap();
        write_folder(source.path(), &pages(files));
        let temporary = self.folder.path().join("next.cdb");
        compile(source.path(), &temporary, flags);
        fs::rename(temporary, self.path(name)).unwrap();
    }

    /// Points `current` of a release directory at one of its releases.
    pub(crate) fn select(&self, host: &str, release: &str) {
        let next = self.path(host).join(".next");
        symlink(release, &next).unwrap();
        fs::rename(next, self.path(host).join("current")).unwrap();
    }
}

/// Returns the status and the content of a page.
fn get(server: &Server, host: &str, target: &str) -> (u16, String) {
    let response = server.request_host(host, "GET", target, "");
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

/// Waits until a page has this status and content.
#[track_caller]
fn await_page(server: &Server, host: &str, target: &str, status: u16, text: &str) {
    let lines = format!("Host: {host}\r\n");
    wait_until(&format!("{host}{target} becomes {status} {text}"), || {
        let response = request_at(&server.address, "GET", target, &lines);
        response.status == status && String::from_utf8_lossy(&response.body).contains(text)
    });
}

#[test]
fn host_selects_a_site_on_every_transport() {
    let sites = SiteDir::new();
    sites.build("a.example.cdb", &[("index.html", "site a")], &[]);
    sites.build("B.Example.cdb", &[("index.html", "site b")], &[]);
    sites.build("notes.txt", &[("index.html", "not a site")], &[]);
    fs::create_dir(sites.path("empty.example")).unwrap();
    let server = Server::start_on_all_transports(&["--sites", &sites.text()]);
    for host in ["a.example", "A.EXAMPLE", "a.example:8080", "a.example."] {
        assert_eq!(get(&server, host, "/"), (200, "site a".to_owned()), "{host}");
    }
    assert_eq!(get(&server, "b.example", "/"), (200, "site b".to_owned()));
    assert_eq!(get(&server, "a.example", "/missing").0, 404);
    for host in ["c.example", "x.a.example", "empty.example", "notes.txt", "notes", "..", "localhost"] {
        assert_eq!(get(&server, host, "/").0, 421, "{host}");
        assert_eq!(get(&server, host, "/__/heartbeat").0, 200, "{host}");
    }
    assert_eq!(server.request_host("a.example", "GET", "http://b.example/", "").body, b"site b");
}

#[test]
fn sites_come_and_go_while_the_server_runs() {
    let sites = SiteDir::new();
    sites.build("a.example.cdb", &[("index.html", "first")], &[]);
    let server = Server::start(&["--sites", &sites.text()]);
    assert_eq!(get(&server, "a.example", "/"), (200, "first".to_owned()));
    assert_eq!(get(&server, "b.example", "/").0, 421);

    sites.build("b.example.cdb", &[("index.html", "another")], &[]);
    await_page(&server, "b.example", "/", 200, "another");
    sites.build("a.example.cdb", &[("index.html", "second")], &[]);
    await_page(&server, "a.example", "/", 200, "second");
    fs::remove_file(sites.path("a.example.cdb")).unwrap();
    await_page(&server, "a.example", "/", 421, "");
    assert_eq!(get(&server, "b.example", "/"), (200, "another".to_owned()));
}

#[test]
fn named_archives_come_first_and_the_default_serves_other_hosts() {
    let sites = SiteDir::new();
    sites.build("a.example.cdb", &[("index.html", "of the directory")], &[]);
    sites.build("b.example.cdb", &[("index.html", "of the directory")], &[]);
    let other = SiteDir::new();
    other.build("other.cdb", &[("index.html", "of the flag")], &[]);
    let archive = other.path("other.cdb").to_str().unwrap().to_owned();
    let named = [format!("a.example={archive}"), format!("*.example={archive}"), archive];
    let flags = ["--sites", &sites.text(), &named[0], &named[1], &named[2]];
    let server = Server::start_on_all_transports(&flags);
    for (host, text) in [
        ("a.example", "of the flag"),
        ("b.example", "of the directory"),
        ("c.example", "of the flag"),
        ("unknown", "of the flag"),
    ] {
        assert_eq!(get(&server, host, "/"), (200, text.to_owned()), "{host}");
    }
}

#[test]
fn damaged_site_fails_alone_until_it_is_replaced() {
    let sites = SiteDir::new();
    sites.build("good.example.cdb", &[("index.html", "good")], &[]);
    sites.build("cut.example.cdb", &[("index.html", "whole")], &[]);
    sites.build("flipped.example.cdb", &[("index.html", "original")], &[]);
    let whole = fs::read(sites.path("cut.example.cdb")).unwrap();
    fs::write(sites.path("cut.example.cdb"), &whole[..whole.len() / 2]).unwrap();
    let mut flipped = fs::read(sites.path("flipped.example.cdb")).unwrap();
    let at = flipped.windows(8).position(|window| window == b"original").unwrap();
    flipped[at] ^= 1;
    fs::write(sites.path("flipped.example.cdb"), flipped).unwrap();
    fs::create_dir(sites.path("dangling.example")).unwrap();
    symlink("nothing.cdb", sites.path("dangling.example/current")).unwrap();

    let server = Server::start_on_all_transports(&["--sites", &sites.text()]);
    for host in ["cut.example", "flipped.example", "dangling.example"] {
        assert_eq!(get(&server, host, "/").0, 503, "{host}");
        let line = server.await_line(&format!("requests for {host} get 503"));
        assert!(line.contains("warning: ") && line.contains(sites.path(host).to_str().unwrap()), "{line}");
        assert_eq!(get(&server, "good.example", "/"), (200, "good".to_owned()));
    }
    sites.build("cut.example.cdb", &[("index.html", "repaired")], &[]);
    server.signal("HUP");
    await_page(&server, "cut.example", "/", 200, "repaired");
}

#[test]
fn missing_directory_is_bad_input() {
    let sites = SiteDir::new();
    fs::write(sites.path("file"), "").unwrap();
    for (name, hint) in [("nope", "mkdir"), ("file", "serves one archive")] {
        let path = sites.path(name);
        let output = run("cannery-server", &["--sites", path.to_str().unwrap(), "--bind", "127.0.0.1:0"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("cannot list the directory of sites") && text.contains(hint), "{text}");
    }
}

#[test]
fn release_directories_serve_assets_of_other_releases() {
    let sites = SiteDir::new();
    fs::create_dir(sites.path("www.example")).unwrap();
    let immutable = ["--immutable", "/assets/"];
    let write = |number: usize| {
        const PAGES: [&str; 3] = ["first", "second", "third"];
        const ASSETS: [&str; 3] = ["assets/1.js", "assets/2.js", "assets/3.js"];
        let files = [("index.html", PAGES[number - 1]), (ASSETS[number - 1], "run()")];
        let serial = number.to_string();
        sites.build(
            &format!("www.example/{number}.cdb"),
            &files,
            &[&immutable[..], &["--serial", &serial]].concat(),
        );
    };
    write(1);
    write(2);
    sites.select("www.example", "1.cdb");
    let server = Server::start_on_all_transports(&["--sites", &sites.text()]);
    // The first request for the site is for an asset of a release that isn't current.
    assert_eq!(get(&server, "www.example", "/assets/2.js"), (200, "run()".to_owned()));
    assert_eq!(get(&server, "www.example", "/"), (200, "first".to_owned()));

    sites.select("www.example", "2.cdb");
    await_page(&server, "www.example", "/", 200, "second");
    assert_eq!(get(&server, "www.example", "/assets/1.js"), (200, "run()".to_owned()));
    write(3);
    await_page(&server, "www.example", "/assets/3.js", 200, "run()");
    assert_eq!(get(&server, "www.example", "/"), (200, "second".to_owned()));
    sites.select("www.example", "1.cdb");
    await_page(&server, "www.example", "/", 200, "first");
    for asset in ["/assets/1.js", "/assets/2.js", "/assets/3.js"] {
        assert_eq!(get(&server, "www.example", asset), (200, "run()".to_owned()), "{asset}");
    }
}

/// The end of a preview's file, whose password is `winter is coming`.
const PASSWORD: &str = r#""password": {"salt": "salty", "digest": "28670cfa3d4ca047fa59745eaba9e1adc52aaf7329ef4f635c080995f161cf1e""#;
const RIGHT: &str = "Authorization: Basic bWU6d2ludGVyIGlzIGNvbWluZw==\r\n";
const WRONG: &str = "Authorization: Basic bWU6c3VtbWVy\r\n";

/// Builds the preview `pr-1.example`.
fn build_preview(sites: &SiteDir, settings: &str) {
    let folder = sites.path("pr-1.example");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("preview.json"), settings).unwrap();
    sites.build("pr-1.example/1.cdb", &[("index.html", "a preview")], &[]);
    sites.select("pr-1.example", "1.cdb");
}

#[test]
fn previews_are_not_indexed_and_end() {
    let sites = SiteDir::new();
    build_preview(&sites, "{}");
    sites.build("a.example.cdb", &[("index.html", "a site")], &[]);
    let server = Server::start_on_all_transports(&["--sites", &sites.text()]);
    for (target, lines, status) in [
        ("/", "", 200),
        ("/", "If-None-Match: *\r\n", 304),
        ("/missing", "", 404),
        ("/", "Range: bytes=0-1\r\n", 206),
    ] {
        let response = server.request_host("pr-1.example", "GET", target, lines);
        assert_eq!((response.status, response.field("X-Robots-Tag")), (status, Some("noindex")), "{target}");
        let site = server.request_host("a.example", "GET", target, lines);
        assert_eq!((site.status, site.field("X-Robots-Tag")), (status, None), "{target}");
    }

    // It has ended since 1970.
    fs::write(sites.path("pr-1.example/preview.json"), r#"{"expires": 1}"#).unwrap();
    await_page(&server, "pr-1.example", "/", 421, "");
    assert_eq!(get(&server, "pr-1.example", "/").0, 421);
    fs::write(sites.path("pr-1.example/preview.json"), r#"{"expires": 99999999999}"#).unwrap();
    await_page(&server, "pr-1.example", "/", 200, "a preview");

    // It might have a password.
    fs::write(sites.path("pr-1.example/preview.json"), "{").unwrap();
    await_page(&server, "pr-1.example", "/", 503, "");
    fs::remove_file(sites.path("pr-1.example/preview.json")).unwrap();
    server.signal("HUP");
    await_page(&server, "pr-1.example", "/", 200, "a preview");
}

#[test]
fn preview_with_a_password_needs_it_for_everything() {
    let sites = SiteDir::new();
    build_preview(&sites, &format!(r#"{{{PASSWORD}, "plain": true}}}}"#));
    let server = Server::start_on_all_transports(&["--sites", &sites.text()]);
    for (method, target) in
        [("GET", "/"), ("HEAD", "/"), ("GET", "/missing"), ("POST", "/"), ("OPTIONS", "*")]
    {
        for lines in ["", "Authorization: Bearer x\r\n"] {
            let response = server.request_host("pr-1.example", method, target, lines);
            let challenge = response.field("WWW-Authenticate").unwrap_or_default();
            assert_eq!((response.status, challenge.starts_with("Basic ")), (401, true), "{method} {target}");
            assert!(!String::from_utf8_lossy(&response.body).contains("a preview"));
        }
    }
    let response = server.request_host("pr-1.example", "GET", "/", RIGHT);
    assert_eq!((response.status, response.body.as_slice()), (200, b"a preview".as_slice()));
    let varies =
        |(name, value): &(String, String)| name.eq_ignore_ascii_case("Vary") && value == "Authorization";
    assert!(response.fields.iter().any(varies), "{:?}", response.fields);
    assert_eq!(server.request_host("pr-1.example", "GET", "/__/heartbeat", "").status, 200);
}

#[test]
fn password_is_not_sent_without_tls() {
    let sites = SiteDir::new();
    build_preview(&sites, &format!("{{{PASSWORD}}}}}"));
    let flags = ["--sites", &sites.text(), "--bind-tls", "127.0.0.1:0", "--tls-self-ecdsa"];
    let server = Server::start(&flags);
    for lines in ["", RIGHT] {
        assert_eq!(server.request_host("pr-1.example", "GET", "/", lines).status, 403);
    }
    let mut client = http1::Client::new(connect_tls(&server.read_tls_address(), &["http/1.1"]));
    let mut status = |lines: &str| {
        let head = format!("GET / HTTP/1.1\r\nHost: pr-1.example\r\n{lines}\r\n");
        client.request(head.as_bytes(), "GET").unwrap().status
    };
    assert_eq!([status(""), status(WRONG), status(RIGHT)], [401, 401, 200]);
}

#[test]
fn wrong_passwords_are_limited() {
    let sites = SiteDir::new();
    build_preview(&sites, &format!(r#"{{{PASSWORD}, "plain": true}}}}"#));
    sites.build("a.example.cdb", &[("index.html", "a site")], &[]);
    let server = Server::start(&["--sites", &sites.text()]);
    // A new minute may begin meanwhile.
    let statuses: Vec<_> = (0..60).map(|_| server.request_host("pr-1.example", "GET", "/", WRONG)).collect();
    assert!(statuses.iter().all(|response| [401, 429].contains(&response.status)));
    let limited = statuses.iter().find(|response| response.status == 429).unwrap();
    assert_eq!(limited.field("Retry-After"), Some("60"));
    assert_eq!(server.request_host("pr-1.example", "GET", "/", "").status, 401);
    assert_eq!(get(&server, "a.example", "/"), (200, "a site".to_owned()));
}

#[test]
fn sites_in_use_are_not_closed_for_others() {
    let sites = SiteDir::new();
    for host in ["a.example", "b.example"] {
        sites.build(&format!("{host}.cdb"), &[("index.html", "a page")], &[]);
    }
    let server = Server::start(&["--sites", &sites.text(), "--sites-open", "1"]);
    assert_eq!(get(&server, "a.example", "/").0, 200);
    let busy = server.request_host("b.example", "GET", "/", "");
    assert_eq!((busy.status, busy.field("Retry-After")), (503, Some("1")));
    server.await_line("`--sites-open` permits more");
    assert_eq!(get(&server, "a.example", "/").0, 200);
}

#[test]
fn every_process_serves_the_directory() {
    let sites = SiteDir::new();
    sites.build("a.example.cdb", &[("index.html", "first")], &[]);
    let mut command = server_command();
    command.args(["--sites", &sites.text(), "--bind", "127.0.0.1:0", "--processes", "2", "--threads", "1"]);
    let server = Server::run(command);
    let all = |text: &str| {
        (0..20).all(|_| {
            let response = request_at(&server.address, "GET", "/", "Host: a.example\r\n");
            (response.status, response.body.as_slice()) == (200, text.as_bytes())
        })
    };
    assert!(all("first"));
    sites.build("a.example.cdb", &[("index.html", "second")], &[]);
    wait_until("all processes serve the second release", || all("second"));
}

#[test]
fn missing_directory_is_named() {
    let output = run("cannery-server", &["--sites", "/nonexistent/sites", "--bind", "127.0.0.1:0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("/nonexistent/sites: No such file"), "{stderr}");
    let output = run("cannery-server", &["--sites-open", "5"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Returns the resident memory of a process in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Links a site under many hosts.
fn link_sites(sites: &SiteDir, template: &Path, count: usize) {
    for number in 0..count {
        fs::hard_link(template, sites.path(&format!("pr-{number}.preview.example.cdb"))).unwrap();
    }
}

#[test]
fn many_sites_cost_memory_only_if_they_are_served() {
    let sites = SiteDir::new();
    let other = SiteDir::new();
    other.build("site.cdb", &[("index.html", "a page"), ("large.txt", "text")], &[]);
    link_sites(&sites, &other.path("site.cdb"), 10_000);

    let began = Instant::now();
    let server = Server::start(&["--sites", &sites.text()]);
    let took = began.elapsed();
    let idle = resident_bytes(server.pid());
    for number in (0..10_000).step_by(500) {
        assert_eq!(get(&server, &format!("pr-{number}.preview.example"), "/").0, 200);
    }
    let served = resident_bytes(server.pid());
    println!(
        "10,000 sites: listening after {:.0} ms, {:.1} MB resident, {:.1} MB after 20 of them were served",
        took.as_secs_f64() * 1000.0,
        idle as f64 / 1e6,
        served as f64 / 1e6
    );
    // Requests for other hosts open nothing.
    for number in 0..200 {
        assert_eq!(get(&server, &format!("no-{number}.preview.example"), "/").0, 421);
    }
    assert!(served < 100_000_000 && resident_bytes(server.pid()) < 100_000_000, "{served} bytes");
}

/// Both programs open the sites, each on its own.
#[test]
fn takeover_fails_no_request_for_a_site() {
    let sites = SiteDir::new();
    sites.build("a.example.cdb", &[("index.html", "site a")], &[]);
    fs::create_dir(sites.path("b.example")).unwrap();
    sites.build("b.example/1.cdb", &[("index.html", "site b")], &[]);
    sites.select("b.example", "1.cdb");
    sites.build("c.example.cdb", &[("index.html", "site c")], &[]);
    let mut command = server_command();
    command.args(["--sites", &sites.text(), "--bind", "127.0.0.1:0", "--processes", "2", "--threads", "1"]);
    let mut old = Server::run(command);
    let address = old.address.clone();
    let page = |host: &str| {
        let response = request_at(&address, "GET", "/", &format!("Host: {host}\r\n"));
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };

    let (stop, responses) = (AtomicBool::new(false), AtomicUsize::new(0));
    let new = thread::scope(|scope| {
        for host in ["a.example", "b.example"] {
            let (page, stop, responses) = (&page, &stop, &responses);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let (status, body) = page(host);
                    // The new processes open the site at their first request, which may take longer than a worker waits.
                    if status != 503 {
                        let site = host.replace("a.example", "site a").replace("b.example", "site b");
                        assert_eq!((status, body), (200, site));
                        responses.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let more = |count: usize| {
            let before = responses.load(Ordering::Relaxed);
            wait_until("further responses", || responses.load(Ordering::Relaxed) > before + count);
        };
        more(50);
        old.signal("USR2");
        let new = Orphan::await_takeover(&old);
        assert_eq!(old.wait(), Some(0), "the old supervisor exits");
        more(100);
        stop.store(true, Ordering::Relaxed);
        new
    });

    // The new program opens a site that the old one hasn't opened, and notices new ones.
    assert_eq!(page("c.example"), (200, "site c".to_owned()));
    sites.build("d.example.cdb", &[("index.html", "site d")], &[]);
    wait_until("the new site is served", || page("d.example") == (200, "site d".to_owned()));
    new.stop();
}
