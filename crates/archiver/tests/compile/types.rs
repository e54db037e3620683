//! Media types, cache policy and entity tags.

use cannery_archive::Digest;

use crate::site::Site;

#[test]
fn same_bytes_with_two_names_have_two_types() {
    let built = Site::new(&[("a.css", "same"), ("a.js", "same"), ("a.bin", "same")]).build();
    assert_eq!(built.page("/a.css").field("Content-Type"), Some("text/css; charset=utf-8"));
    assert_eq!(built.page("/a.js").field("Content-Type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(built.page("/a.bin").field("Content-Type"), Some("application/octet-stream"));
    assert_eq!((built.report.contents, built.bodies().len()), (1, 1));
}

#[test]
fn charset_is_sent_only_for_utf8() {
    let site = Site::new(&[("good.html", "ä")]);
    site.write("bad.html", b"\xe4");
    let built = site.build();
    assert_eq!(built.page("/good.html").field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(built.page("/bad.html").field("Content-Type"), Some("text/html"));
}

#[test]
fn type_can_be_overridden() {
    let mut site = Site::new(&[("a.xyz", "1")]);
    site.options.media_types.set("xyz=text/x-xyz").unwrap();
    assert_eq!(site.build().page("/a.xyz").field("Content-Type"), Some("text/x-xyz; charset=utf-8"));
}

#[test]
fn entry_points_are_revalidated_and_parts_cached_for_an_hour() {
    let built =
        Site::new(&[("a.html", "1"), ("a.json", "{}"), ("sw.js", "1"), ("a.css", "1"), ("a.png", "1")])
            .build();
    for (path, value) in [
        ("/a.html", "public, no-cache"),
        ("/a.json", "public, no-cache"),
        ("/sw.js", "public, no-cache"),
        ("/a.css", "public, max-age=3600"),
        ("/a.png", "public, max-age=3600"),
    ] {
        assert_eq!(built.page(path).field("Cache-Control"), Some(value), "{path}");
    }
}

#[test]
fn only_a_verified_fingerprint_is_immutable() {
    let digest = Digest::of(b"content").to_string();
    let (good, bad) = (format!("app-{}.js", &digest[..12]), "app-0123456789ab.js");
    let built = Site::new(&[(&good, "content"), (bad, "content")]).build();
    let immutable = Some("public, max-age=31536000, immutable");
    assert_eq!(built.page(format!("/{good}")).field("Cache-Control"), immutable);
    assert_eq!(built.page(format!("/{bad}")).field("Cache-Control"), Some("public, max-age=3600"));
}

#[test]
fn names_can_be_declared_immutable() {
    let mut site = Site::new(&[("assets/a.js", "1"), ("b.js", "1")]);
    site.options.immutable = vec!["/assets/".into(), "/assets/**".into()];
    let built = site.build();
    assert_eq!(
        built.page("/assets/a.js").field("Cache-Control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(built.page("/b.js").field("Cache-Control"), Some("public, max-age=3600"));
}

#[test]
fn caching_is_one_value_or_none_if_requested() {
    let mut site = Site::new(&[("a.html", "1"), ("a.css", "1")]);
    site.options.cache_control = Some("max-age=7".into());
    let built = site.build();
    assert_eq!(built.page("/a.html").field("Cache-Control"), Some("max-age=7"));
    assert_eq!(built.page("/a.css").field("Cache-Control"), Some("max-age=7"));
    site.options.exclude_cache = true;
    assert_eq!(site.build().page("/a.css").field("Cache-Control"), None);
}

#[test]
fn entity_tag_depends_on_the_sent_bytes() {
    let mut site = Site::new(&[("a.css", &"a { color: red } ".repeat(50)), ("b.css", "x")]);
    site.options.encoders = cannery_archiver::Encoder::ALL.into();
    let built = site.build();
    let page = built.page("/a.css");
    let mut tags: Vec<&str> = page.forms.iter().map(|form| form.etag.as_str()).collect();
    for form in &page.forms {
        assert_eq!(form.etag.as_bytes(), Digest::of(&form.stored).etag().0);
        assert!(form.sends_etag);
    }
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), page.forms.len());
}

#[test]
fn entity_tags_can_be_disabled() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.exclude_etag = true;
    assert!(!site.build().page("/a.css").forms[0].sends_etag);
}

#[test]
fn head_has_no_field_that_varies_per_request() {
    let head = Site::new(&[("a.css", "1")]).build().page("/a.css").forms[0].head.clone();
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nContent-Type: text/css; charset=utf-8\r\nCache-Control: public, max-age=3600\r\nAccept-Ranges: bytes\r\n"
    );
}

#[test]
fn similar_files_share_a_head() {
    let built = Site::new(&[("a.css", "1"), ("b.css", "2"), ("c/d.css", "3"), ("e.js", "4")]).build();
    assert_eq!(built.report.heads, 2);
}
