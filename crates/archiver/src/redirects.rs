//! `_redirects` -> rules, in one of three dialects.
//!
//! A rule is taken whole or dropped whole: what cannot be honoured (a condition on the query or
//! the visitor, a proxy to another origin) is reported with its line, never applied by half.
//! This file reads no other file, so it does not know which paths exist; it never answers a
//! request either, though [`Pattern::captures`] says what a server's matcher has to agree with.
//!
//! | dialect | code if none is given | beats a file | `*` | `:name` begins |
//! |---|---|---|---|---|
//! | Cannery | 301 | with `!` | last | a segment |
//! | Netlify | 301 | with `!` | last | a segment |
//! | Cloudflare | 302 | always | once, anywhere | anywhere |
//!
//! Cannery's dialect is Netlify's and more: sources and targets such as `./old`, relative to the
//! folder of the rule file, and `://host/path` for one host under either scheme. A first line
//! `# dialect: cloudflare` states another dialect for its file. In all dialects the first rule
//! that matches decides, so a rule that an earlier one covers is reported.

use std::collections::HashMap;
use std::fmt::Write;

use crate::diagnostic::Diagnostic;

/// Longer lines are refused: no target of that length survives the limits that clients and
/// intermediaries put on a field.
const LINE_BYTES_MAX: usize = 4096;

/// Whose grammar a rule file follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Netlify's grammar, relative paths, and sources for one host without a scheme.
    #[default]
    Cannery,
    /// Netlify's grammar, as far as it depends on nothing but the path and the host.
    Netlify,
    /// Cloudflare Pages' grammar.
    Cloudflare,
}

/// One line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectRule {
    /// The rule file, as it was handed to [`parse`].
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The one host that the rule is for, in lower case and without a port; `None` for all.
    pub host: Option<String>,
    /// Which paths it matches.
    pub source: Pattern,
    /// What it does.
    pub action: Action,
    /// Whether it also applies where a file exists.
    pub force: bool,
}

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the client elsewhere (RFC 9110 §15.4).
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Where to, in URL spelling: `/path`, `//host/path` or `https://host/path`, without
        /// query and fragment. A capture must be percent-encoded when it is filled in, and one
        /// that would make a path begin with `//` must not: it would name another host.
        target: Template,
        /// The target's own query, without `?`. Where there is none, the request's is kept.
        query: Option<String>,
        /// The target's own fragment, without `#`.
        fragment: Option<String>,
    },
    /// Answers with another resource of the same site.
    Rewrite {
        /// 200, 404 or 410.
        status: u16,
        /// The path of that resource, percent-decoded.
        path: Template,
    },
}

/// Which paths a rule matches: percent-decoded bytes, from the first `/` to the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// At least one piece; the first is a literal that begins with `/`. At most one splat, and
    /// behind it at most one literal.
    pub pieces: Vec<PatternPiece>,
}

/// A piece of a pattern. The pieces that are no literal are captures, numbered from 0 in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatternPiece {
    /// These bytes, percent-decoded.
    Literal(Vec<u8>),
    /// One or more bytes up to the next `/` or the end.
    Placeholder,
    /// Any bytes, also none, up to the literal behind it or the end.
    Splat,
}

/// Text with holes to be filled with what a pattern has captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The pieces in order.
    pub pieces: Vec<TemplatePiece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// These bytes.
    Literal(Vec<u8>),
    /// The capture of this number.
    Capture(u8),
}

/// Reads a rule file. `file` is its path for diagnostics, `folder` the path of the folder it
/// lies in, relative to the source root and empty there.
///
/// Rules come in the order of their lines. A line that yields none is in the diagnostics, which
/// also hold remarks about rules that were kept.
pub fn parse(
    text: &[u8],
    file: &str,
    folder: &[u8],
    dialect: Dialect,
) -> (Vec<RedirectRule>, Vec<Diagnostic>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut diagnostics = Vec::new();
    let dialect = match stated_dialect(text) {
        Some(Ok(stated)) => stated,
        Some(Err(fault)) => {
            diagnostics.push(fault.at(file, 1));
            dialect
        }
        None => dialect,
    };
    let mut parser = Parser {
        context: Context { folder, dialect },
        file,
        rules: Vec::new(),
        seen: HashMap::new(),
        patterns: Vec::new(),
        diagnostics,
    };
    for (line, bytes) in (1u32..).zip(text.split(|&byte| byte == b'\n')) {
        parser.take_line(line, bytes);
    }
    parser.report_loops();
    parser.diagnostics.sort_by_key(|diagnostic| diagnostic.line);
    (parser.rules, parser.diagnostics)
}

/// What the first line says about the dialect, if it says anything.
fn stated_dialect(text: &[u8]) -> Option<Result<Dialect, Fault>> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let comment = std::str::from_utf8(line).ok()?.trim().strip_prefix('#')?;
    let name = comment.trim_start().strip_prefix("dialect:")?.trim();
    Some(match name.to_ascii_lowercase().as_str() {
        "cannery" => Ok(Dialect::Cannery),
        "netlify" => Ok(Dialect::Netlify),
        "cloudflare" => Ok(Dialect::Cloudflare),
        _ => Err(Fault::new(
            "unknown-dialect",
            format!("`{name}` is no dialect; write cannery, netlify or cloudflare"),
        )),
    })
}

