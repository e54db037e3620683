//! Rules of a site: rejected lines, joined fields, and the responses to which rules apply.

use crate::harness::{Response, Server, pages, run, serve, write_folder};

/// Builds a folder literal. Returns the exit code and standard error.
fn build(files: &[(&'static str, &'static str)], flags: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(files));
    let mut arguments = vec!["--sources", source.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    arguments.extend(flags);
    let output = run("cannery-archiver", &arguments);
    assert_eq!(output.status.success(), archive.exists());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn site(files: &[(&'static str, &'static str)]) -> Server {
    serve(&pages(files), &[])
}

/// Returns the values of a field, one for each line.
fn values<'r>(response: &'r Response, name: &str) -> Vec<&'r str> {
    let fields = response.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.map(|(_, value)| value.as_str()).collect()
}

/// An empty splat after the first slash of a target turned the rest into an authority (open redirect).
#[test]
fn empty_splat_redirects_to_no_other_host() {
    let rules = "/x/:a/* /:splat/:a 302\n/t/:a/* ./:splat/:a 302\n/u/* /:splat/page 302\n/y/* /:splat/ 302\n\
                 /w* /:splat 302\n/r .//evil.example/ 302\n";
    let server = site(&[("index.html", "home"), ("_redirects", rules)]);
    for (target, location) in [
        ("/x/evil.com/", "/evil.com"),
        ("/x/evil.com/%2e", "/evil.com"),
        ("/x/evil.com/a", "/a/evil.com"),
        ("/t/evil.com/", "/evil.com"),
        ("/u/", "/page"),
        ("/y/", "/"),
        ("/w/evil.com", "/evil.com"),
        ("/w%2fevil.com", "/%2Fevil.com"),
        ("/w%5cevil.com", "/%5Cevil.com"),
        ("/r", "/evil.example/"),
    ] {
        assert_eq!(server.get(target).field("Location"), Some(location), "{target}");
    }
}

/// The password was published, and the page stayed open.
#[test]
fn access_control_rules_fail_the_build() {
    let cases: [(&[(&'static str, &'static str)], &str); 10] = [
        (&[("_headers", "/a/*\n  Basic-Auth: user:password\n")], "_headers:2: error: `Basic-Auth`"),
        (&[("_headers", "/a/*\n  X-A: 1\n  WWW-Authenticate: Basic\n")], "_headers:3: error:"),
        (&[("_headers", "/a/*\n  auth_basic on\n")], "_headers:2: error: `auth_basic`"),
        (&[("_redirects", "/a/* /b/:splat 200! Role=admin\n")], "_redirects:1: error: the condition `Role=`"),
        (&[("_redirects", "/a/*\n    Basic-Auth: user:password\n")], "_redirects:2: error: `Basic-Auth`"),
        (
            &[("staticwebapp.config.json", "{\"routes\": [{\"allowedRoles\": [\"x\"]}]}")],
            "error: `allowedRoles`",
        ),
        (&[("_redirects", "\n/a/* /login 401!\n")], "_redirects:2: error: the code `401!`"),
        (&[("a/.htaccess", "# closed\nAuthType Basic\n")], "a/.htaccess:2: error: `AuthType`"),
        (&[("a/.htpasswd", "# staff\nuser:$apr1$x\n")], "a/.htpasswd:2: error: a password file"),
        (&[("netlify.toml", "[[headers]]\n  Basic-Auth = \"u:p\"\n")], "netlify.toml:2: error: `Basic-Auth`"),
    ];

    for (files, expected) in cases {
        let files: Vec<_> =
            files.iter().chain(&[("index.html", "home"), ("a/b.html", "b")]).copied().collect();
        let (code, printed) = build(&files, &[]);
        assert_eq!(code, Some(3), "{printed}");
        assert!(printed.contains(expected), "{expected} is missing:\n{printed}");
        assert!(!printed.contains("password:") && !printed.contains("user"), "{printed}");
    }

    let open = [("index.html", "home"), (".htaccess", "Require all granted\nRewriteEngine on\n")];
    assert_eq!(build(&open, &["--strict"]).0, Some(0));
}

/// The line was skipped with a warning, after minutes of compression.
#[test]
fn overlong_line_fails_the_build() {
    let line: &'static str = format!("/a /b\n/c /{}\n", "x".repeat(5000)).leak();
    let (code, printed) = build(&[("index.html", "home"), ("_redirects", line)], &[]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("_redirects:2: error: the line has 5004 bytes"), "{printed}");
}

