//! Redirect loops: `/* /en/:splat` for a page that doesn't exist, `/a /b` and `/b /a`, or
//! `://*.example.com/* https://www.example.com/:splat` if `www.example.com` has no site.
//!
//! From each redirect, we follow the rules as the server applies them, with captures as symbols that stand for any text. A
//! path without captures may have a file, which ends the walk; a path with captures doesn't always have one. The rules are kept,
//! because they may be useful for paths and hosts outside the loop.

use std::collections::{HashMap, HashSet};

use cannery_archive::{Key, KeyBuffer};

use crate::diagnostic::Diagnostic;
use crate::pattern::Symbol;
use crate::pattern_index::PatternIndex;
use crate::redirects::{Action, RedirectRule};
use crate::routes::{HostId, Routes, Target};
use crate::rule_error::RuleError;

/// Browsers follow at most 20 redirects.
const STEPS_MAX: usize = 20;

/// A path that has become this long will soon be longer than a request can be.
const SYMBOLS_MAX: usize = 2048;

/// A URL without scheme and query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    /// `None` if the rule is for all hosts. A wildcard stands for a host below it.
    host: Option<String>,
    /// The path. A capture in it represents every text that it can match.
    path: Vec<Symbol>,
}

/// A redirect that was followed, and the URL that it leads to.
struct Step {
    rule: usize,
    to: Url,
}

/// A redirect loop.
struct Loop {
    /// The rules, sorted.
    along: Vec<usize>,
    /// Where the walk began.
    from: Url,
    /// The first steps.
    steps: Vec<Step>,
}