/// Why a line yields no rule. It becomes a diagnostic where file and line are known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }

    pub(crate) fn at(self, file: &str, line: u32) -> Diagnostic {
        Diagnostic::warning(file.as_bytes(), self.code, self.message).at_line(line)
    }
}

/// What all lines of a file share.
struct Context<'a> {
    folder: &'a [u8],
    dialect: Dialect,
}

struct Parser<'a> {
    context: Context<'a>,
    file: &'a str,
    rules: Vec<RedirectRule>,
    /// The rules by what they match. Two may match the same if only the second is forced.
    seen: HashMap<(Option<String>, Pattern), Vec<usize>>,
    /// The rules whose pattern has captures, which alone can cover a pattern other than their own.
    patterns: Vec<usize>,
    diagnostics: Vec<Diagnostic>,
}

impl Parser<'_> {
    fn take_line(&mut self, line: u32, bytes: &[u8]) {
        let parsed = readable_line(bytes).and_then(|text| self.context.parse_rule(text));
        let outcome = match parsed {
            Ok(None) => return,
            Ok(Some((parts, remark))) => {
                self.diagnostics.extend(remark.map(|remark| remark.at(self.file, line)));
                let Parts { host, source, action, force } = parts;
                self.keep(RedirectRule { file: self.file.to_owned(), line, host, source, action, force })
            }
            Err(fault) => Err(fault),
        };
        if let Err(fault) = outcome {
            self.diagnostics.push(fault.at(self.file, line));
        }
    }

    /// Adds a rule unless it would never apply or never end.
    fn keep(&mut self, rule: RedirectRule) -> Result<(), Fault> {
        refuse_self_loop(&rule)?;
        let key = (rule.host.clone(), rule.source.clone());
        // An earlier rule that yields to files leaves a forced one those paths where files are.
        let beats = |earlier: &RedirectRule| earlier.force || !rule.force;
        let same = self.seen.get(&key).into_iter().flatten().map(|&index| &self.rules[index]);
        if let Some(earlier) = same.into_iter().find(|earlier| beats(earlier)) {
            let message =
                format!("line {} already decides for this source; remove one of the two", earlier.line);
            return Err(Fault::new("redirect-duplicate", message));
        }
        let covering = self.patterns.iter().map(|&index| &self.rules[index]).find(|earlier| {
            beats(earlier)
                && (earlier.host.is_none() || earlier.host == rule.host)
                && earlier.source.covers(&rule.source.symbols())
        });
        if let Some(earlier) = covering {
            let message =
                format!("line {} matches all that this rule does, so move this one above it", earlier.line);
            return Err(Fault::new("redirect-shadowed", message));
        }
        if !rule.source.is_static() {
            self.patterns.push(self.rules.len());
        }
        self.seen.entry(key).or_default().push(self.rules.len());
        self.rules.push(rule);
        Ok(())
    }

    /// Reports the redirects without captures that lead back to themselves. They are kept: a file
    /// under one of the paths ends the loop, and which files exist is not known here.
    fn report_loops(&mut self) {
        let next: Vec<Option<usize>> = self.rules.iter().map(|rule| self.static_successor(rule)).collect();
        let mut settled = vec![false; next.len()];
        for start in 0..next.len() {
            // Each rule has one successor, so a walk either ends, meets ground that an earlier
            // walk has settled, or comes back to a rule of its own.
            let mut trail = Vec::new();
            let mut position = Some(start);
            while let Some(index) = position.filter(|&index| !settled[index]) {
                settled[index] = true;
                trail.push(index);
                position = next[index];
            }
            let Some(begin) = position.and_then(|index| trail.iter().position(|&visited| visited == index))
            else {
                continue;
            };
            let mut lines: Vec<u32> = trail[begin..].iter().map(|&index| self.rules[index].line).collect();
            lines.sort_unstable();
            if let (Some(&last), 2..) = (lines.last(), lines.len()) {
                let all: Vec<String> = lines.iter().map(u32::to_string).collect();
                let message = format!(
                    "the redirects of lines {} lead in a circle; point one of them at a page",
                    all.join(", ")
                );
                self.diagnostics.push(Fault::new("redirect-loop", message).at(self.file, last));
            }
        }
    }

    /// The rule that a client meets next when it follows `rule`, where neither has captures.
    fn static_successor(&self, rule: &RedirectRule) -> Option<usize> {
        if !rule.source.is_static() {
            return None;
        }
        let (host, symbols) = redirect_destination(rule)?;
        let path = symbols.iter().map(Symbol::byte).collect::<Option<Vec<u8>>>()?;
        let pattern = Pattern { pieces: vec![PatternPiece::Literal(path)] };
        let for_host = |host: Option<String>| self.seen.get(&(host, pattern.clone()))?.first().copied();
        for_host(host.clone()).or_else(|| host.and_then(|_| for_host(None)))
    }
}

