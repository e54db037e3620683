//! The server's own pages in the access log, in metrics and in `explain`.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::harness::{Server, compile, pages, request_at, run, write_folder};

/// They were logged and counted as the site's 404 for the same path, and listed as missing.
#[test]
fn own_pages_are_logged_with_their_status() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    let log = folder.path().join("access.log");
    write_folder(&source, &pages(&[("index.html", "page")]));
    compile(&source, &archive, &[]);
    let archive = archive.to_str().unwrap();
    let log = log.to_str().unwrap();
    let server = Server::start(&["--archive", archive, "--access-log", log, "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();

    let heartbeat = server.get("/__/heartbeat");
    server.request("HEAD", "/__/heartbeat", "");
    let about = server.get("/__/cannery/about");
    let metrics = String::from_utf8(request_at(&admin, "GET", "/metrics", "").body).unwrap();
    assert!(metrics.contains("cannery_responses_total{status=\"200\"} 3\n"), "{metrics}");
    assert!(metrics.contains("cannery_responses_total{status=\"404\"} 0\n"), "{metrics}");
    let stats: serde_json::Value =
        serde_json::from_slice(&request_at(&admin, "GET", "/stats.json", "").body).unwrap();
    assert_eq!(stats["missing"], serde_json::json!([]));

    assert_eq!(server.stop(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    for line in [
        format!("\"GET /__/heartbeat HTTP/1.1\" 200 {} ", heartbeat.body.len()),
        "\"HEAD /__/heartbeat HTTP/1.1\" 200 0 ".to_owned(),
        format!("\"GET /__/cannery/about HTTP/1.1\" 200 {} ", about.body.len()),
    ] {
        assert!(log.contains(&line), "{line} in\n{log}");
    }

    let explained = run("cannery", &["explain", archive, "/__/heartbeat"]);
    let printed = String::from_utf8_lossy(&explained.stdout);
    assert!(printed.contains("HTTP/1.1 200 OK") && printed.contains("--special-pages-disable"), "{printed}");
}

/// The exact versions of the libraries were public, and with them their known vulnerabilities.
#[test]
fn exact_version_is_public_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(&[("index.html", "page")]));
    compile(&source, &archive, &[]);
    let server = Server::start(&["--archive", archive.to_str().unwrap()]);
    for path in ["/__/cannery/version", "/__/cannery/sbom"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    for path in ["/__/heartbeat", "/__/cannery/about", "/__/cannery/manual"] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.windows(version.len()).any(|bytes| bytes == version), "{path}");
    }
}

/// A site's policy forbids the styles of built-in pages unless it lists them, so the documentation lists them.
#[test]
fn hashes_of_built_in_styles_and_scripts_are_documented() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(&[("index.html", "page"), ("files/a.txt", "a")]));
    compile(&source, &archive, &["--include-folder-listing"]);
    let server = Server::start(&["--archive", archive.to_str().unwrap()]);
    let documentation = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rules.md")).unwrap();

    for (path, status, elements) in
        [("/missing", 404, &["style"] as &[_]), ("/files/", 200, &["style", "script"])]
    {
        let response = server.get(path);
        assert_eq!(response.status, status);
        let page = String::from_utf8(response.body).unwrap();
        for element in elements {
            let (_, rest) = page.split_once(&format!("<{element}>")).unwrap();
            let (text, _) = rest.split_once(&format!("</{element}>")).unwrap();
            let hash = format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
            assert!(documentation.contains(&hash), "{hash} of the {element} at {path}");
        }
    }
}
