//! Redirect loops within one host.

use crate::site::Site;

/// Returns the remarks about rules in a site with these files.
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
    ] {
        let files = ["index.html", "404.html", "en/index.html", "page.html", "blog/index.html"];
        let loops: Vec<String> = remarks(rules, &files);
        let loops: Vec<_> = loops.iter().filter(|remark| remark.contains("loop")).collect();
        assert!(loops.is_empty(), "{rules}: {loops:?}");
    }
    // The page for missing paths of a host ends the search.
    let site = [("_hosts/h.test/200.html", "app"), ("_redirects", "://h.test/a /b\n/b /a"), ("a.css", "")];
    assert_eq!(Site::new(&site).build().remarks(), [""; 0]);
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
