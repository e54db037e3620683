//! Pages in place of missing paths: how they are cached, and which requests get them.

use crate::harness::{Response, Server, pages, serve};

const PAGE: &[u8] = b"<p>app";

/// A rule for the files of a folder, with every field by which a site sets lifetimes.
const ASSETS_ARE_IMMUTABLE: &str = "/assets/*\n  Cache-Control: public, max-age=31536000, immutable\n  \
     CDN-Cache-Control: max-age=31536000\n  Surrogate-Control: max-age=31536000\n  \
     Expires: Thu, 31 Dec 2099 23:59:59 GMT\n  X-Kept: 1\n";

fn site(files: &[(&'static str, &'static str)], flags: &[&str]) -> Server {
    let page = [("index.html", "<p>app"), ("404.html", "none"), ("assets/a.js", "1")];
    let files: Vec<_> = page.iter().chain(files).copied().collect();
    serve(&pages(&files), flags)
}

/// Panics if some cache may reuse a response without asking.
fn assert_not_reused(response: &Response, what: &str) {
    for name in ["CDN-Cache-Control", "Surrogate-Control", "Expires"] {
        assert_eq!(response.field(name), None, "{what}");
    }
    let caching = response.field("Cache-Control").unwrap_or_else(|| panic!("{what}: no Cache-Control"));
    assert!(["public, no-cache", "no-store", "no-cache"].contains(&caching), "{what}: {caching}");
}

/// One request during a deploy kept the page in place of the new file for a year, in browsers and shared caches.
#[test]
fn page_in_place_of_a_missing_file_is_never_immutable() {
    let all = "/*\n  Cache-Control: public, max-age=31536000, immutable\n";
    let kinds: [&[(&str, &str)]; 7] = [
        &[("200.html", "<p>app")],
        &[("_200.html", "<p>app")],
        &[("assets/_wildcard.html", "<p>app")],
        &[("_redirects", "/* /index.html 200\n")],
        &[("_redirects", "# dialect: netlify\n/* /index.html 200\n")],
        &[("_redirects", "# dialect: cloudflare\n/assets/g* /index.html 200\n")],
        &[("_redirects", "/assets/* /index.html 200\n/assets/* /404.html 404\n")],
    ];

    for (rules, flags) in [
        (ASSETS_ARE_IMMUTABLE, &[][..]),
        (all, &[]),
        ("", &["--cache-control", "public, max-age=31536000, immutable"]),
        ("", &["--immutable", "/assets/"]),
    ] {
        for kind in kinds {
            let files: Vec<_> = kind.iter().chain(&[("_headers", rules)]).copied().collect();
            let server = site(&files, flags);
            for target in ["/assets/gone", "/assets/gone/", "/assets/g.json", "/assets/g.pdf", "/assets/g.js"]
            {
                let response = server.get(target);
                assert_not_reused(&response, &format!("{target} {kind:?} {flags:?}"));
                let kept = (rules == ASSETS_ARE_IMMUTABLE).then_some("1");
                assert_eq!(response.field("X-Kept"), kept, "other fields of the rule apply");
                let etag = response.field("ETag").map(|etag| format!("If-None-Match: {etag}\r\n"));
                if let Some(etag) = etag {
                    let again = server.request("GET", target, &etag);
                    assert_eq!(again.status, 304);
                    assert_not_reused(&again, target);
                }
            }

            let own = server.get("/assets/a.js");
            assert!(own.field("Cache-Control").unwrap().contains("immutable"), "{kind:?} {flags:?}");
        }
    }
}

/// A redirect or an error below `/assets/*` kept the fields for shared caches.
#[test]
fn errors_and_redirects_have_no_lifetime_of_a_file() {
    let rules = "/assets/old /assets/a.js 302\n/assets/b/* /assets/a.js 302\n";
    let server = site(&[("_headers", ASSETS_ARE_IMMUTABLE), ("_redirects", rules)], &[]);
    for (target, status) in [("/assets/old", 302), ("/assets/b/c", 302), ("/assets/gone", 404)] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert_not_reused(&response, target);
    }
    let refused = server.request("GET", "/assets/a.js", "Range: bytes=99-\r\n");
    assert_eq!(refused.status, 416);
    assert_not_reused(&refused, "416");
}

