//! Unit tests of response heads.

use super::*;

fn look() -> Look<'static> {
    Look {
        status: 200,
        media_type: "text/html",
        charset: true,
        coding: Coding::Brotli,
        negotiable: true,
        varies_by_intent: false,
        cache_control: Some("public, no-cache"),
    }
}

fn text(head: &NewHead) -> String {
    let runs = [&head.status_line, &head.content_type, &head.representation, &head.resource];
    String::from_utf8(runs.map(Vec::as_slice).concat()).unwrap()
}

#[test]
fn head_has_fields_of_its_media_type() {
    let head = render_head(&look(), &MergedFields::default(), &Options::new("a", "b"));
    assert_eq!(
        text(&head),
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Encoding: br\r\n\
         Vary: Accept-Encoding\r\nCache-Control: public, no-cache\r\nAccept-Ranges: bytes\r\n"
    );
    assert!(head.sends_etag);
    assert_eq!(head.overrides, 0);
}

#[test]
fn error_is_never_immutable() {
    let caching = |status, value: &str| {
        let fields = vec![("cache-control".to_owned(), value.to_owned())];
        let merged = MergedFields { fields, removed: Vec::new() };
        let look = Look { status, cache_control: Some("no-store"), ..look() };
        let text = text(&render_head(&look, &merged, &Options::new("a", "b")));
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("Cache-Control: ")).collect();
        lines.join(" and ")
    };
    let lasting = "public, max-age=31536000, Immutable";
    assert_eq!(caching(200, lasting), lasting);
    assert_eq!(caching(404, lasting), "no-store");
    assert_eq!(caching(404, "max-age=60"), "max-age=60", "the site may say otherwise");
}

#[test]
fn rules_of_the_site_override_defaults() {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = vec![
        field("cache-control", "no-store"),
        field("vary", "Origin, accept-encoding"),
        field("x-frame-options", "DENY"),
    ];
    let merged = MergedFields { fields, removed: vec!["content-type".into(), "referrer-policy".into()] };
    let head = render_head(&look(), &merged, &Options::new("a", "b"));
    assert_eq!(
        text(&head),
        "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nVary: Accept-Encoding, Origin\r\n\
         Accept-Ranges: bytes\r\nCache-Control: no-store\r\nX-Frame-Options: DENY\r\n"
    );
    assert_eq!(head.overrides, override_bit("x-frame-options") | override_bit("referrer-policy"));
}
