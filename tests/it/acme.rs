//! Challenges of certificate authorities: `--acme-webroot` serves files of an ACME client and no others, and
//! `--acme-thumbprint` answers every token.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::harness::{Server, compile, pages, run, write_folder};

const PREFIX: &str = "/.well-known/acme-challenge/";

struct Webroot {
    folder: tempfile::TempDir,
    archive: PathBuf,
}

impl Webroot {
    fn new() -> Webroot {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("webroot")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        let source = folder.path().join("site");
        let archive = folder.path().join("site.cdb");
        let own = ".well-known/acme-challenge/own";
        write_folder(&source, &pages(&[("index.html", "page"), ("404.html", "none"), (own, "the site's")]));
        compile(&source, &archive, &[]);
        Webroot { folder, archive }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("webroot")
    }

    fn tokens(&self) -> PathBuf {
        self.path().join(PREFIX.trim_start_matches('/'))
    }

    fn flags(&self) -> [String; 4] {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        ["--archive".into(), path(self.archive.clone()), "--acme-webroot".into(), path(self.path())]
    }

    fn serve(&self, flags: &[&str]) -> Server {
        let own = self.flags();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        Server::start_on_all_transports(&[&own, flags].concat())
    }
}

/// Behaves as certbot: creates the directories with the first token, which is requested at once, and removes them with the
/// last.
#[test]
fn token_is_served_as_soon_as_it_is_written() {
    let webroot = Webroot::new();
    for flags in [&[][..], &["--https-redirect"], &["--processes", "2"], &["--io", "io_uring"]] {
        let server = webroot.serve(flags);
        for number in 0..10 {
            let token = format!("Token_{number}-x");
            let content = format!("Token_{number}-x.digest");
            let target = format!("{PREFIX}{token}");
            fs::create_dir_all(webroot.tokens()).unwrap();
            fs::write(webroot.tokens().join(&token), &content).unwrap();
            let response = server.get(&target);
            assert_eq!((response.status, response.body), (200, content.into_bytes()), "{flags:?}");
            fs::remove_dir_all(webroot.path().join(".well-known")).unwrap();
            assert_eq!(server.get(&target).status, 404, "{flags:?}");
        }
        assert_eq!(server.get(&format!("{PREFIX}own")).body, b"the site's");
    }
}

#[test]
fn only_small_files_of_tokens_are_served() {
    let webroot = Webroot::new();
    fs::create_dir_all(webroot.tokens().join("folder")).unwrap();
    fs::write(webroot.tokens().join("large"), vec![b'x'; 5000]).unwrap();
    fs::write(webroot.tokens().join("a.txt"), "no token").unwrap();
    fs::write(webroot.path().join("above"), "above").unwrap();
    symlink("../../../secret", webroot.tokens().join("link")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(webroot.tokens().join("fifo")).status().unwrap().success()
    );
    fs::write(webroot.tokens().join("good"), "good").unwrap();

    let server = webroot.serve(&[]);
    let long = "x".repeat(129);
    for name in [
        "",
        "folder",
        "folder/",
        "large",
        "a.txt",
        "link",
        "fifo",
        "..",
        "../above",
        "..%2fabove",
        "%2e%2e/above",
        "../../above",
        "good/",
        "%67ood",
        "good%00",
        &long,
    ] {
        let response = server.get(&format!("{PREFIX}{name}"));
        assert_ne!((response.status, response.body.as_slice()), (200, b"good".as_slice()), "{name}");
        assert!(matches!(response.status, 400 | 404), "{name}: {}", response.status);
    }
    let head = server.request("HEAD", &format!("{PREFIX}good?x"), "");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("4")));
    assert_eq!(server.request("POST", &format!("{PREFIX}good"), "").status, 405);
}

