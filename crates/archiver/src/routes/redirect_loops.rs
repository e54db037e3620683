//! Finds redirects that never end, for example:
//!
//! - `/* /en/:splat` for a page that does not exist,
//! - `/a /b` and `/b /a`,
//! - `/docs/* /docs 301!` for a folder,
//! - `://*.example.com/* https://www.example.com/:splat` if `www.example.com` does not have a site.
//!
//! Starting from each redirect, we follow rules and slash redirects exactly like the server would. Captures are symbols that stand
//! for any text. If a path without captures may have a file, this ends the walk. With captures, there may or may not be a file, so
//! we need additional walks that start from files overridden by rules with captures. Rules in a loop are kept, since they may
//! still be useful for paths and hosts outside of it.
//!
//! The answer to a URL should depend on nothing but the URL, so we only need to follow each of
//! them once.

use std::collections::{HashMap, HashSet};

use cannery_archive::{Key, KeyBuffer};

use crate::ground::diagnostic::Diagnostic;
use crate::ground::rule_error::RuleError;
use crate::routes::{HostId, Routes, Target};
use crate::rulefiles::pattern::Symbol;
use crate::rulefiles::pattern_index::PatternIndex;
use crate::rulefiles::redirects::{Action, RedirectRule};
use crate::settings::options::Options;
use crate::sources::source::Sources;

/// Browsers follow at most 20 redirects.
const REDIRECTS_MAX: usize = 20;

/// Maximum growth of a path without captures before we stop following it. Rules that let it grow forever will be found by means
/// of captures.
const GROWTH_MAX: usize = 512;

/// Maximum total length of paths, for a single walk and for all walks.
const WALK_SYMBOLS_MAX: usize = 1 << 21;
const SYMBOLS_MAX: usize = 1 << 27;

/// Maximum number of walks that start from files, given that all hosts without a site are tried for
/// each file.
const FILE_WALKS_MAX: usize = 1 << 20;

/// Maximum number of walks with literal segments in place of placeholders, and of segments that are tried for every rule.
const FILLED_STARTS_MAX: usize = 1 << 14;
const COMMON_SEGMENTS_MAX: usize = 64;

/// A URL without scheme and query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Url {
    /// The host of the rule, or `None` for all hosts. Wildcards stand for any host below them.
    host: Option<String>,
    /// The path. A capture in it stands for every text that it can match.
    path: Vec<Symbol>,
}

impl Url {
    fn is_constant(&self) -> bool {
        self.path.iter().all(|symbol| symbol.byte().is_some())
    }
}

/// Why the server redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Rule(usize),
    /// The path exists with a trailing slash, or without it.
    Slash,
}

impl Cause {
    fn rule(self) -> Option<usize> {
        match self {
            Cause::Rule(rule) => Some(rule),
            Cause::Slash => None,
        }
    }
}

/// A redirect that we followed, and where it leads.
struct Step {
    cause: Cause,
    to: Url,
}

/// A redirect loop.
struct Loop {
    /// Rules in the loop, sorted.
    along: Vec<usize>,
    /// Where the walk started.
    from: Url,
    /// Steps of the walk.
    steps: Vec<Step>,
}

impl Loop {
    /// Returns the loop that consists of all steps from the given one on.
    fn new(from: Url, steps: Vec<Step>, first: usize) -> Loop {
        let mut along: Vec<usize> = steps[first..].iter().filter_map(|step| step.cause.rule()).collect();
        along.sort_unstable();
        along.dedup();
        Loop { along, from, steps }
    }
}

/// The result of a walk.
enum Walk {
    Loop(Loop),
    /// A loop that we have reported before.
    KnownLoop,
    /// The number of redirects after which the walk ends, or after which we can no longer tell.
    Ends(usize),
}

