//! Conflicts between the rules of a file: rules that can never apply, and redirect loops.
//!
//! In all dialects the first matching rule wins. Which files exist isn't known here.

use std::collections::HashMap;

use super::rule::RedirectRule;
use crate::pattern::{Pattern, PatternPiece, Symbol};
use crate::pattern_index::PatternIndex;
use crate::rule_error::RuleError;

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
    pub(super) fn add(&mut self, rule: RedirectRule) -> Result<(), RuleError> {
        refuse_self_loop(&rule)?;

        // An earlier rule that isn't forced doesn't apply where a file exists, so a forced one still has an effect.
        let beats = |earlier: &RedirectRule| earlier.force || !rule.force;
        let key = (rule.host.clone(), rule.source.clone());
        let same = self.seen.get(&key).into_iter().flatten().map(|&index| &self.rules[index]);
        if let Some(earlier) = same.into_iter().find(|earlier| beats(earlier)) {
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

    /// Returns the loops of redirects without captures, each with its last line. The rules are kept: a file at one of the
    /// paths breaks the loop.
    pub(super) fn loops(&self) -> Vec<(u32, RuleError)> {
        let next: Vec<Option<usize>> = self.rules.iter().map(|rule| self.static_successor(rule)).collect();
        let mut settled = vec![false; next.len()];
        let mut loops = Vec::new();
        for start in 0..next.len() {
            // Each rule has one successor, so a walk ends, reaches a rule of an earlier walk, or returns to a rule of its
            // own.
            let mut trail = Vec::new();
            let mut position = Some(start);
            while let Some(index) = position.filter(|&index| !settled[index]) {
                settled[index] = true;
                trail.push(index);
                position = next[index];
            }
            let begin = position.and_then(|index| trail.iter().position(|&visited| visited == index));
            loops.extend(begin.and_then(|begin| self.loop_error(&trail[begin..])));
        }
        loops
    }

    /// Returns the error for a loop, and its last line. Returns `None` for a rule that redirects to itself, which was rejected
    /// before.
    fn loop_error(&self, along: &[usize]) -> Option<(u32, RuleError)> {
        let mut lines: Vec<u32> = along.iter().map(|&index| self.rules[index].line).collect();
        lines.sort_unstable();
        let [_, .., last] = lines[..] else { return None };
        let all: Vec<String> = lines.iter().map(u32::to_string).collect();
        let message =
            format!("the redirects of lines {} form a loop; point one of them at a page", all.join(", "));
        Some((last, RuleError::new("redirect-loop", message)))
    }

    /// Returns the rule that applies to the target of `rule`, if neither has captures.
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

/// Rejects a rule that matches its own target.
fn refuse_self_loop(rule: &RedirectRule) -> Result<(), RuleError> {
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
    let message = "the target matches this rule again, whatever its scheme and query, so clients would be redirected \
                   forever; change the target";
    Err(RuleError::new("redirect-loop", message))
}

/// Returns the host and the decoded path of a redirect's target: `None` for a rewrite, and for an absolute target of a rule
/// for all hosts.
fn redirect_destination(rule: &RedirectRule) -> Option<(Option<String>, Vec<Symbol>)> {
    let source = rule.source.symbols();
    let captures: Vec<&[Symbol]> = source.chunks(1).filter(|symbol| symbol[0].byte().is_none()).collect();
    rule.destination(rule.host.as_deref(), &captures)
}
