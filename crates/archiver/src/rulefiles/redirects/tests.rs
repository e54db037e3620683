//! Tests the parser for `_redirects` in each dialect.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;
use crate::ground::rule_error::LINE_BYTES_MAX;
use crate::rulefiles::pattern::PatternPiece;

fn parse_root(text: &str, dialect: Dialect) -> (Vec<RedirectRule>, Vec<Diagnostic>) {
    parse(text.as_bytes(), "_redirects", b"", dialect)
}

/// Parses a file without diagnostics.
fn rules(text: &str, dialect: Dialect) -> Vec<RedirectRule> {
    let (rules, diagnostics) = parse_root(text, dialect);
    assert_eq!(diagnostics, [], "{text}");
    rules
}

fn rule(line: &str) -> RedirectRule {
    let rules = rules(line, Dialect::Cannery);
    assert_eq!(rules.len(), 1, "{line}");
    rules.into_iter().next().unwrap()
}

/// Returns the line and code for each diagnostic.
fn codes(text: &str, dialect: Dialect) -> Vec<(u32, &'static str)> {
    parse_root(text, dialect).1.iter().map(|diagnostic| (diagnostic.line.unwrap(), diagnostic.code)).collect()
}

fn literal(text: &str) -> PatternPiece {
    PatternPiece::Literal(text.as_bytes().to_vec())
}

fn constant(text: &str) -> Template {
    Template { pieces: vec![TemplatePiece::Literal(text.as_bytes().to_vec())] }
}

fn redirect(status: u16, target: &str) -> Action {
    Action::Redirect { status, target: constant(target), query: None, fragment: None }
}

#[test]
fn plain_line_is_a_rule() {
    let rule = rule("/old /new 308");
    assert_eq!(rule.source.pieces, [literal("/old")]);
    assert_eq!(rule.action, redirect(308, "/new"));
    assert_eq!((rule.line, rule.host, rule.force), (1, None, false));
}

#[test]
fn kawipiko_codes_are_supported() {
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(rule(&format!("/a /b {status}")).action, redirect(status, "/b"));
    }
}

#[test]
fn each_dialect_has_its_default_code_and_force() {
    for (dialect, status, force) in
        [(Dialect::Cannery, 301, false), (Dialect::Netlify, 301, false), (Dialect::Cloudflare, 302, true)]
    {
        let rules = rules("/a /b", dialect);
        assert_eq!((&rules[0].action, rules[0].force), (&redirect(status, "/b"), force));
    }
}

#[test]
fn first_line_selects_the_dialect() {
    assert_eq!(rules("# dialect: cloudflare\n/a /b", Dialect::Cannery)[0].action, redirect(302, "/b"));
    assert_eq!(codes("# dialect: apache\n/a /b", Dialect::Cannery), [(1, "unknown-dialect")]);
    let (late, _) = parse_root("/a /b\n# dialect: cloudflare", Dialect::Cannery);
    assert_eq!(late[0].action, redirect(301, "/b"));
}

#[test]
fn byte_order_mark_line_ends_tabs_and_comments_are_ignored() {
    let text = "\u{feff}# comment\r\n\r\n \t/a\t \t/b  302!   # why\r\n   # indented";
    let rules = rules(text, Dialect::Cannery);
    assert_eq!(rules.len(), 1);
    assert_eq!((rules[0].line, rules[0].force, &rules[0].action), (3, true, &redirect(302, "/b")));
}

#[test]
fn relative_paths_are_relative_to_their_folder() {
    let (rules, diagnostics) = parse(b"./x* ./y%20z#top", "a:b*/_redirects", b"a:b*", Dialect::Cannery);
    assert_eq!(diagnostics, []);
    assert_eq!(rules[0].source.pieces, [literal("/a:b*/x"), PatternPiece::Splat]);
    let target = constant("/a%3Ab%2A/y%20z");
    let expected = Action::Redirect { status: 301, target, query: None, fragment: Some("top".into()) };
    assert_eq!(rules[0].action, expected);
}

#[test]
fn relative_target_never_names_a_host() {
    for target in [".//evil.example/", ".///evil.example/"] {
        assert_eq!(rule(&format!("/x {target}")).action, redirect(301, "/evil.example/"), "{target}");
    }
    assert_eq!(rule("/x /\\evil.example").action, redirect(301, "/%5Cevil.example"));
}

#[test]
fn only_the_root_file_has_absolute_sources() {
    let (rules, diagnostics) = parse(b"/x /y\n://h/x /y\n./x /y", "d/_redirects", b"d", Dialect::Cannery);
    assert_eq!(rules.len(), 1);
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.code == "absolute-source"), "{diagnostics:?}");
    assert_eq!(diagnostics.len(), 2);
}

