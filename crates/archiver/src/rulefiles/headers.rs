//! Parser and semantics of `_headers`. The syntax is the same as for Netlify and Cloudflare Pages.
//!
//! ```text
//! /downloads/*
//!   Cache-Control: public, max-age=86400
//!   ! X-Frame-Options
//! ```
//!
//! A rule begins with a path, or with a URL if it is for a single host, followed by lines with its fields; `!` removes a field.
//! This module also decides which fields a site can set: some of them belong to the server, as a wrong value could break the
//! connection or a cache, so they are reported and ignored.
//!
//! # Merging rules
//!
//! All matching rules apply, in file order. Like both providers do, further values of the same name are appended with `, ` (RFC
//! 9110 §5.3), with some exceptions:
//!
//! - `Set-Cookie` values MUST NOT be joined, so there is a line for each of them (RFC 6265 §3).
//! - If only a single value is allowed for a field, the last rule wins. The general rule should therefore come first, followed
//!   by exceptions.
//! - `Cache-Control` is a mixture of both: lines in the same rule are joined to a list, but only the last rule's list is
//!   used, as two policies would contradict each other.
//!
//! `!` removes both the values of earlier rules and the server's default, after which the name may be
//! set again by later rules.

use std::collections::HashMap;
use std::sync::Arc;

use cannery_site::{is_caching_field, is_representation_field};

use crate::ground::diagnostic::Diagnostic;
use crate::ground::rule_error::{RuleError, readable_line};
use crate::hosts::host::{covers, split_host_pattern};
use crate::properties::precompressed;
use crate::rulefiles::access_words;
use crate::rulefiles::pattern::{Pattern, PatternSyntax, check_size, identifier};
use crate::rulefiles::percent::{is_unreserved, percent_encode};
use crate::rulefiles::redirects::has_reference;

/// Like Cloudflare, we allow one `*` anywhere. Like both providers, we require `:name` to be a whole
/// segment.
const SYNTAX: PatternSyntax = PatternSyntax { splat_anywhere: true, placeholder_anywhere: false };

/// A path in a header file with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// The header file as passed to [`parse`].
    pub file: Arc<str>,
    /// Line number of the path, starting at 1.
    pub line: u32,
    /// The host of the rule in lower case and without a port, or `None` if the rule is for all
    /// hosts.
    pub host: Option<String>,
    /// Matching paths.
    pub pattern: Pattern,
    /// Names of the captures in the pattern. Values can refer to them.
    pub names: Vec<String>,
    /// The rule's fields in order; never empty.
    pub fields: Vec<HeaderField>,
}

/// A field line of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderField {
    /// Adds a value.
    Set {
        /// Field name in lower case.
        name: String,
        /// The value, without white space at either end. It may contain tabs, but no other control characters.
        value: String,
    },
    /// Removes values set by earlier rules and the server's default.
    Remove {
        /// Field name in lower case.
        name: String,
    },
}

impl HeaderField {
    /// Returns the field name in lower case.
    pub fn name(&self) -> &str {
        match self {
            HeaderField::Set { name, .. } | HeaderField::Remove { name } => name,
        }
    }
}

/// The effect of all matching rules on a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedFields {
    /// Lower-case names and their values, in the order of their first occurrence. Except for `set-cookie`, names are unique.
    /// Values of `vary` are added to those of the server.
    pub fields: Vec<(String, String)>,
    /// Lower-case names that were removed and not set again, for which the server must omit its
    /// default as well.
    pub removed: Vec<String>,
}

impl HeaderRule {
    /// Adds a field line. If it continues a list in the same rule, its value is joined to the list (RFC
    /// 9110 §5.3).
    ///
    /// Returns a warning if the line replaces an earlier value.
    fn add(&mut self, field: HeaderField) -> Option<RuleError> {
        let HeaderField::Set { name, value } = &field else {
            self.fields.push(field);
            return None;
        };
        let last = self.fields.iter_mut().rev().find(|known| known.name() == name);

        match last {
            Some(HeaderField::Set { value: earlier, .. }) if name == "cache-control" => {
                earlier.push_str(", ");
                earlier.push_str(value);
                None
            }
            Some(HeaderField::Set { value: earlier, .. }) if is_single_valued(name) => {
                let message = format!(
                    "`{name}` has a single value, and this line replaces `{earlier}` of a line above; remove one of the two"
                );
                value.clone_into(earlier);
                Some(RuleError::new("header-twice", message))
            }
            _ => {
                self.fields.push(field);
                None
            }
        }
    }

