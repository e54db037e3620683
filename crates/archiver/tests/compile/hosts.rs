//! Virtual hosts, and rules for a single host.

use crate::site::{Answer, Below, Site};

const HOST: Option<&str> = Some("example.com");

#[test]
fn folder_in_hosts_is_a_site() {
    let built = Site::new(&[
        ("index.html", "default"),
        ("_hosts/example.com/index.html", "example"),
        ("_hosts/example.com/_404.html", "none"),
    ])
    .build();
    assert_eq!(built.page("/").text(), "default");
    assert_eq!(built.page_on(HOST, "/").text(), "example");
    assert_eq!(built.page_on(Some("EXAMPLE.com"), "/index").text(), "example");
    assert_eq!(built.answer("/_hosts/example.com/index.html"), None);
    assert_eq!(built.has_own_site("example.com"), Some(true));
    assert!(built.archive.facts().hosts);
    assert!(matches!(&built.below(HOST, "/").unwrap()[..], [Below::ErrorPage(404, _)]));
    assert_eq!(built.below(None, "/"), None);
}

#[test]
fn archive_without_hosts_is_marked() {
    assert!(!Site::new(&[("a.css", "1")]).build().archive.facts().hosts);
}

/// One folder is a valid host, the others aren't.
fn odd_hosts() -> Site {
    Site::new(&[
        ("_hosts/Example.com/a.css", "upper"),
        ("_hosts/under score/a.css", "space"),
        ("_hosts/stray.css", "stray"),
        ("_hosts/example.com/a.css", "good"),
    ])
}

#[test]
fn invalid_host_folder_is_reported_by_its_path() {
    let built = odd_hosts().build();
    assert_eq!(built.page_on(HOST, "/a.css").text(), "good");
    assert_eq!(built.report.warnings(), 3);
    let expected = [
        "_hosts/Example.com: host-invalid",
        "_hosts/stray.css: host-invalid",
        "_hosts/under score: host-invalid",
    ];
    assert_eq!(built.remarks(), expected);
}

#[test]
fn invalid_host_folder_is_not_stored() {
    assert_eq!(odd_hosts().build().bodies(), [b"good".to_vec()], "what is not served is not in the archive");
}

#[test]
fn rule_for_one_host_is_stored_for_that_host_only() {
    let built =
        Site::new(&[("_redirects", "://www.example.com/a /b\n://www.example.com/c/* /d 302\n")]).build();
    assert_eq!(built.answer_on(Some("www.example.com"), "/a"), Some(Answer::Redirect(301, "/b".into())));
    assert_eq!(built.answer("/a"), None);
    let rules = built.below(Some("www.example.com"), "/").unwrap();
    assert!(
        matches!(&rules[..], [Below::Rule(_, false, pattern, Answer::Redirect(302, _))] if pattern == "c/{0*}")
    );
    assert_eq!(built.has_own_site("www.example.com"), Some(false));
    assert_eq!(built.has_own_site("other.example"), None);
}

#[test]
fn rules_of_a_host_site_are_its_own() {
    let built = Site::new(&[("_hosts/example.com/_redirects", "/a /b\n"), ("_redirects", "/c /d\n")]).build();
    assert_eq!(built.answer_on(HOST, "/a"), Some(Answer::Redirect(301, "/b".into())));
    assert_eq!(built.answer("/a"), None);
    assert_eq!(built.answer_on(HOST, "/c"), None);
}

#[test]
fn host_site_never_answers_with_files_of_the_default_site() {
    let built = Site::new(&[
        ("secret.html", "default"),
        ("_hosts/example.com/index.html", "example"),
        ("_hosts/example.com/_redirects", "/a /secret.html 200\n"),
    ])
    .build();
    assert_eq!(built.answer_on(HOST, "/a"), None);
    assert_eq!(built.report.warnings(), 1);
}

#[test]
fn rule_for_a_host_without_a_site_yields_to_a_file_of_the_default_site() {
    let built = Site::new(&[("a.html", "1"), ("_redirects", "://www.example.com/a /b\n")]).build();
    assert_eq!(built.answer_on(Some("www.example.com"), "/a"), None);
    assert_eq!(built.remarks(), ["_redirects:1: redirect-shadowed"]);
}

#[test]
fn folder_may_be_a_wildcard_site() {
    for folder in ["*.example.com", "_wildcard.example.com"] {
        let site = Site::new(&[("index.html", "default")]);
        site.write(format!("_hosts/{folder}/index.html"), "all below");
        let built = site.build();
        assert_eq!(built.page_on(Some("*.example.com"), "/").text(), "all below", "{folder}");
        assert_eq!(built.has_own_site("*.example.com"), Some(true));
        assert!(built.archive.facts().wildcard_hosts);
        assert_eq!(built.report.diagnostics, []);
    }
    assert!(!Site::new(&[("_hosts/example.com/a", "1")]).build().archive.facts().wildcard_hosts);
}

#[test]
fn both_names_of_a_wildcard_folder_are_one_host() {
    let site = Site::new(&[("_hosts/*.example.com/a.css", "1"), ("_hosts/_wildcard.example.com/a.css", "2")]);
    site.write("_hosts/_wildcard.example.com/b.css", "3");
    let built = site.build();
    assert_eq!(built.page_on(Some("*.example.com"), "/a.css").text(), "2");
    assert_eq!(built.page_on(Some("*.example.com"), "/b.css").text(), "3");
    assert_eq!(built.remarks(), ["_hosts/_wildcard.example.com/a.css: host-twice"]);
}

#[test]
fn invalid_wildcard_folder_is_reported() {
    for folder in ["*", "*.", "*.*.example.com", "a.*.com", "*a.com", "_wildcard.", "_wildcard"] {
        let site = Site::new(&[]);
        site.write(format!("_hosts/{folder}/a.css"), "1");
        let built = site.build();
        assert_eq!(built.remarks(), [format!("_hosts/{folder}: host-invalid")]);
    }
}

