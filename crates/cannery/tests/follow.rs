//! Tests embedded sites in debug builds, which follow their folder.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]
#![cfg(debug_assertions)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cannery::{EmbeddedSite, Server};
use cannery_testkit::http1;

/// Waits up to 20 seconds until `holds`.
fn await_condition(description: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "timed out: {description}");
        std::thread::yield_now();
    }
}

/// Embeds a fixture that was built with these options.
fn embedded(fixture: &support::Fixture, options: &str) -> &'static EmbeddedSite {
    let archive: &'static [u8] = fs::read(&fixture.archive).unwrap().leak();
    let folder = fixture.directory.path().join("site");
    let source: &'static str = format!("{}\n{options}", folder.display()).leak();
    Box::leak(Box::new(EmbeddedSite::new(archive, archive, Some(source))))
}

#[test]
fn embedded_site_follows_its_folder() {
    let fixture = support::site();
    let folder = fixture.directory.path().join("site");
    let site = embedded(&fixture, "immutable /*.txt\nignore /docs/\n");
    assert_eq!(site.file("/").unwrap().content, "<title>Home</title>");
    assert!(site.file("/docs/").is_none(), "the build leaves it out");
    let request = http::Request::get("/a%20b.txt").body(()).unwrap();
    let caching = site.respond(&request).headers()[http::header::CACHE_CONTROL].clone();
    assert_eq!(caching, "no-cache", "a copy is revalidated while the folder is edited");

    fs::write(folder.join("index.html"), "<title>Edited</title>").unwrap();
    await_condition("the edit", || site.file("/").unwrap().content == "<title>Edited</title>");
    assert!(site.file("/docs/").is_none(), "the build leaves it out");
}

#[test]
fn server_follows_the_folder_of_an_embedded_site() {
    let fixture = support::site();
    let folder = fixture.directory.path().join("site");
    let site = embedded(&fixture, "ignore /docs/\n");
    let server = Server::new().embedded_site(site).bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    let get = |path: &str| {
        let mut client = http1::Client::new(TcpStream::connect(address).unwrap());
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.request(request.as_bytes(), "GET").unwrap()
    };
    assert_eq!(get("/").body, b"<title>Home</title>");
    assert_eq!(get("/docs/").status, 404, "the build leaves it out");

    fs::write(folder.join("index.html"), "<title>Edited</title>").unwrap();
    await_condition("the edit", || get("/").body == b"<title>Edited</title>");
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn embedded_archive_is_served_without_its_folder() {
    let fixture = support::site();
    let archive: &'static [u8] = fs::read(&fixture.archive).unwrap().leak();
    let site = EmbeddedSite::new(archive, archive, Some("/nowhere/at/all\n"));
    assert_eq!(site.file("/").unwrap().content, "<title>Home</title>");
}