    /// Rejects values that refer to a part of the host.
    ///
    /// We do not support these, because the fields of a path are only stored once.
    fn refuse_host_reference(&self, field: HeaderField) -> Result<HeaderField, RuleError> {
        let host = self.host.as_deref().unwrap_or_default();
        let names: Vec<String> =
            host.split('.').filter_map(|label| label.strip_prefix(':')).map(str::to_owned).collect();
        match &field {
            HeaderField::Set { name, value } if !names.is_empty() && has_reference(value, &names) => {
                let message = format!(
                    "`{name}` contains a placeholder for a part of the host, which is not supported, so it is ignored"
                );
                Err(RuleError::new("header-placeholder", message))
            }
            _ => Ok(field),
        }
    }

    /// Returns `true` if a value refers to a capture, so that it can only be computed for known paths.
    pub(crate) fn is_reference(&self, field: &HeaderField) -> bool {
        matches!(field, HeaderField::Set { value, .. } if has_reference(value, &self.names))
    }

    /// Replaces references in a value with captures of the path, percent-encoded as in a URL.
    fn expand(&self, value: &str, path: &[u8]) -> String {
        let Some(captures) = self.pattern.captures(path) else { return value.to_owned() };
        let mut expanded = String::new();
        let mut rest = value;

        while let Some(colon) = rest.find(':') {
            let (before, after) = rest.split_at(colon);
            expanded.push_str(before);
            let name = identifier(&after[1..]);

            let capture = self.names.iter().position(|known| known == name).map(|number| captures[number]);
            match capture {
                Some(capture) => {
                    expanded.push_str(&percent_encode(capture, |byte| is_unreserved(byte) || byte == b'/'));
                    rest = &after[1 + name.len()..];
                }
                None => {
                    // Not a reference, so the colon belongs to the value.
                    expanded.push(':');
                    rest = &after[1..];
                }
            }
        }
        expanded + rest
    }

    /// Returns `true` if the rule applies to this percent-decoded path on this host (in lower case, without a port).
    ///
    /// `None` means that the host is unknown. If so, only rules for all hosts apply.
    pub fn matches(&self, host: Option<&str>, path: &[u8]) -> bool {
        let is_for = |rule: &String| host.is_some_and(|host| covers(rule, host));
        self.host.as_ref().is_none_or(is_for) && self.pattern.matches(path)
    }
}

/// Merges all rules that apply, as described at the top of this module.
pub fn merge(rules: &[HeaderRule], host: Option<&str>, path: &[u8]) -> MergedFields {
    merge_all(rules.iter().filter(|rule| rule.matches(host, path)), path)
}

/// Merges only rules for exactly this path.
pub(crate) fn merge_exact(rules: &[HeaderRule], host: Option<&str>, path: &[u8]) -> MergedFields {
    merge_all(rules.iter().filter(|rule| rule.pattern.is_static() && rule.matches(host, path)), path)
}

/// Merges the rules for a path that is a listing, or at which a `_redirects` rule shows another
/// file.
///
/// Fields about the content are taken from the file, unless they are set or removed by a rule for exactly
/// this path.
pub(crate) fn merge_for_rewrite(
    rules: &[HeaderRule],
    host: Option<&str>,
    path: &[u8],
    own: &MergedFields,
) -> MergedFields {
    let mut merged = merge(rules, host, path);
    merged.retain(|name| !is_about_content(name));

    let mut exact = merge_exact(rules, host, path);
    exact.retain(is_about_content);
    let is_exact = |name: &str| {
        exact.fields.iter().any(|(known, _)| known == name) || exact.removed.iter().any(|known| known == name)
    };

    let mut own = own.clone();
    own.retain(|name| !is_exact(name));

    for part in [own, exact] {
        merged.fields.extend(part.fields);
        merged.removed.extend(part.removed);
    }
    merged
}

/// Merges fields with values that refer to this path.
///
/// The server is not able to compute these: if there are rules for single hosts, it gets the head without rules. Names that are
/// set or removed by another rule are left to the server.
pub(crate) fn merge_references(rules: &[HeaderRule], host: Option<&str>, path: &[u8]) -> MergedFields {
    let mut merged = MergedFields::default();
    if !rules.iter().any(|rule| rule.host.is_some()) {
        return merged;
    }

    for rule in rules.iter().filter(|rule| rule.matches(host, path)) {
        for field in rule.fields.iter().filter(|field| rule.is_reference(field)) {
            if let HeaderField::Set { name, value } = field {
                merged.set(name, &rule.expand(value, path));
            }
        }
    }

    if !merged.is_empty() {
        let matching = rules.iter().filter(|rule| rule.pattern.matches(path));
        let constant: Vec<&str> = matching
            .flat_map(|rule| rule.fields.iter().filter(|field| !rule.is_reference(field)))
            .map(HeaderField::name)
            .collect();
        merged.retain(|name| !constant.contains(&name));
    }
    merged
}

