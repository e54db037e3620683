//! Redirect loops within one host.

use crate::site::Site;

/// Builds a site with these files and returns the remarks about rules.
fn remarks(rules: &str, others: &[&str]) -> Vec<String> {
    let mut files = vec![("_redirects", rules)];
    files.extend(others.iter().map(|path| (*path, "content")));
    Site::new(&files).build().remarks()
}

#[test]
fn pattern_that_matches_its_target_is_reported() {
    for rule in [
        "/* /en/:splat 302",
        "/* /en/:splat 302!",
        "/* /:splat/ 301",
        "/:a /:a/ 301",
        "/docs/* /docs/v1/:splat 308",
        "/docs/:page /docs/:page?x=1 303",
        "/:a/:b /:b/:a",
        "/a /a/",
        "/a/ /a",
        "/* /missing.html 302",
        "./* ./en/:splat",
        "# dialect: cloudflare\n/*.html /x/:splat.html",
        "/:a/* /:splat/:a 302",
        "/x/ /./x/. 301",
        "/y /z/../y/ 301",
        "/:x/y /z/../:x//y/ 301",
        "/* /en/../en/:splat 302",
    ] {
        let dialect_line = u32::from(rule.starts_with('#'));
        assert_eq!(
            remarks(rule, &["a.css"]),
            [format!("_redirects:{}: redirect-loop", dialect_line + 1)],
            "{rule}"
        );
    }
}

#[test]
fn loop_over_several_rules_is_reported_at_its_last_line() {
    for (rules, line) in [
        ("/a /b\n/b https://elsewhere.test/\n/c /d\n/d /e\n/e /c\n/f /c", 5),
        ("/a/* /b/:splat\n/b/* /a/:splat", 2),
        ("/a/* /b/:splat\n/b/:x /c/x/:x\n/c/* /a/:splat\n/b/* /c/:splat", 4),
        ("/old/* /new/:splat 301\n/new/:x /old/:x 302!", 2),
        ("/a /b/\n/b /a", 2),
        ("://h.test/x /y\n://h.test/y https://h.test/x", 2),
        ("://h.test/x https://H.TEST.:443/y\n://h.test./y https://h.test/x", 2),
        ("://*.h.test/* https://g.test/:splat\n://g.test/:x https://www.h.test./:x", 2),
        // The rewrite leads to a path with a redirect.
        ("/a/* /b/:splat 200!\n/b/x /a/x 301", 2),
    ] {
        assert_eq!(remarks(rules, &["c.css"]), [format!("_redirects:{line}: redirect-loop")], "{rules}");
    }

    let site = Site::new(&[
        ("a/_redirects", "./x /b/x"),
        ("b/_redirects", "./* ../a/x"),
        ("_redirects", "/b/x /a/x"),
    ]);
    let remarks = site.build().remarks();
    assert!(remarks.iter().any(|remark| remark.ends_with("redirect-loop")), "{remarks:?}");
    let host = Site::new(&[("_hosts/h.test/_redirects", "/* /en/:splat"), ("_hosts/h.test/a.css", "a")]);
    assert_eq!(host.build().remarks(), ["_hosts/h.test/_redirects:1: redirect-loop"]);
}

