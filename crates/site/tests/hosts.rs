//! Which of an archive's sites a host's requests are answered from.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{Key, KeyBuffer, NewRecord, NewScope, Piece};
use cannery_site::{Fields, Method, Request, Scratch, Site};

/// An archive with these hosts, each of which redirects `/where` to its own name; of those marked with `!` nothing is
/// looked for elsewhere. The default site redirects `/where` and `/default`.
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

/// Where a request is redirected to; nothing if it is not.
fn location(site: &Site, host: &str, target: &str) -> Option<String> {
    let request = Request { host: Some(host.as_bytes()), ..Request::new(Method::Get, target.as_bytes()) };
    let mut scratch = Scratch::default();
    let Fields::Redirect(location) = site.answer(&request, &mut scratch).fields else { return None };
    let mut bytes = Vec::new();
    location.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
    Some(String::from_utf8(bytes).unwrap())
}

#[track_caller]
fn assert_asked(site: &Site, host: &str, expected: &str) {
    assert_eq!(location(site, host, "/where").as_deref(), Some(expected), "{host}");
}

#[test]
fn the_exact_host_comes_before_the_nearest_wildcard_and_that_before_the_default() {
    let site = site(&["www.example.com", "*.example.com", "*.deep.example.com", "*.org"]);
    assert_asked(&site, "www.example.com", "www.example.com");
    assert_asked(&site, "ftp.example.com", "*.example.com");
    assert_asked(&site, "a.b.c.example.com", "*.example.com");
    assert_asked(&site, "deep.example.com", "*.example.com");
    assert_asked(&site, "a.deep.example.com", "*.deep.example.com");
    assert_asked(&site, "a.b.deep.example.com", "*.deep.example.com");
    assert_asked(&site, "anything.org", "*.org");
    for host in ["example.com", "wwwexample.com", "xexample.com", "org", "example.net", "", "com"] {
        assert_asked(&site, host, "default");
    }
}

#[test]
fn port_letter_case_and_final_dot_do_not_matter() {
    let site = site(&["www.example.com", "*.example.com", "[::1]"]);
    for host in ["WWW.Example.COM", "www.example.com:8080", "www.example.com.", "www.example.com.:80"] {
        assert_asked(&site, host, "www.example.com");
    }
    for host in ["A.Example.COM", "a.example.com:8080", "a.example.com.", "A.example.com.:80"] {
        assert_asked(&site, host, "*.example.com");
    }
    assert_asked(&site, "[::1]", "[::1]");
    assert_asked(&site, "[::1]:8080", "[::1]");
    assert_asked(&site, "[::2]", "default");
}

#[test]
fn what_a_host_has_no_answer_for_is_looked_for_on_the_next_site() {
    let open = site(&["www.example.com", "*.example.com"]);
    assert_eq!(location(&open, "www.example.com", "/default").as_deref(), Some("default"));
    assert_eq!(location(&open, "a.example.com", "/default").as_deref(), Some("default"));
    let closed = site(&["www.example.com", "!*.example.com"]);
    assert_eq!(location(&closed, "www.example.com", "/default"), None, "the wildcard's site is a whole one");
    assert_eq!(location(&closed, "a.example.com", "/default"), None);
    assert_eq!(location(&closed, "example.com", "/default").as_deref(), Some("default"));
}

#[test]
fn a_host_that_spells_a_wildcard_is_no_other_host() {
    let site = site(&["*.example.com"]);
    assert_asked(&site, ".example.com", "default");
    assert_asked(&site, "..example.com", "default");
    assert_asked(&site, "*.example.com", "*.example.com");
}

#[test]
fn the_authority_of_the_target_counts_in_place_of_the_host() {
    let site = site(&["*.example.com", "other.example"]);
    assert_eq!(
        location(&site, "other.example", "http://a.example.com/where").as_deref(),
        Some("*.example.com")
    );
}

#[test]
fn a_host_longer_than_any_name_is_answered_by_the_default_site() {
    let site = site(&["*.example.com"]);
    let labels = |count: usize| format!("{}example.com", "a.".repeat(count));
    assert_asked(&site, &labels(121), "*.example.com");
    assert_asked(&site, &labels(122), "default");
    assert_asked(&site, &labels(2000), "default");
}
