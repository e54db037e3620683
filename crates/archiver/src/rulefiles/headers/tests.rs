//! Unit tests for `_headers`: syntax, diagnostics, and how rules are merged.

use proptest::prelude::*;

use super::*;

/// Parses a file without diagnostics.
fn rules(text: &str) -> Vec<HeaderRule> {
    let (rules, diagnostics) = parse(text.as_bytes(), "_headers");
    assert_eq!(diagnostics, [], "{text}");
    rules
}

fn codes(text: &[u8]) -> Vec<(u32, &'static str)> {
    parse(text, "_headers").1.iter().map(|diagnostic| (diagnostic.line.unwrap(), diagnostic.code)).collect()
}

fn set(name: &str, value: &str) -> HeaderField {
    HeaderField::Set { name: name.to_owned(), value: value.to_owned() }
}

/// Renders the merged fields of a path, one `name: value` per line, followed by `!name` for each
/// removed name.
fn merged(text: &str, path: &str) -> String {
    let MergedFields { fields, removed } = merge(&rules(text), None, path.as_bytes());
    let fields = fields.into_iter().map(|(name, value)| format!("{name}: {value}\n"));
    fields.chain(removed.into_iter().map(|name| format!("!{name}\n"))).collect()
}

#[test]
fn path_and_indented_lines_are_a_rule() {
    let text = "\u{feff}# all\r\n/a/*\r\n  X-One: 1\r\n\r\n\t# two\r\n\tX-Two:  a: b # c \r\n  ! X-Three\r\n/b\nX-Four: 4";
    let rules = rules(text);
    assert_eq!(rules.len(), 2);
    let three = HeaderField::Remove { name: "x-three".to_owned() };
    assert_eq!(rules[0].fields, [set("x-one", "1"), set("x-two", "a: b # c"), three]);
    assert_eq!((rules[0].line, rules[1].line), (2, 8));
    assert_eq!(rules[1].fields, [set("x-four", "4")]);
}

#[test]
fn rule_may_be_for_one_host() {
    let rules = rules("https://Example.org:8443/*\n  X-A: 1\n");
    assert_eq!(rules[0].host.as_deref(), Some("example.org"));
    assert!(rules[0].matches(Some("example.org"), b"/x"));
    assert!(!rules[0].matches(Some("example.com"), b"/x"));
    assert!(!rules[0].matches(None, b"/x"));
}

#[test]
fn patterns_match_paths() {
    let matches =
        |pattern: &str, path: &str| rules(&format!("{pattern}\n X-A: 1"))[0].matches(None, path.as_bytes());
    assert!(matches("/*", "/"));
    assert!(matches("/*.jpg", "/a/b.jpg"));
    assert!(!matches("/*.jpg", "/a/b.jpeg"));
    assert!(matches("/:a/x", "/q/x"));
    assert!(!matches("/:a/x", "/q/r/x"));
    assert!(matches("/a%20b", "/a b"));
    assert!(!matches("/a", "/a/"));
}

#[test]
fn values_of_several_rules_are_joined() {
    let text = "/*\n  Link: <a>\n  Vary: Cookie\n/a\n  LINK: <b>\n  X-Other: 1";
    assert_eq!(merged(text, "/a"), "link: <a>, <b>\nvary: Cookie\nx-other: 1\n");
    assert_eq!(merged(text, "/b"), "link: <a>\nvary: Cookie\n");
}

#[test]
fn last_rule_wins_for_single_valued_fields() {
    let text = "/*\n  Cache-Control: no-store\n  Content-Type: text/plain\n/a\n  cache-control: max-age=60";
    assert_eq!(merged(text, "/a"), "cache-control: max-age=60\ncontent-type: text/plain\n");
}

#[test]
fn lines_of_one_list_in_a_rule_are_joined() {
    let text = "/*\n  Cache-Control: max-age=60\n/a\n  cache-control: max-age=0\n  Cache-Control: no-cache\n  \
                cache-control: no-store\n  Cache-Control: must-revalidate\n  Link: <a>\n  Link: <b>";
    let expected = "cache-control: max-age=0, no-cache, no-store, must-revalidate\nlink: <a>, <b>\n";
    assert_eq!(merged(text, "/a"), expected);
    assert_eq!(merged(text, "/b"), "cache-control: max-age=60\n");
    let removed = "/*\n  Cache-Control: no-store\n  ! Cache-Control\n  Cache-Control: max-age=1";
    assert_eq!(merged(removed, "/a"), "cache-control: max-age=1\n");
}