#[test]
fn rule_may_be_for_a_wildcard_host() {
    let built = Site::new(&[("_redirects", "://*.example.com/a /b\n://*.example.com/c/* /d 302\n")]).build();
    let below = Some("*.example.com");
    assert_eq!(built.answer_on(below, "/a"), Some(Answer::Redirect(301, "/b".into())));
    assert!(matches!(&built.below(below, "/").unwrap()[..], [Below::Rule(..)]));
    assert_eq!((built.has_own_site("*.example.com"), built.answer("/a")), (Some(false), None));
}

#[test]
fn rewrite_of_a_host_may_lead_to_a_wildcard_site() {
    let built = Site::new(&[
        ("_hosts/*.example.com/page.html", "page"),
        ("_redirects", "://www.example.com/a /page.html 200\n://www.example.org/a /page.html 200\n"),
    ])
    .build();
    assert_eq!(built.page_on(Some("www.example.com"), "/a").text(), "page");
    assert_eq!(built.report.warnings(), 1, "the other host has no such page");
}

/// Builds a site with these files and returns the remarks about rules.
fn remarks(rules: &str, others: &[&str]) -> Vec<String> {
    let mut files = vec![("_redirects", rules)];
    files.extend(others.iter().map(|path| (*path, "content")));
    Site::new(&files).build().remarks()
}

#[test]
fn redirect_to_a_host_that_it_matches_is_reported() {
    let circle = ["_redirects:1: redirect-loop".to_owned()];
    for rule in [
        "://*.example.com/* https://www.example.com/:splat",
        "://*.example.com/* https://www.example.com/:splat 301!",
        "://*.example.com/:x/:y https://www.example.com/:x/:y",
        "://*.example.com/:x/:y https://www.example.com/:y/:x",
        "://*.example.com/old/* https://www.example.com/old/older/:splat 302!",
        "://*.example.com/gone https://www.example.com/gone",
        "://*.com/* https://www.example.com/:splat",
        // A rule with `!` beats files in the default site.
        "://*.example.com/* https://www.example.com/index.txt 301!",
    ] {
        assert_eq!(remarks(rule, &["index.txt"]), circle, "{rule}");
        // If the host has a site, the search for rules ends there.
        assert_eq!(remarks(rule, &["_hosts/www.example.com/a.txt"]), [""; 0], "{rule}");
    }
}

#[test]
fn redirect_that_ends_is_not_reported() {
    for rule in [
        "://*.example.com/* https://example.com/:splat",
        "://*.example.com/there/* https://www.example.com/:splat 301!",
        // Files in the default site beat all other rules.
        "://*.example.com/* https://www.example.com/there/a.txt",
        "://www.example.com/* /:splat 200\n://*.example.com/* https://www.example.com/:splat",
    ] {
        assert_eq!(remarks(rule, &["there/a.txt"]), [""; 0], "{rule}");
    }
}

#[test]
fn loops_between_hosts_are_reported_once() {
    let rules = "://a.test/* https://b.test/:splat\n://*.other.test/x https://a.test/x\n://b.test/* https://a.test/:splat";
    assert_eq!(remarks(rules, &[]), ["_redirects:3: redirect-loop"]);
    let rules = "://*.a.test/x https://www.b.test/x\n://*.b.test/x https://www.a.test/x";
    assert_eq!(remarks(rules, &[]), ["_redirects:2: redirect-loop"]);
    let rules = "://old.test/* https://www.test/:splat\n/* https://www.test/:splat";
    assert_eq!(remarks(rules, &[]), ["_redirects:2: redirect-loop"]);
}

#[test]
fn ten_thousand_redirects_between_hosts_are_followed_in_time() {
    let rules: String = (0..10_000)
        .map(|number| format!("://h{number}.test/* https://h{}.test/:splat\n", number + 1))
        .collect();
    assert_eq!(remarks(&rules, &[]), ["_redirects:1: redirect-chain"]);
}

#[test]
fn redirect_of_every_host_to_one_is_noted() {
    for rule in ["/* https://www.example.com/:splat 301!", "/* https://www.example.com./:splat"] {
        assert_eq!(remarks(rule, &["a.txt"]), ["_redirects:1: redirect-every-host"], "{rule}");
        assert_eq!(remarks(rule, &["_hosts/www.example.com/a.txt"]), [""; 0], "{rule}");
    }
    for rule in ["/old/* https://www.example.com/:splat 301!", "/a https://www.example.com/b"] {
        assert_eq!(remarks(rule, &["a.txt"]), [""; 0], "{rule}");
    }
}

#[test]
fn loop_of_rules_for_every_host_is_noted() {
    for rules in [
        "/a https://h.example/b 301\n/b https://h.example/a 301",
        "/a/* https://h.example/b/:splat 301\n/b/* https://h.example/a/:splat 301",
        "/a https://h.example/b 301\n/b /a 301",
        "/a https://h.example/b 301\n/b https://g.example/a 301",
    ] {
        assert_eq!(remarks(rules, &["a.txt"]), ["_redirects:2: redirect-every-host"], "{rules}");
    }
    let ends = "/a https://h.example/b 301\n/b https://h.example/c 301";
    assert_eq!(remarks(ends, &["a.txt"]), [""; 0]);
}

#[test]
fn patterns_of_one_host_are_compared_in_linear_time() {
    let rules: String = (0..20_000)
        .map(|number| format!("://a.test/old/{number}/* https://a.test/new/{number}/:splat\n"))
        .collect();
    assert_eq!(remarks(&rules, &[]), [""; 0]);
}
