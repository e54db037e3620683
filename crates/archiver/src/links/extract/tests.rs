//! Unit tests of links in HTML and CSS.

use proptest::prelude::*;

use super::*;

fn references(links: Vec<Link>) -> Vec<String> {
    links.into_iter().map(|link| String::from_utf8(link.reference).unwrap()).collect()
}

#[test]
fn links_of_html_are_attributes_and_style_sheets() {
    let text = r#"<!doctype html><base href="/docs/"><link rel=stylesheet href=a.css>
        <LINK REL="dns-prefetch preconnect" HREF="//cdn.example"><a href="b.html?x=1&amp;y=2#z">b</a>
        <img src=c.png srcset="d.png 2x, e.png, f.png 3x ,"> <video poster='g.jpg'></video>
        <object data=h.svg></object><p data=no style="background: url(i.png)"></p>
        <style>@import "j.css"; p { background: URL( 'k.png' ) }</style>
        <svg><use xlink:href="l.svg#part"/></svg><my-link href=no></my-link>
        <script>document.write("<a href=no>")</script><!-- <a href=no> --><textarea><a href=no></textarea>"#;
    let document = html(text.as_bytes());
    assert_eq!(document.base.as_deref(), Some(&b"/docs/"[..]));
    let found = references(document.links);
    let expected = "a.css b.html?x=1&y=2#z c.png d.png e.png f.png g.jpg h.svg i.png j.css k.png l.svg#part";
    assert_eq!(found.join(" "), expected);
}

#[test]
fn links_have_the_offset_of_their_line() {
    let text = "<p>\n<a\n href=\"a\">\n<style>\n@import 'b';\n</style>";
    let lines: Vec<_> = html(text.as_bytes())
        .links
        .iter()
        .map(|link| text.as_bytes()[..link.offset].iter().filter(|byte| **byte == b'\n').count() + 1)
        .collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn policies_are_those_of_the_head() {
    let text = "<head>\n<META content=\"default-src &#39;self&#39;\" HTTP-EQUIV=content-security-policy>
        <meta http-equiv=refresh content=5><meta name=description content=\"default-src 'none'\"><body>
        <meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">";
    let policies = html(text.as_bytes()).policies;
    assert_eq!(policies.len(), 1);
    assert_eq!(policies[0].text, b"default-src 'self'");
    assert_eq!(text.as_bytes()[..policies[0].offset].iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[test]
fn links_of_css_are_urls_and_imports() {
    let text = "@charset 'no'; @import url(a.css); @import \"b.css\" screen; /* url(no) */ p { \
                background: url(c.png), url( \"d.png\" ); content: 'url(no)'; curl(no); mask: url(#e\\) } q { src: url(f.woff";
    assert_eq!(references(css(text.as_bytes())).join(" "), "a.css b.css c.png d.png f.woff");
}

proptest! {
    #[test]
    fn no_text_is_refused(text in "[a-z<>/\"'=@url(;)\\\\*, \n]{0,80}") {
        html(text.as_bytes());
        css(text.as_bytes());
        srcset(text.as_bytes());
    }
}