/// If only `/docs/` exists, the server redirects `/docs` there, and vice versa.
#[test]
fn loops_through_slash_redirects_are_reported() {
    let loops = |files: &[(&str, &str)]| -> Vec<String> {
        let remarks = Site::new(files).build().remarks();
        remarks.into_iter().filter(|remark| remark.ends_with("redirect-loop")).collect()
    };
    for (rules, file) in [
        ("/docs/ /docs 301!", "docs/index.html"),
        ("/docs/* /docs 301!", "docs/index.html"),
        ("/:page/ /:page 301!", "about/index.html"),
        ("/:page/* /:page 301!", "about/index.html"),
        ("/:page /:page/ 301!", "about.html"),
        ("/about /about/ 301!", "about.html"),
        ("/about /x!\n/x /about/ 301\n/about /x 301!", "about.html"),
        ("/docs/* /old 301!\n/old /docs", "docs/index.html"),
        ("/docs/* /docs/../docs 301!", "docs/index.html"),
    ] {
        let last = rules.lines().count();
        assert_eq!(
            loops(&[("_redirects", rules), (file, "")]),
            [format!("_redirects:{last}: redirect-loop")],
            "{rules}"
        );
    }
    let cloudflare = "# dialect: cloudflare\n/*/ /:splat 301";
    let found = loops(&[("_redirects", cloudflare), ("docs/index.html", "")]);
    assert_eq!(found, ["_redirects:2: redirect-loop"]);
    assert_eq!(loops(&[("_redirects", cloudflare), ("docs.html", "")]), [""; 0]);

    let of_host = |target: &str| {
        let rule = format!("/docs/* {target} 301!");
        loops(&[("_hosts/a.test/docs/index.html", ""), ("_hosts/a.test/_redirects", &rule)])
    };
    for target in ["/docs", "https://a.test/docs", "https://A.test.:443/./docs"] {
        assert_eq!(of_host(target), ["_hosts/a.test/_redirects:1: redirect-loop"], "{target}");
    }
    for target in ["/other", "https://b.test/docs"] {
        assert_eq!(of_host(target), [""; 0], "{target}");
    }
    // A host without a site gets files from the default site.
    let rule = "://a.test/:page/ https://a.test/:page 301!";
    assert_eq!(loops(&[("_redirects", rule), ("about/index.html", "")]), ["_redirects:1: redirect-loop"]);

    let built = Site::new(&[("_redirects", "/docs/* /docs 301!"), ("docs/index.html", "")]).build();
    let message = &built.report.diagnostics[0].message;
    assert!(message.contains("leads to `/docs`, which the server redirects to `/docs/`"), "{message}");
}

#[test]
fn rings_of_any_length_and_long_chains_are_reported() {
    let rules = |count: usize, last: &str, of: &dyn Fn(usize) -> [String; 2]| {
        let rules: Vec<String> = (0..count).map(|number| of(number).join(" ")).collect();
        format!("{}\n{last}", rules.join("\n"))
    };
    let constant = |number: usize| [format!("/p{number}"), format!("/p{}", number + 1)];
    let pattern = |number: usize| [format!("/p{number}/*"), format!("/p{}/:splat", number + 1)];
    let growing = |number: usize| [format!("/p{number}/*"), format!("/p{}/x/:splat", number + 1)];
    for count in [20, 29, 300] {
        let ring = [format!("_redirects:{}: redirect-loop", count + 1)];
        let text = rules(count, &format!("/p{count} /p0"), &constant);
        assert_eq!(remarks(&text, &["a.css"]), ring);
        for of in [&pattern as &dyn Fn(usize) -> [String; 2], &growing] {
            let text = rules(count, &format!("/p{count}/* /p0/:splat"), of);
            assert_eq!(remarks(&text, &["a.css"]), ring);
        }
    }

    for of in [&constant as &dyn Fn(usize) -> [String; 2], &pattern, &growing] {
        assert_eq!(remarks(&rules(19, "/q /p0", of), &["a.css"]), [""; 0]);
        assert_eq!(remarks(&rules(21, "", of), &["a.css"]), ["_redirects:1: redirect-chain"]);
    }
    assert_eq!(remarks(&rules(20, "/q /p0", &constant), &["a.css"]), ["_redirects:21: redirect-chain"]);
    // One of them is a slash redirect.
    let to_folder = rules(19, "/p19 /docs", &constant);
    assert_eq!(remarks(&to_folder, &["docs.css"]), [""; 0]);
    assert_eq!(remarks(&to_folder, &["docs/index.html"]), ["_redirects:1: redirect-chain"]);
}

