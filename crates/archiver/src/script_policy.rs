//! Finds rules with a `Content-Security-Policy` that blocks the script of previews.

use crate::diagnostic::{Diagnostic, Severity};
use crate::headers::{HeaderField, HeaderRule};

/// Returns a warning for each rule with a policy that forbids pages to load a script of their own origin, or to connect to it.
pub(crate) fn find(rules: &[HeaderRule]) -> Vec<Diagnostic> {
    const MESSAGE: &str = "pages with this `Content-Security-Policy` don't reload when the folder changes; permit \
                           `'self'` in `script-src` and `connect-src`, or use `--no-live-reload`";

    let blocking = rules.iter().filter(|rule| rule.fields.iter().any(is_blocking));
    let warning = |rule: &HeaderRule| Diagnostic {
        severity: Severity::Warning,
        file: rule.file.to_string(),
        line: Some(rule.line),
        code: "live-reload-blocked",
        message: MESSAGE.into(),
    };
    blocking.map(warning).collect()
}

fn is_blocking(field: &HeaderField) -> bool {
    match field {
        HeaderField::Set { name, value } if name == "content-security-policy" => {
            // Each of several policies applies (CSP Level 3 §2.2).
            value.split(',').any(|policy| !permits(policy))
        }
        _ => false,
    }
}

/// Returns `true` if a policy permits scripts and connections of the page's origin.
fn permits(policy: &str) -> bool {
    // The most specific directive counts (CSP Level 3 §6.8.3).
    is_permitted(policy, &["script-src-elem", "script-src", "default-src"])
        && is_permitted(policy, &["connect-src", "default-src"])
}

/// Returns `true` if the first of these directives that the policy has permits the page's origin, or if it has none.
fn is_permitted(policy: &str, directives: &[&str]) -> bool {
    let sources = directives.iter().find_map(|wanted| {
        policy.split(';').find_map(|directive| {
            let mut words = directive.split_ascii_whitespace();
            words.next()?.eq_ignore_ascii_case(wanted).then_some(words)
        })
    });
    let Some(sources) = sources else { return true };
    let has = |wanted: &str| sources.clone().any(|source| source.eq_ignore_ascii_case(wanted));
    // With 'strict-dynamic', origins don't count.
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
        let (rules, _) = crate::headers::parse(
            b"/a\n  Content-Security-Policy: default-src 'self', script-src 'none'\n/b\n  X-A: script-src 'none'\n",
            "_headers",
        );
        let found = find(&rules);
        assert_eq!((found.len(), found[0].line), (1, Some(1)));
    }
}
