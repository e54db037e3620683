//! Tests each rule of lookups. Patterns are added in both orders.

use super::*;

/// Returns a router. The values are the patterns themselves.
fn router<'t>(patterns: &[&'t str]) -> Router<&'t str> {
    let mut router = Router::default();
    for pattern in patterns {
        router.add(pattern, *pattern).unwrap_or_else(|error| panic!("{error}"));
    }
    router
}

/// Looks up a request, e.g. `GET example.com/path`. Returns the pattern, the methods in parentheses, or an
/// empty string.
fn find(router: &Router<&str>, request: &str) -> String {
    let (method, target) = request.split_once(' ').unwrap_or(("GET", request));
    let (host, path) = target.split_at(target.find('/').unwrap_or(0));
    let host = Some(host.as_bytes()).filter(|host| !host.is_empty());
    match router.find(method.as_bytes(), host, path.as_bytes()) {
        Lookup::Found(found) => {
            assert_eq!(found.pattern, *found.value);
            found.pattern.to_owned()
        }
        Lookup::OtherMethods(methods) => format!("({methods})"),
        Lookup::Missing => String::new(),
    }
}

fn assert_finds(patterns: &[&str], requests: &[(&str, &str)]) {
    let in_order = router(patterns);
    let reversed = router(&patterns.iter().rev().copied().collect::<Vec<_>>());
    for (request, found) in requests {
        assert_eq!(find(&in_order, request), *found, "{request}");
        assert_eq!(find(&reversed, request), *found, "{request}, with the patterns reversed");
    }
}

#[test]
fn segments_match_one_by_one() {
    assert_finds(
        &["/a", "/b/{b}", "/c/{c...}", "/d/{$}", "/e/"],
        &[
            ("/a", "/a"),
            ("/a/", ""),
            ("/A", ""),
            ("/", ""),
            ("/b", ""),
            ("/b/", ""),
            ("/b/x", "/b/{b}"),
            ("/b/x/", ""),
            ("/b/x/y", ""),
            ("/c", ""),
            ("/c/", "/c/{c...}"),
            ("/c/x/y/", "/c/{c...}"),
            ("/d/", "/d/{$}"),
            ("/d", ""),
            ("/d/x", ""),
            ("/e/", "/e/"),
            ("/e/x/y", "/e/"),
            ("/e", ""),
        ],
    );
}

#[test]
fn most_specific_pattern_is_found() {
    assert_finds(
        &["/", "/{$}", "/{a}", "/a", "/a/", "/a/{b}/c", "/a/b/d", "/a/{b}/{$}", "/a/b/{$}"],
        &[
            ("/", "/{$}"),
            ("/x", "/{a}"),
            ("/a", "/a"),
            ("/x/", "/"),
            ("/a/", "/a/"),
            ("/a/x/c", "/a/{b}/c"),
            ("/a/x/d", "/a/"),
            ("/a/b/d", "/a/b/d"),
            ("/a/b/c", "/a/{b}/c"),
            ("/a/x/", "/a/{b}/{$}"),
            ("/a/b/", "/a/b/{$}"),
            ("/a/b", "/a/"),
        ],
    );
}

#[test]
fn lookup_backtracks() {
    assert_finds(
        &["/a/b/z", "/a/{x}/c", "/{w}/{x}/{y}/d", "/{rest...}"],
        &[
            ("/a/b/z", "/a/b/z"),
            ("/a/b/c", "/a/{x}/c"),
            ("/a/b/c/d", "/{w}/{x}/{y}/d"),
            ("/a/b/e", "/{rest...}"),
        ],
    );
}

#[test]
fn methods_are_matched() {
    assert_finds(
        &[
            "GET /a",
            "POST /a",
            "GET /b/c",
            "HEAD /b/c",
            "/b/c",
            "DELETE /c",
            "TRACE /{x}",
            "/d/",
            "POST /d/e",
        ],
        &[
            ("GET /a", "GET /a"),
            ("HEAD /a", "GET /a"),
            ("POST /a", "POST /a"),
            ("TRACE /a", "TRACE /{x}"),
            ("get /a", "(GET, HEAD, POST, TRACE)"),
            ("PUT /a", "(GET, HEAD, POST, TRACE)"),
            ("HEAD /b/c", "HEAD /b/c"),
            ("GET /b/c", "GET /b/c"),
            ("POST /b/c", "/b/c"),
            ("GET /c", "(DELETE, TRACE)"),
            ("GET /x", "(TRACE)"),
            ("GET /x/y", ""),
            ("GET /d/e", "/d/"),
            ("POST /d/e", "POST /d/e"),
        ],
    );
}

