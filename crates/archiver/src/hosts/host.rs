//! Hosts in rule files, for example in `https://example.org/path`.

use crate::ground::rule_error::RuleError;

/// Returns the part after `http://`, `https://` or `//`.
pub(crate) fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://", "//"].into_iter().find_map(|scheme| {
        let head = text.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

pub(crate) fn starts_with_ignoring_case(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Splits a source into its path and, if it begins with `http://host`, `https://host` or `://host`, its host.
pub(crate) fn split_host(text: &str) -> Result<(Option<String>, &str), RuleError> {
    let rest = match text.strip_prefix("://") {
        Some(rest) => rest,
        None if text.starts_with('/') => return Ok((None, text)),
        None => match after_scheme(text) {
            Some(rest) => rest,
            None => return Ok((None, text)),
        },
    };

    let slash = rest.find('/').unwrap_or(rest.len());
    let path = if slash == rest.len() { "/" } else { &rest[slash..] };
    Ok((Some(parse_host(&rest[..slash])?), path))
}

/// Same as [`split_host`], but labels such as `:project` are allowed and match any label.
pub(crate) fn split_host_pattern(text: &str) -> Result<(Option<String>, &str), RuleError> {
    let Some(rest) = text.strip_prefix("://").or_else(|| after_scheme(text)) else { return split_host(text) };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));

    let is_any = |label: &str| {
        label.starts_with(':') && label[1..].starts_with(|first: char| first.is_ascii_alphabetic())
    };
    if !authority.split('.').any(is_any) {
        return split_host(text);
    }

    // To validate the host, replace each placeholder with a name.
    let labels = authority.split('.').map(|label| if is_any(label) { "any" } else { label });
    let checked = parse_host(&labels.collect::<Vec<_>>().join("."))?;

    let labels = authority.split('.').zip(checked.split('.'));
    let labels: Vec<String> = labels
        .map(|(label, checked)| if is_any(label) { label.to_ascii_lowercase() } else { checked.to_owned() })
        .collect();
    Ok((Some(labels.join(".")), if path.is_empty() { "/" } else { path }))
}

/// Parses a host and converts it to lower case, without its port. `*.example.com` stands for all
/// hosts below `example.com`.
pub(crate) fn parse_host(authority: &str) -> Result<String, RuleError> {
    let host = match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..=end],
        _ => authority.split(':').next().unwrap_or(authority),
    };

    // The server ignores a final dot too.
    let host = host.strip_suffix('.').unwrap_or(host);

    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_literal =
        host.starts_with('[') && host[1..].bytes().all(|byte| is_host_byte(byte) || b":]".contains(&byte));
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_host_byte);
    if !is_literal && !is_name {
        let message = format!(
            "`{authority}` is not a valid host; write one name in ASCII (punycode), or `*.` and a name for all hosts below it"
        );
        return Err(RuleError::new("bad-host", message));
    }

    if is_too_deep(host) {
        let message = format!("`{authority}` has more than {WILDCARD_LABELS_MAX} labels after its `*.`");
        return Err(RuleError::new("bad-host", message));
    }
    Ok(host.to_ascii_lowercase())
}

/// Maximum number of labels in a wildcard. The server does not look up more.
const WILDCARD_LABELS_MAX: usize = 16;

/// Whether a wildcard has more labels than the server looks up.
pub(super) fn is_too_deep(host: &str) -> bool {
    host.strip_prefix("*.").is_some_and(|name| name.split('.').count() > WILDCARD_LABELS_MAX)
}

/// Returns `true` if a rule for the host `rule` applies to `host`.
///
/// Note that both of them may be wildcards.
pub(crate) fn covers(rule: &str, host: &str) -> bool {
    if !rule.contains(':') || rule.starts_with('[') {
        return rule == host || rule.strip_prefix('*').is_some_and(|name| host.ends_with(name));
    }
    let labels = || rule.split('.').zip(host.split('.'));
    rule.split('.').count() == host.split('.').count()
        && !host.starts_with('*')
        && labels().all(|(wanted, label)| wanted.starts_with(':') || wanted == label)
}

/// Returns all wildcards that cover a host, the longest first.
pub(crate) fn wildcards_of(host: &str) -> impl Iterator<Item = String> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    name.match_indices('.').map(|(dot, _)| format!("*{}", &name[dot..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_literals_and_wildcards() {
        for (authority, host) in [
            ("Example.com:8080", "example.com"),
            ("[::1]:80", "[::1]"),
            ("*.Example.com", "*.example.com"),
            ("EXAMPLE.com.:443", "example.com"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(parse_host(authority).unwrap(), host);
        }
        for authority in ["", "*", "*.", "*..a", ".a", "a.*.b", "*a.b", "*.[::1]", "ä.example"] {
            assert!(parse_host(authority).is_err(), "{authority}");
        }
    }

    #[test]
    fn wildcard_covers_all_hosts_below_a_name() {
        for host in ["a.example.com", "a.b.example.com", "*.example.com", "*.a.example.com"] {
            assert!(covers("*.example.com", host), "{host}");
        }
        for host in ["example.com", "aexample.com", "*.com", "example.com.org"] {
            assert!(!covers("*.example.com", host), "{host}");
        }
        assert!(covers("a.b", "a.b") && !covers("a.b", "c.a.b"));
    }

    #[test]
    fn longest_wildcard_comes_first() {
        let of = |host| wildcards_of(host).collect::<Vec<_>>();
        assert_eq!(of("a.b.c"), ["*.b.c", "*.c"]);
        assert_eq!(of("*.b.c"), ["*.c"]);
        assert!(of("localhost").is_empty());
    }
}