#[test]
fn rule_may_be_for_one_host() {
    for source in ["://Example.ORG:8080/a", "http://example.org/a", "HTTPS://example.org/a"] {
        let rule = rule(&format!("{source} /b"));
        assert_eq!(rule.host.as_deref(), Some("example.org"), "{source}");
        assert_eq!(rule.source.pieces, [literal("/a")]);
    }
    assert_eq!(rule("https://[::1]:8443 /b").host.as_deref(), Some("[::1]"));
    assert_eq!(rule("://*.Example.org/a /b").host.as_deref(), Some("*.example.org"));
    assert_eq!(
        codes("https://www.*.org/ /b\n:///a /b", Dialect::Cannery),
        [(1, "bad-host"), (2, "bad-host")]
    );
    assert_eq!(codes("https://h/ /b", Dialect::Cloudflare), [(1, "unsupported-source")]);
    assert_eq!(codes("://h/ /b", Dialect::Netlify), [(1, "bad-source")]);
}

#[test]
fn splats_and_placeholders_are_captured_in_order() {
    let rule = rule("/news/:year/:slug/* /blog/:slug-:year/:splat 302");
    let slash = || literal("/");
    let expected = [
        literal("/news/"),
        PatternPiece::Placeholder,
        slash(),
        PatternPiece::Placeholder,
        slash(),
        PatternPiece::Splat,
    ];
    assert_eq!(rule.source.pieces, expected);

    let Action::Redirect { target, .. } = rule.action else { panic!("not a redirect") };
    let text = |text: &str| TemplatePiece::Literal(text.as_bytes().to_vec());
    let expected = [
        text("/blog/"),
        TemplatePiece::Capture(1),
        text("-"),
        TemplatePiece::Capture(0),
        text("/"),
        TemplatePiece::Capture(2),
    ];
    assert_eq!(target.pieces, expected);

    let captures = rule.source.captures(b"/news/2024/x/y/z").unwrap();
    assert_eq!(captures, [&b"2024"[..], b"x", b"y/z"]);
    assert!(rule.source.matches(b"/news/2024/x/"));
    assert!(!rule.source.matches(b"/news/2024//y"));
    assert!(!rule.source.matches(b"/news/2024/x"));
}

#[test]
fn colons_within_a_segment_are_text() {
    assert_eq!(rule("/wiki/Help:Contents /w/Talk:Page").source.pieces, [literal("/wiki/Help:Contents")]);
    assert_eq!(rule("/a/:8080 https://h:8080/b").source.pieces, [literal("/a/:8080")]);
    let rules = rules("/a-:id /b", Dialect::Cloudflare);
    assert_eq!(rules[0].source.pieces, [literal("/a-"), PatternPiece::Placeholder]);
}

#[test]
fn splat_is_last_except_for_cloudflare() {
    assert_eq!(codes("/a/*/b /c", Dialect::Netlify), [(1, "unsupported-source")]);
    let rules = rules("/a/*/b /c", Dialect::Cloudflare);
    assert_eq!(rules[0].source.captures(b"/a/x/y/b"), Some(vec![&b"x/y"[..]]));
    assert_eq!(rules[0].source.captures(b"/a//b"), Some(vec![&b""[..]]));
    assert_eq!(rules[0].source.captures(b"/a/b"), None);
}

#[test]
fn unsupported_sources_are_rejected() {
    let cases = [
        ("old /new", "bad-source"),
        ("/*/* /new", "unsupported-source"),
        ("/:a/:a /new", "unsupported-source"),
        ("/:id.html /new", "unsupported-source"),
        ("/:splat /new", "unsupported-source"),
        ("/a?b=c /new", "unsupported-source"),
        ("/a%2Fb /new", "bad-escape"),
        ("/a%00 /new", "bad-escape"),
        ("/a%4 /new", "bad-escape"),
        ("/a/../b /new", "never-matches"),
        ("/a/%2e/b /new", "never-matches"),
        ("/a//b /new", "never-matches"),
        ("//a /new", "never-matches"),
    ];
    for (line, code) in cases {
        assert_eq!(codes(line, Dialect::Cannery), [(1, code)], "{line}");
        assert_eq!(parse_root(line, Dialect::Cannery).0, [], "{line}");
    }
}

