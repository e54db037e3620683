//! Resolves a path to a record. We try the exact path first, then slash redirects, then rules, and finally fallback pages. When a
//! host does not have its own site, each step also looks into the default site.
//!
//! If there is a record for the path, a single lookup is enough. Otherwise, we need to search the index of rules and then walk the
//! path once, to find all scopes from the root down to the site's deepest one.

use cannery_archive::{
    Archive, AssetRule, Candidates, Corrupt, Key, Record, Resource, Rule, RuleFilter, Scope, ScopeEntry,
};

use super::asset::{PathKind, file_path, is_asset, suffix};
use crate::answer::Reason;
use crate::answer::location::SlashChange;
use crate::request::captures::Runs;
use crate::request::intent::{Intent, PageUse};
use crate::sites::{Place, Sites};

/// Maximum length of a fallback page's suffix, in bytes.
const SUFFIX_BYTES_MAX: usize = 255;

/// Results of resolving a path.
pub(crate) enum Found<'a> {
    /// A record. If it is from a rule, `matched` is the path that its pattern has matched.
    Record { record: Record<'a>, matched: Option<&'a [u8]>, reason: Reason },
    /// The path exists, but only with (or without) a slash at the end. `key` comes without the slash.
    Slash { key: Key<'a>, change: SlashChange },
    /// The path does not exist and is an asset, or the request is for an asset. Rules and fallback pages should not apply in this
    /// case.
    MissingAsset,
    /// The path does not exist.
    Nothing,
}

impl<'a> Found<'a> {
    fn record(record: Record<'a>, reason: Reason) -> Found<'a> {
        Found::Record { record, matched: None, reason }
    }

    /// Returns the record for an exact path.
    pub(crate) fn path(record: Record<'a>) -> Found<'a> {
        Found::record(record, reason_of(record))
    }

    fn rule(rule: &Rule<'a>, matched: &'a [u8]) -> Found<'a> {
        Found::Record { record: rule.record, matched: Some(matched), reason: Reason::Rule(rule.ordinal) }
    }
}

/// Buffers for the search of rules.
#[derive(Default)]
pub(crate) struct Search {
    /// The captures of the matching rule.
    pub(crate) runs: Runs,
    pub(crate) candidates: Candidates,
}

/// Resolves a path on the host's sites. When a rule matches, its captures will be in `search`.
pub(crate) fn resolve<'a>(
    archive: &'a Archive,
    place: Place<'a>,
    intent: Intent,
    search: &mut Search,
) -> Result<Found<'a>, Corrupt> {
    let Place { host, key, .. } = place;
    for site in Sites::new(archive, host) {
        if let Some(found) = find_path(archive, site?, key, search)? {
            return Ok(found);
        }
    }
    find_fallback(archive, host, key, intent, search)
}

/// Looks for a rule with precedence over files on one site, and then for the path itself.
fn find_path<'a>(
    archive: &'a Archive,
    site: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<Option<Found<'a>>, Corrupt> {
    if archive.facts().forced_rules
        && let Some(matched) = first_forced_rule(archive, site, key, search)?
    {
        return Ok(Some(matched));
    }
    Ok(archive.path(site, key)?.map(Found::path))
}

/// Resolves a path that does not have a record on the host's sites.
///
/// Each step looks into all sites before the next step starts. A file on the default site therefore takes precedence over any rule
/// with a pattern, even if the rule is for this host only.
#[inline(never)]
pub(crate) fn find_fallback<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    intent: Intent,
    search: &mut Search,
) -> Result<Found<'a>, Corrupt> {
    if archive.facts().slash_redirects {
        for site in Sites::new(archive, host) {
            if let Some(found) = other_slash(archive, site?, key)? {
                return Ok(found);
            }
        }
    }

    let wanted = Wanted::new(key, intent);
    let mut is_refused = false;
    for site in Sites::new(archive, host) {
        let Some(root) = archive.root(site?)? else { continue };
        match matching_rule(&root, key, &wanted, search)? {
            AssetRule::Found(found) => return Ok(found),
            AssetRule::ForPages => is_refused = true,
            AssetRule::None => {}
        }
    }

    for site in Sites::new(archive, host) {
        let found = nearest_fallback_page(archive, site?, key, &wanted)?;
        if !matches!(found, Found::Nothing) {
            return Ok(found);
        }
    }
    if is_refused { Ok(Found::MissingAsset) } else { Ok(Found::Nothing) }
}

/// Responses that are suitable if the path does not exist.
struct Wanted<'a> {
    /// The path's suffix.
    suffix: &'a [u8],
    is_asset_suffix: bool,
    /// The path looks like an asset, or the client cannot use a page.
    refuses_pages: bool,
}

