//! Resolution of paths: aliases, slashes, rules, fallback pages, error pages, hosts.

use crate::harness::{Server, pages, serve};

fn assert_routes(server: &Server, expected: &[(&str, u16, &str)]) {
    for (target, status, body) in expected {
        let response = server.get(target);
        let outcome = response
            .field("Location")
            .map_or(String::from_utf8_lossy(&response.body).into_owned(), str::to_owned);
        assert_eq!((response.status, outcome.as_str()), (*status, *body), "{target}");
    }
}

#[test]
fn pages_have_aliases() {
    let files = [
        ("index.html", "home"),
        ("about.html", "about"),
        ("docs/_index.txt", "docs"),
        ("docs/index.html", "other"),
        ("both", "file"),
        ("both.html", "page"),
    ];

    let server = serve(&pages(&files), &[]);
    assert_routes(
        &server,
        &[
            ("/", 200, "home"),
            ("/index", 200, "home"),
            ("/about", 200, "about"),
            ("/docs/", 200, "docs"),
            ("/docs/index.html", 200, "other"),
            ("/both", 200, "file"),
            ("/both.html", 200, "page"),
            ("/docs", 308, "/docs/"),
            ("/docs?a=b", 308, "/docs/?a=b"),
            ("/about/", 308, "/about"),
            ("//docs", 308, "/docs/"),
        ],
    );

    assert_eq!(server.get("/docs/_index.txt").status, 404);
    let bare = serve(&pages(&files), &["--exclude-index", "--exclude-strip", "--exclude-slash-redirects"]);
    for target in ["/", "/about", "/docs", "/docs/", "/about.html/"] {
        assert_eq!(bare.get(target).status, 404, "{target}");
    }
}

#[test]
fn rules_redirect_and_rewrite() {
    let rules = "\
        /old /new 301\n\
        /see https://example.com/x?y=1#z 302\n\
        /news/* /blog/:splat\n\
        /store/:id/:part /shop/:part-:id 307\n\
        /app/* /index.html 200\n\
        /gone/* /gone.html 410\n\
        /pages/* /texts/:splat 200\n\
        /kept /never 301\n\
        /taken /forced 301!\n\
        ://other.example/host /of-host 303\n";
    let files = [
        ("_redirects", rules),
        ("index.html", "home"),
        ("gone.html", "gone"),
        ("kept", "kept"),
        ("taken", "taken"),
        ("texts/a.txt", "text a"),
    ];

    let server = serve(&pages(&files), &[]);
    assert_routes(
        &server,
        &[
            ("/old", 301, "/new"),
            ("/old?q=1", 301, "/new?q=1"),
            ("/old/", 301, "/new"),
            ("/see?q", 302, "https://example.com/x?y=1&q#z"),
            ("/news/a/b%20c", 301, "/blog/a/b%20c"),
            ("/store/7/x", 307, "/shop/x-7"),
            ("/app/any/where", 200, "home"),
            ("/gone/x", 410, "gone"),
            ("/pages/a.txt", 200, "text a"),
            ("/kept", 200, "kept"),
            ("/taken", 301, "/forced"),
        ],
    );

    assert_eq!(server.get("/store/7").status, 404);
    assert_eq!(server.get("/pages/none").status, 404);
    assert_eq!(server.get("/_redirects").status, 404);
    assert_eq!(server.get("/host").status, 404);

    let on_host = server.request("GET", "http://OTHER.example:80/host", "");
    assert_eq!((on_host.status, on_host.field("Location")), (303, Some("/of-host")));
    assert_eq!(server.get("http://other.example/kept").body, b"kept");
}

#[test]
fn redirects_stay_on_their_origin() {
    let server = serve(&pages(&[("_redirects", "/go/* /:splat 302\n"), ("x.html", "x")]), &[]);
    for (target, location) in [
        ("/go//evil.example", "/evil.example"),
        ("/go/%2Fevil.example", "/%2Fevil.example"),
        ("/go/%5Cevil.example", "/%5Cevil.example"),
        ("/go/a%0d%0aSet-Cookie:x", "/a%0D%0ASet-Cookie:x"),
    ] {
        assert_eq!(server.get(target).field("Location"), Some(location), "{target}");
    }
}

#[test]
fn header_rules_accumulate() {
    let rules = "/*\n  X-Robots-Tag: noindex\n  X-Frame-Options: DENY\n/assets/*\n  X-Robots-Tag: nosnippet\n  Cache-Control: no-store\n";
    let server = serve(&pages(&[("_headers", rules), ("a.txt", "a"), ("assets/b.txt", "b")]), &[]);
    let a = server.get("/a.txt");
    let b = server.get("/assets/b.txt");
    assert_eq!((a.field("X-Robots-Tag"), a.field("X-Frame-Options")), (Some("noindex"), Some("DENY")));
    assert_eq!(
        (b.field("X-Robots-Tag"), b.field("Cache-Control")),
        (Some("noindex, nosnippet"), Some("no-store"))
    );
}

#[test]
fn nearest_fallback_page_is_used() {
    let files = [
        ("404.html", "nothing here"),
        ("deep/404.html", "nothing deep"),
        ("app/_200.html", "application"),
        ("app/in/_wildcard.html", "inner"),
        ("tiles/_wildcard.png", "blank"),
        ("tiles/7.png", "seven"),
    ];

    let server = serve(&pages(&files), &[]);
    assert_routes(
        &server,
        &[
            ("/x", 404, "nothing here"),
            ("/deep/x/y", 404, "nothing deep"),
            ("/404.html", 404, "nothing here"),
            ("/app/", 200, "application"),
            ("/app/x/y", 200, "application"),
            ("/app/in/x", 200, "inner"),
            ("/tiles/8.png", 200, "blank"),
            ("/tiles/7.png", 200, "seven"),
        ],
    );

    let missing = server.get("/app/chunk-123.js");
    assert_eq!((missing.status, missing.field("Cache-Control")), (404, Some("no-store")));
}

