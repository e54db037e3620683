//! Sites add fields to responses with `_headers`.

use crate::site::Site;

#[test]
fn fields_are_added_where_the_pattern_matches() {
    let site = Site::new(&[("a.css", "1"), ("d/b.css", "2")]);
    site.write("_headers", "/d/*\n  X-One: 1\n  Link: <a>\n");
    let built = site.build();
    assert_eq!(built.page("/a.css").field("X-One"), None);
    assert_eq!(built.page("/d/b.css").field("X-One"), Some("1"));
    assert_eq!(built.page("/d/b.css").field("Link"), Some("<a>"));
    assert_eq!(built.answer("/_headers"), None);
}

#[test]
fn site_replaces_default_fields_and_extends_vary() {
    let mut site = Site::new(&[("a.bin", &"again and ".repeat(100))]);
    site.options.encoders = [cannery_archiver::Encoder::Identity, cannery_archiver::Encoder::Gzip].into();
    site.write("_headers", "/*\n  Cache-Control: no-store\n  Content-Type: text/x-mine\n  Vary: Origin\n");
    let page = site.build().page("/a.bin");
    for form in &page.forms {
        assert_eq!(form.field("Cache-Control"), Some("no-store"));
        assert_eq!(form.field("Content-Type"), Some("text/x-mine"));
        assert_eq!(form.field("Vary"), Some("Accept-Encoding, Origin"));
        assert_eq!(form.head.matches("Cache-Control").count(), 1);
    }
    assert_eq!(page.forms.len(), 2);
}

#[test]
fn server_defaults_are_overridden() {
    let site = Site::new(&[("a.css", "1"), ("b.css", "1")]);
    site.write("_headers", "/a.css\n  X-Frame-Options: DENY\n  ! Referrer-Policy\n");
    let built = site.build();
    // Two of the server's default fields have these bits.
    assert_eq!(built.page("/a.css").forms[0].overrides, 0b1001);
    assert_eq!(built.page("/b.css").forms[0].overrides, 0);
    assert_eq!(built.page("/a.css").field("X-Frame-Options"), Some("DENY"));
}

#[test]
fn file_in_a_subfolder_is_reported_and_ignored() {
    let site = Site::new(&[("d/a.css", "1")]);
    site.write("d/_headers", "/*\n  X-One: 1\n");
    let built = site.build();
    assert_eq!(built.page("/d/a.css").field("X-One"), None);
    assert_eq!(built.answer("/d/_headers"), None);
    assert_eq!(built.remarks(), ["d/_headers: headers-not-at-root"]);
    assert_eq!(built.report.warnings(), 1);
}

#[test]
fn fields_of_a_host_are_its_own() {
    let site = Site::new(&[("a.css", "1"), ("_hosts/example.com/a.css", "2")]);
    site.write("_headers", "/*\n  X-Site: default\n");
    site.write("_hosts/example.com/_headers", "/*\n  X-Site: example\n");
    let built = site.build();
    assert_eq!(built.page("/a.css").field("X-Site"), Some("default"));
    assert_eq!(built.page_on(Some("example.com"), "/a.css").field("X-Site"), Some("example"));
}

#[test]
fn pages_for_other_paths_leave_the_fields_to_the_server() {
    let site = Site::new(&[("_200.html", "app"), ("_404.html", "none")]);
    site.write("_headers", "/*\n  X-One: 1\n");
    let built = site.build();
    for below in built.below(None, "/").unwrap() {
        let (crate::site::Below::Fallback(_, page) | crate::site::Below::ErrorPage(_, page)) = below else {
            panic!("{below:?}")
        };
        assert_eq!(page.field("X-One"), None);
    }
    assert!(built.archive.facts().header_rules);
}

#[test]
fn fields_that_the_server_owns_are_reported_and_ignored() {
    let site = Site::new(&[("a.css", "1")]);
    site.write("_headers", "/*\n  Content-Length: 7\n  X-One: 1\n");
    let built = site.build();
    assert_eq!(built.page("/a.css").field("Content-Length"), None);
    assert_eq!(built.page("/a.css").field("X-One"), Some("1"));
    assert_eq!(built.report.warnings(), 1);
}

/// Listings were immutable if their folder had fingerprinted files.
#[test]
fn rules_for_files_do_not_cache_listings() {
    let rules = "/assets/*\n  Cache-Control: max-age=31536000, immutable\n  X-A: 1\n";
    let mut site = Site::new(&[("index.html", ""), ("_headers", rules), ("assets/a.js", "1")]);
    site.options.include_folder_listing = true;
    let built = site.build();
    for path in ["/assets/", "/assets/_listing.json"] {
        let page = built.page(path);
        assert_eq!(
            (page.field("Cache-Control"), page.field("X-A")),
            (Some("public, no-cache"), Some("1")),
            "{path}"
        );
    }
    assert_eq!(built.page("/assets/a.js").field("Cache-Control"), Some("max-age=31536000, immutable"));
}