/// Reports each redirect loop, and each chain that is too long for browsers. Rules need to be passed together with their
/// sites.
pub(super) fn find(
    routes: &Routes,
    rules: &[(HostId, RedirectRule)],
    sources: &Sources,
    options: &Options,
) -> Vec<Diagnostic> {
    let map = RuleMap::of(routes, rules, sources, options);
    let mut search =
        Search { map: &map, ahead: HashMap::new(), growing: HashSet::new(), symbols_left: SYMBOLS_MAX };
    let mut known: HashSet<Vec<usize>> = HashSet::new();
    let mut diagnostics = Vec::new();
    // First rules of long chains, with the URLs that they lead to.
    let mut chains: Vec<(usize, usize, Url)> = Vec::new();

    for (place, (host, rule)) in rules.iter().enumerate() {
        let from = Url { host: routes.host_name(*host).map(str::to_owned), path: rule.source.symbols() };
        let Some(first) = map.follow(place, &from) else { continue };
        let to = first.to.clone();
        match search.walk(from, Some(first)) {
            Walk::Loop(found) if known.insert(found.along.clone()) => {
                diagnostics.push(map.diagnostic(&found));
            }
            Walk::Ends(count) if count > REDIRECTS_MAX => chains.push((place, count, to)),
            _ => {}
        }
    }

    for from in map.further_starts() {
        if let Walk::Loop(found) = search.walk(from, None)
            && known.insert(found.along.clone())
        {
            diagnostics.push(map.diagnostic(&found));
        }
    }

    let looping: HashSet<usize> = known.iter().flatten().copied().collect();
    // We should only report the beginning of a chain, as opposed to every rule in it.
    let inner: HashSet<Option<usize>> =
        chains.iter().map(|(_, _, to)| map.next(to).and_then(|step| step.cause.rule())).collect();
    for (place, count, _) in chains {
        if !inner.contains(&Some(place)) && !looping.contains(&place) {
            diagnostics.push(map.chain(place, count));
        }
    }

    for (place, host) in map.absolute_targets() {
        let from = Url { host: Some(host.clone()), path: rules[place].1.source.symbols() };
        let Some(first) = map.follow(place, &from) else { continue };
        if let Walk::Loop(found) = search.walk(from, Some(first))
            && found.along.contains(&place)
            && !found.along.iter().any(|place| looping.contains(place))
            && known.insert(found.along.clone())
        {
            diagnostics.push(map.note_of_host(&found.along, &host));
        }
    }
    diagnostics
}

/// Follows redirects.
struct Search<'m> {
    map: &'m RuleMap<'m>,
    /// The number of redirects that follow each URL, or `None` if there is no end to them.
    ahead: HashMap<Url, Option<usize>>,
    /// Rules in loops that extend the path with each turn. We would never see the same URL twice in such a
    /// loop.
    growing: HashSet<usize>,
    /// Rest of [`SYMBOLS_MAX`].
    symbols_left: usize,
}