/// Only the last line was sent, and `no-store` was lost.
#[test]
fn list_lines_of_one_rule_are_joined() {
    let rules = "/*\n  Cache-Control: public\n/a.txt\n  cache-control: max-age=0\n  cache-control: no-cache\n  \
                 cache-control: no-store\n  cache-control: must-revalidate\n";
    let server = site(&[("a.txt", "a"), ("b.txt", "b"), ("index.html", "home"), ("_headers", rules)]);
    let answer = server.get("/a.txt");
    assert_eq!(values(&answer, "Cache-Control"), ["max-age=0, no-cache, no-store, must-revalidate"]);
    assert_eq!(values(&server.get("/b.txt"), "Cache-Control"), ["public"]);
    let twice = "/a.txt\n  X-Frame-Options: DENY\n  X-Frame-Options: SAMEORIGIN\n";
    let (code, printed) =
        build(&[("a.txt", "a"), ("index.html", "home"), ("_headers", twice)], &["--strict"]);
    assert_eq!(code, Some(5), "{printed}");
    assert!(printed.contains("_headers:3: warning:") && printed.contains("[header-twice]"), "{printed}");
}

/// The response for a missing script was the application's page with status 200.
#[test]
fn fallback_page_does_not_replace_a_missing_script() {
    let files = |rule| [("index.html", "home"), ("_redirects", rule)];
    let server = site(&files("/* /index.html 200\n"));
    assert_eq!(server.get("/some/page").body, b"home");
    assert_eq!(server.get("/assets/x.js").status, 404);
    assert_eq!(site(&files("/* /index.html 200!\n")).get("/assets/x.js").status, 200);
    let (code, printed) = build(&files("# dialect: netlify\n/* /index.html 200\n"), &["--strict"]);
    assert_eq!(code, Some(0), "the line does what it says: {printed}");
    assert!(printed.contains("_redirects:2: note:") && printed.contains("[rewrite-assets]"), "{printed}");
}

/// The dot segments led out of the folder that is served without TLS.
#[test]
fn challenge_paths_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(&[("index.html", "home"), (".well-known/acme-challenge/t", "proof")]));
    crate::harness::compile(&source, &archive, &[]);
    let named = format!("known.example={}", archive.display());
    let mut command = vec!["--archive", named.as_str(), "--https-redirect"];
    command.extend(crate::harness::TLS_FLAGS);
    let server = Server::start(&command);
    let request = |host, target| server.request_host(host, "GET", target, "");
    assert_eq!(request("known.example", "/.well-known/acme-challenge/t").body, b"proof");
    for target in
        ["/.well-known/acme-challenge/%2e%2e/%2e%2e/index.html", "/.well-known/acme-challenge/../t", "/"]
    {
        assert_eq!(request("known.example", target).status, 308, "{target}");
    }
    assert_eq!(request("other.example", "/").status, 421);
}

/// Browsers have removed the filter that the field controls, and in older ones it caused vulnerabilities.
#[test]
fn x_xss_protection_is_not_sent() {
    let answer = site(&[("index.html", "home")]).get("/");
    assert_eq!((values(&answer, "X-XSS-Protection").len(), values(&answer, "X-Frame-Options").len()), (0, 1));
}

