//! Finds each `Content-Security-Policy` in rules and pages that would block the preview script.

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::rulefiles::headers::{HeaderField, HeaderRule};

/// Why the script has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The page is not allowed to load a script from its own origin, or to connect to it.
    Sources,
    /// The page may not run scripts, or has another origin.
    Sandbox,
}

impl Obstacle {
    fn message(self) -> String {
        let remedy = match self {
            Obstacle::Sources => "permit `'self'` in `script-src` and `connect-src`",
            Obstacle::Sandbox => "permit `allow-scripts` and `allow-same-origin` in `sandbox`",
        };
        format!(
            "pages with this `Content-Security-Policy` don't reload when the folder changes; {remedy}, or use `--no-live-reload`"
        )
    }
}

/// Warns about each rule with a policy that blocks the script.
pub(super) fn find(rules: &[HeaderRule]) -> Vec<Diagnostic> {
    let warning = |rule: &HeaderRule| {
        let obstacle = rule.fields.iter().find_map(obstacle)?;
        Some(Diagnostic {
            severity: Severity::Warning,
            file: rule.file.to_string(),
            line: Some(rule.line),
            code: "live-reload-blocked",
            message: obstacle.message(),
        })
    };
    rules.iter().filter_map(warning).collect()
}

/// Warns if a policy in a page's `<meta>` element blocks the script.
pub(crate) fn in_page(path: &[u8], line: u32, policy: &[u8]) -> Option<Diagnostic> {
    // `sandbox` does not work in there (CSP Level 3 §3.3).
    let obstacle = (!permits(&String::from_utf8_lossy(policy))).then_some(Obstacle::Sources)?;
    Some(Diagnostic::warning(path, "live-reload-blocked-by-page", obstacle.message()).at_line(line))
}

fn obstacle(field: &HeaderField) -> Option<Obstacle> {
    match field {
        HeaderField::Set { name, value } if name == "content-security-policy" => {
            // If there are several policies, all of them apply (CSP Level 3 §2.2).
            let obstacle = |policy| {
                if !permits(policy) {
                    Some(Obstacle::Sources)
                } else if is_sandboxed(policy) {
                    Some(Obstacle::Sandbox)
                } else {
                    None
                }
            };
            value.split(',').find_map(obstacle)
        }
        _ => None,
    }
}

/// Whether a policy sandboxes the page without scripts, or in another origin.
fn is_sandboxed(policy: &str) -> bool {
    let Some(flags) = words_of(policy, "sandbox") else { return false };
    let has = |wanted: &str| flags.clone().any(|flag| flag.eq_ignore_ascii_case(wanted));
    !(has("allow-scripts") && has("allow-same-origin"))
}

/// Returns the words of the first directive that has this name.
fn words_of<'p>(policy: &'p str, wanted: &str) -> Option<std::str::SplitAsciiWhitespace<'p>> {
    policy.split(';').find_map(|directive| {
        let mut words = directive.split_ascii_whitespace();
        words.next()?.eq_ignore_ascii_case(wanted).then_some(words)
    })
}

/// Returns `true` if a policy permits scripts and connections from the page's own origin.
fn permits(policy: &str) -> bool {
    // Only the most specific directive counts (CSP Level 3 §6.8.3).
    is_permitted(policy, &["script-src-elem", "script-src", "default-src"])
        && is_permitted(policy, &["connect-src", "default-src"])
}

/// Looks for the first of these directives in the policy.
///
/// Returns `true` if it permits the page's origin, or if there is no such directive.
fn is_permitted(policy: &str, directives: &[&str]) -> bool {
    let sources = directives.iter().find_map(|wanted| words_of(policy, wanted));
    let Some(sources) = sources else { return true };
    let has = |wanted: &str| sources.clone().any(|source| source.eq_ignore_ascii_case(wanted));
    // With 'strict-dynamic', origins do not count.
    (has("'self'") || has("*") || has("http:")) && !has("'strict-dynamic'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_judged_by_their_most_specific_directive() {
        for policy in [
            "",
            "img-src 'none'",
            "default-src 'self'",
            "Default-Src 'none'; SCRIPT-SRC 'SELF'; connect-src *",
            "script-src 'self' 'nonce-a'; connect-src http:",
        ] {
            assert!(permits(policy), "{policy}");
        }
        for policy in [
            "default-src 'none'",
            "default-src 'self'; connect-src 'none'",
            "default-src 'self'; script-src",
            "script-src 'nonce-a'",
            "script-src 'self' 'strict-dynamic'",
            "script-src 'self'; script-src-elem https://cdn.example",
        ] {
            assert!(!permits(policy), "{policy}");
        }
    }

    #[test]
    fn each_policy_of_a_rule_counts() {
        let (rules, _) = crate::rulefiles::headers::parse(
            b"/a\n  Content-Security-Policy: default-src 'self', script-src 'none'\n/b\n  X-A: script-src 'none'\n",
            "_headers",
        );
        let found = find(&rules);
        assert_eq!((found.len(), found[0].line), (1, Some(1)));
    }

    #[test]
    fn sandbox_must_permit_scripts_of_the_origin() {
        let obstacle_of = |value: &str| {
            let field = HeaderField::Set { name: "content-security-policy".into(), value: value.into() };
            obstacle(&field)
        };
        assert_eq!(obstacle_of("sandbox"), Some(Obstacle::Sandbox));
        assert_eq!(obstacle_of("img-src *; Sandbox allow-scripts"), Some(Obstacle::Sandbox));
        assert_eq!(obstacle_of("sandbox allow-same-origin"), Some(Obstacle::Sandbox));
        assert_eq!(obstacle_of("sandbox allow-forms allow-same-origin ALLOW-SCRIPTS"), None);
        assert_eq!(obstacle_of("sandbox; default-src 'none'"), Some(Obstacle::Sources));
    }

    #[test]
    fn policy_in_a_page_has_a_line() {
        let warning = in_page(b"a.html", 3, b"default-src 'none'").unwrap();
        assert_eq!((warning.file.as_str(), warning.line), ("a.html", Some(3)));
        assert_eq!(in_page(b"a.html", 3, b"sandbox; default-src 'self'"), None);
    }
}