impl Search<'_> {
    /// Follows redirects from a URL. If the first one is known already, it should be passed as
    /// `first`.
    fn walk(&mut self, from: Url, first: Option<Step>) -> Walk {
        let steps_max = 4 * self.map.rules.len() + 64;
        let mut steps: Vec<Step> = Vec::new();
        // Number of steps to each URL.
        let mut visited = HashMap::new();
        // The number of times each rule has been applied, and the last step at which it was.
        let mut applied: HashMap<usize, (usize, usize)> = HashMap::new();
        let is_first_known = first.is_some();
        if !is_first_known {
            visited.insert(from.clone(), 0);
        }

        let mut next = first.or_else(|| self.map.next(&from));

        let mut tail = Some(0);
        let mut found = None;
        let mut symbols = 0;
        let mut is_cut = false;
        while let Some(step) = next {
            // We are in a loop if this URL has been seen before. If the same rule is applied again and again without making the
            // path shorter, this is a loop as well, because the path will grow forever.
            let returned = visited.get(&step.to).copied();
            let mut grown = None;
            if let Some(rule) = step.cause.rule() {
                if self.growing.contains(&rule) {
                    tail = None;
                    break;
                }
                let (count, last) = applied.entry(rule).or_default();
                let is_growing = *count >= 2 && steps[*last].to.path.len() <= step.to.path.len();
                if is_growing && !step.to.is_constant() {
                    grown = Some(*last + 1);
                }
                (*count, *last) = (*count + 1, steps.len());
            }

            // If this takes too long, give up, because we should not report anything that is
            // not certain.
            symbols += step.to.path.len();
            is_cut = symbols > WALK_SYMBOLS_MAX.min(self.symbols_left)
                || steps.len() >= steps_max
                || step.to.is_constant() && step.to.path.len() > from.path.len() + GROWTH_MAX;

            visited.insert(step.to.clone(), steps.len() + 1);
            steps.push(step);
            if let Some(first) = returned.or(grown) {
                found = Some((first, returned.is_none()));
                tail = None;
                break;
            }
            if is_cut {
                break;
            }

            let at = &steps[steps.len() - 1].to;
            if let Some(known) = self.ahead.get(at) {
                tail = *known;
                break;
            }
            next = self.map.next(at);
        }

        self.symbols_left = self.symbols_left.saturating_sub(symbols);

        let count = steps.len();
        if is_cut && found.is_none() {
            return Walk::Ends(count);
        }
        // Remember the result for all URLs along the way.
        let states = steps.iter().enumerate().map(|(place, step)| (&step.to, count - place - 1));
        for (url, left) in states.chain((!is_first_known).then_some((&from, count))) {
            self.ahead.insert(url.clone(), tail.map(|tail| tail + left));
        }

        match (found, tail) {
            (Some((first, is_grown)), _) => {
                let found = Loop::new(from, steps, first);
                if is_grown {
                    self.growing.extend(&found.along);
                }
                Walk::Loop(found)
            }
            (None, Some(tail)) => Walk::Ends(count + tail),
            (None, None) => Walk::KnownLoop,
        }
    }
}

/// All rules, indexed by source.
struct RuleMap<'r> {
    routes: &'r Routes,
    rules: &'r [(HostId, RedirectRule)],
    /// For each path, the first rule without captures, separately for forced rules.
    statics: HashMap<(HostId, Box<[u8]>, bool), usize>,
    /// Rules with captures, separately for forced rules.
    patterns: HashMap<(HostId, bool), PatternIndex>,
    /// Paths of folders that will have a listing.
    listed: HashSet<Vec<u8>>,
    has_slash_redirects: bool,
}

/// The answer to exactly this path.
enum Record {
    /// A file or a rewrite.
    Page,
    /// A redirect.
    Redirect(usize),
}

impl<'r> RuleMap<'r> {
    fn of(
        routes: &'r Routes,
        rules: &'r [(HostId, RedirectRule)],
        sources: &Sources,
        options: &Options,
    ) -> RuleMap<'r> {
        let mut map = RuleMap {
            routes,
            rules,
            statics: HashMap::new(),
            patterns: HashMap::new(),
            listed: HashSet::new(),
            has_slash_redirects: !options.exclude_slash_redirects,
        };

        // A listing answers a folder's path just like a file would.
        if options.include_folder_listing {
            let folders = sources.folders.iter().filter(|folder| !folder.starts_with(b"_hosts"));
            map.listed = folders.map(|folder| [b"/", &**folder, b"/"].concat()).collect();
            map.listed.insert(b"/".to_vec());
        }

        for (place, (host, rule)) in rules.iter().enumerate() {
            // Rewrites to missing pages are ignored.
            if let Action::Rewrite { status: 200, path } = &rule.action
                && path.constant().is_some_and(|path| routes.source_at(*host, &path).is_none())
            {
                continue;
            }

            let Some(path) = rule.source.static_path() else {
                map.patterns.entry((*host, rule.force)).or_default().add(&rule.source.symbols(), place);
                continue;
            };

            // Unless it's forced, a rule has no effect where a file exists.
            let is_shadowed =
                !rule.force && routes.sites_of(*host).into_iter().any(|site| map.has_file(site, &path));
            if let Some(key) = key_of(&path).filter(|_| !is_shadowed) {
                map.statics.entry((*host, key, rule.force)).or_insert(place);
            }
        }