/// Returns `true` if there is a rule for exactly this path, on any host, that sets or removes a
/// field.
pub(crate) fn is_named_exactly(rules: &[HeaderRule], path: &[u8], name: &str) -> bool {
    let names = |rule: &HeaderRule| rule.fields.iter().any(|field| field.name() == name);
    rules.iter().any(|rule| rule.pattern.is_static() && rule.pattern.matches(path) && names(rule))
}

/// Returns `true` for fields that are about the content being sent, i.e. what it is and how it should
/// be cached.
pub(crate) fn is_about_content(name: &str) -> bool {
    is_caching_field(name.as_bytes()) || is_representation_field(name.as_bytes())
}

fn merge_all<'r>(rules: impl Iterator<Item = &'r HeaderRule>, path: &[u8]) -> MergedFields {
    let mut merged = MergedFields::default();
    for rule in rules {
        for field in &rule.fields {
            match field {
                HeaderField::Set { name, value } if rule.is_reference(field) => {
                    merged.set(name, &rule.expand(value, path));
                }
                HeaderField::Set { name, value } => merged.set(name, value),
                HeaderField::Remove { name } => merged.remove(name),
            }
        }
    }
    merged
}

impl MergedFields {
    /// Returns `true` if the rules do not change anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.removed.is_empty()
    }

    /// Only keeps fields with these names.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.fields.retain(|(name, _)| is_kept(name));
        self.removed.retain(|name| is_kept(name));
    }

    fn set(&mut self, name: &str, value: &str) {
        self.removed.retain(|removed| removed != name);
        let existing =
            self.fields.iter_mut().find(|(known, _)| known == name).filter(|_| name != "set-cookie");
        match existing {
            None => self.fields.push((name.to_owned(), value.to_owned())),
            Some((_, old)) if is_single_valued(name) => value.clone_into(old),
            Some((_, old)) => {
                old.push_str(", ");
                old.push_str(value);
            }
        }
    }

    fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| known != name);
        if !self.removed.iter().any(|removed| removed == name) {
            self.removed.push(name.to_owned());
        }
    }
}

/// Fields that can only have a single value. The last rule wins.
const SINGLE_VALUED: [&str; 21] = [
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-max-age",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-location",
    "content-type",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "expires",
    "origin-agent-cluster",
    "referrer-policy",
    "refresh",
    "retry-after",
    "service-worker-allowed",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "x-xss-protection",
];

pub(crate) fn is_single_valued(name: &str) -> bool {
    SINGLE_VALUED.contains(&name)
}

/// Says how a file is already encoded. Such files will be decoded by the archiver (see [`precompressed`]).
pub(crate) const CONTENT_ENCODING: &str = "content-encoding";

/// Fields that belong to the server, with the reasons.
const OWNED: [(&str, &str); 20] = [
    ("accept-ranges", "the server states whether it serves ranges"),
    ("age", "only a cache knows it"),
    ("allow", "the server states which methods it answers"),
    ("alt-svc", "it depends on the addresses that the server listens on"),
    ("connection", "it concerns the connection and not the page"),
    ("content-length", "it is measured"),
    ("content-range", "it depends on the request"),
    ("date", "it is the time of the response"),
    ("etag", "it is made from the content"),
    ("host", "it is a field of requests"),
    ("keep-alive", "it concerns the connection and not the page"),
    ("last-modified", "it is made by the server"),
    ("location", "it belongs to redirects; write a rule in _redirects"),
    ("proxy-connection", "it concerns the connection and not the page"),
    ("server", "it names the program that answers"),
    ("status", "it is no field; write a rule in _redirects"),
    ("te", "it concerns the connection and not the page"),
    ("trailer", "no response has trailers"),
    ("transfer-encoding", "it concerns the connection and not the page"),
    ("upgrade", "it concerns the connection and not the page"),
];

/// Fields that other servers send but ours never does.
const NEVER_SENT: [&str; 6] = ["age", "keep-alive", "server", "status", "via", "x-powered-by"];

/// Parses a header file. `file` is its name in diagnostics.
///
/// Returns the rules in file order, and a diagnostic for each line without effect.
pub fn parse(text: &[u8], file: &str) -> (Vec<HeaderRule>, Vec<Diagnostic>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut parser = Parser {
        file,
        name: file.into(),
        rules: Vec::new(),
        known: HashMap::new(),
        block: Block::None,
        diagnostics: Vec::new(),
    };

    for (line, bytes) in (1u32..).zip(text.split(|&byte| byte == b'\n')) {
        if let Err(error) = readable_line(bytes).and_then(|text| parser.take_line(line, text)) {
            parser.diagnostics.push(error.at(file, line));
        }
    }

    parser.finish_block();
    parser.diagnostics.sort_by_key(|diagnostic| diagnostic.line);
    (parser.rules, parser.diagnostics)
}

