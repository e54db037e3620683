//! Conflicts between the rules of a file: rules that can never apply, and rules that always redirect to themselves.
//!
//! In all dialects the first matching rule wins. Which files exist isn't known here.

use std::collections::HashMap;

use super::line::Scheme;
use super::rule::{Action, RedirectRule};
use super::template::TemplatePiece;
use crate::ground::rule_error::RuleError;
use crate::hosts::host::starts_with_ignoring_case;
use crate::rulefiles::pattern::{Pattern, Symbol};
use crate::rulefiles::pattern_index::PatternIndex;

/// The rules of a file that aren't rejected.
#[derive(Default)]
pub(super) struct AcceptedRules {
    pub(super) rules: Vec<RedirectRule>,
    /// Rules by source. Two rules may have the same source if only the second is forced.
    seen: HashMap<(Option<String>, Pattern), Vec<usize>>,
    /// Rules with captures by host: only they can cover a pattern other than their own.
    patterns: HashMap<Option<String>, PatternIndex>,
}

impl AcceptedRules {
    /// Adds a rule unless it would never apply or always redirect to itself.
    ///
    /// `scheme` is that of the rule's source, which no rule depends on.
    pub(super) fn add(&mut self, rule: RedirectRule, scheme: Option<Scheme>) -> Result<(), RuleError> {
        refuse_self_loop(&rule, scheme)?;

        // An earlier rule that isn't forced doesn't apply where a file exists, so a forced one still has an effect.
        let beats = |earlier: &RedirectRule| earlier.force || !rule.force;
        let key = (rule.host.clone(), rule.source.clone());
        let same = self.seen.get(&key).into_iter().flatten().map(|&index| &self.rules[index]);
        if let Some(earlier) = same.into_iter().find(|earlier| beats(earlier)) {
            // `http://example.com/*` and `https://example.com/*` with the same target are usual.
            if scheme.is_some() && earlier.action == rule.action {
                return Ok(());
            }
            let message = format!(
                "line {} has the same source and takes precedence; remove one of the two",
                earlier.line
            );
            return Err(RuleError::new("redirect-duplicate", message));
        }

        let symbols = rule.source.symbols();
        let covers = |index: usize| beats(&self.rules[index]) && self.rules[index].source.covers(&symbols);
        let for_all = self.patterns.get(&None).into_iter();
        let for_host = self.patterns.get(&rule.host).filter(|_| rule.host.is_some());
        let covering = for_all.chain(for_host).filter_map(|index| index.first(&symbols, covers)).min();
        if let Some(earlier) = covering.map(|index| &self.rules[index]) {
            let message = format!(
                "line {} matches every path that this rule matches; move this rule above it",
                earlier.line
            );
            return Err(RuleError::new("redirect-shadowed", message));
        }

        if !rule.source.is_static() {
            self.patterns.entry(rule.host.clone()).or_default().add(&symbols, self.rules.len());
        }
        self.seen.entry(key).or_default().push(self.rules.len());
        self.rules.push(rule);
        Ok(())
    }
}

/// Rejects a rule that matches its own target.
fn refuse_self_loop(rule: &RedirectRule, scheme: Option<Scheme>) -> Result<(), RuleError> {
    let Some((host, symbols)) = redirect_destination(rule) else { return Ok(()) };
    if host != rule.host {
        return Ok(());
    }
    // A rule that isn't forced may match its target if that can be a file: `/* /index.html 302`, `/:page/:language
    // /:language/:page`. But it must not redirect each path to itself.
    let is_loop = if rule.force {
        rule.source.covers(&symbols)
    } else {
        rule.keeps_order() && rule.source.symbols() == symbols
    };
    if !is_loop {
        return Ok(());
    }
    // On Netlify, such a rule is only for `http`.
    let is_upgrade = scheme == Some(Scheme::Http) && leads_to_https(rule);
    if is_upgrade && rule.source.symbols() == symbols {
        let message = "this line only changes `http` to `https`, which the server does for all hosts if it is started with \
                       `--https-redirect`; the line itself has no effect";
        return Err(RuleError::note("redirect-scheme", message));
    }
    let remedy = if is_upgrade {
        "rules don't depend on the scheme: start the server with `--https-redirect`, and change the target"
    } else {
        "change the target"
    };
    let message = format!(
        "the target matches this rule again, whatever its scheme and query, so clients would be redirected forever; {remedy}"
    );
    Err(RuleError::new("redirect-loop", message))
}

fn leads_to_https(rule: &RedirectRule) -> bool {
    let Action::Redirect { target, .. } = &rule.action else { return false };
    matches!(target.pieces.first(), Some(TemplatePiece::Literal(first)) if starts_with_ignoring_case(first, b"https://"))
}

/// Returns the host and the decoded path of a redirect's target: `None` for a rewrite, and for an absolute target of a rule
/// for all hosts.
fn redirect_destination(rule: &RedirectRule) -> Option<(Option<String>, Vec<Symbol>)> {
    let source = rule.source.symbols();
    let captures: Vec<&[Symbol]> = source.chunks(1).filter(|symbol| symbol[0].byte().is_none()).collect();
    rule.destination(rule.host.as_deref(), &captures)
}
