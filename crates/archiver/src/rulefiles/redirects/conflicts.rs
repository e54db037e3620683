//! Finds conflicts in a rule file, i.e. rules that can never apply and rules that always redirect to
//! themselves.
//!
//! The first matching rule wins in all dialects. It is not yet known which files exist.

use std::collections::HashMap;

use super::line::Scheme;
use super::rule::{Action, RedirectRule};
use super::template::TemplatePiece;
use crate::ground::rule_error::RuleError;
use crate::hosts::host::starts_with_ignoring_case;
use crate::rulefiles::pattern::{Pattern, Symbol};
use crate::rulefiles::pattern_index::PatternIndex;

/// Rules of a file that have not been rejected.
#[derive(Default)]
pub(super) struct AcceptedRules {
    pub(super) rules: Vec<RedirectRule>,
    /// Rules by source. There may only be two rules with the same source when the second one is
    /// forced.
    seen: HashMap<(Option<String>, Pattern), Vec<usize>>,
    /// Rules with captures, by host. All others only cover exactly their own path.
    patterns: HashMap<Option<String>, PatternIndex>,
}

impl AcceptedRules {
    /// Adds a rule, unless it would never apply or would always redirect to itself.
    ///
    /// `scheme` is the scheme in the rule's source. It does not have any effect, but it helps to
    /// explain the problem.
    pub(super) fn add(&mut self, rule: RedirectRule, scheme: Option<Scheme>) -> Result<(), RuleError> {
        refuse_self_loop(&rule, scheme)?;

        // Unless the earlier rule is forced, it does not apply to existing files, so there may be a use for a forced rule
        // after it.
        let beats = |earlier: &RedirectRule| earlier.force || !rule.force;
        let key = (rule.host.clone(), rule.source.clone());
        let same = self.seen.get(&key).into_iter().flatten().map(|&index| &self.rules[index]);
        if let Some(earlier) = same.into_iter().find(|earlier| beats(earlier)) {
            // People often write `http://example.com/*` and `https://example.com/*` with the same target.
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

/// Rejects rules that match their own target.
fn refuse_self_loop(rule: &RedirectRule, scheme: Option<Scheme>) -> Result<(), RuleError> {
    let Some((host, symbols)) = redirect_destination(rule) else { return Ok(()) };
    if host != rule.host {
        return Ok(());
    }

    // If the rule is not forced, a file at the target will take precedence if there is one (e.g.
    // `/* /index.html 302` or `/:page/:language /:language/:page`). In this case, we only need to check that the
    // rule does not redirect every path to itself.
    let is_loop = if rule.force {
        rule.source.covers(&symbols)
    } else {
        rule.keeps_order() && rule.source.symbols() == symbols
    };
    if !is_loop {
        return Ok(());
    }

    // With Netlify, this would not be a loop, as such a rule would only apply to `http`.
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

/// Returns the host and decoded path of a redirect's target.
///
/// Returns `None` for rewrites, and for absolute targets when the rule has no host.
fn redirect_destination(rule: &RedirectRule) -> Option<(Option<String>, Vec<Symbol>)> {
    let source = rule.source.symbols();
    let captures: Vec<&[Symbol]> = source.chunks(1).filter(|symbol| symbol[0].byte().is_none()).collect();
    rule.destination(rule.host.as_deref(), &captures)
}
