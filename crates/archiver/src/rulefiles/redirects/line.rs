//! Parses a single line of `_redirects`.

use super::rule::{Action, Dialect};
use super::template::{Template, has_reference};
use crate::ground::rule_error::RuleError;
use crate::hosts::host::{after_scheme, split_host, starts_with_ignoring_case};
use crate::rulefiles::access_words;
use crate::rulefiles::pattern::{Pattern, PatternSyntax, refuse_odd_segments};
use crate::rulefiles::percent::{encode_for_location, is_unreserved, percent_decode, percent_encode};

/// Properties of the rule file.
pub(super) struct Context<'a> {
    pub(super) folder: &'a [u8],
    pub(super) dialect: Dialect,
}

/// The scheme of a source that has a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// A rule without its file and line.
pub(super) struct ParsedRule {
    /// Scheme in the source, which does not have any effect.
    pub(super) scheme: Option<Scheme>,
    pub(super) host: Option<String>,
    pub(super) source: Pattern,
    pub(super) action: Action,
    pub(super) force: bool,
    /// Set if a part of the line was ignored.
    pub(super) remark: Option<RuleError>,
}

struct Source {
    host: Option<String>,
    pattern: Pattern,
    /// Names of the captures, in order.
    names: Vec<String>,
}

impl Context<'_> {
    /// Parses a line. Returns `None` if it's empty or a comment.
    pub(super) fn parse_rule(&self, line: &str) -> Result<Option<ParsedRule>, RuleError> {
        let words: Vec<&str> = line
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let Some((&source, rest)) = words.split_first() else { return Ok(None) };

        // Recognize lines that were meant for other files or servers first. This allows us to give a helpful
        // message.
        refuse_field(line)?;
        refuse_access_control(rest)?;
        access_words::refuse_nested_field(line)?;
        // A line like `conditions = {Role = ["admin"]}` belongs to the rule above it.
        if !looks_like_target(source) {
            access_words::refuse_conditions(line)?;
        }
        refuse_quotes(&words)?;

        let Source { host, pattern, names } = self.parse_source(source)?;
        let (&target, rest) = rest.split_first().ok_or_else(|| {
            let message = "the line has no target; write `source target code`";
            RuleError::new("missing-target", message)
        })?;

        if !looks_like_target(target) && target.contains('=') {
            let message =
                format!("the condition `{target}` on the query is not supported, so the rule is ignored");
            return Err(RuleError::new("unsupported-condition", message));
        }

        let (status, force) = self.parse_code(rest)?;
        let (action, remark) = if matches!(status, 301 | 302 | 303 | 307 | 308) {
            (self.parse_redirect(status, target, &names)?, None)
        } else {
            self.parse_rewrite(status, target, &names)?
        };

        let scheme = if starts_with_ignoring_case(source.as_bytes(), b"http://") {
            Some(Scheme::Http)
        } else {
            starts_with_ignoring_case(source.as_bytes(), b"https://").then_some(Scheme::Https)
        };
        Ok(Some(ParsedRule { scheme, host, source: pattern, action, force, remark }))
    }

    fn parse_source(&self, text: &str) -> Result<Source, RuleError> {
        let syntax = PatternSyntax {
            splat_anywhere: self.dialect == Dialect::Cloudflare,
            placeholder_anywhere: self.dialect == Dialect::Cloudflare,
        };
        if let Some(rest) = text.strip_prefix("./").filter(|_| self.dialect == Dialect::Cannery) {
            let (pattern, names) = Pattern::parse(&self.resolve(rest), syntax)?;
            return Ok(Source { host: None, pattern, names });
        }

        let (host, path) = split_host(text)?;
        if host.is_some() && self.dialect == Dialect::Cloudflare {
            let message = "Cloudflare's dialect has no rules for one host; begin the source with `/`";
            return Err(RuleError::new("unsupported-source", message));
        }
        if host.is_some() && text.starts_with("://") && self.dialect == Dialect::Netlify {
            let message = "Netlify's dialect requires a scheme; begin the source with `https://`";
            return Err(RuleError::new("bad-source", message));
        }
        if host.is_none() && !path.starts_with('/') {
            let message = format!("the source `{text}` must begin with `/`, `./` or `https://`");
            return Err(RuleError::new("bad-source", message));
        }
        if !self.folder.is_empty() {
            let message =
                "only the rule file in the source root can have absolute sources; begin the source with `./`";
            return Err(RuleError::new("absolute-source", message));
        }

        let (pattern, names) = Pattern::parse(path, syntax)?;
        Ok(Source { host, pattern, names })
    }

    /// Parses whatever follows the target, that is, a status that may be followed by `!`.
    ///
    /// Returns the status, and `true` if the rule is forced.
    fn parse_code(&self, words: &[&str]) -> Result<(u16, bool), RuleError> {
        let (default, allowed): (u16, &[u16]) = match self.dialect {
            Dialect::Cannery | Dialect::Netlify => (301, &[200, 301, 302, 303, 307, 308, 404, 410]),
            Dialect::Cloudflare => (302, &[200, 301, 302, 303, 307, 308]),
        };
        let always_forced = self.dialect == Dialect::Cloudflare;

        let is_code = |word: &&&str| word.starts_with(|first: char| first.is_ascii_digit());
        let (code, conditions) = match words.split_first().filter(|(first, _)| is_code(first)) {
            Some((code, rest)) => (Some(*code), rest),
            None => (None, words),
        };
        if let Some(condition) = conditions.first() {
            return Err(if condition.contains('=') {
                let message = format!("the condition `{condition}` is not supported, so the rule is ignored");
                RuleError::new("unsupported-condition", message)
            } else {
                let message =
                    format!("`{condition}` is no code and no condition; write `source target code`");
                RuleError::new("bad-syntax", message)
            });
        }

        let Some(code) = code else { return Ok((default, always_forced)) };
        let (digits, force) = match code.strip_suffix('!').filter(|_| !always_forced) {
            Some(digits) => (digits, true),
            None => (code, always_forced),
        };
        let status = digits.parse::<u16>().ok().filter(|status| allowed.contains(status));
        let status = status.ok_or_else(|| {
            let allowed: Vec<String> = allowed.iter().map(u16::to_string).collect();
            RuleError::new(
                "unknown-code",
                format!("the code `{code}` is not supported; use one of {}", allowed.join(", ")),
            )
        })?;
        Ok((status, force))
    }

    fn parse_redirect(&self, status: u16, target: &str, names: &[String]) -> Result<Action, RuleError> {
        let target = self.absolute_target(target)?;
        if let Some(rest) = after_scheme(&target) {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            let is_port_alone = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
            if authority.is_empty() || authority.strip_prefix(':').is_some_and(is_port_alone) {
                return Err(RuleError::new("bad-target", "the target has no host"));
            }
            let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| is_port_alone(port));
            if port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().is_err()) {
                return Err(RuleError::new("bad-target", "the port of the target is greater than 65535"));
            }
            // User information is often used to disguise the host (RFC 9110 §4.2.4).
            if authority.contains('@') {
                return Err(RuleError::new(
                    "bad-target",
                    "the target contains user information, which a redirect must not; remove `user@`",
                ));
            }
            // A capture might contain user information or a port.
            if is_placeholder(authority, names) {
                let message = "a placeholder in the target's host is not supported, so the rule is ignored";
                return Err(RuleError::new("unsupported-target", message));
            }
        }

        let (rest, fragment) = split_at(&target, '#');
        let (address, query) = split_at(rest, '?');
        let parse = |text: &str| {
            Template::parse(text, names, |literal| encode_for_location(literal).map(String::into_bytes))
        };
        let fragment = match fragment {
            Some(text) if is_placeholder(text, names) => {
                let message =
                    "a placeholder in the target's fragment is not supported, so the rule is ignored";
                return Err(RuleError::new("unsupported-target", message));
            }
            Some(text) => Some(encode_for_location(text)?),
            None => None,
        };
        let query = query.map(parse).transpose()?;
        Ok(Action::Redirect { status, target: parse(address)?, query, fragment })
    }

    /// Parses the target of a rewrite.
    ///
    /// A remark is returned as well when a part of the target is ignored.
    fn parse_rewrite(
        &self,
        status: u16,
        target: &str,
        names: &[String],
    ) -> Result<(Action, Option<RuleError>), RuleError> {
        let target = self.absolute_target(target)?;
        if after_scheme(&target).is_some() {
            let message =
                format!("a {status} for a page of another origin would be a proxy, which is not supported");
            return Err(RuleError::new("unsupported-target", message));
        }
        let path = target.split(['?', '#']).next().unwrap_or(&target);
        refuse_odd_segments(path)?;
        let remark = (path.len() < target.len()).then(|| {
            RuleError::new("query-cut", "files have no query or fragment, so those of the target are ignored")
        });
        let path = Template::parse(path, names, |literal| percent_decode(literal.as_bytes()))?;
        Ok((Action::Rewrite { status, path }, remark))
    }

    /// Returns the target as an absolute path, or as a URL with a host.
    fn absolute_target(&self, text: &str) -> Result<String, RuleError> {
        if let Some(rest) = text.strip_prefix("./").filter(|_| self.dialect == Dialect::Cannery) {
            return Ok(self.resolve(rest));
        }
        if text.starts_with("://") && self.dialect == Dialect::Cannery {
            return Ok(text[1..].to_owned());
        }
        if text.starts_with('/') || after_scheme(text).is_some() {
            return Ok(text.to_owned());
        }
        let message = format!("the target `{text}` must begin with `/`, `./`, `http://` or `https://`");
        Err(RuleError::new("bad-target", message))
    }

    /// Converts a path relative to the rule file's folder to an absolute path.
    ///
    /// The folder is percent-encoded to make sure that it won't be mistaken for a pattern.
    fn resolve(&self, rest: &str) -> String {
        // `.//name` must remain a path, but `//name` would be a host.
        let rest = rest.trim_start_matches('/');
        if self.folder.is_empty() {
            return format!("/{rest}");
        }
        format!("/{}/{rest}", percent_encode(self.folder, |byte| is_unreserved(byte) || byte == b'/'))
    }
}

