//! Adds the rules in `_redirects` to the routes. If a rule is for a single path, it will become a route; otherwise, it is added
//! to the scope of its site's root.
//!
//! If we are not able to honor a rule, it is reported with its file and line.

use std::sync::Arc;

use cannery_archive::{Key, KeyBuffer, Origin};

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::routes::redirect_loops;
use crate::routes::{HostId, Route, Routes, RuleLine, RuleName, Target};
use crate::rulefiles::pattern::{Pattern, PatternPiece, check_size};
use crate::rulefiles::redirects::{self, Action, RedirectRule};
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::{Generated, GeneratedPage, SourceId, Sources};

/// Maximum number of captures per rule. The server has no room for more.
const CAPTURES_MAX: usize = 16;

/// Maximum number of rules per site with a pattern such as `/aa*aa`. In short paths, both ends may overlap, so the server's index
/// is unable to exclude such a rule without matching it.
const OVERLAPPING_MAX: usize = 64;

/// Reads all rule files and adds their rules to the routes.
pub(crate) fn add(routes: &mut Routes, sources: &mut Sources, options: &Options) -> Result<(), Error> {
    let mut files = std::mem::take(&mut routes.redirect_files);

    // Like pages, rules take precedence if they are closer to the path, so start with the deepest
    // files.
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
                Some(name) => Some(routes.add_host(name)),
                None => file.host,
            };
            parsed.push((host, rule));
        }
    }

    let loops = redirect_loops::find(routes, &parsed, sources, options);
    routes.diagnostics.extend(loops);

    let last_forced = parsed.iter().rposition(|(_, rule)| rule.force && !rule.source.is_static());
    for (place, (host, rule)) in parsed.into_iter().enumerate() {
        let is_ordered = rule.force && last_forced.is_some_and(|last| place < last);
        add_rule(routes, sources, host, rule, is_ordered);
    }
    routes.drop_ruled_aliases();
    Ok(())
}

/// Adds a rule. If `is_ordered` is set, rules for a single path have to keep their place among rules with patterns.
fn add_rule(routes: &mut Routes, sources: &mut Sources, host: HostId, rule: RedirectRule, is_ordered: bool) {
    if captures_count(&rule) > CAPTURES_MAX {
        warn(
            routes,
            &rule,
            "redirect-captures",
            format!("this rule has more than {CAPTURES_MAX} captures, so it is ignored"),
        );
        return;
    }

    let Some(path) = rule.source.static_path() else {
        add_pattern(routes, sources, host, rule);
        return;
    };

    let mut buffer = KeyBuffer::new();
    let Ok(key) = Key::from_parts([path.strip_prefix(b"/").unwrap_or(&path)], &mut buffer) else {
        let message = "the source of this rule is longer than any request, so the rule is ignored".to_owned();
        warn(routes, &rule, "redirect-source", message);
        return;
    };

    let target = match &rule.action {
        // This will be the rule's index, since it's added below.
        Action::Redirect { .. } => Some(Target::Rule(routes.next_rule())),
        Action::Rewrite { status, path } => path.constant().and_then(|path| {
            let id = rewritten_source(routes, sources, host, &rule, &path)?;
            Some(Target::Source { id, status: *status })
        }),
    };
    let Some(target) = target else { return };

    // Unless the rule is forced, a file with the same path takes precedence.
    let key: Box<[u8]> = key.bytes().into();
    let is_taken = routes.sites_of(host).into_iter().any(|site| {
        let path = (site, key.clone());
        routes.paths.contains_key(&path) && !routes.weak_aliases.contains(&path)
    });
    if is_taken && !rule.force {
        let same = |line: &&RuleLine| matches!(&line.rule, RuleName::Path(site, path) if (*site, path) == (host, &key));
        if let Some(RuleLine { file, line, .. }) = routes.rule_lines.iter().find(same) {
            let message =
                format!("`{file}:{line}` has the same source and takes precedence; remove one of the two");
            warn(routes, &rule, "redirect-duplicate", message);
            return;
        }
        let message =
            format!("this rule has no effect, because {} exists; add `!` to override it", quoted(&key));
        warn(routes, &rule, "redirect-shadowed", message);
        return;
    }
    if is_taken {
        let message = format!("this rule hides the file at {}", quoted(&key));
        routes.diagnostics.push(diagnostic(&rule, Severity::Note, "redirect-hides-file", message));
    }

    routes.rule_lines.push(RuleLine {
        file: Arc::clone(&rule.file),
        line: rule.line,
        rule: RuleName::Path(host, key.clone()),
    });
    let hidden = routes.paths.insert((host, key), Route { target, origin: Origin::Rule });
    if let Some(Route { target: Target::Source { id, .. }, origin: Origin::File }) = hidden {
        // The file is no longer served. However, because it is still part of the folder, `extract`
        // should restore it.
        routes.hidden.push(id);
    }

    match rule.action {
        Action::Redirect { .. } if is_ordered => {
            routes.rules.push(rule.clone());
            add_pattern(routes, sources, host, rule);
        }
        Action::Redirect { .. } => routes.rules.push(rule),
        Action::Rewrite { .. } if is_ordered => add_pattern(routes, sources, host, rule),
        Action::Rewrite { .. } => {}
    }
}

