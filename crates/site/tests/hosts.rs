//! Tests virtual hosts. Each host gets answers from the right site.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{Key, KeyBuffer, NewRecord, NewScope, Piece};
use cannery_site::{Fields, Method, Request, Scratch, Site};

/// Returns an archive with these hosts, each of which redirects `/where` to its own name. `!` means that the site is complete. The
/// default site redirects `/where` and `/default`.
fn site(hosts: &[&str]) -> Site {
    let mut writer = support::writer();
    let mut buffer = KeyBuffer::new();
    let mut redirect = |host: Option<&str>, path: &str, target: &str| {
        let target = vec![Piece::Literal(target.as_bytes())];
        let record = NewRecord::Redirect { status: 302, has_query: false, fragment: b"", target };
        writer.path(host, Key::from_file(path.as_bytes(), &mut buffer).unwrap(), &record).unwrap();
    };
    redirect(None, "where", "default");
    redirect(None, "default", "default");
    for host in hosts {
        let name = host.trim_start_matches('!');
        redirect(Some(name), "where", name);
    }
    for host in hosts {
        let scope = NewScope { own_site: host.starts_with('!'), ..NewScope::default() };
        writer.scope(Some(host.trim_start_matches('!')), Key::ROOT, &scope).unwrap();
    }
    support::finished(writer)
}

/// Returns the target of the redirect, or `None` if the request is not redirected.
fn location(site: &Site, host: &str, target: &str) -> Option<String> {
    let request = Request { host: Some(host.as_bytes()), ..Request::new(Method::Get, target.as_bytes()) };
    let mut scratch = Scratch::default();
    let Fields::Redirect(location) = site.answer(&request, &mut scratch).fields else { return None };
    let mut bytes = Vec::new();
    location.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
    Some(String::from_utf8(bytes).unwrap())
}

#[track_caller]
fn assert_site(site: &Site, host: &str, expected: &str) {
    assert_eq!(location(site, host, "/where").as_deref(), Some(expected), "{host}");
}

#[test]
fn exact_host_precedes_wildcards_and_default_site() {
    let site = site(&["www.example.com", "*.example.com", "*.deep.example.com", "*.org"]);
    assert_site(&site, "www.example.com", "www.example.com");
    assert_site(&site, "ftp.example.com", "*.example.com");
    assert_site(&site, "a.b.c.example.com", "*.example.com");
    assert_site(&site, "deep.example.com", "*.example.com");
    assert_site(&site, "a.deep.example.com", "*.deep.example.com");
    assert_site(&site, "a.b.deep.example.com", "*.deep.example.com");
    assert_site(&site, "anything.org", "*.org");
    for host in ["example.com", "wwwexample.com", "xexample.com", "org", "example.net", "", "com"] {
        assert_site(&site, host, "default");
    }
}

#[test]
fn port_letter_case_and_final_dot_are_ignored() {
    let site = site(&["www.example.com", "*.example.com", "[::1]"]);
    for host in ["WWW.Example.COM", "www.example.com:8080", "www.example.com.", "www.example.com.:80"] {
        assert_site(&site, host, "www.example.com");
    }
    for host in ["A.Example.COM", "a.example.com:8080", "a.example.com.", "A.example.com.:80"] {
        assert_site(&site, host, "*.example.com");
    }
    assert_site(&site, "[::1]", "[::1]");
    assert_site(&site, "[::1]:8080", "[::1]");
    assert_site(&site, "[::2]", "default");
}

#[test]
fn missing_path_is_searched_on_next_site() {
    let open = site(&["www.example.com", "*.example.com"]);
    assert_eq!(location(&open, "www.example.com", "/default").as_deref(), Some("default"));
    assert_eq!(location(&open, "a.example.com", "/default").as_deref(), Some("default"));
    let closed = site(&["www.example.com", "!*.example.com"]);
    assert_eq!(
        location(&closed, "www.example.com", "/default"),
        None,
        "the site of the wildcard is complete"
    );
    assert_eq!(location(&closed, "a.example.com", "/default"), None);
    assert_eq!(location(&closed, "example.com", "/default").as_deref(), Some("default"));
}

#[test]
fn literal_wildcard_matches_no_other_host() {
    let site = site(&["*.example.com"]);
    assert_site(&site, ".example.com", "default");
    assert_site(&site, "..example.com", "default");
    assert_site(&site, "*.example.com", "*.example.com");
}

#[test]
fn authority_of_target_overrides_host() {
    let site = site(&["*.example.com", "other.example"]);
    assert_eq!(
        location(&site, "other.example", "http://a.example.com/where").as_deref(),
        Some("*.example.com")
    );
}

#[test]
fn overlong_host_uses_default_site() {
    let site = site(&["*.example.com"]);
    let labels = |count: usize| format!("{}example.com", "a.".repeat(count));
    assert_site(&site, &labels(121), "*.example.com");
    assert_site(&site, &labels(122), "default");
    assert_site(&site, &labels(2000), "default");
}
