//! Resolves a path to a record: exact path, then slash redirect, then rules, then fallback pages. Of a host without a site of its
//! own, each step covers the default site too.
//!
//! A path with a record costs one lookup. For the others we search the index of the rules, and then the scopes from the root
//! down, in one pass over the path and no deeper than the deepest scope of the site.

use cannery_archive::{Archive, Candidates, Corrupt, Key, Record, Resource, Rule, RuleFilter, ScopeEntry};

use crate::answer::Reason;
use crate::asset::{PathKind, file_path, is_asset, suffix};
use crate::captures::Runs;
use crate::intent::{Intent, PageUse};
use crate::location::SlashChange;
use crate::sites::{Place, Sites};

/// Maximum length of the suffix of a fallback page, in bytes.
const SUFFIX_BYTES_MAX: usize = 255;

/// The result of resolving a path.
pub(crate) enum Found<'a> {
    /// A record. If a pattern matched, `matched` is the path that was matched against it.
    Record { record: Record<'a>, matched: Option<&'a [u8]>, reason: Reason },
    /// The path exists with a slash at its end that the request lacks, or without the one that the request has. `key` has none.
    Slash { key: Key<'a>, change: SlashChange },
    /// The path does not exist, and is an asset, or the request is for one: fallback pages and rules do not apply.
    MissingAsset,
    /// The path does not exist.
    Nothing,
}

impl<'a> Found<'a> {
    fn record(record: Record<'a>, reason: Reason) -> Found<'a> {
        Found::Record { record, matched: None, reason }
    }

    /// Returns the record of an exact path.
    pub(crate) fn path(record: Record<'a>) -> Found<'a> {
        Found::record(record, reason_of(record))
    }

    fn rule((rule, matched): (Rule<'a>, &'a [u8])) -> Found<'a> {
        Found::Record { record: rule.record, matched: Some(matched), reason: Reason::Rule(rule.ordinal) }
    }
}

/// Buffers for searching rules.
#[derive(Default)]
pub(crate) struct Search {
    /// The captures of the rule that was found.
    pub(crate) runs: Runs,
    pub(crate) candidates: Candidates,
}

/// Resolves a path on the sites that are searched for the host. The captures of a rule are in `search`.
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

/// Finds a rule with precedence over files, or the record of the path itself, on one site.
fn find_path<'a>(
    archive: &'a Archive,
    site: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<Option<Found<'a>>, Corrupt> {
    if archive.facts().forced_rules
        && let Some(matched) = first_rule(archive, site, key, RuleFilter::Forcing, search)?
    {
        return Ok(Some(Found::rule(matched)));
    }
    Ok(archive.path(site, key)?.map(Found::path))
}

/// Resolves a path without a record on the sites of a host.
///
/// Each step covers all sites before the next one begins: a file of the default site wins over the pattern of a rule that is for
/// one host, as it does over all other patterns.
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
    let filter = if wanted.refuses_pages { RuleFilter::YieldingForAssets } else { RuleFilter::Yielding };
    for site in Sites::new(archive, host) {
        if let Some(matched) = first_rule(archive, site?, key, filter, search)? {
            return Ok(Found::rule(matched));
        }
    }

    for site in Sites::new(archive, host) {
        let found = nearest_fallback_page(archive, site?, key, &wanted)?;
        if !matches!(found, Found::Nothing) {
            return Ok(found);
        }
    }
    // A rule for pages would match: report that the path is a missing asset.
    if wanted.refuses_pages {
        for site in Sites::new(archive, host) {
            let site = site?;
            if archive.root(site)?.map_or(Ok(false), |root| root.has_rules_for_pages())?
                && first_rule(archive, site, key, RuleFilter::Yielding, search)?.is_some()
            {
                return Ok(Found::MissingAsset);
            }
        }
    }
    Ok(Found::Nothing)
}

/// The kinds of responses that a request for a missing path may get.
struct Wanted<'a> {
    /// The suffix of the path.
    suffix: &'a [u8],
    is_asset_suffix: bool,
    /// The path is that of an asset, or the client has no use for a page.
    refuses_pages: bool,
}

impl<'a> Wanted<'a> {
    fn new(key: Key<'a>, intent: Intent) -> Wanted<'a> {
        let path = file_path(key.bytes());
        // The suffix of a fallback page has at most 255 bytes, so we need not search more than that for a dot.
        let tail = &path[path.len().saturating_sub(SUFFIX_BYTES_MAX + 2)..];
        let suffix = suffix(tail.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        let refuses_pages = match (PathKind::of(path, suffix), intent.page_use()) {
            (PathKind::File, _) | (_, PageUse::Useless) => true,
            (kind, PageUse::Unknown) => kind != PathKind::Page,
            (_, PageUse::Wanted) => false,
        };
        Wanted { suffix, is_asset_suffix: is_asset(suffix), refuses_pages }
    }

    /// Returns the rank of a fallback page with this suffix, or `None` if it may not answer.
    ///
    /// The requested suffix takes precedence, and pages take precedence over assets.
    fn rank(&self, suffix: &[u8]) -> Option<(bool, bool)> {
        let is_same = suffix.eq_ignore_ascii_case(self.suffix);
        let is_page = !is_asset(suffix);
        // `_wildcard.png` replaces missing images, also those without a suffix.
        let may_answer = !self.refuses_pages || !is_page && (is_same || !self.is_asset_suffix);
        may_answer.then_some((is_same, is_page))
    }
}

/// Returns `true` if a rule with precedence over exact paths matches.
pub(crate) fn has_forced_rule<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<bool, Corrupt> {
    Ok(first_rule(archive, host, key, RuleFilter::Forcing, search)?.is_some())
}

fn reason_of(record: Record<'_>) -> Reason {
    match record {
        Record::Resource(Resource { origin, .. }) => Reason::Path(origin),
        Record::Redirect(_) | Record::Rewrite(_) => Reason::Path(cannery_archive::Origin::Rule),
    }
}

/// Finds the path with or without a slash at its end. If it is a redirect itself, its target is used directly, which saves the
/// client a redirect.
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

/// Finds the first rule that matches, and returns it with the path that its pattern matched.
fn first_rule<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    filter: RuleFilter,
    search: &mut Search,
) -> Result<Option<(Rule<'a>, &'a [u8])>, Corrupt> {
    let Some(root) = archive.root(host)? else { return Ok(None) };
    let path = &key.bytes()[1..];
    let Search { runs, candidates } = search;
    root.first_rule(filter, path, candidates, |rule| {
        let captured = Runs::match_path(rule.pattern, path)?;
        Ok(captured.map(|captured| {
            *runs = captured;
            (rule, path)
        }))
    })
}

/// Finds the fallback page that is nearest to a path.
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
