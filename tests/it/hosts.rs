//! Which site of an archive answers: by host, in every spelling, exact before wildcard before default.

use crate::site::{Server, pages, parse, serve};

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

/// The status and the content, or where it leads.
fn ask(server: &Server, host: &str, target: &str) -> (u16, String) {
    let response = server.ask_host(host, "GET", target, "");
    let text = response
        .field("Location")
        .map_or_else(|| String::from_utf8_lossy(&response.body).into_owned(), str::to_owned);
    (response.status, text)
}

#[track_caller]
fn assert_where(server: &Server, host: &str, expected: &str) {
    assert_eq!(ask(server, host, "/where.txt"), (200, expected.to_owned()), "{host}");
}

#[test]
fn the_exact_host_comes_first_then_the_nearest_wildcard_then_the_default() {
    let server = server();
    assert_where(&server, "www.example.com", "www");
    assert_where(&server, "ftp.example.com", "below example.com");
    assert_where(&server, "a.b.example.com", "below example.com");
    assert_where(&server, "deep.example.com", "below example.com");
    assert_where(&server, "a.deep.example.com", "below deep");
    assert_where(&server, "a.b.deep.example.com", "below deep");
    for host in ["example.com", "notexample.com", "example.net", "localhost", "127.0.0.1", "[::1]"] {
        assert_where(&server, host, "default");
    }
}

#[test]
fn every_spelling_of_a_host_is_one_host() {
    let server = server();
    for host in [
        "WWW.EXAMPLE.COM",
        "www.example.com:80",
        "www.example.com:65535",
        "www.example.com.",
        "Www.Example.Com.:8080",
    ] {
        assert_where(&server, host, "www");
    }
    for host in ["A.Example.Com", "a.example.com:8080", "a.example.com.", "a.example.com.:1"] {
        assert_where(&server, host, "below example.com");
    }
    for host in ["[::1]:8080", "[2001:DB8::1]", "EXAMPLE.NET:80"] {
        assert_where(&server, host, "default");
    }
}

#[test]
fn the_authority_of_the_target_counts_and_not_the_host_field() {
    let server = server();
    for (target, expected) in [
        ("http://www.example.com/where.txt", "www"),
        ("HTTP://WWW.example.com:80/where.txt", "www"),
        ("http://a.deep.example.com/where.txt", "below deep"),
        ("http://example.net/where.txt", "default"),
    ] {
        assert_eq!(ask(&server, "www.example.com", target), (200, expected.to_owned()), "{target}");
    }
}

#[test]
fn a_whole_site_has_nothing_of_the_default_one_and_rules_alone_have() {
    let server = server();
    assert_eq!(ask(&server, "www.example.com", "/only.txt").0, 404);
    assert_eq!(ask(&server, "a.example.com", "/only.txt"), (404, "nothing below example.com".into()));
    assert_eq!(ask(&server, "rules.example.org", "/only.txt"), (200, "only the default".into()));
    assert_eq!(ask(&server, "rules.example.org", "/old"), (302, "/new".into()));
    assert_eq!(ask(&server, "rules.example.org", "/all"), (302, "/everywhere".into()));
    assert_eq!(ask(&server, "a.b.example.org", "/all"), (302, "/everywhere".into()));
    assert_eq!(ask(&server, "a.b.example.org", "/old").0, 404);
    assert_eq!(ask(&server, "example.org", "/all").0, 404);
}

#[test]
fn the_folders_of_hosts_are_no_paths() {
    let server = server();
    for target in ["/_hosts/www.example.com/where.txt", "/_hosts/*.example.com/where.txt", "/_hosts/"] {
        for host in ["localhost", "www.example.com"] {
            assert_eq!(ask(&server, host, target).0, 404, "{target} on {host}");
        }
    }
    assert_eq!(ask(&server, "localhost", "//www.example.com/where.txt").0, 404, "two slashes name no host");
}

#[test]
fn a_host_that_is_none_is_refused() {
    let server = server();
    for host in ["a b", "a/b", "a@b", "www.example.com:port", "[::1", "a\\b", "ä.example"] {
        let request = format!("GET /where.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(parse(&server.raw(request.as_bytes()), false).0.status, 400, "{host}");
    }
}

#[test]
fn a_server_told_to_ignore_hosts_has_one_site() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    crate::site::write_folder(
        &source,
        &pages(&[("where.txt", "default"), ("_hosts/*.example.com/where.txt", "below")]),
    );
    let archive = folder.path().join("site.cdb");
    crate::site::compile(&source, &archive, &[]);
    let server = Server::start_everywhere(&["--archive", archive.to_str().unwrap(), "--hosts-disable"]);
    assert_where(&server, "a.example.com", "default");
}