        map
    }

    /// Returns additional URLs to start from, apart from the sources of rules: URLs with a short text in place of `*` or a
    /// placeholder, and those of files that are overridden by a rule with captures.
    ///
    /// Literal segments come last, since visitors will hardly request such URLs. They should not use up what all walks share.
    fn further_starts(&self) -> Vec<Url> {
        let mut starts = self.short_starts();
        starts.append(&mut self.file_starts());
        starts.append(&mut self.filled_starts());
        starts
    }

    /// Returns sources of redirects with a segment, or nothing, in place of `*`.
    fn short_starts(&self) -> Vec<Url> {
        let mut starts = Vec::new();
        for (host, rule) in self.rules.iter().filter(|(_, rule)| is_redirect(rule)) {
            let path = rule.source.symbols();
            if path.contains(&Symbol::Splat) {
                let host = self.routes.host_name(*host).map(str::to_owned);
                let segment = path.iter().map(|symbol| match symbol {
                    Symbol::Splat => Symbol::Placeholder,
                    other => *other,
                });
                starts.push(Url { host: host.clone(), path: segment.collect() });
                let empty = path.iter().copied().filter(|symbol| *symbol != Symbol::Splat);
                starts.push(Url { host, path: empty.collect() });
            }
        }
        starts
    }

    /// Returns the URLs of files that are overridden by a rule with captures.
    fn file_starts(&self) -> Vec<Url> {
        let mut starts = Vec::new();
        let overriding: HashSet<HostId> = self
            .rules
            .iter()
            .filter(|(_, rule)| rule.force && is_redirect(rule) && !rule.source.is_static())
            .map(|(host, _)| *host)
            .collect();
        if overriding.is_empty() {
            return starts;
        }
        // The default site's files also answer for hosts that don't have a site of their own.
        let without_site: Vec<HostId> = overriding
            .iter()
            .copied()
            .filter(|host| host.is_some() && !self.routes.has_site(*host))
            .collect();

        let mut walks = 0;
        for (host, path) in self.routes.paths.keys() {
            let hosts = without_site.iter().filter(|_| host.is_none()).chain([host]);
            for host in hosts.copied().filter(|host| self.is_overridden(*host, &overriding)) {
                walks += 1;
                if walks > FILE_WALKS_MAX {
                    return starts;
                }
                let host = self.routes.host_name(host).map(str::to_owned);
                let symbols = |path: &[u8]| path.iter().copied().map(Symbol::Byte).collect();
                starts.push(Url { host: host.clone(), path: symbols(path) });
                starts.extend(other_slash(path).map(|path| Url { host, path: symbols(&path) }));
            }
        }
        starts
    }

    /// Returns sources of redirects with literal segments in place of placeholders. For example, `/blog/:slug /:slug/blog` only
    /// loops at `/blog/blog`.
    fn filled_starts(&self) -> Vec<Url> {
        let mut starts = Vec::new();
        let redirects: Vec<_> = self.rules.iter().filter(|(_, rule)| is_redirect(rule)).collect();
        let mut common = Vec::new();
        for (_, rule) in &redirects {
            common.extend(literal_segments(rule));
            if common.len() > COMMON_SEGMENTS_MAX {
                break;
            }
        }
        common.sort_unstable();
        common.dedup();
        common.truncate(COMMON_SEGMENTS_MAX);

        // Segments of the rule itself are the likeliest.
        for is_own in [true, false] {
            for (host, rule) in &redirects {
                let path = rule.source.symbols();
                let holes = path.iter().filter(|symbol| **symbol == Symbol::Placeholder).count();
                if holes == 0 {
                    continue;
                }
                let own = if is_own { literal_segments(rule) } else { Vec::new() };
                for segment in if is_own { &own } else { &common } {
                    // Either all placeholders have this text, or one of them.
                    let choices = (0..holes).map(Some).filter(|_| holes > 1).chain([None]);
                    for choice in choices {
                        if starts.len() >= FILLED_STARTS_MAX {
                            return starts;
                        }
                        let host = self.routes.host_name(*host).map(str::to_owned);
                        starts.push(Url { host, path: filled(&path, choice, segment) });
                    }
                }
            }
        }
        starts
    }

    fn is_overridden(&self, host: HostId, overriding: &HashSet<HostId>) -> bool {
        self.routes.sites_of(host).iter().any(|site| overriding.contains(site))
    }

    /// Returns redirects for all hosts that lead to a single host without a site.
    fn absolute_targets(&self) -> Vec<(usize, String)> {
        let rules = self.rules.iter().enumerate().filter(|(_, (host, _))| host.is_none());
        let captures = vec![&[Symbol::Placeholder][..]; usize::from(u8::MAX) + 1];
        let anywhere = "";
        let targets = rules.filter_map(|(place, (_, rule))| {
            let (host, _) = rule.destination(Some(anywhere), &captures)?;
            Some((place, host.filter(|host| host != anywhere)?))
        });
        targets.filter(|(_, host)| self.routes.sites_of_name(host) == [None]).collect()
    }

    /// Returns the step that a rule takes from a URL.
    fn follow(&self, rule: usize, url: &Url) -> Option<Step> {
        let found = &self.rules[rule].1;
        // When a redirect does not have captures, it applies to its path with and without a trailing slash.
        let captures = if found.source.is_static() { Vec::new() } else { captures(found, &url.path)? };
        if let Some(path) = found.rewritten_path(&captures) {
            // A rewrite with captures may lead to a path that is redirected.
            if captures.is_empty() {
                return None;
            }
            let path: Vec<u8> = path.iter().map(Symbol::byte).collect::<Option<_>>()?;
            let record = self.sites(url).into_iter().find_map(|site| self.record(site, &path))?;
            let Record::Redirect(rule) = record else { return None };
            let (host, path) = self.rules[rule].1.destination(url.host.as_deref(), &[])?;
            return Some(Step { cause: Cause::Rule(rule), to: Url { host, path } });
        }

        let (host, path) = found.destination(url.host.as_deref(), &captures)?;
        Some(Step { cause: Cause::Rule(rule), to: Url { host, path } })
    }

    fn sites(&self, url: &Url) -> Vec<HostId> {
        url.host.as_deref().map_or_else(|| vec![None], |host| self.routes.sites_of_name(host))
    }

    /// Looks up the redirect that answers a URL. This should search in the same order as the server. If there is another answer,
    /// returns `None`.
    fn next(&self, url: &Url) -> Option<Step> {
        let sites = self.sites(url);
        let bytes: Option<Vec<u8>> = url.path.iter().map(Symbol::byte).collect();
        for site in &sites {
            let exact = bytes.as_deref().and_then(|path| self.exact(*site, path, true));
            if let Some(rule) = exact.into_iter().chain(self.pattern(*site, &url.path, true)).min() {
                return self.follow(rule, url);
            }
            match bytes.as_deref().and_then(|path| self.record(*site, path)) {
                Some(Record::Page) => return None,
                Some(Record::Redirect(rule)) => return self.follow(rule, url),
                None => {}
            }
        }

        let other = bytes.as_deref().and_then(other_slash).filter(|_| self.has_slash_redirects);
        for site in sites.iter().filter(|_| other.is_some()) {
            let path = other.as_deref().unwrap_or_default();
            match self.record(*site, path) {
                Some(Record::Page) => {
                    let path = path.iter().copied().map(Symbol::Byte).collect();
                    return Some(Step { cause: Cause::Slash, to: Url { host: url.host.clone(), path } });
                }
                // The server follows this redirect right away in order to save the client a round trip.
                Some(Record::Redirect(rule)) => return self.follow(rule, url),
                None => {}
            }
        }

        let rule = sites.iter().find_map(|site| self.pattern(*site, &url.path, false))?;
        self.follow(rule, url)
    }

    fn exact(&self, site: HostId, path: &[u8], force: bool) -> Option<usize> {
        self.statics.get(&(site, path.into(), force)).copied()
    }

    /// Finds the first rule with captures that matches a path, either with or without its trailing
    /// slash.
    fn pattern(&self, site: HostId, path: &[Symbol], force: bool) -> Option<usize> {
        let index = self.patterns.get(&(site, force))?;
        let covers = |place: usize| captures(&self.rules[place].1, path).is_some();
        let shorter = without_slash(path).and_then(|path| index.first(path, covers));
        index.first(path, covers).into_iter().chain(shorter).min()
    }

    /// Returns whatever answers exactly this path, not counting rules with captures.
    fn record(&self, site: HostId, path: &[u8]) -> Option<Record> {
        let of_rule = |rule: usize| match self.rules[rule].1.action {
            Action::Redirect { .. } => Record::Redirect(rule),
            Action::Rewrite { .. } => Record::Page,
        };
        if let Some(rule) = self.exact(site, path, true) {
            return Some(of_rule(rule));
        }
        if self.has_file(site, path) {
            return Some(Record::Page);
        }
        if let Some(rule) = self.exact(site, path, false) {
            return Some(of_rule(rule));
        }
        (site.is_none() && self.listed.contains(path)).then_some(Record::Page)
    }

    /// Returns `true` if a file answers exactly this path and takes precedence over rules.
    fn has_file(&self, site: HostId, path: &[u8]) -> bool {
        let Some(key) = key_of(path) else { return false };
        let path = (site, key);
        let route = self.routes.paths.get(&path);
        route.is_some_and(|route| matches!(route.target, Target::Source { .. }))
            && !self.routes.weak_aliases.contains(&path)
    }

    /// Returns a warning about a loop. The advice depends on its cause.
    fn diagnostic(&self, found: &Loop) -> Diagnostic {
        let rules: Vec<_> = found.along.iter().map(|place| &self.rules[*place].1).collect();
        let last = &found.steps[found.steps.len() - 1].to;
        let slash = found.steps.iter().find(|step| step.cause == Cause::Slash);

        let message = match (&rules[..], &last.host) {
            ([_], _) if slash.is_some() => {
                let page = slash.map_or_else(String::new, |step| example(&step.to.path));
                let other = other_slash(page.as_bytes()).unwrap_or_default();
                format!(
                    "this rule leads to `{}`, which the server redirects to `{page}`, where it applies again, so clients would be \
                     redirected forever; write the target as `{page}`, or remove the rule",
                    String::from_utf8_lossy(&other)
                )
            }
            ([_], Some(host)) if found.from.host.as_ref() != Some(host) => format!(
                "this rule leads to `{host}`, where it applies again, so clients would be redirected forever; give that host a \
                 site of its own in `_hosts/`, or change the target"
            ),
            ([rule], _) => {
                let of_rule = found.steps.iter().filter(|step| {
                    step.cause.rule().is_some_and(|place| self.rules[place].1.line == rule.line)
                });
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
                let through = host.as_ref().map_or(String::new(), |host| format!(" through `{host}`"));
                format!(
                    "the redirects at {} form a loop{through}; point one of them at a page",
                    self.places(&found.along)
                )
            }
        };

        let last = rules[rules.len() - 1];
        RuleError::new("redirect-loop", message).at(&last.file, last.line)
    }

    /// Returns a warning about a chain of redirects that begins with this rule.
    fn chain(&self, rule: usize, count: usize) -> Diagnostic {
        let rule = &self.rules[rule].1;
        let message = format!(
            "this rule begins a chain of {count} redirects, but browsers follow at most {REDIRECTS_MAX}; point it at the last target \
             of the chain"
        );
        RuleError::new("redirect-chain", message).at(&rule.file, rule.line)
    }

    /// Returns a note about rules for all hosts. They would also apply on the hosts of their targets.
    fn note_of_host(&self, along: &[usize], host: &str) -> Diagnostic {
        let last = &self.rules[along[along.len() - 1]].1;
        let subject = match along {
            [_] => "this rule applies to every host, so".to_owned(),
            _ => format!("the redirects at {} apply to every host and form a loop, so", self.places(along)),
        };
        let message = format!(
            "{subject} clients would be redirected forever if this server also answers for `{host}`; name the hosts \
             that it is for, as in `://www.example.com/*`, or give `{host}` a site of its own in `_hosts/`"
        );
        RuleError::note("redirect-every-host", message).at(&last.file, last.line)
    }

    /// Lists the lines of rules.
    fn places(&self, along: &[usize]) -> String {
        let rules = along.iter().map(|place| &self.rules[*place].1);
        let mut places: Vec<_> = rules.map(|rule| format!("{}:{}", rule.file, rule.line)).collect();
        if let Some(others) = places.len().checked_sub(10).filter(|others| *others > 0) {
            places.truncate(10);
            places.push(format!("{others} more lines"));
        }
        places.join(", ")
    }
}