#[test]
fn rules_for_the_own_file_decide_how_a_fallback_page_is_cached() {
    let caching = |headers: &'static str, target: &str| {
        let files = [("200.html", "<p>app"), ("_headers", headers)];
        let response = site(&files, &[]).get(target);
        (response.field("Cache-Control").unwrap().to_owned(), response.field("Vary").map(str::to_owned))
    };
    let (value, vary) = caching("/200.html\n  Cache-Control: max-age=60\n", "/gone");
    assert_eq!(value, "max-age=60");
    assert!(vary.unwrap().contains("Accept, Sec-Fetch-Dest"), "a request for a script gets a 404");
    assert_eq!(caching("/*\n  Cache-Control: no-store\n", "/gone"), ("no-store".to_owned(), None));
    assert_eq!(caching("/200.html\n  Cache-Control: immutable\n", "/gone").0, "public, no-cache");
    assert_eq!(caching("/gone\n  Cache-Control: max-age=60\n", "/gone").0, "public, no-cache");
    let error = caching("/404.html\n  Cache-Control: max-age=60\n", "/gone.png").0;
    assert_eq!(error, "max-age=60");
}

/// The file under a fixed name changes with each release.
#[test]
fn rewrite_to_a_hashed_file_is_not_immutable() {
    // The name has the first digits of the SHA-256 of the content `x`.
    let files = [
        ("app-2d711642b726b044.js", "x"),
        (
            "_redirects",
            "/latest.js /app-2d711642b726b044.js 200\n/new/* /app-2d711642b726b044.js 200\n/page /index.html 200\n",
        ),
        ("_headers", "/page\n  Cache-Control: max-age=9\n"),
    ];
    let server = site(&files, &[]);
    let caching = |target: &str| server.get(target).field("Cache-Control").unwrap().to_owned();
    assert!(caching("/app-2d711642b726b044.js").contains("immutable"));
    assert_eq!([caching("/latest.js"), caching("/new/a.js")], ["public, max-age=3600"; 2]);
    assert_eq!(caching("/page"), "max-age=9", "a rule for exactly this path");
}

/// Scripts that asked for data got HTML, and crawlers got it for `/robots.txt`.
#[test]
fn missing_data_is_a_404() {
    for kind in [
        ("200.html", "<p>app"),
        ("_redirects", "/* /index.html 200\n"),
        ("_redirects", "/:page /index.html 200\n/:folder/:page /index.html 200\n/:a/ /index.html 200\n"),
        ("_redirects", "/:page / 200\n/:folder/* / 200\n"),
    ] {
        let server = site(&[kind], &[]);

        let suffixes = "json jsonld xml rss atom txt webmanifest pdf zip gz br tar csv md m3u8 ts m4s vtt data bin pck \
                        unityweb wav mp3 js css png woff2 map wasm PDF sh py";
        for suffix in suffixes.split_ascii_whitespace() {
            let response = server.get(&format!("/data/gone.{suffix}"));
            assert_eq!(
                (response.status, response.field("Cache-Control")),
                (404, Some("no-store")),
                "{suffix}"
            );
        }

        for path in ["/.well-known/assetlinks", "/robots.txt", "/sitemap.xml"] {
            for accept in ["", "Accept: text/html,*/*\r\n", "Sec-Fetch-Dest: document\r\n"] {
                assert_eq!(server.request("GET", path, accept).status, 404, "{path} {accept}");
            }
        }
        for page in ["/user/john.doe", "/v1.2", "/a.html", "/a/", "/releases/v1.2.3-beta", "/x.php"] {
            assert_eq!(server.get(page).body, PAGE, "{page}");
        }
    }
}

