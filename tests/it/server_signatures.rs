//! `cannery-server --public-key`: serves only signed releases of a release directory.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::harness::{Server, compile, request_at, run, wait_until};
use crate::push::{Place, asset_content, asset_path, page};
use crate::signatures::keygen;

/// A release directory, and keys.
struct Releases {
    place: Place,
}

impl Releases {
    fn new() -> Releases {
        let place = Place::new();
        fs::create_dir(place.path("releases")).unwrap();
        for name in ["site", "other"] {
            keygen(&place, name);
        }
        Releases { place }
    }

    /// Writes a release.
    fn build(&self, number: u32) {
        self.place.write_site(number);
        let archive = self.place.path(&format!("releases/{number}.cdb"));
        compile(&self.place.path("public"), &archive, &["--serial", &number.to_string()]);
    }

    /// Signs a release with a key, for a site.
    fn sign(&self, number: u32, key: &str, site: &str, sequence: u32) {
        let archive = self.place.text(&format!("releases/{number}.cdb"));
        let key = self.place.text(&format!("{key}.key"));
        let sequence = sequence.to_string();
        self.place.json(&["sign", &archive, "--secret-key", &key, "--site", site, "--sequence", &sequence]);
    }

    fn unsign(&self, number: u32) {
        for suffix in ["release", "release.minisig"] {
            fs::remove_file(self.place.path(&format!("releases/{number}.cdb.{suffix}"))).unwrap();
        }
    }

    /// Makes a release current.
    fn switch(&self, number: u32) {
        let next = self.place.path("releases/.next");
        symlink(format!("{number}.cdb"), &next).unwrap();
        fs::rename(&next, self.place.path("releases/current")).unwrap();
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let trust = ["--public-key", &self.place.text("site.pub")];
        let start = ["--releases", &self.place.text("releases"), "--sandbox", "require"];
        [&start[..], &trust, more].concat().into_iter().map(str::to_owned).collect()
    }