/// Looks up the source at the constant path that a rule rewrites to. If there is none, this is reported.
///
/// Rules with an error status withdraw everything that they match. This must work even without an error page, so we use a line
/// of text if necessary.
fn rewritten_source(
    routes: &mut Routes,
    sources: &mut Sources,
    host: HostId,
    rule: &RedirectRule,
    path: &[u8],
) -> Option<SourceId> {
    let source = routes.source_at(host, path);
    if source.is_none()
        && let Action::Rewrite { status: status @ (404 | 410), .. } = rule.action
    {
        let message = format!(
            "this rule answers {status} with a line of text, because {} is not a file of the site",
            quoted(path)
        );
        // Typically such a rule names the error page that many sites have. We do not need to warn
        // about this.
        let severity = if path == b"/404.html" { Severity::Note } else { Severity::Warning };
        let found = diagnostic(rule, severity, "redirect-target-missing", message);
        // If the rule is for a single path and ordered, we come here twice.
        if !routes.diagnostics.iter().rev().take(2).any(|earlier| *earlier == found) {
            routes.diagnostics.push(found);
        }
        return Some(status_text(routes, sources, status));
    }
    if source.is_none() {
        let message = format!(
            "this rule rewrites to {}, which is not a file of the site, so it is ignored",
            quoted(path)
        );
        warn(routes, rule, "redirect-target-missing", message);
    }
    source
}

/// Returns the generated text for rules with this error status but no page.
fn status_text(routes: &mut Routes, sources: &mut Sources, status: u16) -> SourceId {
    *routes.status_texts.entry(status).or_insert_with(|| {
        let id = sources.next_id();
        let text = if status == 410 { "This page was removed.\n" } else { "This page was not found.\n" };
        let page = GeneratedPage { content: text.into(), ..GeneratedPage::default() };
        let path = format!("_{status}.txt").into_bytes().into_boxed_slice();
        sources.generated.push(Generated { path, page: Arc::new(page) });
        id
    })
}

/// Adds a rule with a pattern to the scope of its site's root.
fn add_pattern(routes: &mut Routes, sources: &mut Sources, host: HostId, rule: RedirectRule) {
    if let Action::Rewrite { path, .. } = &rule.action
        && let Some(path) = path.constant()
        && rewritten_source(routes, sources, host, &rule, &path).is_none()
    {
        return;
    }
    if let Err(error) = check_size(&rule.source) {
        warn(routes, &rule, error.code, error.message);
        return;
    }
    if ends_overlap(&rule.source) {
        routes.overlapping_rules += 1;
        if routes.overlapping_rules > OVERLAPPING_MAX {
            let message = format!(
                "this rule is one of more than {OVERLAPPING_MAX} rules whose text before `*` ends as the text after it begins, as in `aa*aa`, so it is ignored"
            );
            warn(routes, &rule, "redirect-overlapping", message);
            return;
        }
    }

    let place = routes.next_rule();
    routes.rule_lines.push(RuleLine {
        file: Arc::clone(&rule.file),
        line: rule.line,
        rule: RuleName::Ordinal(place),
    });
    routes.scope(host, b"/").rules.push(place);
    routes.rules.push(rule);
}

/// Whether there may be short paths in which the texts before and after a splat overlap.
fn ends_overlap(pattern: &Pattern) -> bool {
    let [.., PatternPiece::Literal(before), PatternPiece::Splat, PatternPiece::Literal(after)] =
        &pattern.pieces[..]
    else {
        return false;
    };
    let segment = before.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    (1..=segment.len().min(after.len())).any(|shared| segment.ends_with(&after[..shared]))
}

fn captures_count(rule: &RedirectRule) -> usize {
    rule.source.pieces.iter().filter(|piece| !matches!(piece, PatternPiece::Literal(_))).count()
}

fn quoted(path: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(path))
}

fn warn(routes: &mut Routes, rule: &RedirectRule, code: &'static str, message: String) {
    routes.diagnostics.push(diagnostic(rule, Severity::Warning, code, message));
}

fn diagnostic(rule: &RedirectRule, severity: Severity, code: &'static str, message: String) -> Diagnostic {
    Diagnostic { severity, file: rule.file.to_string(), line: Some(rule.line), code, message }
}
