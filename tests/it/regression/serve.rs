//! `cannery serve`: messages and responses while a site is being edited.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use crate::harness::{Response, pages, request_at, write_folder};

/// A running `cannery serve`.
struct Serve {
    child: Child,
    /// The URLs that it has printed.
    urls: Lines<BufReader<ChildStdout>>,
    printed: Lines<BufReader<ChildStderr>>,
    _folder: tempfile::TempDir,
}

impl Serve {
    fn start(files: &[(&'static str, &'static str)], flags: &[&str]) -> Serve {
        let folder = tempfile::tempdir().unwrap();
        write_folder(folder.path(), &pages(files));
        Serve::start_in(folder, flags)
    }

    fn start_in(folder: tempfile::TempDir, flags: &[&str]) -> Serve {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.arg("serve").arg(folder.path()).args(flags).args(["--threads", "1"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let urls = BufReader::new(child.stdout.take().unwrap()).lines();
        let printed = BufReader::new(child.stderr.take().unwrap()).lines();
        Serve { child, urls, printed, _folder: folder }
    }

    /// Returns the next URL that it prints.
    fn url(&mut self) -> String {
        let mut lines = self.urls.by_ref().map(Result::unwrap);
        lines.find(|line| line.starts_with("http")).expect("it prints where it listens")
    }

    /// Waits for a line on standard error that contains these words, and returns it.
    fn line(&mut self, words: &str) -> String {
        let mut lines = self.printed.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("it never prints {words:?}"))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(url: &str, target: &str) -> Response {
    request_at(url.trim_start_matches("http://").trim_end_matches('/'), "GET", target, "")
}

const ANY_PORT: [&str; 2] = ["--bind", "127.0.0.1:0"];

/// Flags with which pages have no script of the server.
const UNCHANGED_PAGES: [&str; 3] = ["--bind", "127.0.0.1:0", "--no-live-reload"];

/// Browsers used the old copy of a changed style sheet for an hour.
#[test]
fn clients_revalidate_every_response() {
    let rules = "/*\n  Strict-Transport-Security: max-age=31536000\n/b.css\n  Cache-Control: max-age=60\n";
    let files = [
        ("index.html", "home"),
        ("a.css", ""),
        ("b.css", "b"),
        ("_headers", rules),
        ("_redirects", "/old / 301\n"),
    ];
    let mut serve = Serve::start(&files, &ANY_PORT);
    let url = serve.url();
    for (target, status) in [("/", 200), ("/a.css", 200), ("/b.css", 200), ("/old", 301)] {
        let response = get(&url, target);
        assert_eq!(
            (response.status, response.field("Cache-Control")),
            (status, Some("no-cache")),
            "{target}"
        );
        assert_eq!(response.field("Strict-Transport-Security"), None, "{target}");
    }
}

/// The response for a folder without an index page was an empty 404.
#[test]
fn folders_without_index_page_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    write_folder(
        folder.path(),
        &pages(&[("docs/a.txt", "text"), ("docs/b/c.txt", ""), ("index.html", "home")]),
    );
    let file = std::fs::File::options().write(true).open(folder.path().join("docs/a.txt")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777)).unwrap();
    // A file that is open for writing isn't served yet.
    drop(file);
    let mut serve = Serve::start_in(folder, &UNCHANGED_PAGES);
    let url = serve.url();
    let page = String::from_utf8(get(&url, "/docs/").body).unwrap();
    for part in ["<main>", "href=\"../\"", "./a.txt", "./b/", ">4 B<", "1994-11-06 08:49", "<script>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(get(&url, "/").body, b"home");
}

#[test]
fn listings_can_be_disabled() {
    let mut serve = Serve::start(&[("docs/a.txt", "text")], &[&ANY_PORT[..], &["--no-listing"]].concat());
    let url = serve.url();
    assert_eq!(get(&url, "/docs/").status, 404);
}

/// A route of the application may have the name of a folder.
#[test]
fn fallback_page_precedes_a_listing() {
    let mut serve = Serve::start(&[("200.html", "app"), ("docs/a.txt", "text")], &UNCHANGED_PAGES);
    let url = serve.url();
    assert_eq!(get(&url, "/docs/").body, b"app");
}

#[test]
fn failed_requests_are_printed() {
    let mut serve = Serve::start(&[("index.html", "home")], &ANY_PORT);
    let url = serve.url();
    assert_eq!(get(&url, "/").status, 200);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    request_at(address, "GET", "/no\x1b[2Jne", "Referer: http://h/page\r\n");
    request_at(address, "GET", "/none", "Referer: http://h/page\r\n");
    assert_eq!(serve.line("none"), "404 GET /none  (from http://h/page)");
}

#[test]
fn all_addresses_are_printed_as_reachable_urls() {
    let mut serve = Serve::start(&[("index.html", "home")], &["--bind", ":0"]);
    let url = serve.url();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(get(&url, "/").status, 200);
    serve.line("Ctrl-C stops");
    drop(serve.child.kill());
    let others: Vec<_> = serve.urls.by_ref().map(Result::unwrap).collect();
    assert!(!others.iter().any(|line| line.contains("0.0.0.0")), "{others:?}");
}

#[test]
fn tls_uses_a_self_signed_certificate() {
    let mut serve = Serve::start(&[("index.html", "home")], &[&ANY_PORT[..], &["--tls"]].concat());
    let url = serve.url();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
}

#[test]
fn short_addresses_are_accepted() {
    for (bind, host) in [("0", "127.0.0.1"), ("localhost:0", "127.0.0.1")] {
        let mut serve = Serve::start(&[("index.html", "home")], &["--bind", bind]);
        let url = serve.url();
        assert!(url.starts_with(&format!("http://{host}:")), "{bind}: {url}");
    }
}

#[test]
fn port_and_host_name_the_address() {
    for (flags, host) in [(&["-p", "0"][..], "127.0.0.1"), (&["--port=0", "--host=::1"], "[::1]")] {
        let mut serve = Serve::start(&[("index.html", "home")], flags);
        let url = serve.url();
        assert!(url.starts_with(&format!("http://{host}:")), "{flags:?}: {url}");
        assert_eq!(get(&url, "/none").status, 404);
    }
}

/// A remedy named flags that only the archiver had.
#[test]
fn remedies_of_messages_work() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("index.html", "home"), ("node_modules/a/index.js", "a"), ("_redirects", "/a /b 301\n")];
    write_folder(folder.path(), &pages(&files));
    let elsewhere = tempfile::tempdir().unwrap();
    write_folder(elsewhere.path(), &pages(&[("out.txt", "out")]));
    std::os::unix::fs::symlink(elsewhere.path().join("out.txt"), folder.path().join("out.txt")).unwrap();