#[test]
fn single_value_given_twice_is_reported() {
    for (text, line) in [
        ("/*\n  X-Frame-Options: DENY\n  X-Frame-Options: SAMEORIGIN", 3),
        ("/a\n  X-Frame-Options: DENY\n/b\n  X-A: 1\n/a\n  X-Frame-Options: SAMEORIGIN", 5),
        ("/a\n  Cache-Control: no-store\n/a\n  Cache-Control: max-age=1", 3),
    ] {
        assert_eq!(codes(text.as_bytes()), [(line, "header-twice")], "{text}");
    }
    let (rules, _) = parse(b"/*\n  X-Frame-Options: DENY\n  X-Frame-Options: SAMEORIGIN", "_headers");
    assert_eq!(rules[0].fields, [set("x-frame-options", "SAMEORIGIN")]);
    for text in [
        "/*\n  X-Frame-Options: DENY\n/a\n  X-Frame-Options: SAMEORIGIN",
        "/a\n  Cache-Control: no-store\n/a\n  ! Cache-Control\n  Cache-Control: max-age=1",
        "/a\n  Link: <a>\n/a\n  Link: <b>",
    ] {
        assert_eq!(codes(text.as_bytes()), [], "{text}");
    }
}

#[test]
fn access_control_is_an_error() {
    for line in [
        "Basic-Auth: user:password",
        "Basic Auth: user:password",
        "basic_auth user:password",
        "basic-auth : user:password other:password",
        "WWW-Authenticate: Basic",
        "Authorization: Bearer x",
        "CF-Access-Client-Secret: x",
        "auth_basic \"Private\"",
        "Require valid-user",
        "deny all",
        "values = {X-A = \"1\", Basic-Auth = \"user:password\"}",
        "values = {Basic-Auth: 'user:password'}",
        "headers.values.Basic-Auth = \"user:password\"",
        "headers.values.WWW-Authenticate = \"Basic\"",
        "\"headers\" = {\"Basic-Auth\" = \"user:password\"}",
    ] {
        let (_, diagnostics) = parse(format!("/a/*\n  {line}\n  X-A: 1").as_bytes(), "_headers");
        assert_eq!(diagnostics.len(), 1, "{line}");
        let found = (diagnostics[0].severity, diagnostics[0].line, diagnostics[0].code);
        assert_eq!(found, (crate::ground::diagnostic::Severity::Error, Some(2), "access-control"), "{line}");
        assert!(!diagnostics[0].message.contains("password`"), "{}", diagnostics[0].message);
    }
}

#[test]
fn words_of_access_control_in_values_are_none() {
    for field in [
        "Set-Cookie: basic-auth=off",
        "Access-Control-Allow-Headers: Content-Type, WWW-Authenticate",
        "Report-To: {group: default, endpoints: [basic-auth]}",
    ] {
        assert_eq!(codes(format!("/a\n  {field}").as_bytes()), [], "{field}");
    }
}

#[test]
fn indentation_does_not_matter() {
    let text = "  /a\n  X-A: 1\n\t/b/*\nX-B   : 2\n  https://h.test/c\n    X-C: 3";
    let found = rules(text);
    assert_eq!(found.iter().map(|rule| rule.line).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(found[1].fields, [set("x-b", "2")]);
    assert_eq!(merged(text, "/a"), "x-a: 1\n");
}

#[test]
fn path_without_its_slash_is_named() {
    for text in ["blog/*\n  X-A: 1", "/a\n  X-B: 1\nblog/\n  X-A: 1", "*.css\n  X-A: 1"] {
        let (_, diagnostics) = parse(text.as_bytes(), "_headers");
        let [warning] = &diagnostics[..] else { panic!("{text}: {diagnostics:?}") };
        assert_eq!(warning.code, "bad-source", "{text}");
        assert!(warning.message.contains("must begin with `/`"), "{}", warning.message);
    }
    assert_eq!(codes(b"/old /new 301"), [(1, "bad-source")]);
    assert_eq!(codes(b"/admin/* /login 401"), [(1, "access-control")]);
    assert_eq!(codes(b"blog/*\n  Basic-Auth: a:b"), [(1, "bad-source"), (2, "access-control")]);
    assert_eq!(codes(b"Basic-Auth: a:b"), [(1, "access-control")]);
}

#[test]
fn values_may_refer_to_parts_of_the_path() {
    let text = "/movies/:title\n  X-Movie: You watch \":title\" (:other)\n/files/*\n  X-Path: :splat";
    assert_eq!(merged(text, "/movies/star wars"), "x-movie: You watch \"star%20wars\" (:other)\n");
    assert_eq!(merged(text, "/files/a/b"), "x-path: a/b\n");
    assert_eq!(codes(b"https://:project.pages.dev/*\n  X-A: :project"), [(2, "header-placeholder")]);
}

#[test]
fn field_that_is_never_sent_needs_no_removal() {
    let (rules, diagnostics) = parse(b"/*\n  ! Server\n  X-A: 1", "_headers");
    assert_eq!(rules[0].fields, [set("x-a", "1")]);
    assert_eq!(diagnostics[0].severity, crate::ground::diagnostic::Severity::Note);
}

#[test]
fn only_codings_of_files_are_content_encodings() {
    assert_eq!(rules("/a.br\n  Content-Encoding: BR")[0].fields, [set("content-encoding", "br")]);
    assert_eq!(codes(b"/a\n  Content-Encoding: deflate"), [(2, "header-not-yours")]);
    assert_eq!(codes(b"/a\n  Content-Encoding: identity"), [(2, "header-never-sent")]);
}

#[test]
fn cookies_are_not_joined() {
    assert_eq!(
        merged("/*\n  Set-Cookie: a=1\n/a\n  Set-Cookie: b=2", "/a"),
        "set-cookie: a=1\nset-cookie: b=2\n"
    );
}

#[test]
fn removed_field_may_be_set_again() {
    let text =
        "/*\n  X-A: 1\n  X-Frame-Options: DENY\n/a/*\n  ! X-A\n  ! X-Frame-Options\n  ! X-A\n/a/b\n  X-A: 2";
    assert_eq!(merged(text, "/c"), "x-a: 1\nx-frame-options: DENY\n");
    assert_eq!(merged(text, "/a/c"), "!x-a\n!x-frame-options\n");
    assert_eq!(merged(text, "/a/b"), "x-a: 2\n!x-frame-options\n");
}

#[test]
fn server_owned_fields_are_rejected() {
    for (name, reason) in OWNED {
        let text = format!("/*\n  {}: x\n  ! {name}\n  X-A: 1", name.to_uppercase());
        let (rules, diagnostics) = parse(text.as_bytes(), "_headers");
        assert_eq!(rules[0].fields, [set("x-a", "1")], "{name}");
        assert_eq!(diagnostics.len(), 2);
        let removal = if NEVER_SENT.contains(&name) { "header-never-sent" } else { "header-not-yours" };
        let codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, ["header-not-yours", removal]);
        assert!(diagnostics[0].message.ends_with(reason), "{}", diagnostics[0].message);
    }
}