#[test]
fn missing_assets_get_no_fallback_page() {
    for files in [
        &[("index.html", "home"), ("_200.html", "application")][..],
        &[("index.html", "home"), ("_wildcard.html", "application"), ("404.html", "none")],
    ] {
        let server = serve(&pages(files), &[]);
        assert_eq!(server.get("/any/page").body, b"application");

        for suffix in [
            "js", "mjs", "cjs", "css", "map", "wasm", "png", "jpg", "jpeg", "gif", "svg", "webp", "avif",
            "ico", "woff", "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "JS", "Png",
        ] {
            for method in ["GET", "HEAD"] {
                let response = server.request(method, &format!("/assets/chunk-1a2b3c.{suffix}?v=1"), "");
                assert_eq!(
                    (response.status, response.field("Cache-Control")),
                    (404, Some("no-store")),
                    "{method} .{suffix}"
                );
                assert_ne!(response.body, b"application", ".{suffix}");
            }
        }
    }
}

#[test]
fn numbered_files_are_no_error_pages() {
    let files =
        [("200.png", "a"), ("404.png", "b"), ("n/199.html", "c"), ("n/200.html", "d"), ("n/404.html", "e")];
    let server = serve(&pages(&files), &[]);
    assert_routes(
        &server,
        &[
            ("/200.png", 200, "a"),
            ("/404.png", 200, "b"),
            ("/n/200.html", 200, "d"),
            ("/n/404.html", 200, "e"),
        ],
    );
    assert_ne!(server.get("/n/198").body, b"d");
}

#[test]
fn hosts_have_sites_of_their_own() {
    let files = [("a.txt", "default"), ("_hosts/example.com/a.txt", "host"), ("only.txt", "only")];
    let server = serve(&pages(&files), &[]);
    assert_eq!(server.get("/a.txt").body, b"default");
    assert_eq!(server.get("http://EXAMPLE.com:8080/a.txt").body, b"host");
    assert_eq!(server.get("http://example.com/only.txt").status, 404);
    assert_eq!(server.get("/_hosts/example.com/a.txt").status, 404);
}

#[test]
fn folders_are_listed_on_demand() {
    let server =
        serve(&pages(&[("docs/a b.txt", "a"), ("docs/sub/c.txt", "c")]), &["--include-folder-listing"]);
    let page = String::from_utf8(server.get("/docs/").body).unwrap();
    assert!(page.contains("a%20b.txt") && page.contains("sub/"), "{page}");
    let json: serde_json::Value = serde_json::from_slice(&server.get("/docs/_listing.json").body).unwrap();
    assert_eq!(json["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn lookup_follows_its_order() {
    // Without each layer, the next one answers.
    let layers = [
        ("a", "exact", (200, "exact")),
        ("a.html", "alias", (200, "alias")),
        ("_redirects", "/a /elsewhere 301\n", (301, "/elsewhere")),
        ("_wildcard.html", "wildcard", (200, "wildcard")),
        ("404.html", "missing", (404, "missing")),
    ];
    for first in 0..layers.len() {
        let files: Vec<_> = layers[first..].iter().map(|(name, content, _)| (*name, *content)).collect();
        let (status, outcome) = layers[first].2;
        assert_routes(&serve(&pages(&files), &[]), &[("/a", status, outcome)]);
    }
    let bare = serve(&pages(&[("b", "other")]), &[]).get("/a");
    assert!(bare.status == 404 && String::from_utf8(bare.body).unwrap().contains("Not found</h1>"));
}

#[test]
fn wildcard_of_the_same_type_serves_missing_assets() {
    let files =
        [("_200.html", "application"), ("assets/_wildcard.html", "any"), ("assets/_wildcard.js", "script")];
    let server = serve(&pages(&files), &[]);
    for name in
        ["app.js", "app.mjs", "style.css", "photo.png", "photo.JPG", "a.svg", "font.woff2", "app.js.map"]
    {
        let missing = server.get(&format!("/{name}"));
        assert_eq!((missing.status, missing.field("Cache-Control")), (404, Some("no-store")), "{name}");
    }
    assert_routes(
        &server,
        &[
            ("/about", 200, "application"),
            ("/a/b.c/d", 200, "application"),
            ("/assets/page", 200, "any"),
            ("/assets/app.js", 200, "script"),
        ],
    );
}

#[test]
fn cache_control_depends_on_kind_and_rules() {
    let files = [
        ("index.html", "x"),
        ("data.json", "{}"),
        ("sw.js", "x"),
        ("photo.png", "x"),
        ("own.html", "x"),
        ("_headers", "/own.html\n  Cache-Control: max-age=5\n"),
    ];

    let caching =
        |server: &Server, target: &str| server.get(target).field("Cache-Control").map(str::to_owned);
    let server = serve(&pages(&files), &[]);
    for (target, expected) in [
        ("/", "public, no-cache"),
        ("/data.json", "public, no-cache"),
        ("/sw.js", "public, no-cache"),
        ("/photo.png", "public, max-age=3600"),
        ("/own.html", "max-age=5"),
    ] {
        assert_eq!(caching(&server, target).as_deref(), Some(expected), "{target}");
    }

    let overridden = serve(&pages(&files), &["--cache-control", "private"]);
    for (target, expected) in [("/", "private"), ("/photo.png", "private"), ("/own.html", "max-age=5")] {
        assert_eq!(caching(&overridden, target).as_deref(), Some(expected), "{target}");
    }
}
