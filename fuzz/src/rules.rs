//! Arbitrary bytes as `_redirects` and `_headers`. No rule file causes a panic, and no result could break a response head.

use cannery_archiver::diagnostic::Diagnostic;
use cannery_archiver::headers::{self, HeaderField};
use cannery_archiver::redirects::{self, Action, Dialect, TemplatePiece};

/// Paths for matching.
const PATHS: [&[u8]; 4] =
    [b"/", b"/a/b/c.html", b"//", b"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

/// `_redirects` in each dialect.
pub fn redirects(data: &[u8]) {
    for dialect in [Dialect::Cannery, Dialect::Netlify, Dialect::Cloudflare] {
        let (rules, diagnostics) = redirects::parse(data, "_redirects", b"", dialect);
        lines_exist(data, rules.iter().map(|rule| rule.line), &diagnostics);

        for rule in rules {
            let template = match &rule.action {
                Action::Redirect { status, target, query, fragment } => {
                    assert!(matches!(status, 301 | 302 | 303 | 307 | 308), "{rule:?}");
                    if let Some(fragment) = fragment {
                        assert!(is_one_word(fragment.as_bytes()), "{rule:?}");
                    }
                    for piece in target.pieces.iter().chain(query.iter().flat_map(|query| &query.pieces)) {
                        assert!(
                            !matches!(piece, TemplatePiece::Literal(text) if !is_one_word(text)),
                            "{rule:?}"
                        );
                    }
                    target
                }
                Action::Rewrite { status, path } => {
                    assert!(matches!(status, 200 | 404 | 410), "{rule:?}");
                    path
                }
            };

            let captures = rule.source.captures(PATHS[1]).map(|captures| captures.len());
            for number in template.captures() {
                assert!(captures.is_none_or(|count| usize::from(number) < count), "{rule:?}");
            }
            assert!(!rule.source.is_static() || captures.is_none_or(|count| count == 0), "{rule:?}");

            for path in PATHS {
                assert_eq!(rule.source.matches(path), rule.source.captures(path).is_some());
            }
        }
    }
}

/// `_headers`.
pub fn headers(data: &[u8]) {
    let (rules, diagnostics) = headers::parse(data, "_headers");
    lines_exist(data, rules.iter().map(|rule| rule.line), &diagnostics);
    for rule in &rules {
        assert!(!rule.fields.is_empty(), "{rule:?}");
        for field in &rule.fields {
            match field {
                HeaderField::Set { name, value } => assert!(is_field(name, value), "{rule:?}"),
                HeaderField::Remove { name } => assert!(is_field(name, ""), "{rule:?}"),
            }
        }
    }
    for path in PATHS {
        for (name, value) in headers::merge(&rules, None, path).fields {
            assert!(is_field(&name, &value), "{name}: {value}");
        }
    }
}

/// Returns `true` if the name is a token (RFC 9110 §5.6.2) and the value has no line break.
fn is_field(name: &str, value: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_token)
        && value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// Returns `true` for bytes that `Location` may contain.
fn is_one_word(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

fn lines_exist(data: &[u8], rules: impl Iterator<Item = u32>, diagnostics: &[Diagnostic]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    for line in rules.chain(diagnostics.iter().filter_map(|diagnostic| diagnostic.line)) {
        assert!((1..=lines).contains(&(line as usize)), "line {line} of {lines}");
    }
}
