//! Adds the rules of `_redirects` to the routes: a rule for one path becomes a route, one with a pattern belongs to the
//! scope of its site's root.
//!
//! Each rule that can't be honored is reported with its file and line.

use std::sync::Arc;

use cannery_archive::{AFFIX_BYTES_MAX, Key, KeyBuffer, Origin, PATTERN_SEGMENTS_MAX};

use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::options::Options;
use crate::pattern::{Pattern, PatternPiece};
use crate::redirect_loops;
use crate::redirects::{self, Action, RedirectRule, TemplatePiece};
use crate::routes::{HostId, Route, Routes, RuleLine, RuleName, Target};
use crate::rule_error::RuleError;
use crate::source::Sources;

/// The server keeps at most this many captures of a rule.
const CAPTURES_MAX: usize = 16;

/// Maximum number of rules of a site with a pattern like `/aa*aa`: its ends can overlap in a short path. The server's
/// index can't exclude such a rule without matching it.
const OVERLAPPING_MAX: usize = 64;

/// Reads all rule files, and adds their rules to the routes.
pub(crate) fn add(routes: &mut Routes, sources: &Sources, options: &Options) -> Result<(), Error> {
    let mut files = std::mem::take(&mut routes.redirect_files);
    // The deepest file first, as for pages: a rule closer to the path takes precedence.
    let depth = |folder: &[u8]| folder.iter().filter(|byte| **byte == b'/').count();
    files.sort_by_key(|file| std::cmp::Reverse(depth(&file.folder)));
    let mut parsed = Vec::new();
    for file in &files {
        let mut text = Vec::new();
        sources.read(file.id, &mut text)?;
        let name = String::from_utf8_lossy(sources.path(file.id)).into_owned();
        let folder = file.folder.strip_suffix(b"/").unwrap_or(&file.folder);
        let (rules, diagnostics) = redirects::parse(&text, &name, folder, options.dialect);
        routes.diagnostics.extend(diagnostics);
        for rule in rules {
            let host = match &rule.host {
                Some(name) => Some(routes.host(name, false)),
                None => file.host,
            };
            parsed.push((host, rule));
        }
    }

    let loops = redirect_loops::find(routes, &parsed);
    routes.diagnostics.extend(loops);

    let last_forced = parsed.iter().rposition(|(_, rule)| rule.force && !rule.source.is_static());
    for (place, (host, rule)) in parsed.into_iter().enumerate() {
        let ordered = rule.force && last_forced.is_some_and(|last| place < last);
        add_rule(routes, host, rule, ordered);
    }
    Ok(())
}

/// Adds one rule. If `ordered`, a rule without a pattern also takes its place among those with one.
fn add_rule(routes: &mut Routes, host: HostId, rule: RedirectRule, ordered: bool) {
    if captures_count(&rule) > CAPTURES_MAX {
        report(routes, &rule, "redirect-captures", format!("has more than {CAPTURES_MAX} captures: ignored"));
        return;
    }
    let mut buffer = KeyBuffer::new();
    if !rule.source.is_static() {
        add_pattern(routes, host, rule);
        return;
    }
    let literal: Vec<u8> = literals(&rule).concat();
    let Ok(key) = Key::from_parts([literal.strip_prefix(b"/").unwrap_or(&literal)], &mut buffer) else {
        report(
            routes,
            &rule,
            "redirect-source",
            "has a source that is longer than any request: ignored".into(),
        );
        return;
    };
    let target = match &rule.action {
        // The rule is added below.
        Action::Redirect { .. } => u32::try_from(routes.rules.len()).ok().map(Target::Rule),
        Action::Rewrite { status, .. } => rewritten(routes, host, &rule, *status),
    };
    let Some(target) = target else { return };
    let key: Box<[u8]> = key.bytes().into();
    let taken = routes.sites_of(host).into_iter().any(|site| routes.paths.contains_key(&(site, key.clone())));
    if taken {
        if !rule.force {
            let message = format!("has no effect, because {} exists; add `!` to override it", shown(&key));
            report(routes, &rule, "redirect-shadowed", message);
            return;
        }
        let message = format!("hides the file at {}", shown(&key));
        routes.diagnostics.push(at(&rule, Severity::Note, "redirect-hides-file", message));
    }
    routes.rule_lines.push(RuleLine {
        file: Arc::clone(&rule.file),
        line: rule.line,
        rule: RuleName::Path(host, key.clone()),
    });
    let hidden = routes.paths.insert((host, key), Route { target, origin: Origin::Rule });
    if let Some(Route { target: Target::Source { id, .. }, origin: Origin::File }) = hidden {
        // No longer served, but still a file of the folder.
        routes.hidden.push(id);
    }
    match rule.action {
        Action::Redirect { .. } if ordered => {
            routes.rules.push(rule.clone());
            add_pattern(routes, host, rule);
        }
        Action::Redirect { .. } => routes.rules.push(rule),
        Action::Rewrite { .. } if ordered => add_pattern(routes, host, rule),
        Action::Rewrite { .. } => {}
    }
}