#[test]
fn unsupported_rules_are_ignored_as_a_whole() {
    let cases = [
        ("/a id=:id /b/:id 301", "unsupported-condition"),
        ("/a /b 302 Country=us,ca", "unsupported-condition"),
        ("/a /b 200 Role=admin", "access-control"),
        ("/a role=admin /b", "access-control"),
        ("/a/* /login 401!", "access-control"),
        ("/a/* /login 403", "access-control"),
        ("/a /b Language=de", "unsupported-condition"),
        ("/a https://api.example.org/:x 200", "unsupported-target"),
        ("/a //api.example.org/ 200!", "unsupported-target"),
        ("/a/:id /b#:id 301", "unsupported-target"),
        ("/a/:id https://:id.example.org/ 301", "unsupported-target"),
        ("/a/* https://example.org:splat 301", "unsupported-target"),
    ];
    for (line, code) in cases {
        let (rules, diagnostics) = parse_root(line, Dialect::Netlify);
        assert_eq!(rules, [], "{line}");
        assert_eq!(diagnostics[0].code, code, "{line}");
    }
}

#[test]
fn malformed_lines_are_reported() {
    let text = "/a\n/a /b 305\n/a b\n/a /:x\n/a /b 301 what\n/a /%zz\n/a /x:splat\n/a https:///x\n/a /b 30x";
    let expected = [
        (1, "missing-target"),
        (2, "unknown-code"),
        (3, "bad-target"),
        (4, "unknown-placeholder"),
        (5, "bad-syntax"),
        (6, "bad-escape"),
        (7, "unknown-placeholder"),
        (8, "bad-target"),
        (9, "unknown-code"),
    ];
    assert_eq!(codes(text, Dialect::Cannery), expected);
    assert_eq!(
        codes("/a /b 404\n/c /d 301!", Dialect::Cloudflare),
        [(1, "unknown-code"), (2, "unknown-code")]
    );
}

#[test]
fn a_target_with_a_user_or_without_a_host_is_refused() {
    for target in ["https://user@h/", "//user:word@h", "http://:80/", "https://", "//:8080", "https://?q"] {
        assert_eq!(codes(&format!("/a {target} 301"), Dialect::Cannery), [(1, "bad-target")], "{target}");
    }
    for target in ["https://h:80/", "https://h/@user", "/@user", "https://h?@"] {
        assert_eq!(codes(&format!("/a {target} 301"), Dialect::Cannery), [], "{target}");
    }
}

#[test]
fn unreadable_lines_do_not_affect_others() {
    let mut text = b"/a /b\n/\xff /b\n/c\x01 /d\n/".to_vec();
    text.resize(text.len() + LINE_BYTES_MAX, b'x');
    text.extend(b" /y\n/e /f");
    let (rules, diagnostics) = parse(&text, "_redirects", b"", Dialect::Cannery);
    assert_eq!(rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [1, 5]);
    let codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, ["not-utf8", "control-character", "line-too-long"]);
    assert_eq!(diagnostics[2].severity, Severity::Error);
}

#[test]
fn targets_are_split_and_encoded_as_urls() {
    let expected = Action::Redirect {
        status: 301,
        target: constant("https://example.org/caf%C3%A9/%5Cx%20"),
        query: Some(constant("q=%C3%BC&r=/?")),
        fragment: Some("s#t".to_owned()),
    };
    assert_eq!(rule("/a https://example.org/café/\\x%20?q=ü&r=/?#s#t").action, expected);
    assert_eq!(rule("/a ://example.org/b").action, redirect(301, "//example.org/b"));
}

#[test]
fn rewrites_are_paths_of_the_site() {
    let rewrite = |status, path: &str| Action::Rewrite { status, path: constant(path) };
    assert_eq!(rule("/a /b%20c 200").action, rewrite(200, "/b c"));
    assert_eq!(rule("/a /gone.html 410").action, rewrite(410, "/gone.html"));
    let (rules, diagnostics) = parse_root("/* /404.html?x=1 404!", Dialect::Cannery);
    assert_eq!((&rules[0].action, rules[0].force), (&rewrite(404, "/404.html"), true));
    assert_eq!(diagnostics[0].code, "query-cut");
    assert_eq!(codes("/a /../b 200", Dialect::Cannery), [(1, "never-matches")]);
}