struct Parser<'a> {
    file: &'a str,
    /// The file name again, shared by all rules.
    name: Arc<str>,
    rules: Vec<HeaderRule>,
    /// Index of the last rule with this host and pattern.
    known: HashMap<(Option<String>, Pattern), usize>,
    block: Block,
    diagnostics: Vec<Diagnostic>,
}

/// The rule that following field lines belong to.
enum Block {
    /// There has not been a path yet.
    None,
    /// The path was rejected. We have already reported this, so there is no need to report its fields too.
    Refused,
    /// An unfinished rule. `has_dropped` is set if one of its fields was rejected and has already
    /// been reported.
    Open { rule: HeaderRule, has_dropped: bool },
}

impl Parser<'_> {
    fn take_line(&mut self, line: u32, text: &str) -> Result<(), RuleError> {
        let content = text.trim();
        if content.is_empty() || content.starts_with('#') {
            return Ok(());
        }

        // Like Netlify and Cloudflare, we ignore indentation. This is safe because field names do not contain
        // slashes.
        if is_path(content) {
            return self.open_block(line, content);
        }
        // For example, the file may be JSON.
        if !content.starts_with('!') {
            access_words::refuse_nested_field(content)?;
        }
        if let Some(error) = misplaced(content) {
            self.finish_block();
            self.block = Block::Refused;
            return Err(error);
        }

        match &mut self.block {
            Block::None => {
                refuse_access_control(content)?;
                let message = if content.contains(':') || content.starts_with('!') {
                    "this field has no path; write the path that it is for on a line above it".to_owned()
                } else {
                    format!("`{content}` is neither a path, which begins with `/`, nor a field `Name: value`")
                };
                Err(RuleError::new("header-without-path", message))
            }
            // While the field is ignored anyway, users need to know that the path will not be
            // protected.
            Block::Refused => refuse_access_control(content),
            Block::Open { rule, has_dropped } => {
                let field = parse_field(content)
                    .and_then(|field| rule.refuse_host_reference(field))
                    .inspect_err(|_| *has_dropped = true)?;
                rule.add(field).map_or(Ok(()), Err)
            }
        }
    }

    fn open_block(&mut self, line: u32, text: &str) -> Result<(), RuleError> {
        self.finish_block();
        self.block = Block::Refused;
        let (host, pattern, names) = parse_path(text).map_err(|error| {
            let message = format!("{}; the fields below it are ignored", error.message);
            RuleError { message, ..error }
        })?;
        let rule =
            HeaderRule { file: Arc::clone(&self.name), line, host, pattern, names, fields: Vec::new() };
        self.block = Block::Open { rule, has_dropped: false };
        Ok(())
    }

    fn finish_block(&mut self) {
        let Block::Open { rule, has_dropped } = std::mem::replace(&mut self.block, Block::None) else {
            return;
        };
        if !rule.fields.is_empty() {
            let key = (rule.host.clone(), rule.pattern.clone());
            if let Some(earlier) = self.known.insert(key, self.rules.len())
                && let Some(error) = overridden(&self.rules[earlier], &rule)
            {
                self.diagnostics.push(error.at(self.file, rule.line));
            }
            self.rules.push(rule);
        } else if !has_dropped {
            let error =
                RuleError::new("header-rule-empty", "no field follows this path, so it has no effect");
            self.diagnostics.push(error.at(self.file, rule.line));
        }
    }
}

/// Warns when a rule sets a single-valued field that was already set by an earlier rule for the same path.
fn overridden(earlier: &HeaderRule, rule: &HeaderRule) -> Option<RuleError> {
    let is_set = |rule: &HeaderRule, name: &str| {
        let last = rule.fields.iter().rev().find(|field| field.name() == name);
        matches!(last, Some(HeaderField::Set { .. }))
    };
    let first_is_set = |field: &&HeaderField| {
        let first = rule.fields.iter().find(|other| other.name() == field.name());
        matches!(first, Some(HeaderField::Set { .. }))
    };
    let single = |field: &&HeaderField| is_single_valued(field.name());
    let twice =
        rule.fields.iter().filter(single).filter(first_is_set).find(|field| is_set(earlier, field.name()))?;

    let message = format!(
        "`{}` is set for the same path at line {}, and the last value counts; remove one of the two",
        twice.name(),
        earlier.line
    );
    Some(RuleError::new("header-twice", message))
}