/// Refuses a rule whose target it matches itself.
fn refuse_self_loop(rule: &RedirectRule) -> Result<(), Fault> {
    let Some((host, symbols)) = redirect_destination(rule) else { return Ok(()) };
    if host != rule.host {
        return Ok(());
    }
    let Action::Redirect { target, .. } = &rule.action else { return Ok(()) };
    let keeps_order = target.captures().is_sorted();
    // A rule that yields to files may well match its target, as long as that is one:
    // `/* /index.html 302`, `/:page/:language /:language/:page`. Only to itself it can never lead.
    let is_loop = if rule.force {
        rule.source.covers(&symbols)
    } else {
        keeps_order && rule.source.symbols() == symbols
    };
    if !is_loop {
        return Ok(());
    }
    let message = "the target matches this rule again (scheme and query do not count), so a client would never \
                   arrive; change the target";
    Err(Fault::new("redirect-loop", message))
}

/// The host and the decoded path of a redirect, if it stays where its rule applies: `None` for a
/// rewrite, and for an absolute target of a rule for all hosts.
fn redirect_destination(rule: &RedirectRule) -> Option<(Option<String>, Vec<Symbol>)> {
    let Action::Redirect { target, .. } = &rule.action else { return None };
    let mut pieces = target.pieces.clone();
    let mut host = rule.host.clone();
    if let Some(TemplatePiece::Literal(first)) = pieces.first_mut() {
        let text = std::str::from_utf8(first).ok()?;
        let (authority, path) = match after_scheme(text) {
            Some(rest) => {
                let slash = rest.find('/').unwrap_or(rest.len());
                (Some(&rest[..slash]), rest[slash..].to_owned())
            }
            None => (None, text.to_owned()),
        };
        if let Some(authority) = authority {
            rule.host.as_ref()?;
            host = Some(parse_host(authority).ok()?);
        }
        *first = if path.is_empty() { b"/".to_vec() } else { path.into_bytes() };
    }
    let kinds: Vec<Symbol> =
        rule.source.symbols().into_iter().filter(|symbol| symbol.byte().is_none()).collect();
    let mut symbols = Vec::new();
    for piece in &pieces {
        match piece {
            TemplatePiece::Literal(bytes) => {
                symbols.extend(percent_decode(bytes).ok()?.into_iter().map(Symbol::Byte));
            }
            TemplatePiece::Capture(number) => symbols.push(*kinds.get(usize::from(*number))?),
        }
    }
    Some((host, symbols))
}