#[test]
fn catch_all_page_does_not_answer_for_assets() {
    for (line, pages_only) in [
        ("/* /index.html 200", true),
        ("/app/* /app/ 200", true),
        ("/* /index.html 200!", false),
        ("/* /index.html 404", false),
        ("/img/* /img/none.png 200", false),
        ("/:a /index.html 200", true),
        ("/:a/:b / 200", true),
        ("/app/:id/edit /app.html 200", true),
        ("/:lang/* /:lang/index.html 200", true),
        ("/:lang/:page /:lang 200", true),
        ("/:a /index.html 200!", false),
        ("/a /index.html 200", false),
        ("/:version/app.js /index.html 200", false),
        ("/:page /pages/:page.html 200", false),
        ("/:page /none.png 200", false),
        ("/* /app/:splat 200", false),
    ] {
        assert_eq!(rule(line).pages_only, pages_only, "{line}");
    }

    // A line that does what it says isn't a mistake, so it should not make a build with `--strict`
    // fail.
    for dialect in [Dialect::Netlify, Dialect::Cloudflare] {
        let (_, diagnostics) = parse_root("/* /index.html 200", dialect);
        assert_eq!((diagnostics[0].code, diagnostics[0].severity), ("rewrite-assets", Severity::Note));
    }
    assert_eq!(codes("/* /index.html 200!", Dialect::Netlify), []);
}

#[test]
fn many_patterns_are_compared_in_linear_time() {
    let mut text = String::new();
    for number in 0..30_000 {
        writeln!(text, "/a/:x/{number}/* /to\n/p{number}* /to\n/b/{number}-*/c /to").unwrap();
    }
    let (kept, _) = parse_root(&text, Dialect::Cloudflare);
    assert_eq!(kept.len(), 90_000 - 30_000 + 10, "`/p1*` covers `/p10*`");
}