#[test]
fn listing_of_a_folder_ends_a_walk() {
    let mut site = Site::new(&[("_redirects", "/docs/:page /docs/ 301"), ("docs/a.css", "")]);
    assert_eq!(site.build().remarks(), [""; 0]);
    let files = [("_redirects", "/docs/:page/ /docs/\n/docs/ /docs/x/"), ("docs/a.css", "")];
    assert_eq!(Site::new(&files).build().remarks(), ["_redirects:2: redirect-loop"]);
    site = Site::new(&files);
    site.options.include_folder_listing = true;
    assert!(!site.build().remarks().iter().any(|remark| remark.contains("_redirects:1")));
}

#[test]
fn redirects_that_end_are_not_reported() {
    for rules in [
        "/en/* /en/index.html 200\n/* /en/:splat 302",
        "/en/* /404.html 404\n/* /en/:splat 302",
        "/en/* https://en.example/:splat\n/* /en/:splat 302",
        "/* /index.html 302",
        "/* /en/ 302",
        "/a /b\n/b /page",
        "/page /a\n/a /page",
        "/:a/ /:a 307",
        "/a/* /:splat",
        "/a/* /b/:splat\n/b/* /c/:splat",
        "/en /en/",
        "/:a/:b /:b",
        "/* https://www.example.com/:splat 301",
        "# dialect: cloudflare\n/index.html / 301\n/*/index.html /:splat/ 301\n/*.html /:splat 301",
        "/blog /blog/\n/blog/* /index.html 200",
        "/blog/* /blog/ 301",
        "/old/* /blog 301!",
        "/page/ /page 301!",
        "/:x/ /:x/index 301!",
        "/a/* /b/:splat 200\n/b/x /blog/ 301",
    ] {
        let files = ["index.html", "404.html", "en/index.html", "page.html", "blog/index.html"];
        let loops: Vec<String> = remarks(rules, &files);
        let loops: Vec<_> = loops.iter().filter(|remark| remark.contains("loop")).collect();
        assert!(loops.is_empty(), "{rules}: {loops:?}");
    }

    // The search ends at the host's page for missing paths.
    let site = [("_hosts/h.test/200.html", "app"), ("_redirects", "://h.test/a /b\n/b /a"), ("a.css", "")];
    assert_eq!(Site::new(&site).build().remarks(), [""; 0]);
}

#[test]
fn loop_at_a_literal_segment_is_reported() {
    for rule in [
        "/blog/:slug /:slug/blog 301",
        "/x/:a/* /:a/x/:splat 301",
        "/:x/b /b/:x 301",
        "/:l/a/* /a/:l/:splat 301",
        "/p/:a/:b /:a/p/:b 301",
    ] {
        assert_eq!(remarks(rule, &["index.html"]), ["_redirects:1: redirect-loop"], "{rule}");
    }
    let rules = "/blog/:slug /posts/:slug/x 301\n/posts/:a/:b /:b/x 301\n/x/:a /blog/y 301";
    assert!(remarks(rules, &["index.html"]).iter().any(|remark| remark.ends_with("redirect-loop")));
    for rule in ["/blog/:slug /posts/:slug 301", "/:lang/old /:lang/new 301", "/:a/x /y/:a 301"] {
        assert_eq!(remarks(rule, &["index.html"]), [""; 0], "{rule}");
    }
}

#[test]
fn message_shows_the_way_of_a_client() {
    let built = Site::new(&[("_redirects", "/* /en/:splat 302")]).build();
    let message = &built.report.diagnostics[0].message;
    assert!(message.contains("from `/x` to `/en/x` to `/en/en/x`"), "{message}");
}

#[test]
fn thousands_of_growing_rules_are_followed_in_time() {
    let rules: String = (0..3000).map(|number| format!("/{number}/* /{number}/x/:splat\n")).collect();
    assert_eq!(remarks(&rules, &[]).len(), 3000);
}