/// The text of a line without its end, if it can be worked with.
pub(crate) fn readable_line(bytes: &[u8]) -> Result<&str, Fault> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.len() > LINE_BYTES_MAX {
        let message =
            format!("the line has {} bytes, of which at most {LINE_BYTES_MAX} are read", bytes.len());
        return Err(Fault::new("line-too-long", message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Fault::new("not-utf8", format!("the line is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    match text.chars().find(|&character| character.is_control() && character != '\t') {
        None => Ok(text),
        Some(control) => {
            let message = format!("the line has the control character {} in it", control.escape_default());
            Err(Fault::new("control-character", message))
        }
    }
}

/// A rule without its place in the file.
struct Parts {
    host: Option<String>,
    source: Pattern,
    action: Action,
    force: bool,
}

impl Context<'_> {
    /// Reads one line: no rule if it is empty or a comment, else a rule and perhaps a remark.
    fn parse_rule(&self, line: &str) -> Result<Option<(Parts, Option<Fault>)>, Fault> {
        let words: Vec<&str> = line
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let Some((&source, rest)) = words.split_first() else { return Ok(None) };
        let (host, source, names) = self.parse_source(source)?;
        let (&target, rest) = rest.split_first().ok_or_else(|| {
            Fault::new("missing-target", "the line has no target; write `source target code`")
        })?;
        if !looks_like_target(target) && target.contains('=') {
            let message =
                format!("the condition `{target}` on the query is not supported, so the rule is dropped");
            return Err(Fault::new("unsupported-condition", message));
        }
        let (status, force) = self.parse_code(rest)?;
        let (action, remark) = if matches!(status, 301 | 302 | 303 | 307 | 308) {
            (self.parse_redirect(status, target, &names)?, None)
        } else {
            self.parse_rewrite(status, target, &names)?
        };
        Ok(Some((Parts { host, source, action, force }, remark)))
    }

    fn parse_source(&self, text: &str) -> Result<(Option<String>, Pattern, Vec<String>), Fault> {
        let in_root = self.folder.is_empty();
        let syntax = PatternSyntax {
            splat_anywhere: self.dialect == Dialect::Cloudflare,
            placeholder_anywhere: self.dialect == Dialect::Cloudflare,
        };
        if let Some(rest) = text.strip_prefix("./").filter(|_| self.dialect == Dialect::Cannery) {
            let (pattern, names) = Pattern::parse(&self.resolve(rest), syntax)?;
            return Ok((None, pattern, names));
        }
        let (host, path) = split_host(text)?;
        if host.is_some() && self.dialect == Dialect::Cloudflare {
            let message = "Cloudflare's dialect has no rules for one host; begin the source with `/`";
            return Err(Fault::new("unsupported-source", message));
        }
        if host.is_some() && text.starts_with("://") && self.dialect == Dialect::Netlify {
            let message = "Netlify's dialect wants a scheme; begin the source with `https://`";
            return Err(Fault::new("bad-source", message));
        }
        if host.is_none() && !path.starts_with('/') {
            let message = format!("the source `{text}` must begin with `/`, `./` or `https://`");
            return Err(Fault::new("bad-source", message));
        }
        if !in_root {
            let message =
                "only the rule file in the source root may have absolute sources; write `./` and the rest";
            return Err(Fault::new("absolute-source", message));
        }
        let (pattern, names) = Pattern::parse(path, syntax)?;
        Ok((host, pattern, names))
    }

    /// The status and the force mark from the words behind the target.
    fn parse_code(&self, words: &[&str]) -> Result<(u16, bool), Fault> {
        let (default, allowed): (u16, &[u16]) = match self.dialect {
            Dialect::Cannery | Dialect::Netlify => (301, &[200, 301, 302, 303, 307, 308, 404, 410]),
            Dialect::Cloudflare => (302, &[200, 301, 302, 303, 307, 308]),
        };
        let always = self.dialect == Dialect::Cloudflare;
        let is_code = |word: &&&str| word.starts_with(|first: char| first.is_ascii_digit());
        let (code, conditions) = match words.split_first().filter(|(first, _)| is_code(first)) {
            Some((code, rest)) => (Some(*code), rest),
            None => (None, words),
        };
        if let Some(condition) = conditions.first() {
            return Err(if condition.contains('=') {
                let message = format!("the condition `{condition}` is not supported, so the rule is dropped");
                Fault::new("unsupported-condition", message)
            } else {
                let message = format!("`{condition}` is not understood; write `source target code`");
                Fault::new("bad-syntax", message)
            });
        }
        let Some(code) = code else { return Ok((default, always)) };
        let (digits, force) = match code.strip_suffix('!').filter(|_| !always) {
            Some(digits) => (digits, true),
            None => (code, always),
        };
        let status = digits.parse::<u16>().ok().filter(|status| allowed.contains(status));
        let status = status.ok_or_else(|| {
            let allowed: Vec<String> = allowed.iter().map(u16::to_string).collect();
            Fault::new("unknown-code", format!("the code `{code}` is none of {}", allowed.join(", ")))
        })?;
        Ok((status, force))
    }

    fn parse_redirect(&self, status: u16, target: &str, names: &[String]) -> Result<Action, Fault> {
        let target = self.absolute_target(target)?;
        if let Some(rest) = after_scheme(&target) {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            let is_port_alone = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
            if authority.is_empty() || authority.strip_prefix(':').is_some_and(is_port_alone) {
                return Err(Fault::new("bad-target", "the target names no host"));
            }
            // RFC 9110 §4.2.4: nothing hides the host better than a user before it.
            if authority.contains('@') {
                return Err(Fault::new("bad-target", "the target names a user, and an address must not"));
            }
        }
        let (rest, fragment) = split_at(&target, '#');
        let (address, query) = split_at(rest, '?');
        let tail = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) if has_reference(text, names) => {
                let message = "a placeholder in the target's query or fragment is not supported, so the rule is dropped";
                Err(Fault::new("unsupported-target", message))
            }
            Some(text) => url_spelling(text).map(Some),
        };
        let target =
            Template::parse(address, names, |literal| url_spelling(literal).map(String::into_bytes))?;
        Ok(Action::Redirect { status, target, query: tail(query)?, fragment: tail(fragment)? })
    }

    fn parse_rewrite(
        &self,
        status: u16,
        target: &str,
        names: &[String],
    ) -> Result<(Action, Option<Fault>), Fault> {
        let target = self.absolute_target(target)?;
        if after_scheme(&target).is_some() {
            let message =
                format!("a {status} for a page of another origin would be a proxy, which is not supported");
            return Err(Fault::new("unsupported-target", message));
        }
        let path = target.split(['?', '#']).next().unwrap_or(&target);
        refuse_odd_segments(path)?;
        let remark = (path.len() < target.len()).then(|| {
            Fault::new(
                "query-cut",
                "files have no query and no fragment, so what follows the target's path is ignored",
            )
        });
        let path = Template::parse(path, names, |literal| percent_decode(literal.as_bytes()))?;
        Ok((Action::Rewrite { status, path }, remark))
    }

    /// The target as a path from the root or an address with a host.
    fn absolute_target(&self, text: &str) -> Result<String, Fault> {
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
        Err(Fault::new("bad-target", message))
    }

    /// A path below the rule file's folder, from the root. The folder is a name and no pattern, so
    /// all that could mean anything in it is percent-encoded.
    fn resolve(&self, rest: &str) -> String {
        if self.folder.is_empty() {
            return format!("/{rest}");
        }
        format!("/{}/{rest}", percent_encode(self.folder, |byte| is_unreserved(byte) || byte == b'/'))
    }
}

fn looks_like_target(word: &str) -> bool {
    word.starts_with('/') || word.starts_with("./") || word.contains("://")
}

/// What follows `http://`, `https://` or `//`.
fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://", "//"].into_iter().find_map(|scheme| {
        let head = text.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