#[test]
fn request_decides_between_page_and_error() {
    let server = site(&[("200.html", "<p>app"), ("img/_wildcard.png", "blank")], &[]);

    let navigation = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";
    for (target, fields, status) in [
        ("/blog/node.js", "", 404),
        ("/blog/node.js", "Accept: */*\r\n", 404),
        ("/blog/node.js", navigation, 200),
        ("/blog/node.js", "Sec-Fetch-Dest: document\r\n", 200),
        ("/blog/node.js", "Sec-Fetch-Dest: iframe\r\n", 200),
        ("/blog/node.js", "Sec-Fetch-Dest: script\r\n", 404),
        ("/price-list.pdf", navigation, 404),
        ("/chunk", "Sec-Fetch-Dest: script\r\nAccept: */*\r\n", 404),
        ("/chunk", "Sec-Fetch-Dest: empty\r\nAccept: */*\r\n", 200),
        ("/api/users", "Accept: application/json\r\n", 404),
        ("/api/users", "Accept: application/json, text/plain, */*\r\n", 200),
        ("/img/a", "Sec-Fetch-Dest: image\r\n", 200),
        ("/img/a.png", "Sec-Fetch-Dest: image\r\n", 200),
        ("/img/a.jpg", "Sec-Fetch-Dest: image\r\n", 404),
    ] {
        let response = server.request("GET", target, fields);
        assert_eq!(response.status, status, "{target} {fields}");
        assert!(status == 200 || response.field("Cache-Control") == Some("no-store"), "{target} {fields}");
    }
}

#[test]
fn page_of_a_folder_that_is_captured_does_not_replace_a_script() {
    let files = [
        ("app/index.html", "<p>app"),
        ("pages/node.js.html", "<p>node"),
        (
            "_redirects",
            "/app/:page /app/ 200\n/:lang/all/* /:lang/index.html 200\n/blog/:page /pages/:page.html 200\n",
        ),
    ];

    let server = site(&files, &[]);
    for (target, fields, status) in [
        ("/app/user", "", 200),
        ("/app/gone.js", "", 404),
        ("/app/gone.js", "Sec-Fetch-Dest: document\r\n", 200),
        ("/app/user", "Sec-Fetch-Dest: script\r\n", 404),
        ("/app/all/user", "", 200),
        ("/app/all/a/gone.css", "", 404),
        ("/blog/node.js", "", 200),
        ("/blog/gone.js", "", 404),
    ] {
        let response = server.request("GET", target, fields);
        assert_eq!(response.status, status, "{target} {fields}");
        assert_not_reused_unless_file(&response, target);
    }
}

fn assert_not_reused_unless_file(response: &Response, what: &str) {
    if response.status != 200 || response.body == PAGE {
        assert_not_reused(response, what);
    }
}

/// Browsers kept the bytes for a year under a path that the next release may lead elsewhere.
#[test]