#[test]
fn server_owned_fields_are_not_single_valued() {
    for name in SINGLE_VALUED {
        assert!(OWNED.iter().all(|(owned, _)| *owned != name), "{name}");
    }
}

#[test]
fn malformed_lines_are_reported() {
    let text = "X-Early: 1\n/a\n  no colon\n  : x\n  X A: 1\n  X\u{e4}:1\n  X-C:\n  ! \n  X-D: 1";
    let expected = [
        (1, "header-without-path"),
        (3, "bad-header"),
        (4, "bad-header"),
        (5, "bad-header"),
        (6, "bad-header"),
        (7, "bad-header"),
        (8, "bad-header"),
    ];
    assert_eq!(codes(text.as_bytes()), expected);
    assert_eq!(codes(b"/a\n  X: a\x00b\n  Y: \xff\n  Z: 1"), [(2, "control-character"), (3, "not-utf8")]);
}

#[test]
fn wildcard_host_covers_all_hosts_below() {
    let (rules, _) = parse(b"https://*.example.org/*\n  X-A: 1", "_headers");
    let set = |host| !merge(&rules, host, b"/a").fields.is_empty();
    assert!(set(Some("www.example.org")) && set(Some("*.example.org")));
    assert!(!set(Some("example.org")) && !set(None));
}

#[test]
fn rejected_path_is_reported_once_with_its_fields() {
    for (path, code) in [
        ("/*/*", "unsupported-source"),
        ("/a b", "bad-source"),
        ("*.css", "bad-source"),
        ("/%zz", "bad-escape"),
        ("https://www.*.org/", "bad-host"),
        ("ftp://example.org/", "bad-source"),
    ] {
        let (rules, diagnostics) = parse(format!("{path}\n  X-A: 1\n/ok\n  X-B: 1").as_bytes(), "_headers");
        assert_eq!(rules.len(), 1, "{path}");
        assert_eq!(
            (diagnostics.len(), diagnostics[0].line, diagnostics[0].code),
            (1, Some(1), code),
            "{path}"
        );
        assert!(diagnostics[0].message.contains("the fields below it are ignored"));
    }
}

#[test]
fn path_without_fields_is_reported() {
    assert_eq!(codes(b"/a\n/b\n  X-A: 1\n/c"), [(1, "header-rule-empty"), (4, "header-rule-empty")]);
    // If all fields are rejected, this was already reported.
    assert_eq!(codes(b"/a\n  Date: now"), [(2, "header-not-yours")]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic_or_break_a_header_out_of_its_line(
        text in "((/[a:*]{0,4}|  [A-Za-z!:]{0,6}[ -~\u{0}\r\t\u{e9}]{0,8})\n){0,6}",
    ) {
        for rule in parse(text.as_bytes(), "_headers").0 {
            prop_assert!(!rule.fields.is_empty());
            for field in &rule.fields {
                let (name, value) = match field {
                    HeaderField::Set { name, value } => (name, value.as_str()),
                    HeaderField::Remove { name } => (name, "x"),
                };
                prop_assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(!value.is_empty() && !value.contains(['\r', '\n', '\0']));
            }
        }
    }
}
