//! `_redirects`: static rules, patterns, and reports.

use cannery_archive::Origin;

use crate::site::{Answer, Below, Site};

fn redirect(status: u16, target: &str) -> Option<Answer> {
    Some(Answer::Redirect(status, target.to_owned()))
}

#[test]
fn static_rule_answers_its_path() {
    let built =
        Site::new(&[("_redirects", "/old /new\n/q /new?a=b#c 302\n/away https://example.com/ 307\n")])
            .build();
    assert_eq!(built.answer("/old"), redirect(301, "/new"));
    assert_eq!(built.answer("/q"), redirect(302, "/new?a=b#c"));
    assert_eq!(built.answer("/away"), redirect(307, "https://example.com/"));
    assert_eq!(built.report.redirects, 3);
    assert_eq!(built.answer("/_redirects"), None);
}

#[test]
fn both_names_of_the_rule_file_are_read_and_neither_is_served() {
    let built = Site::new(&[("_redirects", "/a /x"), ("_redirects.txt", "/b /x")]).build();
    assert_eq!(built.answer("/a"), redirect(301, "/x"));
    assert_eq!(built.answer("/b"), redirect(301, "/x"));
    assert_eq!(built.answer("/_redirects.txt"), None);
    assert_eq!(built.answer("/_redirects"), None);
}

#[test]
fn relative_rules_belong_to_their_folder() {
    let built = Site::new(&[("d/_redirects", "./old ./new\n")]).build();
    assert_eq!(built.answer("/d/old"), redirect(301, "/d/new"));
    assert_eq!(built.answer("/old"), None);
}

#[test]
fn source_is_percent_decoded() {
    let built = Site::new(&[("_redirects", "/a%20b /x\n/%C3%A4 /y\n")]).build();
    assert_eq!(built.answer("/a b"), redirect(301, "/x"));
    assert_eq!(built.answer("/ä"), redirect(301, "/y"));
}

#[test]
fn rule_yields_to_a_file_unless_it_is_forced() {
    let site = Site::new(&[("a.html", "1"), ("b.html", "2"), ("_redirects", "/a /x\n/b /x 301!\n")]);
    let built = site.build();
    assert_eq!(built.page("/a").text(), "1");
    assert_eq!(built.answer("/b"), redirect(301, "/x"));
    assert_eq!(built.page("/b.html").text(), "2");
    assert_eq!(built.remarks(), ["_redirects:1: redirect-shadowed", "_redirects:2: redirect-hides-file"]);
    assert_eq!(built.report.warnings(), 1, "only what has no effect is a warning");
}

#[test]
fn empty_file_is_served_in_a_site_with_rules() {
    let built = Site::new(&[("empty.css", ""), ("_redirects", "/old /new\n")]).build();
    assert_eq!((built.page("/empty.css").status, built.page("/empty.css").body.len()), (200, 0));
    assert_eq!(built.answer("/old"), redirect(301, "/new"));
}

#[test]
fn patterns_are_stored_at_the_root_of_their_site() {
    let built =
        Site::new(&[("_redirects", "/blog/:year/:name /posts/:name\n/old/* /new/:splat 302\n/p/a-* /q\n")])
            .build();
    let blog = Below::Rule(0, false, "blog/{0}/{1}".into(), Answer::Redirect(301, "/posts/{1}".into()));
    let old = Below::Rule(1, false, "old/{0*}".into(), Answer::Redirect(302, "/new/{0}".into()));
    let part = Below::Rule(2, false, "p/a-{0*}".into(), Answer::Redirect(301, "/q".into()));
    assert_eq!(built.below(None, "/").unwrap(), [blog, old, part]);
    assert_eq!(built.report.rules, 3);
    assert!(!built.archive.facts().forced_rules);
}