/// Cuts `http://host`, `https://host` or `://host` off a source.
pub(crate) fn split_host(text: &str) -> Result<(Option<String>, &str), Fault> {
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

/// A host in lower case, without its port.
fn parse_host(authority: &str) -> Result<String, Fault> {
    let host = match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..=end],
        _ => authority.split(':').next().unwrap_or(authority),
    };
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_literal =
        host.starts_with('[') && host[1..].bytes().all(|byte| is_host_byte(byte) || b":]".contains(&byte));
    if host.is_empty() || !(is_literal || host.bytes().all(is_host_byte)) {
        let message =
            format!("`{authority}` is no host; write one name in ASCII (punycode), without wildcards");
        return Err(Fault::new("bad-host", message));
    }
    Ok(host.to_ascii_lowercase())
}

fn split_at(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, behind)) => (before, Some(behind)),
        None => (text, None),
    }
}

// Patterns and templates: what redirects and header rules have in common.

/// Where a dialect lets the special signs of a pattern stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternSyntax {
    /// `*` need not be the last byte.
    pub(crate) splat_anywhere: bool,
    /// `:name` need not begin its segment. Where it must, `/wiki/Help:Contents` is a plain path.
    pub(crate) placeholder_anywhere: bool,
}

impl Pattern {
    /// Reads a path with `*` and `:name` in it, and returns the names of its captures in order.
    pub(crate) fn parse(text: &str, syntax: PatternSyntax) -> Result<(Pattern, Vec<String>), Fault> {
        if text.contains(['?', '#']) {
            let message = "a source is a path; it cannot match a query or a fragment";
            return Err(Fault::new("unsupported-source", message));
        }
        refuse_odd_segments(text)?;
        let mut pieces = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut rest = text;
        let mut previous = None;
        while let Some(first) = rest.chars().next() {
            let may_name = syntax.placeholder_anywhere || previous == Some('/');
            let name = rest.strip_prefix(':').filter(|_| may_name).map_or("", identifier);
            let (name, length, piece) = match first {
                '*' => ("splat", 1, PatternPiece::Splat),
                ':' if !name.is_empty() => (name, 1 + name.len(), PatternPiece::Placeholder),
                _ => {
                    let length = literal_len(rest, syntax.placeholder_anywhere);
                    let literal = percent_decode(&rest.as_bytes()[..length])?;
                    extend_literal(&mut pieces, literal);
                    previous = rest[..length].chars().next_back();
                    rest = &rest[length..];
                    continue;
                }
            };
            rest = &rest[length..];
            check_capture(&piece, name, rest, &names, syntax)?;
            names.push(name.to_owned());
            pieces.push(piece);
            previous = None;
        }
        Ok((Pattern { pieces }, names))
    }

    /// Whether the pattern is one path.
    pub fn is_static(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, PatternPiece::Literal(_)))
    }

    /// Whether it matches a percent-decoded path.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// What the captures hold if it matches a percent-decoded path, in order.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        self.match_symbols(path, |&byte| Some(byte), |_| true)
    }

    /// Whether it matches all that the pattern spelled by `symbols` matches. It may say no where
    /// the answer is yes, but never the other way round.
    fn covers(&self, symbols: &[Symbol]) -> bool {
        self.match_symbols(symbols, Symbol::byte, |symbol| *symbol != Symbol::Splat).is_some()
    }

    /// The one matcher, for the bytes of a path and for the symbols of another pattern. `byte_of`
    /// says which byte a symbol is, if it is one; `in_segment` whether it holds no `/` at all.
    fn match_symbols<'s, S>(
        &self,
        symbols: &'s [S],
        byte_of: impl Fn(&S) -> Option<u8>,
        in_segment: impl Fn(&S) -> bool,
    ) -> Option<Vec<&'s [S]>> {
        let is_literal = |symbols: &[S], literal: &[u8]| {
            symbols.len() == literal.len()
                && symbols.iter().zip(literal).all(|(symbol, &byte)| byte_of(symbol) == Some(byte))
        };
        let mut captures = Vec::new();
        let mut rest = symbols;
        let mut pieces = self.pieces.iter();
        while let Some(piece) = pieces.next() {
            match piece {
                PatternPiece::Literal(literal) => {
                    let (head, tail) = rest.split_at_checked(literal.len())?;
                    if !is_literal(head, literal) {
                        return None;
                    }
                    rest = tail;
                }
                PatternPiece::Placeholder => {
                    let end =
                        rest.iter().position(|symbol| byte_of(symbol) == Some(b'/')).unwrap_or(rest.len());
                    let (head, tail) = rest.split_at(end);
                    if head.is_empty() || !head.iter().all(&in_segment) {
                        return None;
                    }
                    captures.push(head);
                    rest = tail;
                }
                PatternPiece::Splat => {
                    let literal: &[u8] = match pieces.next() {
                        Some(PatternPiece::Literal(literal)) => literal,
                        _ => b"",
                    };
                    let (head, tail) = rest.split_at(rest.len().checked_sub(literal.len())?);
                    captures.push(head);
                    return is_literal(tail, literal).then_some(captures);
                }
            }
        }
        rest.is_empty().then_some(captures)
    }

    fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        for piece in &self.pieces {
            match piece {
                PatternPiece::Literal(bytes) => symbols.extend(bytes.iter().copied().map(Symbol::Byte)),
                PatternPiece::Placeholder => symbols.push(Symbol::Placeholder),
                PatternPiece::Splat => symbols.push(Symbol::Splat),
            }
        }
        symbols
    }
}