/// Rejects access control for other servers, and field lines that should be in `_headers`.
fn refuse_field(line: &str) -> Result<(), RuleError> {
    let line = line.trim();
    if looks_like_target(line) {
        return Ok(());
    }
    access_words::refuse_field(line)?;
    access_words::refuse_directive(line)?;
    let name = line.split_once(':').map_or("", |(name, _)| name.trim_end());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Ok(());
    }
    let message = format!("`{name}` is a response field, which belongs into `_headers`");
    Err(RuleError::new("bad-source", message))
}

/// Rejects fields, conditions and codes after a source if they would be access control elsewhere. There may be no
/// target.
fn refuse_access_control(words: &[&str]) -> Result<(), RuleError> {
    access_words::refuse_field_in(words)?;
    access_words::refuse_conditions(&words.join(" "))?;
    words.iter().take(2).try_for_each(|word| access_words::refuse_code(word))
}

/// Rejects lines with quoted words. These are common in configuration for other servers.
fn refuse_quotes(words: &[&str]) -> Result<(), RuleError> {
    let Some(word) = words.iter().find(|word| word.starts_with(['"', '\''])) else { return Ok(()) };
    let message = format!(
        "the quotes of `{word}` are not part of the syntax; write paths without quotes, and a space as %20"
    );
    Err(RuleError::new("bad-syntax", message))
}

/// Returns `true` if the word looks like a target rather than a condition.
fn looks_like_target(word: &str) -> bool {
    word.starts_with('/') || word.starts_with("./") || word.contains("://")
}

/// Whether the text contains a placeholder, or `:splat` even if there is no `*` in the source.
fn is_placeholder(text: &str, names: &[String]) -> bool {
    has_reference(text, names) || has_reference(text, &["splat".to_owned()])
}

/// Splits text at the first `mark`, which is not part of either half.
fn split_at(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}