    let mut serve = Serve::start_in(folder, &ANY_PORT);
    assert!(serve.line("out.txt").contains("--follow-links"));
    assert!(serve.line("node_modules").contains("--ignore node_modules"));
    let folder = std::mem::replace(&mut serve._folder, tempfile::tempdir().unwrap());
    drop(serve);

    let flags = [
        "--ignore",
        "node_modules",
        "--follow-links",
        "--redirects-dialect",
        "netlify",
        "--immutable",
        "/x/",
    ];
    let mut serve = Serve::start_in(folder, &[&ANY_PORT[..], &flags].concat());
    let url = serve.url();

    assert_eq!((get(&url, "/out.txt").status, get(&url, "/node_modules/a/").status), (200, 404));
    let mut until_listening = serve.printed.by_ref().map(Result::unwrap);
    let end = |line: &String| line.contains("Ctrl-C");
    assert!(
        !until_listening.by_ref().take_while(|line| !end(line)).any(|line| line.contains("node_modules"))
    );
}

/// A build tool that empties the folder made a listing of a page that was open, and an error covered it.
#[test]
fn emptied_folder_keeps_its_last_version() {
    let mut serve = Serve::start(&[("index.html", "before"), ("a.js", "1")], &UNCHANGED_PAGES);
    let url = serve.url();
    serve.line("Ctrl-C");
    let root = serve._folder.path().to_owned();
    let began = std::time::Instant::now();
    let assert_unchanged = || {
        let body = get(&url, "/").body;
        // After two seconds, the folder is taken as it is.
        assert!(body == b"before" || began.elapsed() > std::time::Duration::from_millis(1500));
    };
    for name in ["index.html", "a.js"] {
        std::fs::remove_file(root.join(name)).unwrap();
        assert_unchanged();
    }
    std::fs::write(root.join("b.js"), "2").unwrap();
    assert_unchanged();
    std::fs::write(root.join("index.html"), "after").unwrap();
    crate::harness::wait_until("built again", || get(&url, "/").body == b"after");
}

/// `serve` took the file for terabytes of content.
#[test]
fn sparse_file_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), &pages(&[("index.html", "home")]));
    let hole = folder.path().join("hole.bin");
    std::fs::File::create(&hole).unwrap().set_len(1 << 42).unwrap();
    if std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&hole).unwrap()) > 0 {
        return;
    }
    let mut serve = Serve::start_in(folder, &ANY_PORT);
    assert!(serve.line("hole.bin").contains("warning:"));
    let url = serve.url();
    assert_eq!((get(&url, "/").status, get(&url, "/hole.bin").status), (200, 404));
}

/// After an error had been fixed, `no more warnings` was printed, and all warnings once more.
#[test]
fn warnings_are_printed_once() {
    let mut serve = Serve::start(&[("index.html", "home"), ("_redirect", "")], &ANY_PORT);
    serve.line("_redirect: warning:");
    serve.line("Ctrl-C");
    let root = serve._folder.path().to_owned();
    std::fs::write(root.join("_redirects"), "/private / 403\n").unwrap();
    serve.line("_redirects:1: error:");
    serve.line("still served");
    std::fs::write(root.join("_redirects"), "/a / 301\n").unwrap();
    serve.line("compiled again");
    assert!(serve.line("").contains("_redirects"));
    std::fs::write(root.join("end.html"), "end").unwrap();
    assert!(serve.line("").starts_with("end.html is new"), "nothing in between");
}

/// The flag existed for `cannery-archiver` alone.
#[test]
fn link_checker_has_exceptions() {
    let files = [("index.html", "<a href=/api/x>1</a><a href=/login>2</a><a href=/gone>3</a>")];
    let flags = ["--check-links-except", "/api/*", "--check-links-except=/login"];
    let mut serve = Serve::start(&files, &[&ANY_PORT[..], &flags].concat());
    serve.line("1 internal link leads to 1 path that is not found");
}
