//! Patterns of host names.

/// A host, or all hosts below a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// The name in lower case. For a wildcard, this is without the `*.`.
    name: String,
    wildcard: bool,
}

impl HostPattern {
    /// Parses `example.com`, `*.example.com` or an IP literal. Returns `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<HostPattern> {
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_literal = name.starts_with('[') && name.ends_with(']');
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = !name.is_empty()
            && (is_literal && !wildcard || name.bytes().all(is_part) && !name.starts_with(['.', '-']));
        is_name.then(|| HostPattern { name: name.trim_end_matches('.').to_ascii_lowercase(), wildcard })
    }

    /// Measures how specific the match with `host` is. Exact matches have the largest value, and `None`
    /// means that it does not match. `host` may have any case, but must not contain a port or a final
    /// dot.
    #[must_use]
    pub fn specificity(&self, host: &[u8]) -> Option<usize> {
        let name = self.name.as_bytes();
        if !self.wildcard {
            return host.eq_ignore_ascii_case(name).then_some(usize::MAX);
        }
        let (below, end) = host.split_at_checked(host.len().checked_sub(name.len())?)?;
        let is_below = below.len() > 1 && below.ends_with(b".") && end.eq_ignore_ascii_case(name);
        is_below.then_some(name.len())
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_host_is_closest_then_longest_wildcard() {
        let specificity =
            |pattern: &str, host: &str| HostPattern::parse(pattern).unwrap().specificity(host.as_bytes());
        assert_eq!(specificity("example.com", "EXAMPLE.com"), Some(usize::MAX));
        assert_eq!(specificity("example.com", "www.example.com"), None);
        assert!(
            specificity("*.example.com", "a.b.example.com")
                < specificity("*.b.example.com", "a.b.example.com")
        );
        assert_eq!(specificity("*.example.com", "example.com"), None);
        assert_eq!(specificity("*.example.com", ".example.com"), None);
        assert_eq!(specificity("*.example.com", "badexample.com"), None);
        assert_eq!(specificity("[::1]", "[::1]"), Some(usize::MAX));
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        for text in ["", "*.", "*", "a b", "/srv/site.cdb", "a/b", "-a", ".a", "a*.b", "[::1"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
