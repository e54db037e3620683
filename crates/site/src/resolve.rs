//! A path to what answers it: exact path, slash, rules, fallback pages, in this order.
//!
//! A path that has a record of its own costs one lookup. Only what finds none is held against the rules, by their index, and
//! searched for up the tree, in one pass over the path and no deeper than the site's deepest scope. Never looks at a body or
//! at what the client accepts.

use cannery_archive::{Archive, Candidates, Corrupt, IndexKind, Key, Record, Resource, Rule, ScopeEntry};

use crate::answer::Reason;
use crate::asset::{is_asset, suffix};
use crate::captures::Runs;
use crate::sites::{Place, Sites};

/// The longest suffix of a fallback page.
const SUFFIX_BYTES_MAX: usize = 255;

/// What answers a path.
pub(crate) enum Found<'a> {
    /// This record; and the part of the path that a pattern was held against, if that found it.
    Record { record: Record<'a>, matched: Option<&'a [u8]>, reason: Reason },
    /// The same path with a slash added to its end, or taken from it.
    Slash { key: Key<'a>, add: bool },
    /// Nothing; and it is an asset, for which the fallback page that there is may not answer.
    MissingAsset,
    /// Nothing.
    Nothing,
}

impl<'a> Found<'a> {
    fn record(record: Record<'a>, reason: Reason) -> Found<'a> {
        Found::Record { record, matched: None, reason }
    }

    /// The record that stands under just this path.
    pub(crate) fn of_path(record: Record<'a>) -> Found<'a> {
        Found::record(record, reason_of(record))
    }

    fn of_rule((rule, matched): (Rule<'a>, &'a [u8])) -> Found<'a> {
        Found::Record { record: rule.record, matched: Some(matched), reason: Reason::Rule(rule.ordinal) }
    }
}

/// Room for a search among rules.
#[derive(Default)]
pub(crate) struct Search {
    /// What the pattern captured that was found.
    pub(crate) runs: Runs,
    pub(crate) candidates: Candidates,
}

/// Finds what answers a path, on each site in turn that the host's requests are looked for in. What a pattern captures
/// goes into `search`.
pub(crate) fn resolve<'a>(
    archive: &'a Archive,
    place: Place<'a>,
    search: &mut Search,
) -> Result<Found<'a>, Corrupt> {
    let Place { host, key, .. } = place;
    if host.is_none() {
        return resolve_on(archive, None, key, search);
    }
    for site in Sites::of(archive, host) {
        let found = resolve_on(archive, site?, key, search)?;
        if !matches!(found, Found::Nothing) {
            return Ok(found);
        }
    }
    Ok(Found::Nothing)
}

fn resolve_on<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<Found<'a>, Corrupt> {
    if archive.facts().forced_rules
        && let Some(matched) = first_rule(archive, host, key, IndexKind::Forcing, false, search)?
    {
        return Ok(Found::of_rule(matched));
    }
    if let Some(record) = archive.path(host, key)? {
        return Ok(Found::of_path(record));
    }
    look_further(archive, host, key, search)
}

/// Finds what answers a path that has no record of its own.
#[inline(never)]
pub(crate) fn look_further<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<Found<'a>, Corrupt> {
    if archive.facts().slash_redirects
        && let Some(found) = other_slash(archive, host, key)?
    {
        return Ok(found);
    }
    // No suffix in an archive is longer than a byte counts, so nothing before it need be looked at.
    let tail = &key.bytes()[key.bytes().len().saturating_sub(SUFFIX_BYTES_MAX + 2)..];
    let wanted = suffix(tail.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
    let asset = is_asset(wanted);
    if let Some(matched) = first_rule(archive, host, key, IndexKind::Yielding, asset, search)? {
        return Ok(Found::of_rule(matched));
    }
    let found = nearest_fallback(archive, host, key, wanted, asset)?;
    let is_refused = asset
        && matches!(found, Found::Nothing)
        && archive.root(host)?.map_or(Ok(false), |root| root.has_rules_for_pages())?
        && first_rule(archive, host, key, IndexKind::Yielding, false, search)?.is_some();
    Ok(if is_refused { Found::MissingAsset } else { found })
}

/// Whether a rule that counts before files is for a path.
pub(crate) fn is_forced<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    search: &mut Search,
) -> Result<bool, Corrupt> {
    Ok(first_rule(archive, host, key, IndexKind::Forcing, false, search)?.is_some())
}

fn reason_of(record: Record<'_>) -> Reason {
    match record {
        Record::Resource(Resource { origin, .. }) => Reason::Path(origin),
        Record::Redirect(_) | Record::Rewrite(_) => Reason::Path(cannery_archive::Origin::Rule),
    }
}

/// Looks for the path with the other ending. A redirect that stands there answers at once, so that the
/// client is not sent round twice.
fn other_slash<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
) -> Result<Option<Found<'a>>, Corrupt> {
    let (record, key, add) = if key.is_directory() {
        let Some(file) = key.without_slash() else { return Ok(None) };
        (archive.path(host, file)?, file, false)
    } else {
        (archive.directory(host, key)?, key, true)
    };
    Ok(record.map(|record| match record {
        Record::Redirect(_) => Found::of_path(record),
        _ => Found::Slash { key, add },
    }))
}

/// The first rule of a kind, in the order of the rules, that matches, and the path that its pattern was held against. For a
/// missing asset, the rules for pages do not count.
fn first_rule<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    kind: IndexKind,
    asset: bool,
    search: &mut Search,
) -> Result<Option<(Rule<'a>, &'a [u8])>, Corrupt> {
    let Some(root) = archive.root(host)? else { return Ok(None) };
    let path = &key.bytes()[1..];
    let Search { runs, candidates } = search;
    root.first_rule(kind, path, asset, candidates, |rule| {
        let captured = Runs::of(rule.pattern, path)?;
        Ok(captured.map(|captured| {
            *runs = captured;
            (rule, path)
        }))
    })
}

/// The fallback page nearest to the path.
///
/// A page that answers for everything does not answer for a missing asset, unless it is of the same
/// kind: a `_wildcard.png` stands for missing pictures. Of several in one folder the one with the suffix that
/// is asked for comes first, and pages come before assets.
fn nearest_fallback<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'a>,
    wanted: &[u8],
    asset: bool,
) -> Result<Found<'a>, Corrupt> {
    let (mut fallback, mut refused) = (None, false);
    for scope in archive.scopes(host, key) {
        let (covered, scope) = scope?;
        let mut best_here = None;
        for entry in scope.pages() {
            let ScopeEntry::Fallback { suffix, record } = entry? else { continue };
            let same = suffix.eq_ignore_ascii_case(wanted);
            if asset && !same {
                refused = true;
                continue;
            }
            let fitness = Some((same, !is_asset(suffix)));
            if fitness > best_here {
                best_here = fitness;
                fallback = Some(Found::record(record, Reason::Fallback(covered)));
            }
        }
    }
    let none = if refused { Found::MissingAsset } else { Found::Nothing };
    Ok(fallback.unwrap_or(none))
}