#[test]
fn rewrite_to_a_constant_path_is_resolved_at_build_time() {
    let built = Site::new(&[
        ("app.html", "app"),
        ("_redirects", "/start /app.html 200\n/gone /app 410\n/* /app.html 200\n"),
    ])
    .build();
    let start = built.page("/start");
    assert_eq!((start.status, start.origin, start.text()), (200, Origin::Rule, "app"));
    let gone = built.page("/gone");
    assert_eq!((gone.status, gone.text()), (410, "app"));
    assert!(gone.forms[0].head.starts_with("HTTP/1.1 410 Gone\r\n"));
    match &built.below(None, "/").unwrap()[..] {
        [Below::Rule(_, false, pattern, Answer::Page(page))] => {
            assert_eq!((pattern.as_str(), page.status, page.text()), ("{0*}", 200, "app"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn rewrite_with_captures_is_resolved_by_the_server() {
    let built = Site::new(&[("_redirects", "/docs/:page /pages/:page.html 200\n")]).build();
    let rule = Below::Rule(0, false, "docs/{0}".into(), Answer::Rewrite(200, "/pages/{0}.html".into()));
    assert_eq!(built.below(None, "/").unwrap(), [rule]);
}

#[test]
fn rewrite_to_a_missing_path_is_reported_and_ignored() {
    let built = Site::new(&[("_redirects", "/a /none.html 200\n/b/* /none.html 200\n")]).build();
    assert_eq!(built.answer("/a"), None);
    assert_eq!(built.below(None, "/"), None);
    let expected = ["_redirects:1: redirect-target-missing", "_redirects:2: redirect-target-missing"];
    assert_eq!(built.remarks(), expected);
}

#[test]
fn rules_keep_their_order_over_all_folders() {
    let built = Site::new(&[("_redirects", "/a/x/* /1\n/a/* /2\n/b/* /3\n")]).build();
    let rules = built.below(None, "/").unwrap();
    let ordinals = rules.iter().map(|rule| match rule {
        Below::Rule(ordinal, ..) => *ordinal,
        other => panic!("{other:?}"),
    });
    assert_eq!(ordinals.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn forced_static_rule_comes_before_a_later_forced_pattern() {
    let built = Site::new(&[("_redirects", "/a/b /1 301!\n/a/* /2 301!\n")]).build();
    assert!(built.archive.facts().forced_rules);
    assert_eq!(built.answer("/a/b"), redirect(301, "/1"));
    let rules = built.below(None, "/").unwrap();
    match &rules[..] {
        [Below::Rule(first, true, one, to_one), Below::Rule(second, true, two, to_two)] => {
            assert!(first < second);
            assert_eq!((one.as_str(), to_one), ("a/b", &Answer::Redirect(301, "/1".into())));
            assert_eq!((two.as_str(), to_two), ("a/{0*}", &Answer::Redirect(301, "/2".into())));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn dialect_is_an_option_or_in_the_first_line() {
    let mut site = Site::new(&[("a.html", "1"), ("_redirects", "/a /x\n")]);
    site.options.dialect = cannery_archiver::redirects::Dialect::Cloudflare;
    assert_eq!(site.build().answer("/a"), redirect(302, "/x"));
    let site = Site::new(&[("a.html", "1"), ("_redirects", "# dialect: cloudflare\n/a /x\n")]);
    assert_eq!(site.build().answer("/a"), redirect(302, "/x"));
}

#[test]
fn malformed_lines_are_reported_with_file_and_line() {
    let built = Site::new(&[("d/_redirects", "# fine\n./a\n./b ./c 299\n")]).build();
    let places: Vec<(&str, Option<u32>)> =
        built.report.diagnostics.iter().map(|found| (found.file.as_str(), found.line)).collect();
    assert_eq!(places, [("d/_redirects", Some(2)), ("d/_redirects", Some(3))]);
    assert_eq!(built.report.warnings(), 2);
}

#[test]
fn pattern_with_too_many_segments_is_reported_and_ignored() {
    let deep = "/d".repeat(300);
    let built = Site::new(&[("_redirects", &format!("{deep}/* /x\n"))]).build();
    assert_eq!(built.below(None, "/"), None);
    assert_eq!(built.report.warnings(), 1);
}

#[test]
fn error_status_needs_no_page() {
    let rules = "/a.html /404.html 410!\n/old/* /404.html 410!\n/b.html /404.html 404!\n/x /lost.html 410\n";
    let files =
        [("a.html", "a"), ("b.html", "b"), ("c.html", "c"), ("index.html", "home"), ("old/d.html", "d")];
    let built = Site::new(&[&files[..], &[("_redirects", rules)]].concat()).build();

    let remarks = built.remarks().join("\n");
    assert_eq!(remarks.matches("redirect-target-missing").count(), 4, "{remarks}");
    for (path, status, text) in [
        ("/a.html", 410, "This page was removed.\n"),
        ("/b.html", 404, "This page was not found.\n"),
        ("/c.html", 200, "c"),
        ("/x", 410, "This page was removed.\n"),
    ] {
        let page = built.page(path);
        assert_eq!((page.status, page.text()), (status, text), "{path}");
    }

    assert_eq!(built.page("/a.html").field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(built.page("/a.html").field("Cache-Control"), Some("no-store"));
    assert_eq!(built.report.errors() + built.report.warnings(), 1);
    let Some(rules) = built.below(None, "/") else { panic!("no rule") };
    assert!(!rules.is_empty());
}

#[test]
fn same_source_in_another_rule_file_names_that_rule() {
    let site =
        Site::new(&[("index.html", "1"), ("_redirects", "# ours\n/a /b\n"), ("_redirects.txt", "/a /c\n")]);
    let built = site.build();
    assert_eq!(built.remarks(), ["_redirects.txt:1: redirect-duplicate"]);
    assert!(built.report.diagnostics[0].message.starts_with("`_redirects:2` has the same source"));
}