/// Header rules for `/` applied to each 404, and those for `/*` to no built-in page.
#[test]
fn rules_apply_to_the_requested_path() {
    let rules = "/*\n  Content-Security-Policy: default-src 'self'\n  Link: </all>\n/\n  Link: </hero.jpg>\n/docs/*\n  \
                 X-Docs: 1\n  Link: </docs>\n/docs/:page\n  X-Page: 1\n  X-Frame-Options: DENY\n/app/x\n  X-App: 1\n  \
                 Cache-Control: max-age=7\n/old\n  X-Old: 1\n  ! Content-Security-Policy\n";
    let redirects = "/old /docs/\n/into/* /docs/:splat 200\n";
    let files = [
        ("index.html", "home"),
        ("docs/index.html", "docs"),
        ("docs/a.html", "a"),
        ("app/_200.html", "app"),
        ("docs/_404.html", "no such page"),
        ("_headers", rules),
        ("_redirects", redirects),
    ];

    let server = site(&files);
    let link = |target: &str| server.get(target).field("Link").map(str::to_owned);
    assert_eq!(link("/").as_deref(), Some("</all>, </hero.jpg>"));
    assert_eq!(link("/nope").as_deref(), Some("</all>"));
    assert_eq!(link("/docs/nope").as_deref(), Some("</all>, </docs>"));

    let missing = server.get("/nope");
    assert_eq!(
        (missing.status, values(&missing, "Content-Security-Policy")),
        (404, vec!["default-src 'self'"])
    );
    assert_eq!(missing.field("Cache-Control"), Some("no-store"));
    let page = server.get("/docs/nope");
    assert_eq!((page.status, page.field("X-Docs"), page.field("X-Page")), (404, Some("1"), Some("1")));
    assert_eq!(values(&page, "X-Frame-Options"), ["DENY"], "in place of the server's own");

    let fallback = server.get("/app/x");
    assert_eq!((fallback.status, fallback.field("X-App")), (200, Some("1")));
    assert_eq!(values(&fallback, "Cache-Control"), ["public, no-cache"], "it stands in for a missing file");
    assert_eq!(server.get("/app/y").field("X-App"), None);
    let tag = fallback.field("ETag").unwrap();
    let again = server.request("GET", "/app/x", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.field("X-App")), (304, Some("1")));
    let part = server.request("GET", "/app/x", "Range: bytes=0-1\r\n");
    assert_eq!((part.status, part.field("X-App"), part.body.as_slice()), (206, Some("1"), b"ap".as_slice()));

    let rewritten = server.get("/into/a.html");
    assert_eq!(
        (rewritten.status, rewritten.field("X-Docs"), rewritten.body.as_slice()),
        (200, None, b"a".as_slice())
    );
    let redirect = server.get("/old");
    assert_eq!((redirect.status, redirect.field("X-Old")), (301, Some("1")));
    assert_eq!(redirect.field("Content-Security-Policy"), None);

    for (method, target, lines, status) in [
        ("POST", "/docs/a.html", "Content-Length: 0\r\n", 405),
        ("GET", "/docs/a.html", "Range: bytes=99-\r\n", 416),
        ("GET", "/docs/a.html", "If-Match: \"x\"\r\n", 412),
    ] {
        let answer = server.request(method, target, lines);
        assert_eq!((answer.status, answer.field("X-Docs")), (status, Some("1")), "{method} {target} {lines}");
    }
    let unreadable = server.get("/%zz");
    assert_eq!((unreadable.status, unreadable.field("Link")), (400, Some("</all>")));
}

/// Without these fields in the preflight response, browsers block requests across origins.
#[test]
fn preflight_has_the_fields_of_its_path() {
    let rules = "/api/*\n  Access-Control-Allow-Origin: *\n  Access-Control-Allow-Headers: x-token\n  Vary: Origin\n  \
                 Content-Type: application/json\n";
    let server = site(&[("index.html", "home"), ("api/a.json", "{}"), ("_headers", rules)]);
    for target in ["/api/a.json", "/api/none"] {
        let lines = "Origin: https://other.example\r\nAccess-Control-Request-Method: GET\r\n";
        let answer = server.request("OPTIONS", target, lines);
        assert_eq!((answer.status, answer.field("Allow")), (204, Some("GET, HEAD, OPTIONS")), "{target}");
        assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("*"));
        assert_eq!(answer.field("Access-Control-Allow-Headers"), Some("x-token"));
        assert_eq!((answer.field("Vary"), answer.field("Content-Type")), (Some("Origin"), None));
    }
    assert_eq!(server.request("OPTIONS", "/", "").field("Access-Control-Allow-Origin"), None);
}

/// Rules for one host were accepted and never applied.
#[test]
fn rules_for_hosts_apply_on_those_hosts() {
    let rules = "/*\n  X-All: 1\n  Link: </all>\nhttps://preview.example/*\n  X-Robots-Tag: noindex\n  Link: </preview>\n\
                 ://*.wild.example/*\n  X-Wild: 1\nhttps://:project.pages.example/*\n  X-Pages: 1\n\
                 https://own.example/*\n  X-Own: root\n";
    let files = [
        ("index.html", "home"),
        ("_headers", rules),
        ("_hosts/own.example/index.html", "own"),
        ("_hosts/own.example/_headers", "/*\n  X-Site: own\n"),
    ];

    let server = site(&files);
    let field = |host: &str, target: &str, name: &str| {
        server.request_host(host, "GET", target, "").field(name).map(str::to_owned)
    };

    for target in ["/", "/nope"] {
        assert_eq!(field("preview.example", target, "X-Robots-Tag").as_deref(), Some("noindex"), "{target}");
        assert_eq!(
            field("preview.example", target, "Link").as_deref(),
            Some("</all>, </preview>"),
            "{target}"
        );
        assert_eq!(field("example", target, "X-Robots-Tag"), None);
        assert_eq!(field("a.b.wild.example", target, "X-Wild").as_deref(), Some("1"));
        assert_eq!(field("wild.example", target, "X-Wild"), None);
        assert_eq!(field("my.pages.example", target, "X-Pages").as_deref(), Some("1"));
        assert_eq!(field("v1.my.pages.example", target, "X-Pages"), None);
        assert_eq!(field("own.example", target, "X-Own").as_deref(), Some("root"));
        assert_eq!(field("own.example", target, "X-Site").as_deref(), Some("own"));
        assert_eq!(field("own.example", target, "X-All"), None);
    }
}

