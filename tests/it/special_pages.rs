//! Built-in pages below `/__/`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::harness::{Server, TLS_FLAGS, compile, pages, parse, run, serve, write_folder};

#[test]
fn heartbeat_exists_for_every_site() {
    for files in [[("index.html", "page")], [("_wildcard.html", "any")], [("404.html", "none")]] {
        let server = serve(&pages(&files), &[]);
        let response = server.get("/__/heartbeat");
        assert_eq!((response.status, response.body.as_slice()), (200, b"OK\n".as_slice()));
        assert_eq!(response.field("Cache-Control"), Some("no-store"));
        let head = server.request("HEAD", "/__/heartbeat", "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("3")));
        assert_eq!(server.request("POST", "/__/heartbeat", "").status, 405);
        assert_eq!(server.get("http://localhost/__/heartbeat?now").body, b"OK\n");
    }
}

/// Load balancers name the address, or no host at all.
#[test]
fn heartbeat_answers_for_hosts_without_a_site() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    write_folder(&source, &pages(&[("index.html", "a page")]));
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &[]);
    let named = format!("site.example={}", archive.display());
    let local = folder.path().join("socket");
    let bind = format!("unix:{}", local.display());

    let server = Server::start_on_all_transports(&[&named, "--bind", &bind]);
    for host in ["10.0.0.5:8080", "[::1]", "other.example", "site.example"] {
        let response = server.request_host(host, "GET", "/__/heartbeat", "");
        assert_eq!((response.status, response.body.as_slice()), (200, b"OK\n".as_slice()), "{host}");
        let head = server.request_host(host, "HEAD", "/__/heartbeat", "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("3")), "{host}");
    }
    let answer = |request: &[u8]| parse(&server.raw(request), "GET").0;
    assert_eq!(answer(b"GET /__/heartbeat HTTP/1.0\r\n\r\n").body, b"OK\n");
    assert_eq!(answer(b"GET http://10.0.0.5/__/heartbeat HTTP/1.0\r\n\r\n").body, b"OK\n");
    // Nothing else is told.
    assert_eq!(server.request_host("10.0.0.5", "GET", "/", "").status, 421);
    assert_eq!(server.request_host("10.0.0.5", "GET", "/__/cannery/about", "").status, 421);
    assert_eq!(server.request_host("10.0.0.5", "POST", "/__/heartbeat", "").status, 421);
    let mut stream = UnixStream::connect(&local).unwrap();
    stream.write_all(b"GET /__/heartbeat HTTP/1.0\r\n\r\n").unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert_eq!(parse(&received, "GET").0.body, b"OK\n");

    let server = Server::start(&[&TLS_FLAGS[..], &[&named, "--https-redirect"]].concat());
    assert_eq!(server.request_host("10.0.0.5", "GET", "/__/heartbeat", "").body, b"OK\n");
    assert_eq!(server.request_host("site.example", "GET", "/__/heartbeat", "").body, b"OK\n");
    assert_eq!(server.request_host("site.example", "GET", "/", "").status, 308);
    assert_eq!(server.request_host("10.0.0.5", "GET", "/", "").status, 421);

    let server = Server::start(&[&named, "--proxy-protocol"]);
    let proxied = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /__/heartbeat HTTP/1.0\r\n\r\n";
    assert_eq!(parse(&server.raw(proxied), "GET").0.body, b"OK\n");

    let server = Server::start(&[&named, "--special-pages-disable"]);
    assert_eq!(server.request_host("10.0.0.5", "GET", "/__/heartbeat", "").status, 421);
}

#[test]
fn built_in_pages_describe_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(&[("index.html", "page")]));
    compile(&source, &archive, &[]);
    let server =
        Server::start_on_all_transports(&["--archive", archive.to_str().unwrap(), "--special-pages-version"]);
    let text = |path: &str| String::from_utf8(server.get(path).body).unwrap();
    assert!(text("/__/cannery/about").contains("Cannery"));
    assert_eq!(text("/__/cannery/version").trim(), env!("CARGO_PKG_VERSION"));
    assert!(text("/__/cannery/manual").contains("--archive"));
    let printed = String::from_utf8(run("cannery-server", &["--sbom"]).stdout).unwrap();
    assert!(text("/__/cannery/sbom") == printed && printed.contains("CycloneDX"));
    assert_eq!(server.get("/__/cannery/nothing").status, 404);
}

#[test]
fn paths_of_the_site_take_precedence() {
    let server = serve(&pages(&[("__/heartbeat", "own")]), &[]);
    assert_eq!(server.get("/__/heartbeat").body, b"own");
}

#[test]
fn built_in_pages_can_be_disabled() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    std::fs::create_dir(&source).unwrap();
    write_folder(&source, &pages(&[("index.html", "page")]));
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &[]);
    let server =
        Server::start_on_all_transports(&["--archive", archive.to_str().unwrap(), "--special-pages-disable"]);
    assert_eq!(server.get("/__/heartbeat").status, 404);
    assert_eq!(server.get("/__/cannery/about").status, 404);
}
