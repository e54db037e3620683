//! Redirect loops between hosts, such as `://*.example.com/* https://www.example.com/:splat` if `www.example.com` has no
//! site.
//!
//! Loops within one host are found when a rule file is parsed. The rules are kept, because they may be useful on hosts
//! outside the loop.

use std::collections::{HashMap, HashSet};

use cannery_archive::{Key, KeyBuffer};

use crate::diagnostic::Diagnostic;
use crate::pattern::Symbol;
use crate::pattern_index::PatternIndex;
use crate::redirects::RedirectRule;
use crate::routes::{HostId, Routes, Target};
use crate::rule_error::RuleError;

/// Browsers follow at most 20 redirects.
const STEPS_MAX: usize = 20;

/// A URL without scheme and query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    host: String,
    /// The path. A capture in it represents every text that it can match.
    path: Vec<Symbol>,
}

/// Returns a diagnostic for each redirect loop. Each rule comes with its site.
pub(crate) fn find(routes: &Routes, rules: &[(HostId, RedirectRule)]) -> Vec<Diagnostic> {
    // Without a rule for certain hosts, no redirect leads from one host to another.
    if rules.iter().all(|(host, _)| host.is_none()) {
        return Vec::new();
    }
    let map = RuleMap::of(routes, rules);
    let mut known = HashSet::new();
    let loops = (0..rules.len()).filter_map(|start| map.loop_from(start));
    let new = loops.filter(|(along, _)| known.insert(along.clone()) && !map.is_within_one_file(along));
    new.map(|(along, host)| map.diagnostic(&along, &host)).collect()
}

/// The rules, indexed by source.
struct RuleMap<'r> {
    routes: &'r Routes,
    rules: &'r [(HostId, RedirectRule)],
    /// The first rule without captures for each path, by whether it is forced.
    statics: HashMap<(HostId, Vec<Symbol>, bool), usize>,
    /// The rules with captures, by whether they are forced.
    patterns: HashMap<(HostId, bool), PatternIndex>,
}

impl<'r> RuleMap<'r> {
    fn of(routes: &'r Routes, rules: &'r [(HostId, RedirectRule)]) -> RuleMap<'r> {
        let mut statics = HashMap::new();
        let mut patterns: HashMap<_, PatternIndex> = HashMap::new();
        for (place, (host, rule)) in rules.iter().enumerate() {
            if rule.source.is_static() {
                statics.entry((*host, rule.source.symbols(), rule.force)).or_insert(place);
            } else {
                patterns.entry((*host, rule.force)).or_default().add(&rule.source.symbols(), place);
            }
        }
        RuleMap { routes, rules, statics, patterns }
    }

    /// Returns the sorted rules of the loop in which a client ends that follows the redirect `start` to another host, and a
    /// host of the loop. Returns `None` if the client reaches a page, or if that depends on more than the rules.
    fn loop_from(&self, start: usize) -> Option<(Vec<usize>, String)> {
        let (host, rule) = &self.rules[start];
        let source = rule.source.symbols();
        let first = self.follow(start, self.routes.host_name(*host)?, &source)?;
        if first.host.starts_with("*.") {
            return None;
        }
        let mut trail = vec![(start, first)];
        for _ in 0..STEPS_MAX {
            let (_, at) = trail.last()?;
            let next = self.applicable_rule(at)?;
            let then = self.follow(next, &at.host, &at.path)?;

            // The rule maps all of its paths to paths that it matches, so it matches those again.
            let is_endless = next == start && rule.force && trail.len() == 1;
            let first_visit = trail.iter().position(|(_, visited)| *visited == then);
            if let Some(first_visit) = first_visit.or(is_endless.then_some(0)) {
                let mut along: Vec<usize> = trail[first_visit + 1..].iter().map(|(rule, _)| *rule).collect();
                along.push(next);
                along.sort_unstable();
                along.dedup();
                return Some((along, then.host));
            }
            trail.push((next, then));
        }
        None
    }

    /// Returns the target of a rule for a path.
    fn follow(&self, rule: usize, host: &str, path: &[Symbol]) -> Option<Url> {
        let rule = &self.rules[rule].1;
        let captures = rule.source.captures_within(path)?;
        let (host, path) = rule.destination(Some(host), &captures)?;
        Some(Url { host: host?, path })
    }

    /// Returns the rule that applies to a URL, or `None` if none does or if it depends on what was captured.
    fn applicable_rule(&self, url: &Url) -> Option<usize> {
        let sites = self.routes.sites_of_name(&url.host);
        let first = |force: bool| {
            sites.iter().find_map(|site| {
                let exact = self.statics.get(&(*site, url.path.clone(), force)).copied();
                let covers = |place: usize| self.rules[place].1.source.captures_within(&url.path).is_some();
                let pattern =
                    self.patterns.get(&(*site, force)).and_then(|index| index.first(&url.path, covers));
                exact.into_iter().chain(pattern).min()
            })
        };
        first(true).or_else(|| {
            let yielding = first(false).filter(|_| !self.has_file(&sites, &url.path))?;
            // `/:page/:language /:language/:page` swaps captures, and its target may be a file.
            self.rules[yielding].1.keeps_order().then_some(yielding)
        })
    }

    /// Returns `true` if a file answers a path, or if the server redirects to the path with or without a final slash.
    fn has_file(&self, sites: &[HostId], path: &[Symbol]) -> bool {
        let Some(path) = path.iter().map(Symbol::byte).collect::<Option<Vec<u8>>>() else { return false };
        let inner = path.strip_prefix(b"/").unwrap_or(&path);
        let other = inner.strip_suffix(b"/").map_or_else(|| [inner, b"/"].concat(), <[u8]>::to_vec);
        [inner, &other].into_iter().any(|path| {
            let mut buffer = KeyBuffer::new();
            let Ok(key) = Key::from_parts([path], &mut buffer) else { return false };
            sites.iter().any(|site| {
                let route = self.routes.paths.get(&(*site, key.bytes().into()));
                route.is_some_and(|route| matches!(route.target, Target::Source { .. }))
            })
        })
    }

    /// Returns `true` if the loop was reported when its file was parsed.
    fn is_within_one_file(&self, along: &[usize]) -> bool {
        let (_, first) = &self.rules[along[0]];
        along.iter().map(|place| &self.rules[*place].1).all(|rule| {
            let is_wildcard = rule.host.as_ref().is_some_and(|host| host.starts_with("*."));
            rule.file == first.file && rule.source.is_static() && !is_wildcard
        })
    }

    fn diagnostic(&self, along: &[usize], host: &str) -> Diagnostic {
        let rules: Vec<_> = along.iter().map(|place| &self.rules[*place].1).collect();
        let message = match rules[..] {
            [_] => format!(
                "leads to `{host}`, where this rule applies again, so clients would be redirected forever; give that host a \
                 site of its own in `_hosts/`, or change the target"
            ),
            _ => {
                let places: Vec<_> =
                    rules.iter().map(|rule| format!("{}:{}", rule.file, rule.line)).collect();
                format!(
                    "the redirects at {} form a loop through `{host}`; point one of them at a page",
                    places.join(", ")
                )
            }
        };
        let last = rules[rules.len() - 1];
        RuleError::new("redirect-loop", message).at(&last.file, last.line)
    }
}