/// A pattern taken apart into what one byte of a path may be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Byte(u8),
    Placeholder,
    Splat,
}

impl Symbol {
    fn byte(&self) -> Option<u8> {
        match self {
            Symbol::Byte(byte) => Some(*byte),
            Symbol::Placeholder | Symbol::Splat => None,
        }
    }
}

/// Checks a capture against what stands before it (`names`) and behind it (`rest`).
fn check_capture(
    piece: &PatternPiece,
    name: &str,
    rest: &str,
    names: &[String],
    syntax: PatternSyntax,
) -> Result<(), Fault> {
    let fault = |message: String| Err(Fault::new("unsupported-source", message));
    if names.iter().any(|earlier| earlier == "splat") {
        return fault("behind a `*` only plain text may stand; spell a literal `*` as %2A".to_owned());
    }
    if names.iter().any(|earlier| earlier == name) {
        return fault(format!("the name `:{name}` is used twice"));
    }
    if names.len() > usize::from(u8::MAX) {
        return fault("the source has more than 256 placeholders".to_owned());
    }
    match piece {
        PatternPiece::Splat if !syntax.splat_anywhere && !rest.is_empty() => {
            fault("`*` must be the last character here; spell a literal `*` as %2A".to_owned())
        }
        PatternPiece::Placeholder if name == "splat" => {
            fault("`:splat` is the name of `*`; choose another".to_owned())
        }
        PatternPiece::Placeholder if !(rest.is_empty() || rest.starts_with('/')) => {
            fault(format!("`:{name}` must end its segment; spell a literal `:` as %3A"))
        }
        _ => Ok(()),
    }
}

/// How many bytes up to the next sign that may be special. The first character never is.
fn literal_len(text: &str, placeholder_anywhere: bool) -> usize {
    let mut previous = '\0';
    for (index, character) in text.char_indices() {
        let may_name = character == ':' && (placeholder_anywhere || previous == '/');
        if index > 0 && (character == '*' || may_name) {
            return index;
        }
        previous = character;
    }
    text.len()
}

/// The letters, digits and `_` at the beginning of `text`, if they begin with a letter or `_`.
fn identifier(text: &str) -> &str {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    &text[..end.unwrap_or(text.len())]
}

fn extend_literal(pieces: &mut Vec<PatternPiece>, bytes: Vec<u8>) {
    match pieces.last_mut() {
        Some(PatternPiece::Literal(literal)) => literal.extend(bytes),
        _ => pieces.push(PatternPiece::Literal(bytes)),
    }
}

/// Refuses paths with segments that no request has once its target is in normal form.
fn refuse_odd_segments(path: &str) -> Result<(), Fault> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_odd = |segment: &str| {
        let decoded = percent_decode(segment.as_bytes()).unwrap_or_default();
        decoded == b"." || decoded == b".." || (segment.is_empty() && !inner.is_empty())
    };
    if path == "//" || inner.split('/').any(is_odd) {
        let message =
            format!("`{path}` has an empty or a dot segment, which no request has once it is resolved");
        return Err(Fault::new("never-matches", message));
    }
    Ok(())
}

impl Template {
    /// The numbers of the captures it is filled with, in order of use.
    pub fn captures(&self) -> impl Iterator<Item = u8> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(_) => None,
            TemplatePiece::Capture(number) => Some(*number),
        })
    }

    /// Reads text with `:name` in it, `names` being those of the captures in order. `spell` turns
    /// the text between into the bytes to keep.
    ///
    /// `:name` counts wherever the source has that name. Where it has not, the text is taken for
    /// a mistake at the beginning of a segment and for plain text elsewhere.
    fn parse(
        text: &str,
        names: &[String],
        spell: impl Fn(&str) -> Result<Vec<u8>, Fault>,
    ) -> Result<Template, Fault> {
        let mut pieces = Vec::new();
        let mut begin = 0;
        for (colon, _) in text.match_indices(':') {
            if colon < begin {
                continue;
            }
            let name = identifier(&text[colon + 1..]);
            let Some(number) = names.iter().position(|known| known == name) else {
                if name == "splat" || (!name.is_empty() && text[..colon].ends_with('/')) {
                    let message = format!("the source has no `:{name}`; spell a literal `:` as %3A");
                    return Err(Fault::new("unknown-placeholder", message));
                }
                continue;
            };
            if begin < colon {
                pieces.push(TemplatePiece::Literal(spell(&text[begin..colon])?));
            }
            // `check_capture` lets no source have more captures than a byte counts.
            pieces.push(TemplatePiece::Capture(u8::try_from(number).unwrap_or(u8::MAX)));
            begin = colon + 1 + name.len();
        }
        if begin < text.len() {
            pieces.push(TemplatePiece::Literal(spell(&text[begin..])?));
        }
        Ok(Template { pieces })
    }
}

fn has_reference(text: &str, names: &[String]) -> bool {
    text.match_indices(':').any(|(colon, _)| {
        let name = identifier(&text[colon + 1..]);
        name == "splat" || names.iter().any(|known| known == name)
    })
}

// Percent-encoding (RFC 3986 §2.1).