/// Returns the segments of a rule's source and target that contain no capture.
fn literal_segments(rule: &RedirectRule) -> Vec<Vec<u8>> {
    let captures = vec![&[Symbol::Placeholder][..]; usize::from(u8::MAX) + 1];
    let target = rule.destination(Some(""), &captures).map(|(_, path)| path).unwrap_or_default();
    let mut found = Vec::new();
    for path in [rule.source.symbols(), target] {
        for segment in path.split(|symbol| *symbol == Symbol::Byte(b'/')) {
            let bytes: Option<Vec<u8>> = segment.iter().map(Symbol::byte).collect();
            found.extend(bytes.filter(|bytes| !bytes.is_empty()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Replaces one placeholder of a path, or all of them, with a text.
fn filled(path: &[Symbol], choice: Option<usize>, text: &[u8]) -> Vec<Symbol> {
    let mut number = 0;
    let mut filled = Vec::new();
    for symbol in path {
        if *symbol != Symbol::Placeholder {
            filled.push(*symbol);
            continue;
        }
        if choice.is_none_or(|choice| choice == number) {
            filled.extend(text.iter().copied().map(Symbol::Byte));
        } else {
            filled.push(*symbol);
        }
        number += 1;
    }
    filled
}

fn is_redirect(rule: &RedirectRule) -> bool {
    matches!(rule.action, Action::Redirect { .. })
}

/// Converts a percent-decoded path to a key.
fn key_of(path: &[u8]) -> Option<Box<[u8]>> {
    let mut buffer = KeyBuffer::new();
    let key = Key::from_parts([path.strip_prefix(b"/").unwrap_or(path)], &mut buffer).ok()?;
    Some(key.bytes().into())
}

/// Adds a trailing slash to a path if it has none and removes it otherwise. Returns `None` for the
/// root.
fn other_slash(path: &[u8]) -> Option<Vec<u8>> {
    match path.strip_suffix(b"/") {
        Some([]) => None,
        Some(shorter) => Some(shorter.to_vec()),
        None => Some([path, b"/"].concat()),
    }
}

/// Returns the captures in a path.
///
/// If it does not match, the path is tried without its trailing slash, since the server would do.
fn captures<'p>(rule: &RedirectRule, path: &'p [Symbol]) -> Option<Vec<&'p [Symbol]>> {
    let exactly = rule.source.captures_within(path);
    exactly.or_else(|| rule.source.captures_within(without_slash(path)?))
}

fn without_slash(path: &[Symbol]) -> Option<&[Symbol]> {
    path.strip_suffix(&[Symbol::Byte(b'/')]).filter(|path| !path.is_empty())
}

/// Returns an example of a path that a pattern stands for.
fn example(path: &[Symbol]) -> String {
    let bytes: Vec<u8> = path.iter().map(|symbol| symbol.byte().unwrap_or(b'x')).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compiler;
    use crate::settings::cancel::CancelFlag;
    use crate::settings::effort::Effort;

    /// Walks share a limit, so those that are likely to find a loop come first.
    #[test]
    fn files_are_tried_before_literal_segments() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("en/guide")).unwrap();
        std::fs::write(folder.path().join("index.html"), "home").unwrap();
        std::fs::write(folder.path().join("en/guide/en.html"), "page").unwrap();
        std::fs::write(folder.path().join("_redirects"), "/en/:a/:b /:b/:a/en 301!\n").unwrap();
        let compiler = Compiler::new(Options::new(folder.path(), ""));
        let report = compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap().report;
        let found: Vec<_> = report.diagnostics.iter().filter(|found| found.code == "redirect-loop").collect();
        let [found] = found[..] else { panic!("{:?}", report.diagnostics) };
        assert!(found.message.contains("`/en/guide/en`"), "{}", found.message);
    }
}