fn immutable_file_is_not_immutable_under_a_captured_path() {
    // The name has the first digits of the SHA-256 of the content `x`.
    let script = "assets/app-2d711642b726b044.js";
    let rules = "/old/* /assets/:splat 200\n/latest/:name /assets/:name-2d711642b726b044.js 200\n";
    for headers in ["", "/*\n  X-Kept: 1\n", ASSETS_ARE_IMMUTABLE] {
        let files = [(script, "x"), ("assets/data.json", "{}"), ("_redirects", rules), ("_headers", headers)];
        let server = site(&files, &["--immutable", "/assets/"]);

        for target in ["/old/app-2d711642b726b044.js", "/latest/app", "/old/data.json", "/old/a.js"] {
            let expected =
                if target == "/old/data.json" { "public, no-cache" } else { "public, max-age=3600" };
            for fields in ["", "Range: bytes=0-0\r\n", "Range: bytes=0-0,-1\r\n", "If-None-Match: *\r\n"] {
                let response = server.request("GET", target, fields);
                assert!([200, 206, 304].contains(&response.status), "{target} {fields}: {}", response.status);
                let values: Vec<_> = response
                    .fields
                    .iter()
                    .filter(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"))
                    .collect();
                assert_eq!(values.len(), 1, "{target} {fields}: {values:?}");
                assert_eq!(values[0].1, expected, "{target} {fields}");
            }

            let kept = headers.starts_with("/*").then_some("1");
            assert_eq!(server.get(target).field("X-Kept"), kept, "{target}");
        }
        assert!(server.get(&format!("/{script}")).field("Cache-Control").unwrap().contains("immutable"));
    }
}

/// A missing `/gone.pdf` was answered with the page of the application as a download.
#[test]
fn page_in_place_of_a_file_is_described_by_its_own_rules() {
    let described = "/*.x\n  Content-Disposition: attachment\n  Content-Type: application/x\n  Content-Language: fr\n  \
         Repr-Digest: sha-256=:AA==:\n  SourceMap: /x.map\n  Content-Security-Policy: default-src 'self'\n  \
         Access-Control-Allow-Origin: *\n";
    let own = "/200.html\n  Content-Language: de\n/404.html\n  Content-Language: nl\n/index.html\n  Content-Language: pt\n";
    let headers: &str = format!("{described}{own}").leak();
    for (kind, language) in [
        (("200.html", "<p>app"), "de"),
        (("_redirects", "/* /index.html 200\n"), "pt"),
        (("_redirects", "# dialect: cloudflare\n/*.x /index.html 200\n"), "pt"),
        (("_redirects", "/gone.x /index.html 200\n"), "pt"),
        (("_redirects", "/gone.x /404.html 410\n"), "nl"),
        (("style.css", ""), "nl"),
    ] {
        let server = site(&[kind, ("_headers", headers)], &[]);
        for fields in ["", "Range: bytes=0-0\r\n", "Accept-Encoding: br\r\n"] {
            let response = server.request("GET", "/gone.x", fields);
            let what = format!("{kind:?} {fields}");
            assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{what}");
            assert_eq!(response.field("Content-Language"), Some(language), "{what}");
            for name in ["Content-Disposition", "Repr-Digest", "SourceMap"] {
                assert_eq!(response.field(name), None, "{what}: {name}");
            }
            for (name, value) in
                [("Content-Security-Policy", "default-src 'self'"), ("Access-Control-Allow-Origin", "*")]
            {
                assert_eq!(response.field(name), Some(value), "{what}: {name} is about the response");
            }
        }

        assert_eq!(server.request("OPTIONS", "/gone.x", "").field("Content-Language"), None);
        assert_eq!(server.request("POST", "/gone.x", "").field("Content-Disposition"), None);
    }
}

/// The rules for a path that shows another file, and those for the file, both count.
#[test]
fn rewritten_file_is_described_by_its_own_rules() {
    let headers = "/files/*\n  Content-Disposition: attachment\n  Content-Language: de\n/get/*\n  Content-Language: fr\n  X-Get: 1\n\
         /one.txt\n  Content-Language: es\n/two/*\n  Content-Language: fr\n\
         https://other.example/*\n  X-Other: 1\n";
    let rules = "/get/* /files/:splat 200\n/one.txt /files/a.txt 200\n/two/:any /files/a.txt 200\n";

    let server = site(
        &[("files/a.txt", "a"), ("files/b.txt", "b"), ("_headers", headers), ("_redirects", rules)],
        &[],
    );
    for (target, language) in [
        ("/get/a.txt", "de"),
        ("/get/b.txt", "de"),
        ("/one.txt", "es"),
        ("/two/a", "de"),
        ("/files/a.txt", "de"),
    ] {
        for host in ["a.example", "other.example"] {
            let response = server.request_host(host, "GET", target, "");
            let fields: Vec<_> =
                response.fields.iter().filter(|(name, _)| name.starts_with("Content-Language")).collect();
            assert_eq!(fields.len(), 1, "{target} {host}: {fields:?}");
            assert_eq!(response.field("Content-Language"), Some(language), "{target} {host}");
            assert_eq!(response.field("Content-Disposition"), Some("attachment"), "{target} {host}");
            assert_eq!(response.field("X-Get"), target.starts_with("/get").then_some("1"), "{target}");
            assert_eq!(response.field("X-Other"), (host == "other.example").then_some("1"), "{target}");
        }
    }
}

/// A rule for one host made a listing immutable there, although it changes with each file of its folder.
#[test]
fn listing_is_none_of_the_files_of_its_folder() {
    let fields = "  Cache-Control: public, max-age=31536000, immutable\n  Content-Disposition: attachment\n";
    for start in ["", "https://a.example", "https://:any.example"] {
        let headers = format!("{start}/files/*\n{fields}  X-Kept: 1\n").leak();
        let server = site(&[("files/a.bin", "a"), ("_headers", headers)], &["--include-folder-listing"]);
        let get = |target: &str| server.request_host("a.example", "GET", target, "");
        let listing = get("/files/");
        assert_eq!(listing.status, 200);
        assert_not_reused(&listing, start);
        assert_eq!(listing.field("Content-Disposition"), None, "{start}");
        assert_eq!(listing.field("X-Kept"), Some("1"), "{start}");
        let file = get("/files/a.bin");
        assert_eq!(file.field("Content-Disposition"), Some("attachment"), "{start}");
    }
}

/// A slash at the end, or parameters, made a missing script a page.
#[test]
fn missing_asset_is_recognized_whatever_follows_its_name() {
    for kind in [("200.html", "<p>app"), ("_redirects", "/* /index.html 200\n")] {
        let server = site(&[kind], &[]);
        for target in [
            "/assets/gone.js/",
            "/assets/gone.js//",
            "/assets/gone.js/?v=1",
            "/assets/gone.js?v=1",
            "/assets/gone.js;v=1.2",
            "/assets/gone.js;v=1.2/",
            "/assets/gone.js%3Fv=1.2",
            "/assets/gone.js%20",
            "/assets/gone%2Ejs/",
            "/assets/gone%2ejs",
            "/assets/GONE.JS/",
            "/assets/gone.js/.",
            "/assets/./gone.js/x/..",
            "/robots.txt/",
            "/.well-known/",
        ] {
            let response = server.get(target);
            assert_eq!(
                (response.status, response.field("Cache-Control")),
                (404, Some("no-store")),
                "{target}"
            );
        }

        for target in ["/assets/gone.png/", "/assets/gone.png;x", "/robots.txt/"] {
            assert_eq!(server.request("GET", target, "Sec-Fetch-Dest: document\r\n").status, 404, "{target}");
        }
        for target in
            ["/user;file=a.js", "/user/john.doe/", "/node.js/about", "/tips-for-node.js-users/", "/a;b/c"]
        {
            assert_eq!(server.get(target).body, PAGE, "{target}");
        }
    }

    let server = site(&[("img/_wildcard.png", "blank")], &[]);
    assert_eq!(server.get("/img/gone.png/").body, b"blank", "as without the slash");
}

/// A file with `no-store` was kept for an hour by shared caches under the path of a rule.
#[test]
fn captured_path_shows_a_file_as_privately_as_its_own() {
    // The name has the first digits of the SHA-256 of the content `x`.
    let script = "app-2d711642b726b044.js";
    let own = format!("mine/{script}");
    let mine = format!("/p/{script}");
    let headers = "/mine/*\n  Cache-Control: private, no-store\n  CDN-Cache-Control: no-store\n\
         /long/*\n  Cache-Control: max-age=3601\n  CDN-Cache-Control: max-age=86400\n  Expires: Thu, 31 Dec 2099 23:59:59 GMT\n\
         /mine/404.html\n  Cache-Control: max-age=60\n";

    let server = site(
        &[
            (own.leak(), "x"),
            ("mine/a.txt", "a"),
            ("mine/none.html", "none"),
            ("long/a.txt", "a"),
            ("_headers", headers),
            ("_redirects", "/p/* /mine/:splat 200\n/l/* /long/:splat 200\n/n/* /mine/:splat 404\n"),
        ],
        &[],
    );

    for target in ["/p/a.txt", &mine] {
        let response = server.get(target);
        assert_eq!(response.status, 200);
        assert_eq!(response.field("Cache-Control"), Some("private, no-store"), "{target}");
        assert_eq!(response.field("CDN-Cache-Control"), Some("no-store"), "{target}");
    }

    let long = server.get("/l/a.txt");
    assert_eq!(long.field("Cache-Control"), Some("public, max-age=3600"), "a lifetime is about the own path");
    assert_eq!((long.field("CDN-Cache-Control"), long.field("Expires")), (None, None));
    let error = server.get("/n/none.html");
    assert_eq!((error.status, error.field("Cache-Control")), (404, Some("no-store")));
}