impl<'a> Wanted<'a> {
    fn new(key: Key<'a>, intent: Intent) -> Wanted<'a> {
        let path = file_path(key.bytes());
        // There is no need to search further for a dot: a fallback page's suffix has at most 255 bytes.
        let tail = &path[path.len().saturating_sub(SUFFIX_BYTES_MAX + 2)..];
        let suffix = suffix(tail);

        let by_suffix = PathKind::of_suffix(suffix);
        let refuses_pages = match (PathKind::of(path, by_suffix), intent.page_use()) {
            (PathKind::File, _) | (_, PageUse::Useless) => true,
            (kind, PageUse::Unknown) => kind != PathKind::Page,
            (_, PageUse::Wanted) => false,
        };
        Wanted { suffix, is_asset_suffix: by_suffix != PathKind::Page, refuses_pages }
    }

    /// Ranks a fallback page with this suffix. If the page is not suitable, returns `None`.
    ///
    /// The requested suffix is best. Failing that, pages are better than assets.
    fn rank(&self, suffix: &[u8]) -> Option<(bool, bool)> {
        let is_same = suffix.eq_ignore_ascii_case(self.suffix);
        // Nearly all fallback pages have this suffix, so skip the search.
        let is_page = suffix == b"html" || !is_asset(suffix);
        // `_wildcard.png` also replaces missing images that don't have a suffix.
        let may_answer = !self.refuses_pages || !is_page && (is_same || !self.is_asset_suffix);
        may_answer.then_some((is_same, is_page))
    }
}

/// Returns `true` if a rule matches that has precedence over exact paths.
pub(crate) fn has_forced_rule<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<bool, Corrupt> {
    Ok(first_forced_rule(archive, host, key, search)?.is_some())
}

fn reason_of(record: Record<'_>) -> Reason {
    match record {
        Record::Resource(Resource { origin, .. }) => Reason::Path(origin),
        Record::Redirect(_) | Record::Rewrite(_) => Reason::Path(cannery_archive::Origin::Rule),
    }
}

/// Looks for the path with (or without) a slash at the end. If the record found is a redirect, we use its target directly, so that
/// the client will only be redirected once.
fn other_slash<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
) -> Result<Option<Found<'a>>, Corrupt> {
    let (record, key, change) = if key.is_directory() {
        let Some(file) = key.without_slash() else { return Ok(None) };
        (archive.path(host, file)?, file, SlashChange::Removed)
    } else {
        (archive.directory(host, key)?, key, SlashChange::Added)
    };

    Ok(record.map(|record| match record {
        Record::Redirect(_) => Found::path(record),
        _ => Found::Slash { key, change },
    }))
}

/// Finds the first rule with precedence over files that matches.
fn first_forced_rule<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<Option<Found<'a>>, Corrupt> {
    let Some(root) = archive.root(host)? else { return Ok(None) };
    let path = &key.bytes()[1..];
    let Search { runs, candidates } = search;
    root.first_rule(RuleFilter::Forcing, path, candidates, |rule| accept(&rule, path, runs))
}

/// Finds the first rule that matches a path without a record.
fn matching_rule<'a>(
    root: &Scope<'a>,
    key: Key<'a>,
    wanted: &Wanted<'_>,
    search: &mut Search,
) -> Result<AssetRule<Found<'a>>, Corrupt> {
    let path = &key.bytes()[1..];
    let Search { runs, candidates } = search;
    let accepts = |rule: Rule<'a>| accept(&rule, path, runs);
    if wanted.refuses_pages {
        return root.first_rule_for_asset(path, candidates, accepts);
    }
    let found = root.first_rule(RuleFilter::Yielding, path, candidates, accepts)?;
    Ok(found.map_or(AssetRule::None, AssetRule::Found))
}

/// Returns the rule's record if its pattern matches, and sets the captures.
fn accept<'a>(rule: &Rule<'a>, path: &'a [u8], runs: &mut Runs) -> Result<Option<Found<'a>>, Corrupt> {
    let is_match = runs.match_path(rule.pattern, path)?;
    Ok(is_match.then(|| Found::rule(rule, path)))
}

/// Finds the nearest fallback page.
fn nearest_fallback_page<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    wanted: &Wanted<'_>,
) -> Result<Found<'a>, Corrupt> {
    let mut fallback = None;
    let mut is_refused = false;
    for scope in archive.scopes(host, key) {
        let (covered, scope) = scope?;
        let mut best_rank = None;
        for entry in scope.pages() {
            let ScopeEntry::Fallback { suffix, record } = entry? else { continue };
            let rank = wanted.rank(suffix);
            is_refused |= rank.is_none();
            if rank > best_rank {
                best_rank = rank;
                fallback = Some(Found::record(record, Reason::Fallback(covered)));
            }
        }
    }

    Ok(match fallback {
        Some(fallback) => fallback,
        None if is_refused => Found::MissingAsset,
        None => Found::Nothing,
    })
}
