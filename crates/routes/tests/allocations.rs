//! Lookups do not allocate.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use cannery_routes::{Group, Lookup, Request, Router, Routes};

#[test]
fn lookups_and_plain_captures_do_not_allocate() {
    let mut router = Router::default();
    for pattern in ["/", "GET /weather/{city}", "GET example.com/a%20b/{rest...}", "POST /weather/"] {
        router.add(pattern, ()).unwrap();
    }
    let requests: [(&[u8], Option<&[u8]>); 4] = [
        (b"/weather/Paris", None),
        (b"/a%20%62/c/d", Some(b"Example.com:80")),
        (b"/x", Some(b"other.example")),
        (b"/x/../y", None),
    ];
    for (path, host) in requests {
        let counted = allocation_counter::measure(|| {
            if let Lookup::Found(found) = router.find(b"GET", host, path) {
                assert!(found.captures.iter().all(|(_, text)| matches!(text, Cow::Borrowed(_))));
            }
        });
        assert_eq!(counted.count_total, 0, "{}", path.escape_ascii());
    }
}

#[test]
fn requests_beside_groups_do_not_allocate() {
    let group = Group::default().group("/api", |api| api.route("GET /now", |_: &Request<'_>| "now"));
    let routes = Routes::new(&group, 0).unwrap();
    let find = |path: &str| routes.find(b"GET", None, path.as_bytes()).is_some();
    // The thread's first path that has to be resolved, and the longest.
    assert!(!find("/api/../a/long/path/to/a/page"));
    for (path, is_found) in [("/page", false), ("//a/../page", false), ("/a%zz", false), ("/x/../api/", true)]
    {
        let counted = allocation_counter::measure(|| assert_eq!(find(path), is_found, "{path}"));
        assert_eq!(counted.count_total, 0, "{path}");
    }
}
