//! Virtual hosts: an archive's site is selected by host, exact before wildcard before default.

use crate::harness::{Server, pages, parse, serve};

fn server() -> Server {
    let rules = "://rules.example.org/old /new 302\n://*.example.org/all /everywhere 302\n";
    let files = [
        ("where.txt", "default"),
        ("only.txt", "only the default"),
        ("_redirects", rules),
        ("_hosts/www.example.com/where.txt", "www"),
        ("_hosts/*.example.com/where.txt", "below example.com"),
        ("_hosts/*.example.com/_404.html", "nothing below example.com"),
        ("_hosts/_wildcard.deep.example.com/where.txt", "below deep"),
    ];
    serve(&pages(&files), &[])
}

/// Returns the status and the content, or the location of a redirect.
fn request(server: &Server, host: &str, target: &str) -> (u16, String) {
    let response = server.request_host(host, "GET", target, "");
    let text = response
        .field("Location")
        .map_or_else(|| String::from_utf8_lossy(&response.body).into_owned(), str::to_owned);
    (response.status, text)
}

#[track_caller]
fn assert_site(server: &Server, host: &str, expected: &str) {
    assert_eq!(request(server, host, "/where.txt"), (200, expected.to_owned()), "{host}");
}

#[test]
fn exact_host_precedes_wildcard_and_default() {
    let server = server();
    assert_site(&server, "www.example.com", "www");
    assert_site(&server, "ftp.example.com", "below example.com");
    assert_site(&server, "a.b.example.com", "below example.com");
    assert_site(&server, "deep.example.com", "below example.com");
    assert_site(&server, "a.deep.example.com", "below deep");
    assert_site(&server, "a.b.deep.example.com", "below deep");
    for host in ["example.com", "notexample.com", "example.net", "localhost", "127.0.0.1", "[::1]"] {
        assert_site(&server, host, "default");
    }
}

#[test]
fn equivalent_hosts_select_one_site() {
    let server = server();
    for host in [
        "WWW.EXAMPLE.COM",
        "www.example.com:80",
        "www.example.com:65535",
        "www.example.com.",
        "Www.Example.Com.:8080",
    ] {
        assert_site(&server, host, "www");
    }
    for host in ["A.Example.Com", "a.example.com:8080", "a.example.com.", "a.example.com.:1"] {
        assert_site(&server, host, "below example.com");
    }
    for host in ["[::1]:8080", "[2001:DB8::1]", "EXAMPLE.NET:80"] {
        assert_site(&server, host, "default");
    }
}

#[test]
fn absolute_target_overrides_the_host_field() {
    let server = server();
    for (target, expected) in [
        ("http://www.example.com/where.txt", "www"),
        ("HTTP://WWW.example.com:80/where.txt", "www"),
        ("http://a.deep.example.com/where.txt", "below deep"),
        ("http://example.net/where.txt", "default"),
    ] {
        assert_eq!(request(&server, "www.example.com", target), (200, expected.to_owned()), "{target}");
    }
}

#[test]
fn host_with_files_has_no_default_paths() {
    let server = server();
    assert_eq!(request(&server, "www.example.com", "/only.txt").0, 404);
    assert_eq!(request(&server, "a.example.com", "/only.txt"), (404, "nothing below example.com".into()));
    assert_eq!(request(&server, "rules.example.org", "/only.txt"), (200, "only the default".into()));
    assert_eq!(request(&server, "rules.example.org", "/old"), (302, "/new".into()));
    assert_eq!(request(&server, "rules.example.org", "/all"), (302, "/everywhere".into()));
    assert_eq!(request(&server, "a.b.example.org", "/all"), (302, "/everywhere".into()));
    assert_eq!(request(&server, "a.b.example.org", "/old").0, 404);
    assert_eq!(request(&server, "example.org", "/all").0, 404);
}

#[test]
fn host_folders_are_not_served() {
    let server = server();
    for target in ["/_hosts/www.example.com/where.txt", "/_hosts/*.example.com/where.txt", "/_hosts/"] {
        for host in ["localhost", "www.example.com"] {
            assert_eq!(request(&server, host, target).0, 404, "{target} on {host}");
        }
    }
    assert_eq!(
        request(&server, "localhost", "//www.example.com/where.txt").0,
        404,
        "a path with two slashes names no host"
    );
}

#[test]
fn malformed_hosts_are_refused() {
    let server = server();
    for host in ["a b", "a/b", "a@b", "www.example.com:port", "[::1", "a\\b", "ä.example"] {
        let request = format!("GET /where.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(parse(&server.raw(request.as_bytes()), "GET").0.status, 400, "{host}");
    }
}

#[test]
fn hosts_disable_serves_one_site() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    crate::harness::write_folder(
        &source,
        &pages(&[("where.txt", "default"), ("_hosts/*.example.com/where.txt", "below")]),
    );
    let archive = folder.path().join("site.cdb");
    crate::harness::compile(&source, &archive, &[]);
    let server =
        Server::start_on_all_transports(&["--archive", archive.to_str().unwrap(), "--hosts-disable"]);
    assert_site(&server, "a.example.com", "default");
}