/// Returns a diagnostic for each redirect loop. Each rule comes with its site.
pub(crate) fn find(routes: &Routes, rules: &[(HostId, RedirectRule)]) -> Vec<Diagnostic> {
    let map = RuleMap::of(routes, rules);
    let mut known = HashSet::new();
    let loops = (0..rules.len()).filter_map(|start| map.loop_from(start));
    let new = loops.filter(|found| known.insert(found.along.clone()));
    new.map(|found| map.diagnostic(&found)).collect()
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

/// The answer to a URL.
enum Answer {
    Redirect(usize),
    /// A file, a rewrite, a fallback page or an error.
    Page,
    /// Nothing on this site.
    Nothing,
}

impl<'r> RuleMap<'r> {
    fn of(routes: &'r Routes, rules: &'r [(HostId, RedirectRule)]) -> RuleMap<'r> {
        let mut statics = HashMap::new();
        let mut patterns: HashMap<_, PatternIndex> = HashMap::new();
        for (place, (host, rule)) in rules.iter().enumerate() {
            // A rewrite to a page that doesn't exist is ignored.
            if let Action::Rewrite { path, .. } = &rule.action
                && path.constant().is_some_and(|path| routes.source_at(*host, &path).is_none())
            {
                continue;
            }
            if rule.source.is_static() {
                statics.entry((*host, rule.source.symbols(), rule.force)).or_insert(place);
            } else {
                patterns.entry((*host, rule.force)).or_default().add(&rule.source.symbols(), place);
            }
        }
        RuleMap { routes, rules, statics, patterns }
    }

    /// Returns the loop in which a client ends that follows the redirect `start`. Returns `None` if the client reaches a page, or
    /// if that depends on more than the rules.
    fn loop_from(&self, start: usize) -> Option<Loop> {
        let (host, rule) = &self.rules[start];
        let from = Url { host: self.routes.host_name(*host).map(str::to_owned), path: rule.source.symbols() };
        let mut steps = vec![Step { rule: start, to: self.follow(start, &from)? }];
        for _ in 0..STEPS_MAX {
            let at = &steps.last()?.to;
            let next = self.next_redirect(at)?;
            let to = self.follow(next, at)?;

            // All paths that the URL stands for come back to it. If the same rule applies again and again without shortening the
            // path, it grows forever.
            let visited = steps.iter().position(|step| step.to == to);
            let grown = steps.iter().rposition(|step| step.rule == next).filter(|earlier| {
                let is_third = steps[..*earlier].iter().any(|step| step.rule == next);
                is_third && steps[*earlier].to.path.len() <= to.path.len()
            });
            if let Some(first) = visited.or(grown) {
                let mut along: Vec<usize> = steps[first + 1..].iter().map(|step| step.rule).collect();
                along.push(next);
                along.sort_unstable();
                along.dedup();
                steps.push(Step { rule: next, to });
                return Some(Loop { along, from, steps });
            }
            if to.path.len() > SYMBOLS_MAX {
                return None;
            }
            steps.push(Step { rule: next, to });
        }
        None
    }

    /// Returns the target of a rule for a URL.
    fn follow(&self, rule: usize, url: &Url) -> Option<Url> {
        let rule = &self.rules[rule].1;
        // The server uses a redirect without captures for its path with or without a final slash.
        let captures = if rule.source.is_static() { Vec::new() } else { captures(rule, &url.path)? };
        let (host, path) = rule.destination(url.host.as_deref(), &captures)?;
        Some(Url { host, path })
    }

    /// Returns the redirect that applies to a URL, or `None` if none does.
    fn next_redirect(&self, url: &Url) -> Option<usize> {
        let sites = url.host.as_deref().map_or_else(|| vec![None], |host| self.routes.sites_of_name(host));
        for site in sites {
            match self.answer(site, &url.path) {
                Answer::Redirect(rule) => return Some(rule),
                Answer::Page => return None,
                Answer::Nothing => {}
            }
        }
        None
    }

    /// Returns what answers a path on one site, in the order of the server.
    fn answer(&self, site: HostId, path: &[Symbol]) -> Answer {
        let exact = |path: &[Symbol], force| self.statics.get(&(site, path.to_vec(), force)).copied();
        let pattern = |force| {
            let covers = |place: usize| captures(&self.rules[place].1, path).is_some();
            self.patterns.get(&(site, force)).and_then(|index| {
                let shorter = without_slash(path).and_then(|path| index.first(path, covers));
                index.first(path, covers).into_iter().chain(shorter).min()
            })
        };
        if let Some(rule) = exact(path, true).into_iter().chain(pattern(true)).min() {
            return self.answer_of(rule);
        }

        let bytes: Option<Vec<u8>> = path.iter().map(Symbol::byte).collect();
        if let Some(bytes) = bytes {
            if self.has_file(site, &bytes) {
                return Answer::Page;
            }
            if let Some(rule) = exact(path, false) {
                return self.answer_of(rule);
            }
            // The server adds or removes a slash at the end, and uses a redirect that it finds there.
            let other = match bytes.strip_suffix(b"/") {
                Some(shorter) => shorter.to_vec(),
                None => [&bytes, b"/".as_slice()].concat(),
            };
            let symbols: Vec<Symbol> = other.iter().copied().map(Symbol::Byte).collect();
            let rule = exact(&symbols, true).or_else(|| exact(&symbols, false));
            if self.has_file(site, &other) && exact(&symbols, true).is_none() {
                return Answer::Page;
            }
            if let Some(rule) = rule {
                return self.answer_of(rule);
            }
        }

        if let Some(rule) = pattern(false) {
            return self.answer_of(rule);
        }
        let known: Vec<u8> = path.iter().map_while(Symbol::byte).collect();
        if self.routes.has_fallback_for(site, &known) { Answer::Page } else { Answer::Nothing }
    }

    fn answer_of(&self, rule: usize) -> Answer {
        match self.rules[rule].1.action {
            Action::Redirect { .. } => Answer::Redirect(rule),
            Action::Rewrite { .. } => Answer::Page,
        }
    }

    /// Returns `true` if a file answers exactly this path, and yields to no rule.
    fn has_file(&self, site: HostId, path: &[u8]) -> bool {
        let mut buffer = KeyBuffer::new();
        let Ok(key) = Key::from_parts([path.strip_prefix(b"/").unwrap_or(path)], &mut buffer) else {
            return false;
        };
        let path = (site, key.bytes().into());
        let route = self.routes.paths.get(&path);
        route.is_some_and(|route| matches!(route.target, Target::Source { .. }))
            && !self.routes.weak_aliases.contains(&path)
    }

    fn diagnostic(&self, found: &Loop) -> Diagnostic {
        let rules: Vec<_> = found.along.iter().map(|place| &self.rules[*place].1).collect();
        let last = &found.steps[found.steps.len() - 1].to;
        let message = match (&rules[..], &last.host) {
            ([_], Some(host)) if found.from.host.as_ref() != Some(host) => format!(
                "leads to `{host}`, where this rule applies again, so clients would be redirected forever; give that host a \
                 site of its own in `_hosts/`, or change the target"
            ),
            ([rule], _) => {
                let of_rule = found.steps.iter().filter(|step| self.rules[step.rule].1.line == rule.line);
                let paths: Vec<String> = [&found.from]
                    .into_iter()
                    .chain(of_rule.map(|step| &step.to).take(2))
                    .map(|url| format!("`{}`", example(&url.path)))
                    .collect();
                format!(
                    "clients would be redirected forever where no file answers, such as from {}; change the target, or write a \
                     rule above this line that answers it",
                    paths.join(" to ")
                )
            }
            (_, host) => {
                let places: Vec<_> =
                    rules.iter().map(|rule| format!("{}:{}", rule.file, rule.line)).collect();
                let through = host.as_ref().map_or(String::new(), |host| format!(" through `{host}`"));
                format!(
                    "the redirects at {} form a loop{through}; point one of them at a page",
                    places.join(", ")
                )
            }
        };
        let last = rules[rules.len() - 1];
        RuleError::new("redirect-loop", message).at(&last.file, last.line)
    }
}

/// Returns the captures of a path, which the server also matches without its final slash.
fn captures<'p>(rule: &RedirectRule, path: &'p [Symbol]) -> Option<Vec<&'p [Symbol]>> {
    let exactly = rule.source.captures_within(path);
    exactly.or_else(|| rule.source.captures_within(without_slash(path)?))
}

fn without_slash(path: &[Symbol]) -> Option<&[Symbol]> {
    path.strip_suffix(&[Symbol::Byte(b'/')]).filter(|path| !path.is_empty())
}

/// Returns a path that a pattern stands for.
fn example(path: &[Symbol]) -> String {
    let bytes: Vec<u8> = path.iter().map(|symbol| symbol.byte().unwrap_or(b'x')).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