#[test]
fn host_takes_precedence() {
    assert_finds(
        &["/{a}", "/b/c", "GET example.com/b/", "POST /b/d", "[::1]/"],
        &[
            ("GET example.com/a", "/{a}"),
            ("GET example.com/b/c", "GET example.com/b/"),
            ("GET EXAMPLE.com.:8080/b/c", "GET example.com/b/"),
            ("POST example.com/b/c", "/b/c"),
            ("PUT example.com/b/d", "(GET, HEAD, POST)"),
            ("GET www.example.com/b/c", "/b/c"),
            ("GET :80/b/c", "/b/c"),
            ("GET [::1]:80/x/y", "[::1]/"),
            ("GET [::1/b/c", "/b/c"),
            ("GET /b/c", "/b/c"),
        ],
    );
}

#[test]
fn segments_are_compared_decoded() {
    assert_finds(
        &["/a%2Fb/c", "/é", "/a/b/c", "/100%25", "/{$}"],
        &[
            ("/a%2fb/c", "/a%2Fb/c"),
            ("/%61%2Fb/%63", "/a%2Fb/c"),
            ("/a/b/c", "/a/b/c"),
            ("/%c3%a9", "/é"),
            ("/é", "/é"),
            ("/100%25", "/100%25"),
            ("/%2F", ""),
            ("/%", ""),
        ],
    );
}

#[test]
fn unclean_paths_match_nothing() {
    let router = router(&["/", "/{a}/{b}/", "/a/{b}/{rest...}"]);
    for path in [
        "", "a", "*", "//", "//a", "/a//b", "/a//", "/./", "/.", "/a/..", "/a/../b", "/%2e", "/a/.%2E/",
        "/a/%", "/%4",
    ] {
        assert!(matches!(router.find(b"GET", None, path.as_bytes()), Lookup::Missing), "{path}");
    }
    for path in ["/...", "/.a", "/a/..b/", "/%2e%2e%2e", "/%00", "/%2F/"] {
        assert!(matches!(router.find(b"GET", None, path.as_bytes()), Lookup::Found(_)), "{path}");
    }
}

#[test]
fn unclean_path_has_no_other_methods() {
    let router = router(&["POST /a/"]);
    assert_eq!(find(&router, "GET /a/b"), "(POST)");
    assert_eq!(find(&router, "GET /a/../b"), "");
}

#[test]
fn captures_are_decoded() {
    let router = router(&["/{a}/x/{b}/{rest...}"]);
    let Lookup::Found(found) = router.find(b"GET", None, b"/1/x/%C3%A9%2F%ff/c/d%2F") else {
        panic!("no route")
    };
    let captures = found.captures;
    assert_eq!(captures.get("a").as_deref(), Some("1"));
    assert_eq!(captures.get("b").as_deref(), Some("é/\u{fffd}"));
    assert_eq!(captures.raw("b"), Some(&b"%C3%A9%2F%ff"[..]));
    assert_eq!(captures.raw("rest"), Some(&b"c/d%2F"[..]));
    assert_eq!(captures.get("x"), None);
    let all: Vec<_> = captures.iter().map(|(name, text)| format!("{name}={text}")).collect();
    assert_eq!(all, ["a=1", "b=é/\u{fffd}", "rest=c/d/"]);

    let Lookup::Found(found) = router.find(b"GET", None, b"/1/x/2/") else { panic!("no route") };
    assert_eq!(found.captures.get("rest").as_deref(), Some(""));
}

#[test]
fn refused_pattern_leaves_the_router_unchanged() {
    let mut router = router(&["/{a}/b"]);
    assert!(matches!(router.add("/a/{b}", "new"), Err(RouteError::Conflict(_))));
    assert!(matches!(router.add("/{a", "new"), Err(RouteError::Syntax(_))));
    assert_eq!(router.patterns().collect::<Vec<_>>(), [("/{a}/b", &"/{a}/b")]);
    assert_eq!(find(&router, "/a/c"), "");
    assert!(!router.is_empty() && Router::<()>::default().is_empty());
}