/// RFC 3986 §2.3.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Percent-encodes every byte that `keep` does not want kept.
pub(crate) fn percent_encode(bytes: &[u8], keep: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii() && keep(byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Percent-decodes a path. A separator or a NUL that is spelled by an escape is refused: a request
/// cannot name it, so neither may a rule.
fn percent_decode(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let byte = escaped_byte(tail).ok_or_else(bad_escape)?;
        if byte == b'/' || byte == 0 {
            return Err(Fault::new("bad-escape", "%2F and %00 cannot be part of a path"));
        }
        bytes.push(byte);
        rest = &tail[2..];
    }
    Ok(bytes)
}

/// The byte that the two hex digits at the beginning of `text` spell.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digit = |index: usize| char::from(*text.get(index)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

fn bad_escape() -> Fault {
    Fault::new("bad-escape", "a `%` must be followed by two hex digits; spell a literal one as %25")
}

/// Text for a `Location` field: what no URL may hold bare is percent-encoded, the rest is kept.
fn url_spelling(text: &str) -> Result<String, Fault> {
    let is_sound = text
        .bytes()
        .enumerate()
        .all(|(at, byte)| byte != b'%' || escaped_byte(&text.as_bytes()[at + 1..]).is_some());
    if !is_sound {
        return Err(bad_escape());
    }
    Ok(percent_encode(text.as_bytes(), |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_root(text: &str, dialect: Dialect) -> (Vec<RedirectRule>, Vec<Diagnostic>) {
        parse(text.as_bytes(), "_redirects", b"", dialect)
    }

    /// The rules of a file that has nothing to be said about.
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

    /// Line and code of each diagnostic.
    fn codes(text: &str, dialect: Dialect) -> Vec<(u32, &'static str)> {
        parse_root(text, dialect)
            .1
            .iter()
            .map(|diagnostic| (diagnostic.line.unwrap(), diagnostic.code))
            .collect()
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
    fn a_plain_line_is_a_rule() {
        let rule = rule("/old /new 308");
        assert_eq!(rule.source.pieces, [literal("/old")]);
        assert_eq!(rule.action, redirect(308, "/new"));
        assert_eq!((rule.line, rule.host, rule.force), (1, None, false));
    }

    #[test]
    fn every_old_code_is_understood() {
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
    fn a_file_may_state_its_dialect() {
        assert_eq!(rules("# dialect: cloudflare\n/a /b", Dialect::Cannery)[0].action, redirect(302, "/b"));
        assert_eq!(codes("# dialect: apache\n/a /b", Dialect::Cannery), [(1, "unknown-dialect")]);
        assert_eq!(rules("/a /b\n# dialect: cloudflare", Dialect::Cannery)[0].action, redirect(301, "/b"));
    }

    #[test]
    fn byte_order_mark_line_ends_tabs_and_comments_are_no_content() {
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
    fn only_the_root_file_has_absolute_sources() {
        let (rules, diagnostics) = parse(b"/x /y\n://h/x /y\n./x /y", "d/_redirects", b"d", Dialect::Cannery);
        assert_eq!(rules.len(), 1);
        assert!(diagnostics.iter().all(|diagnostic| diagnostic.code == "absolute-source"), "{diagnostics:?}");
        assert_eq!(diagnostics.len(), 2);
    }

    #[test]
    fn a_rule_may_be_for_one_host() {
        for source in ["://Example.ORG:8080/a", "http://example.org/a", "HTTPS://example.org/a"] {
            let rule = rule(&format!("{source} /b"));
            assert_eq!(rule.host.as_deref(), Some("example.org"), "{source}");
            assert_eq!(rule.source.pieces, [literal("/a")]);
        }
        assert_eq!(rule("https://[::1]:8443 /b").host.as_deref(), Some("[::1]"));
        assert_eq!(
            codes("https://*.example.org/ /b\n:///a /b", Dialect::Cannery),
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
    fn colons_that_begin_no_segment_are_text() {
        assert_eq!(rule("/wiki/Help:Contents /w/Talk:Page").source.pieces, [literal("/wiki/Help:Contents")]);
        assert_eq!(rule("/a/:8080 https://h:8080/b").source.pieces, [literal("/a/:8080")]);
        let rules = rules("/a-:id /b", Dialect::Cloudflare);
        assert_eq!(rules[0].source.pieces, [literal("/a-"), PatternPiece::Placeholder]);
    }

    #[test]
    fn a_splat_stands_last_except_for_cloudflare() {
        assert_eq!(codes("/a/*/b /c", Dialect::Netlify), [(1, "unsupported-source")]);
        let rules = rules("/a/*/b /c", Dialect::Cloudflare);
        assert_eq!(rules[0].source.captures(b"/a/x/y/b"), Some(vec![&b"x/y"[..]]));
        assert_eq!(rules[0].source.captures(b"/a//b"), Some(vec![&b""[..]]));
        assert_eq!(rules[0].source.captures(b"/a/b"), None);
    }

    #[test]
    fn odd_sources_are_dropped_with_a_reason() {
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
    fn what_cannot_be_honoured_is_dropped_and_never_applied_by_half() {
        let cases = [
            ("/a id=:id /b/:id 301", "unsupported-condition"),
            ("/a /b 302 Country=us,ca", "unsupported-condition"),
            ("/a /b 200 Role=admin", "unsupported-condition"),
            ("/a /b Language=de", "unsupported-condition"),
            ("/a https://api.example.org/:x 200", "unsupported-target"),
            ("/a //api.example.org/ 200!", "unsupported-target"),
            ("/a/:id /b?id=:id 301", "unsupported-target"),
        ];
        for (line, code) in cases {
            let (rules, diagnostics) = parse_root(line, Dialect::Netlify);
            assert_eq!(rules, [], "{line}");
            assert_eq!(diagnostics[0].code, code, "{line}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        let text =
            "/a\n/a /b 305\n/a b\n/a /:x\n/a /b 301 what\n/a /%zz\n/a /x:splat\n/a https:///x\n/a /b 30x";
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
        for target in ["https://user@h/", "//user:word@h", "http://:80/", "https://", "//:8080", "https://?q"]
        {
            assert_eq!(codes(&format!("/a {target} 301"), Dialect::Cannery), [(1, "bad-target")], "{target}");
        }
        for target in ["https://h:80/", "https://h/@user", "/@user", "https://h?@"] {
            assert_eq!(codes(&format!("/a {target} 301"), Dialect::Cannery), [], "{target}");
        }
    }

    #[test]
    fn unreadable_lines_do_not_spoil_their_neighbours() {
        let mut text = b"/a /b\n/\xff /b\n/c\x01 /d\n/".to_vec();
        text.resize(text.len() + LINE_BYTES_MAX, b'x');
        text.extend(b" /y\n/e /f");
        let (rules, diagnostics) = parse(&text, "_redirects", b"", Dialect::Cannery);
        assert_eq!(rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [1, 5]);
        let codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, ["not-utf8", "control-character", "line-too-long"]);
    }

    #[test]
    fn targets_are_spelled_as_urls_and_taken_apart() {
        let expected = Action::Redirect {
            status: 301,
            target: constant("https://example.org/caf%C3%A9/%5Cx%20"),
            query: Some("q=%C3%BC&r=/?".to_owned()),
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
    fn duplicates_and_covered_rules_are_dropped() {
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
    fn a_forced_rule_behind_one_that_yields_to_files_still_counts() {
        assert_eq!(rules("/a /1\n/a /2 301!", Dialect::Netlify).len(), 2);
        assert_eq!(rules("/* /index.html 200\n/a /2 301!", Dialect::Netlify).len(), 2);
        assert_eq!(codes("/a /1 301!\n/a /2", Dialect::Netlify), [(2, "redirect-duplicate")]);
    }

    #[test]
    fn a_narrower_rule_before_a_wider_one_is_fine() {
        assert_eq!(rules("/a/b /1\n/a/:x /2\n/a/* /3\n://h/* /4\n/* /5", Dialect::Cannery).len(), 5);
    }

    #[test]
    fn a_rule_that_leads_to_itself_is_dropped() {
        let lines = [
            "/a /a",
            "/a /%61?x=1#y",
            "/a/:x/* /a/:x/:splat",
            "http://h/* https://h/:splat 301!",
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
    fn circles_are_reported_at_their_last_line() {
        let text = "/a /b\n/b https://elsewhere/\n/c /d\n/d /e\n/e /c\n/f /c\n://h/x /y\n://h/y https://h/x";
        let (rules, diagnostics) = parse_root(text, Dialect::Cannery);
        assert_eq!(rules.len(), 8);
        let found: Vec<_> =
            diagnostics.iter().map(|diagnostic| (diagnostic.line.unwrap(), diagnostic.code)).collect();
        assert_eq!(found, [(5, "redirect-loop"), (8, "redirect-loop")]);
        assert!(diagnostics[0].message.contains("3, 4, 5"), "{}", diagnostics[0].message);
    }

    #[test]
    fn a_long_chain_is_followed_in_linear_time() {
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

        #[test]
        fn any_name_survives_encoding_and_decoding(name in proptest::collection::vec(1u8.., 0..40)) {
            let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'/').collect();
            let encoded = percent_encode(&name, is_unreserved);
            prop_assert_eq!(percent_decode(encoded.as_bytes()).unwrap(), name);
        }

        #[test]
        fn a_pattern_that_covers_another_matches_all_its_paths(
            wide in "/[ab/]{0,3}(:x|\\*)?(/[ab]{0,2})?",
            narrow in "/[ab/]{0,4}(:x|\\*)?(/[ab]{0,2})?",
            filling in "[ab]{1,3}",
        ) {
            let syntax = PatternSyntax { splat_anywhere: true, placeholder_anywhere: true };
            let (Ok((wide, _)), Ok((narrow, _))) = (Pattern::parse(&wide, syntax), Pattern::parse(&narrow, syntax)) else {
                return Ok(());
            };
            let mut path = Vec::new();
            for piece in &narrow.pieces {
                match piece {
                    PatternPiece::Literal(bytes) => path.extend(bytes),
                    PatternPiece::Placeholder => path.extend(filling.bytes()),
                    PatternPiece::Splat => path.extend(format!("{filling}/{filling}").bytes()),
                }
            }
            prop_assert!(narrow.matches(&path));
            if wide.covers(&narrow.symbols()) {
                prop_assert!(wide.matches(&path), "{wide:?} covers {narrow:?} but does not match it");
            }
        }
    }
}