/// Returns the source that a rewrite to a constant path leads to.
fn rewritten(routes: &mut Routes, host: HostId, rule: &RedirectRule, status: u16) -> Option<Target> {
    let Action::Rewrite { path, .. } = &rule.action else { return None };
    let text: Vec<u8> = path
        .pieces
        .iter()
        .flat_map(|piece| match piece {
            TemplatePiece::Literal(literal) => literal.clone(),
            TemplatePiece::Capture(_) => Vec::new(),
        })
        .collect();
    let mut buffer = KeyBuffer::new();
    let key = Key::from_parts([text.strip_prefix(b"/").unwrap_or(&text)], &mut buffer).ok()?;
    let found =
        routes.sites_of(host).into_iter().find_map(|site| routes.paths.get(&(site, key.bytes().into())));
    if let Some(Route { target: Target::Source { id, .. }, .. }) = found {
        return Some(Target::Source { id: *id, status });
    }
    let message = format!("rewrites to {}, which is not a file of the site: ignored", shown(key.bytes()));
    report(routes, rule, "redirect-target-missing", message);
    None
}

/// Adds a rule with a pattern to the scope of its site.
fn add_pattern(routes: &mut Routes, host: HostId, rule: RedirectRule) {
    if let Action::Rewrite { status, path } = &rule.action
        && path.pieces.iter().all(|piece| matches!(piece, TemplatePiece::Literal(_)))
        && rewritten(routes, host, &rule, *status).is_none()
    {
        return;
    }
    if let Err(fault) = check_size(&rule.source) {
        report(routes, &rule, fault.code, fault.message);
        return;
    }
    if ends_overlap(&rule.source) {
        routes.overlapping_rules += 1;
        if routes.overlapping_rules > OVERLAPPING_MAX {
            let message = format!(
                "is one of more than {OVERLAPPING_MAX} rules whose text before `*` ends as the text after it begins, as in `aa*aa`: ignored"
            );
            report(routes, &rule, "redirect-overlapping", message);
            return;
        }
    }
    let Ok(place) = u32::try_from(routes.rules.len()) else { return };
    routes.rule_lines.push(RuleLine {
        file: Arc::clone(&rule.file),
        line: rule.line,
        rule: RuleName::Ordinal(place),
    });
    routes.scope(host, b"/").rules.push(place);
    routes.rules.push(rule);
}

/// Rejects a pattern that exceeds the limits of the server's rule index.
pub(crate) fn check_size(pattern: &Pattern) -> Result<(), RuleError> {
    let mut slashes = 0;
    let mut is_long = false;
    for (place, piece) in pattern.pieces.iter().enumerate() {
        let PatternPiece::Literal(literal) = piece else { continue };
        slashes += literal.iter().filter(|byte| **byte == b'/').count();
        let is_suffix = place > 0 && pattern.pieces[place - 1] == PatternPiece::Splat;
        is_long |= literal.split(|byte| *byte == b'/').any(|segment| segment.len() > AFFIX_BYTES_MAX);
        is_long |= is_suffix && literal.len() > AFFIX_BYTES_MAX;
    }
    if slashes > PATTERN_SEGMENTS_MAX {
        let message = format!("has a pattern of more than {PATTERN_SEGMENTS_MAX} segments: ignored");
        return Err(RuleError::new("pattern-too-deep", message));
    }
    if is_long {
        let message = format!("has a segment of more than {AFFIX_BYTES_MAX} bytes in its pattern: ignored");
        return Err(RuleError::new("pattern-too-long", message));
    }
    Ok(())
}

/// Returns `true` if the texts before and after a splat can overlap in a short path.
fn ends_overlap(pattern: &Pattern) -> bool {
    let [.., PatternPiece::Literal(before), PatternPiece::Splat, PatternPiece::Literal(behind)] =
        &pattern.pieces[..]
    else {
        return false;
    };
    let segment = before.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    (1..=segment.len().min(behind.len())).any(|shared| segment.ends_with(&behind[..shared]))
}

fn literals(rule: &RedirectRule) -> Vec<Vec<u8>> {
    let literal = |piece: &PatternPiece| match piece {
        PatternPiece::Literal(literal) => Some(literal.clone()),
        PatternPiece::Placeholder | PatternPiece::Splat => None,
    };
    rule.source.pieces.iter().filter_map(literal).collect()
}

fn captures_count(rule: &RedirectRule) -> usize {
    rule.source.pieces.iter().filter(|piece| !matches!(piece, PatternPiece::Literal(_))).count()
}

fn shown(key: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(key))
}

fn at(rule: &RedirectRule, severity: Severity, code: &'static str, message: String) -> Diagnostic {
    Diagnostic { severity, file: rule.file.to_string(), line: Some(rule.line), code, message }
}

fn report(routes: &mut Routes, rule: &RedirectRule, code: &'static str, message: String) {
    routes.diagnostics.push(at(rule, Severity::Warning, code, message));
}
