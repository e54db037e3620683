//! Lookups do not allocate.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use cannery_routes::{Lookup, Router};

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