/// Rules with a placeholder in the query of their target were ignored.
#[test]
fn query_of_a_target_may_have_placeholders() {
    let rules = "/products/:code/:name /products?code=:code&name=:name\n/go/* /target?to=:splat 302\n";
    let server = site(&[("index.html", "home"), ("_redirects", rules)]);
    for (target, location) in [
        ("/products/a%26b/c", "/products?code=a%26b&name=c"),
        ("/products/a/b?x=1", "/products?code=a&name=b&x=1"),
        ("/go/x/y%3Fz", "/target?to=x/y%3Fz"),
    ] {
        assert_eq!(server.get(target).field("Location"), Some(location), "{target}");
    }
}

/// The recipe for canonical addresses in docs/rules.md.
#[test]
fn canonical_addresses_redirect_the_others() {
    let rules = "# dialect: cloudflare\n/index.html / 308\n/*/index.html /:splat/ 308\n/*.html /:splat 308\n";
    let files = [
        ("index.html", "home"),
        ("about.html", "about"),
        ("docs/index.html", "docs"),
        ("docs/page.html", "page"),
        ("404.html", "missing"),
        ("_redirects", rules),
    ];

    assert_eq!(build(&files, &["--strict"]).0, Some(0));
    let server = site(&files);
    for (target, location) in [
        ("/index.html", "/"),
        ("/about.html", "/about"),
        ("/docs/index.html", "/docs/"),
        ("/docs/page.html?x=1", "/docs/page?x=1"),
    ] {
        let response = server.get(target);
        assert_eq!((response.status, response.field("Location")), (308, Some(location)), "{target}");
    }

    for (target, text) in [("/", "home"), ("/about", "about"), ("/docs/", "docs"), ("/docs/page", "page")] {
        let response = server.get(target);
        assert_eq!((response.status, &*response.body), (200, text.as_bytes()), "{target}");
    }
    assert_eq!((server.get("/docs").status, server.get("/none").status), (308, 404));
}

/// A rule for one host hid the files of the site that the host shares.
#[test]
fn files_win_over_patterns_of_a_host_without_a_site() {
    let rules = "://app.example/* /app.html 200\n://www.example/* https://example/:splat 302\n\
                 ://forced.example/* https://example/:splat 302!\n://*.below.example/:page /app.html 200\n";
    let files = [
        ("index.html", "home"),
        ("app.html", "app"),
        ("style.css", "style"),
        ("docs/index.html", "docs"),
        ("200.html", "fallback"),
        ("_redirects", rules),
    ];

    let server = site(&files);
    let request = |host: &str, target: &str| {
        let response = server.request_host(host, "GET", target, "");
        let text = response.field("Location").map(str::to_owned);
        (response.status, text.unwrap_or_else(|| String::from_utf8_lossy(&response.body).into_owned()))
    };

    for host in ["app.example", "www.example", "a.below.example", "other.example"] {
        assert_eq!(request(host, "/"), (200, "home".into()), "{host}");
        assert_eq!(request(host, "/style.css"), (200, "style".into()), "{host}");
        assert_eq!(request(host, "/docs"), (308, "/docs/".into()), "{host}");
    }

    assert_eq!(request("app.example", "/user"), (200, "app".into()));
    assert_eq!(request("app.example", "/gone.js").0, 404, "a missing script");
    assert_eq!(request("www.example", "/user"), (302, "https://example/user".into()));
    assert_eq!(request("www.example", "/gone.js"), (302, "https://example/gone.js".into()));
    assert_eq!(request("a.below.example", "/user"), (200, "app".into()));
    assert_eq!(request("a.below.example", "/a/b"), (200, "fallback".into()));
    assert_eq!(request("forced.example", "/style.css"), (302, "https://example/style.css".into()));
}