#[test]
fn duplicate_and_covered_rules_are_rejected() {
    let text = "/a /1\n/%61 /2\n/d/* /3\n/d/e /4\n/d/:x/f /5\n/d /6\n://h/d/g /7";
    let (rules, diagnostics) = parse_root(text, Dialect::Cannery);
    assert_eq!(rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [1, 3, 6]);
    let found: Vec<_> =
        diagnostics.iter().map(|diagnostic| (diagnostic.line.unwrap(), diagnostic.code)).collect();
    let expected = [
        (2, "redirect-duplicate"),
        (4, "redirect-shadowed"),
        (5, "redirect-shadowed"),
        (7, "redirect-shadowed"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn forced_rule_after_an_unforced_one_applies() {
    assert_eq!(rules("/a /1\n/a /2 301!", Dialect::Netlify).len(), 2);
    assert_eq!(rules("/* /index.html 200\n/a /2 301!", Dialect::Cannery).len(), 2);
    assert_eq!(codes("/a /1 301!\n/a /2", Dialect::Netlify), [(2, "redirect-duplicate")]);
}

#[test]
fn narrow_rule_before_a_wide_one_is_accepted() {
    assert_eq!(rules("/a/b /1\n/a/:x /2\n/a/* /3\n://h/* /4\n/* /5", Dialect::Cannery).len(), 5);
}

#[test]
fn redirect_to_itself_is_rejected() {
    let lines = [
        "/a /a",
        "/a /%61?x=1#y",
        "/a/:x/* /a/:x/:splat",
        "https://h/* http://h/:splat 301!",
        "http://h/* https://h/new/:splat 301!",
        "://h https://H:443",
        "/a/* /a/b/:splat 302!",
        "/:x/:y /:y/:x 302!",
    ];
    for line in lines {
        let (rules, diagnostics) = parse_root(line, Dialect::Cannery);
        assert_eq!((rules, diagnostics[0].code), (Vec::new(), "redirect-loop"), "{line}");
    }
    for line in ["/* /index.html 302", "/a https://other/a", "/:x/:y /:y/:x", "/a /a/", "/a /a 200"] {
        assert_eq!(rules(line, Dialect::Cannery).len(), 1, "{line}");
    }
}

#[test]
fn upgrade_to_https_is_a_note_that_names_the_flag() {
    for line in ["http://h/* https://h/:splat 301!", "http://h/a HTTPS://h/a"] {
        let (rules, diagnostics) = parse_root(line, Dialect::Netlify);
        let [note] = &diagnostics[..] else { panic!("{line}: {diagnostics:?}") };
        assert_eq!((rules.len(), note.severity), (0, Severity::Note), "{line}");
        assert!(note.message.contains("`--https-redirect`"), "{}", note.message);
    }
    let both = "http://old.h/* https://h/:splat 301!\nhttps://old.h/* https://h/:splat 301!";
    assert_eq!(rules(both, Dialect::Netlify).len(), 1, "the same rule for both schemes");
}

#[test]
fn query_of_a_target_may_have_placeholders() {
    let rule = rule("/products/:code/:name /products?code=:code&name=:name&x=1:2 301");
    let Action::Redirect { target, query: Some(query), .. } = rule.action else { panic!() };
    assert_eq!(target, constant("/products"));
    let literal = |text: &str| TemplatePiece::Literal(text.into());
    let expected = [
        literal("code="),
        TemplatePiece::Capture(0),
        literal("&name="),
        TemplatePiece::Capture(1),
        literal("&x=1:2"),
    ];
    assert_eq!(query.pieces, expected);
    assert_eq!(codes("/a /b?x=:splat", Dialect::Cannery), [(1, "unknown-placeholder")]);
}

#[test]
fn field_of_a_header_file_is_reported_as_such() {
    for (line, code) in [
        ("Basic-Auth: user:password", "access-control"),
        ("  basic_auth user:password", "access-control"),
        ("WWW-Authenticate: Basic", "access-control"),
        ("AuthType Basic", "access-control"),
        ("X-Frame-Options: DENY", "bad-source"),
    ] {
        let (_, diagnostics) = parse_root(line, Dialect::Cannery);
        assert_eq!(diagnostics[0].code, code, "{line}");
        assert!(!diagnostics[0].message.contains("password"), "{}", diagnostics[0].message);
    }
}

#[test]
fn long_chain_is_followed_in_linear_time() {
    let mut text = String::new();
    for number in 0..20_000 {
        writeln!(text, "/{number} /{}", number + 1).unwrap();
    }
    assert_eq!(rules(&text, Dialect::Cannery).len(), 20_000);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        for dialect in [Dialect::Cannery, Dialect::Netlify, Dialect::Cloudflare] {
            let (rules, diagnostics) = parse(&text, "_redirects", b"", dialect);
            let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
            prop_assert!(rules.len() <= lines && diagnostics.len() <= 2 * lines + 1);
        }
    }

    #[test]
    fn lines_of_rule_like_text_keep_the_promises_of_a_pattern(
        text in "(([./:*a-b%?# !]|://|/:x|:splat|20[0-9]|30[0-9]){0,12}\n){0,4}",
    ) {
        for dialect in [Dialect::Cannery, Dialect::Netlify, Dialect::Cloudflare] {
            for rule in parse(text.as_bytes(), "_redirects", b"", dialect).0 {
                let pieces = &rule.source.pieces;
                prop_assert!(matches!(&pieces[0], PatternPiece::Literal(first) if first.starts_with(b"/")));
                let splat = pieces.iter().position(|piece| *piece == PatternPiece::Splat);
                if let Some(splat) = splat {
                    prop_assert!(pieces[splat + 1..].len() <= 1);
                    prop_assert!(pieces[splat + 1..].iter().all(|piece| matches!(piece, PatternPiece::Literal(_))));
                }
            }
        }
    }

}

#[test]
fn access_control_is_an_error_wherever_it_is_in_a_line() {
    for line in [
        "/secret/* 401",
        "/secret/* \"/x\" 403!",
        "secret/* /x 401",
        "/secret/* Basic-Auth: bob:hidden",
        "/secret/* /x 200 Basic-Auth: bob:hidden",
        "/secret/* /x 200! Role=admin",
    ] {
        let (_, diagnostics) = parse_root(line, Dialect::Cannery);
        let [error] = &diagnostics[..] else { panic!("{line}: {diagnostics:?}") };
        assert_eq!(error.code, "access-control", "{line}");
        assert!(!error.message.contains("hidden"), "{}", error.message);
    }
    let open = "/authorization /basic-auth 301\n/cookie /deny # Basic-Auth: a:b\n/401 /403 302";
    assert_eq!(codes(open, Dialect::Cannery), []);
}

#[test]
fn quotes_are_named() {
    for line in ["\"/a\" \"/b\" 301", "'/a' /b", "/a \"/b c\""] {
        let (_, diagnostics) = parse_root(line, Dialect::Cannery);
        let [warning] = &diagnostics[..] else { panic!("{line}: {diagnostics:?}") };
        assert_eq!(warning.code, "bad-syntax", "{line}");
        assert!(warning.message.contains("quotes"), "{}", warning.message);
    }
}

#[test]
fn dialect_below_the_first_line_is_reported() {
    let text = "# our rules\n# dialect: cloudflare\n/a /b";
    assert_eq!(codes(text, Dialect::Cannery), [(2, "late-dialect")]);
    assert_eq!(codes("# dialect: netlify\n# dialects differ\n/a /b", Dialect::Cannery), []);
    assert_eq!(codes("# dialect: netlify\n/a /b\n# dialect: netlify\n/c /d", Dialect::Cannery), []);
}

#[test]
fn port_of_a_target_is_checked() {
    assert_eq!(codes("/a https://example.com:99999/", Dialect::Cannery), [(1, "bad-target")]);
    assert_eq!(codes("/a https://example.com:8443/\n/b https://[::1]/", Dialect::Cannery), []);
}
