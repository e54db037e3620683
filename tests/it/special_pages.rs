//! Built-in pages below `/__/`.

use crate::harness::{Server, compile, pages, run, serve, write_folder};

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