/// A rule for one host took away the fields that are made from the path.
#[test]
fn placeholders_apply_beside_rules_for_a_host() {
    let headers = "/docs/:name\n  X-Name: :name\n  Content-Disposition: attachment; filename=\":name\"\n  X-Both: :name\n\
         /*\n  X-All: 1\n  X-Both: all\nhttps://a.example/*\n  X-Host: 1\n";
    let server = site(&[("index.html", "home"), ("docs/a.txt", "a"), ("_headers", headers)]);
    for host in ["localhost", "a.example"] {
        let response = server.request_host(host, "GET", "/docs/a.txt", "");
        for (name, value) in
            [("X-Name", "a.txt"), ("Content-Disposition", "attachment; filename=\"a.txt\""), ("X-All", "1")]
        {
            assert_eq!(values(&response, name), [value], "{host}: {name}");
        }
        assert_eq!(response.field("X-Host").is_some(), host == "a.example");
    }
}

/// Rules for one host didn't reach the pages that answer in place of a missing path, unless the host had a site of its own.
#[test]
fn rules_for_a_host_describe_its_pages_in_place_of_others() {
    let headers = "/*\n  Cache-Control: no-cache\n  Content-Language: en\n\
         https://a.example/*\n  Cache-Control: no-store\n  Content-Language: de\n  X-Host: 1\n\
         ://*.below.example/*\n  Cache-Control: private\n\
         https://b.example/*\n  X-Host: 2\n";
    let files = [
        ("index.html", "home"),
        ("200.html", "fallback"),
        ("docs/404.html", "none"),
        ("docs/200.html", "below"),
        ("app.html", "app"),
        ("_redirects", "/app/* /app.html 200\n/old /new 302\n"),
        ("_headers", headers),
    ];
    let server = site(&files);
    let targets = [("/user", 200), ("/docs/user", 200), ("/docs/none.png", 404), ("/app/1", 200)];

    for (host, caching, language, own) in [
        ("other.example", "no-cache", "en", None),
        ("a.example", "no-store", "en, de", Some("1")),
        ("c.below.example", "private", "en", None),
        ("b.example", "no-cache", "en", Some("2")),
    ] {
        for (target, status) in targets {
            let response = server.request_host(host, "GET", target, "");
            let found = |name| values(&response, name).to_vec();
            assert_eq!(response.status, status, "{host} {target}");
            assert_eq!(found("Cache-Control"), [caching], "{host} {target}");
            assert_eq!(found("Content-Language"), [language], "{host} {target}");
            assert_eq!(found("X-Host"), own.as_slice(), "{host} {target}");
        }
        let redirect = server.request_host(host, "GET", "/old", "");
        assert_eq!((redirect.status, redirect.field("X-Host")), (302, own), "{host}");
    }
}

/// On a host with rules, a field of the server was sent beside one whose value is made from the path.
#[test]
fn placeholders_replace_the_fields_of_the_server_beside_rules_for_a_host() {
    let headers = "/docs/:name\n  Referrer-Policy: :name\nhttps://a.example/*\n  X-Host: 1\n";
    let server = site(&[("index.html", "home"), ("docs/origin", "a"), ("_headers", headers)]);
    for host in ["localhost", "a.example"] {
        let response = server.request_host(host, "GET", "/docs/origin", "");
        assert_eq!(values(&response, "Referrer-Policy"), ["origin"], "{host}");
    }
}

/// The parts had the media type of the file's name.
#[test]
fn parts_have_the_media_type_that_a_rule_sets() {
    let headers = "/files/*\n  Content-Type: text/x-own\n/bare/*\n  ! Content-Type\n";
    let text: &str = "0123456789".repeat(200).leak();
    let files = [
        ("index.html", "home"),
        ("files/a.txt", text),
        ("bare/a.txt", text),
        ("_redirects", "/cdn/* /files/:splat 200\n/naked/* /bare/:splat 200\n"),
        ("_headers", headers),
    ];
    let server = site(&files);
    for (target, wanted) in [
        ("/files/a.txt", Some("text/x-own")),
        ("/cdn/a.txt", Some("text/x-own")),
        ("/bare/a.txt", None),
        ("/naked/a.txt", None),
    ] {
        let response = server.request("GET", target, "Range: bytes=0-1,100-101\r\n");
        assert_eq!(response.status, 206, "{target}");
        let body = String::from_utf8(response.body).unwrap();
        let types: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("Content-Type: ")).collect();
        assert_eq!(types, wanted.map_or(vec![], |wanted| vec![wanted; 2]), "{target}");
    }
}