/// Whether the line is a path. Field names must not begin with `/` or contain `//`.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '*'])
        || text.contains("://") && !text.split("://").next().unwrap_or("").contains([' ', ':'])
}

/// Creates an error for lines that are neither a path nor a field, e.g. a `_redirects` rule, or a path without its first slash
/// such as `blog/*`.
fn misplaced(text: &str) -> Option<RuleError> {
    let is_field = text.starts_with('!') || text.contains(':') && !text.split(':').next()?.contains('/');
    if is_field || text.contains([' ', '\t']) || !text.contains(['/', '*']) {
        return None;
    }
    let message = format!("the path `{text}` must begin with `/`; the fields below it are ignored");
    Some(RuleError::new("bad-source", message))
}

/// Rejects access control in fields outside any rule.
fn refuse_access_control(text: &str) -> Result<(), RuleError> {
    access_words::refuse_field(text)?;
    access_words::refuse_directive(text)?;
    access_words::refuse_nested_field(text)
}

/// Returns the host, the pattern, and the names of captures.
fn parse_path(text: &str) -> Result<(Option<String>, Pattern, Vec<String>), RuleError> {
    let (host, path) = split_host_pattern(text)?;
    if !path.starts_with('/') {
        let message = format!("the path `{path}` must begin with `/` or `https://`");
        return Err(RuleError::new("bad-source", message));
    }
    if let Some((_, rest)) = path.split_once([' ', '\t']) {
        let mut words = rest.split_ascii_whitespace();
        access_words::refuse_conditions(rest)?;
        let fields: Vec<&str> = words.clone().collect();
        access_words::refuse_field_in(&fields)?;
        if words.next().is_some_and(|word| word.starts_with('/') || word.contains("://")) {
            words.next().map_or(Ok(()), access_words::refuse_code)?;
            let message = "this line is a redirect, which belongs into `_redirects`";
            return Err(RuleError::new("bad-source", message));
        }
        return Err(RuleError::new("bad-source", "a path contains no space; write it as %20"));
    }

    let (pattern, names) = Pattern::parse(path, SYNTAX)?;
    check_size(&pattern)?;
    Ok((host, pattern, names))
}

fn parse_field(text: &str) -> Result<HeaderField, RuleError> {
    if let Some(name) = text.strip_prefix('!') {
        let name = name.trim();
        if NEVER_SENT.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let message = format!("the server never sends `{name}`, so there is nothing to remove");
            return Err(RuleError::note("header-never-sent", message));
        }
        return Ok(HeaderField::Remove { name: parse_name(name)? });
    }
    access_words::refuse_field(text)?;
    let Some((name, value)) = text.split_once(':') else {
        access_words::refuse_directive(text)?;
        let message = format!("`{text}` is not a field; write `Name: value`, or `! Name` to remove one");
        return Err(RuleError::new("bad-header", message));
    };

    // While RFC 9112 §5.1 forbids white space before the colon in a message, both providers accept it in this
    // file.
    let name = parse_name(name.trim_end())?;
    let value = value.trim();
    if value.is_empty() {
        let message = format!("`{name}` has no value; to remove a field write `! {name}`");
        return Err(RuleError::new("bad-header", message));
    }
    if name == CONTENT_ENCODING {
        let value = value.to_ascii_lowercase();
        if value == "identity" {
            let message = "files aren't compressed in themselves, so this line changes nothing";
            return Err(RuleError::note("header-never-sent", message));
        }
        if precompressed::coding_of(&value).is_none() {
            let message = format!(
                "`{value}` is none of the codings br, gzip and zstd, and this line can only state how a file is compressed \
                 already: the coding of a response is negotiated for each request"
            );
            return Err(RuleError::new("header-not-yours", message));
        }
        return Ok(HeaderField::Set { name, value });
    }
    Ok(HeaderField::Set { name, value: value.to_owned() })
}

/// Parses a field name (RFC 9110 §5.1), checks that it may be used by sites, and returns it in
/// lower case.
fn parse_name(text: &str) -> Result<String, RuleError> {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token_byte) {
        let message = format!("`{text}` is not a valid field name (RFC 9110 §5.1)");
        return Err(RuleError::new("bad-header", message));
    }
    let name = text.to_ascii_lowercase();
    match OWNED.iter().find(|(owned, _)| *owned == name) {
        None => Ok(name),
        Some((_, reason)) => {
            let message = format!("`{text}` can be set by the server only: {reason}");
            Err(RuleError::new("header-not-yours", message))
        }
    }
}

#[cfg(test)]
mod tests;