#[test]
fn every_host_has_its_challenges() {
    let webroot = Webroot::new();
    fs::create_dir_all(webroot.tokens()).unwrap();
    fs::write(webroot.tokens().join("t"), "t").unwrap();
    let [_, archive, flag, path] = webroot.flags();
    let server = Server::start(&["--archive", &format!("example.com={archive}"), &flag, &path]);
    let target = format!("{PREFIX}t");
    assert_eq!(server.request_host("other.example", "GET", &target, "").body, b"t");
    assert_eq!(server.request_host("other.example", "GET", "/", "").status, 421);
    assert_eq!(server.request_host("other.example", "POST", &target, "").status, 421);
    assert_eq!(server.request_host("example.com", "GET", &target, "").body, b"t");
}

#[test]
fn webroot_must_be_a_directory() {
    let webroot = Webroot::new();
    let [_, archive, flag, _] = webroot.flags();
    for wrong in ["/no/such/directory", &archive] {
        let arguments = ["--archive", &archive, "--bind", "127.0.0.1:0", &flag, wrong];
        let output = run("cannery-server", &arguments);
        assert_eq!(output.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&output.stderr).contains(wrong));
    }
}

const THUMBPRINT: &str = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";

#[test]
fn thumbprint_answers_every_token() {
    let webroot = Webroot::new();
    let archive = webroot.archive.to_str().unwrap();
    let flags = ["--archive", archive, "--acme-thumbprint", THUMBPRINT];
    for more in [&[][..], &["--https-redirect"], &["--processes", "2"], &["--hosts-disable"]] {
        let server = Server::start_on_all_transports(&[&flags, more].concat());
        for token in ["evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA", "a"] {
            let response = server.get(&format!("{PREFIX}{token}"));
            assert_eq!(
                (response.status, response.field("Cache-Control")),
                (200, Some("no-store")),
                "{more:?}"
            );
            assert_eq!(response.field("Content-Type"), Some("application/octet-stream"));
            assert_eq!(response.body, format!("{token}.{THUMBPRINT}").into_bytes(), "{more:?}");
        }
        let head = server.request("HEAD", &format!("{PREFIX}a?x"), "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("45")));
        assert_eq!(server.request("POST", &format!("{PREFIX}a"), "").status, 405);
        assert_eq!(server.get(&format!("{PREFIX}own")).body, b"the site's");
        let long = "x".repeat(129);
        for wrong in ["", "a.txt", "a/", "a%2e", "%61", &long] {
            let response = server.get(&format!("{PREFIX}{wrong}"));
            assert!(matches!(response.status, 400 | 404), "{wrong}: {}", response.status);
        }
    }
}

#[test]
fn thumbprint_and_webroot_go_together() {
    let webroot = Webroot::new();
    fs::create_dir_all(webroot.tokens()).unwrap();
    fs::write(webroot.tokens().join("file"), "of the webroot").unwrap();
    let server = webroot.serve(&["--acme-thumbprint", THUMBPRINT]);
    assert_eq!(server.get(&format!("{PREFIX}file")).body, b"of the webroot");
    assert_eq!(server.get(&format!("{PREFIX}other")).body, format!("other.{THUMBPRINT}").into_bytes());

    // Every host, because a certificate may have names that have no site.
    let archive = format!("example.com={}", webroot.archive.display());
    let server = Server::start(&["--archive", &archive, "--acme-thumbprint", THUMBPRINT]);
    let response = server.request_host("other.example", "GET", &format!("{PREFIX}t"), "");
    assert_eq!(response.body, format!("t.{THUMBPRINT}").into_bytes());
    assert_eq!(server.request_host("other.example", "GET", "/", "").status, 421);
}

#[test]
fn wrong_thumbprint_is_refused() {
    for wrong in ["", "short", &format!("{THUMBPRINT}x"), &THUMBPRINT.replace('_', "/")] {
        let output = run("cannery-server", &["--dummy", "--bind", "127.0.0.1:0", "--acme-thumbprint", wrong]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("thumbprint"), "{wrong}");
    }
}