    fn start(&self, more: &[&str]) -> Server {
        let flags = self.flags(more);
        Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts a server that must fail, and returns its message.
    fn start_error(&self, more: &[&str]) -> String {
        let flags = self.flags(&[&["--bind", "127.0.0.1:0"], more].concat());
        let output = run("cannery-server", &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{message}");
        message
    }
}

fn serves(server: &Server, number: u32) -> bool {
    server.get("/").body == page(number).into_bytes()
}

#[test]
fn only_signed_releases_become_current() {
    let releases = Releases::new();
    for number in 1..=2 {
        releases.build(number);
    }
    releases.sign(1, "site", "example.com", 1);
    releases.switch(1);
    let server = releases.start(&["--site", "example.com", "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    let page_of = |path: &str| String::from_utf8(request_at(&admin, "GET", path, "").body).unwrap();
    let metric = |name: &str| {
        let metrics = page_of("/metrics");
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    let refused = || -> Value {
        let facts: Value = serde_json::from_str(&page_of("/facts.json")).unwrap();
        facts["sites"][0]["refused"].clone()
    };
    assert_eq!((metric("cannery_release_refused{"), refused()), ("0".to_owned(), Value::Null));

    releases.switch(2);
    server.await_line("this one isn't signed; the previous release is still served");
    wait_until("the metric shows it", || metric("cannery_release_refused{") == "1");
    assert!(refused().as_str().unwrap().contains("isn't signed"));
    assert_eq!(metric("cannery_reloads_total{outcome=\"refused\"}"), "1");

    // The archive stays as it is, and only its statement changes.
    releases.sign(2, "other", "example.com", 2);
    server.await_line("signed by a key that isn't listed here; the previous");
    releases.sign(2, "site", "example.org", 2);
    server.await_line("belongs to the site `example.org`");
    let signed = |suffix| releases.place.path(&format!("releases/2.cdb.{suffix}"));
    for suffix in ["release", "release.minisig"] {
        fs::copy(releases.place.path(&format!("releases/1.cdb.{suffix}")), signed(suffix)).unwrap();
    }
    server.await_line("about another archive");
    assert!(serves(&server, 1));
    releases.sign(2, "site", "example.com", 2);
    server.await_line("serves a new release, serial 2");
    wait_until("the new release is served", || serves(&server, 2));
    wait_until("nothing is refused", || metric("cannery_release_refused{") == "0" && refused().is_null());

    // Its statement was right once. A rollback signs it again.
    releases.switch(1);
    server.await_line("older than what was accepted before");
    assert!(serves(&server, 2));
    releases.sign(1, "site", "example.com", 3);
    server.await_line("serves a new release, serial 1");
    wait_until("the rollback is served", || serves(&server, 1));
    // The other one still answers for its pages.
    assert_eq!(server.get(&format!("/{}", asset_path(2))).body, asset_content(2).into_bytes());

    // A refused release isn't the newest one any more once `current` has left it.
    releases.build(4);
    releases.sign(4, "site", "example.com", 4);
    fs::write(releases.place.path("releases/4.cdb.release"), b"\xff").unwrap();
    releases.switch(4);
    server.await_line("cannot read the signature");
    wait_until("the metric shows it", || metric("cannery_release_refused{") == "1");
    releases.switch(1);
    wait_until("nothing is refused", || metric("cannery_release_refused{") == "0");

    // The statement is right, but the archive isn't what it says.
    releases.build(3);
    releases.sign(3, "site", "example.com", 4);
    let path = releases.place.path("releases/3.cdb");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    releases.switch(3);
    server.await_line("current: corrupt archive: its digest");
    assert!(serves(&server, 1));
}

#[test]
fn staged_release_answers_only_if_it_is_signed() {
    let releases = Releases::new();
    releases.build(1);
    releases.sign(1, "site", "example.com", 1);
    releases.switch(1);
    let server = releases.start(&[]);

    releases.build(2);
    server.await_line("2.cdb: only signed releases are accepted here");
    let asset = format!("/{}", asset_path(2));
    assert_eq!(server.get(&asset).status, 404);
    // The first release has decided which site this is.
    releases.sign(2, "site", "example.org", 2);
    server.await_line("belongs to the site `example.org`");
    assert_eq!(server.get(&asset).status, 404);
    releases.sign(2, "site", "example.com", 2);
    wait_until("the staged release answers", || server.get(&asset).status == 200);
    assert!(serves(&server, 1));
}

#[test]
fn current_release_that_is_signed_again_makes_others_older() {
    let releases = Releases::new();
    for number in 1..=2 {
        releases.build(number);
    }
    releases.sign(1, "site", "example.com", 1);
    releases.switch(1);
    let server = releases.start(&[]);
    releases.sign(2, "site", "example.com", 2);
    let asset = format!("/{}", asset_path(2));
    wait_until("the staged release answers", || server.get(&asset).status == 200);

    releases.sign(1, "site", "example.com", 3);
    releases.switch(2);
    server.await_line("older than what was accepted before");
    assert!(serves(&server, 1));
}

#[test]
fn server_starts_only_with_a_signed_release() {
    let releases = Releases::new();
    releases.build(1);
    releases.switch(1);
    for processes in [&[][..], &["--processes", "2"]] {
        let message = releases.start_error(processes);
        assert!(message.contains("isn't signed") && message.contains("--secret-key"), "{message}");
    }
    releases.sign(1, "other", "example.com", 1);
    assert!(releases.start_error(&[]).contains("key that isn't listed"));

    // While a key is replaced, both are listed.
    let other = releases.place.text("other.pub");
    assert!(
        releases
            .start_error(&["--public-key", &other, "--site", "example.org"])
            .contains("belongs to the site")
    );
    for processes in [&[][..], &["--processes", "2"]] {
        let server =
            releases.start(&[&["--public-key", &other, "--site", "example.com"], processes].concat());
        assert!(serves(&server, 1));
    }
    releases.unsign(1);
    assert!(releases.start_error(&["--public-key", &other]).contains("isn't signed"));
}

#[test]
fn pushed_releases_are_accepted_and_rolled_back() {
    let place = Place::new();
    keygen(&place, "site");
    let (directory, site, key) = (place.text("releases"), place.text("public"), place.text("site.key"));
    let signing = ["--secret-key", &key, "--site", "example.com"];
    let push = |number: u32| {
        place.write_site(number);
        place.json(&[&["push", &directory, &site], &signing[..]].concat());
    };
    push(1);
    let server = Server::start(&["--releases", &directory, "--public-key", &place.text("site.pub")]);
    push(2);
    server.await_line("serves a new release, serial 2");
    wait_until("the new release is served", || serves(&server, 2));
    place.json(&[&["rollback", &directory], &signing[..]].concat());
    server.await_line("serves a new release, serial 1");
    wait_until("the earlier release is served", || serves(&server, 1));
}

/// Only the server knows the keys, and each key has signed some of the releases.
#[test]
fn push_and_rollback_go_beyond_sequences_of_other_keys() {
    let place = Place::new();
    let directory = place.text("releases");
    for name in ["site", "other"] {
        keygen(&place, name);
    }
    let run = |command: &[&str], key: &str| {
        let key = place.text(&format!("{key}.key"));
        place.json(&[command, &["--secret-key", &key, "--site", "example.com"]].concat());
    };
    let push = |number: u32, key: &str| {
        place.write_site(number);
        run(&["push", &directory, &place.text("public")], key);
    };
    push(1, "site");
    push(2, "other");
    let keys = ["--public-key", &place.text("site.pub"), "--public-key", &place.text("other.pub")];
    let server = Server::start(&[&["--releases", &directory], &keys[..]].concat());

    // Sequences are 3 for the first rollback, and 4 for the second one.
    run(&["rollback", &directory, "--to", "1"], "site");
    wait_until("the first release is served", || serves(&server, 1));
    run(&["rollback", &directory, "--to", "2"], "other");
    wait_until("the second release is served", || serves(&server, 2));
    push(3, "site");
    wait_until("the third release is served", || serves(&server, 3));
}

#[test]
fn rollback_with_a_key_signs_although_the_live_release_is_unsigned() {
    let place = Place::new();
    keygen(&place, "site");
    let (directory, site, key) = (place.text("releases"), place.text("public"), place.text("site.key"));
    let signing = ["--secret-key", &key, "--site", "example.com"];
    for number in 1..=2 {
        place.write_site(number);
        place.json(&[&["push", &directory, &site], &signing[..]].concat());
    }
    let server = Server::start(&["--releases", &directory, "--public-key", &place.text("site.pub")]);
    place.write_site(3);
    place.json(&["push", &directory, &site]);
    server.await_line("isn't signed");
    place.json(&[&["rollback", &directory, "--to", "1"], &signing[..]].concat());
    wait_until("the first release is served", || serves(&server, 1));
}
