//! `cannery diff`: compares two archives.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, Corrupt, Digest, Entry, Origin, Pieces, Record, RecordKind, ScopeEntry};
use cannery_publish::Recipe;
use serde::Serialize;

use super::open;
use super::release_dir::CURRENT;
use crate::flags::publish::Diff;
use crate::format::{bytes, counted, percent};
use crate::output::{self, Failure, Paint, one_line};

/// Paths of each kind that are printed. JSON has all.
const PATHS_SHOWN: usize = 20;

/// The differences between two archives.
#[derive(Debug, Default, Serialize)]
struct Differences {
    added: Vec<String>,
    removed: Vec<String>,
    /// Paths with other contents.
    changed: Vec<String>,
    /// Paths with the same contents and other header fields, status or modification time.
    headers: Vec<String>,
    /// Paths that were added with the contents of a path that was removed.
    moved: Vec<Move>,
    /// Directories whose rules, fallback or error pages differ.
    rules: Vec<String>,
    /// Bytes of the contents that only the newer archive has, in all codings.
    new_body_bytes: u64,
    /// Bytes that `cannery push` transfers to a host with the older archive.
    push_bytes: u64,
    /// Bytes that a visitor downloads who has all pages and files of the older release: for each path, the smallest coding.
    visitor_bytes: u64,
    /// The same for a visitor who has nothing.
    new_visitor_bytes: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Move {
    from: String,
    to: String,
}

/// A path of an archive.
struct PathFacts<'a> {
    record: Record<'a>,
    /// Entity tags of the representations, which stand for their contents.
    contents: Vec<[u8; 16]>,
    /// Everything else of the response.
    rest: Digest,
    /// Length of the smallest representation.
    bytes: u64,
}

/// Runs `cannery diff`.
///
/// # Errors
///
/// Returns an error if one of the archives can't be read.
pub fn run(flags: &Diff) -> Result<(), Failure> {
    let (old_path, new_path) = (archive_path(&flags.old), archive_path(&flags.new));
    let (old, new) = (open::open(&old_path)?, open::open(&new_path)?);
    let before = paths(&old).map_err(open::corrupt(&old_path))?;
    let after = paths(&new).map_err(open::corrupt(&new_path))?;
    let mut differences = compare(&before, &after);

    differences.rules = rules(&old, &new).map_err(open::corrupt(&new_path))?;
    differences.new_body_bytes = new_body_bytes(&old, &new).map_err(open::corrupt(&new_path))?;
    let recipe = |archive: &Archive, path: &Path| {
        Recipe::of(archive).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
    };
    let patch = recipe(&new, &new_path)?.compress(Some(&recipe(&old, &old_path)?));
    let patch = patch.map_err(|error| Failure::failed(error.to_string()))?;
    differences.push_bytes = differences.new_body_bytes + patch.len() as u64;

    if flags.json {
        return output::print_json(&differences);
    }
    output::print(text(&differences, new.facts().file_bytes))
}

/// Returns `true` if both archives were built from the same site: only their serials, dates and files of earlier releases differ.
pub(super) fn is_same_site(old: &Archive, new: &Archive) -> Result<bool, Corrupt> {
    // Nearly all changes bring new contents, which is quick to see.
    if old.facts().slash_redirects != new.facts().slash_redirects || new_body_bytes(old, new)? > 0 {
        return Ok(false);
    }
    let (before, after) = (paths(old)?, paths(new)?);
    let (before, after) = (own_paths(&before), own_paths(&after));
    Ok(before.eq(after) && sources(old)? == sources(new)? && rules(old, new)?.is_empty())
}

/// Returns the paths that aren't of earlier releases, with digests of their contents and everything else.
fn own_paths<'a>(
    paths: &'a BTreeMap<&'a [u8], PathFacts<'a>>,
) -> impl Iterator<Item = (&'a [u8], &'a [[u8; 16]], Digest)> {
    let is_carried = |facts: &PathFacts<'_>| matches!(facts.record, Record::Resource(resource) if resource.origin == Origin::Carried);
    let own = paths.iter().filter(move |(_, facts)| !is_carried(facts));
    own.map(|(path, facts)| (*path, facts.contents.as_slice(), facts.rest))
}

/// Returns the files that aren't served under their names, such as `_headers`, with digests of their contents.
fn sources(archive: &Archive) -> Result<BTreeMap<&[u8], Digest>, Corrupt> {
    let mut sources = BTreeMap::new();
    for entry in archive.entries() {
        let entry = entry?;
        if let RecordKind::Source(path) = entry.kind() {
            let content = archive.body(archive.decode_source(&entry)?)?;
            sources.insert(path, Digest::of(content));
        }
    }
    Ok(sources)
}

/// A release directory stands for its current release.
fn archive_path(path: &Path) -> PathBuf {
    let current = path.join(CURRENT);
    if path.is_dir() && current.exists() { current } else { path.to_owned() }
}

fn paths(archive: &Archive) -> Result<BTreeMap<&[u8], PathFacts<'_>>, Corrupt> {
    let mut paths = BTreeMap::new();
    for entry in archive.entries() {
        let entry = entry?;
        if let RecordKind::Path(path) = entry.kind() {
            paths.insert(path, facts(archive, &entry)?);
        }
    }
    Ok(paths)
}

fn facts<'a>(archive: &'a Archive, entry: &Entry<'a>) -> Result<PathFacts<'a>, Corrupt> {
    let record = archive.decode_path(entry)?;
    let Record::Resource(resource) = record else {
        return Ok(PathFacts { record, contents: Vec::new(), rest: Digest::of(entry.data), bytes: 0 });
    };

    let mut contents = Vec::new();
    let mut rest = format!("{} {:?}", resource.status, resource.modified).into_bytes();
    let mut smallest: Option<u64> = None;
    for representation in resource.representations() {
        let representation = representation?;
        contents.push(*representation.etag);
        smallest =
            Some(smallest.map_or(representation.body.length, |bytes| bytes.min(representation.body.length)));
        let head = archive.head(representation.head)?;
        rest.extend_from_slice(&[representation.coding as u8, u8::from(head.sends_etag), head.overrides]);
        rest.extend_from_slice(head.text);
    }
    Ok(PathFacts { record, contents, rest: Digest::of(&rest), bytes: smallest.unwrap_or(0) })
}

fn compare(before: &BTreeMap<&[u8], PathFacts<'_>>, after: &BTreeMap<&[u8], PathFacts<'_>>) -> Differences {
    let mut differences = Differences::default();
    let mut removed: BTreeMap<&[[u8; 16]], Vec<&[u8]>> = BTreeMap::new();
    for (path, old) in before.iter().rev().filter(|(path, _)| !after.contains_key(*path)) {
        removed.entry(&old.contents).or_default().push(path);
    }

    for (path, new) in after {
        differences.new_visitor_bytes += new.bytes;
        let Some(old) = before.get(path) else {
            differences.visitor_bytes += new.bytes;
            let is_resource = matches!(new.record, Record::Resource(_));
            match removed.get_mut(new.contents.as_slice()).filter(|_| is_resource).and_then(Vec::pop) {
                Some(from) => differences.moved.push(Move { from: name(from), to: name(path) }),
                None => differences.added.push(name(path)),
            }
            continue;
        };
        let is_resource = |facts: &PathFacts<'_>| matches!(facts.record, Record::Resource(_));
        if old.contents != new.contents || is_resource(old) != is_resource(new) {
            differences.visitor_bytes += new.bytes;
            differences.changed.push(name(path));
        } else if old.rest != new.rest {
            // Redirects and rewrites have no contents, so all of them is here.
            let changed = if is_resource(new) { &mut differences.headers } else { &mut differences.changed };
            changed.push(name(path));
        }
    }
    differences.removed = removed.into_values().flatten().map(name).collect();
    differences.removed.sort();
    differences
}

/// Returns the directories whose scopes differ.
fn rules(old: &Archive, new: &Archive) -> Result<Vec<String>, Corrupt> {
    let (before, after) = (scopes(old)?, scopes(new)?);
    let keys: HashSet<_> = before.keys().chain(after.keys()).collect();
    let mut changed: Vec<_> =
        keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).map(|key| name(key)).collect();
    changed.sort();
    Ok(changed)
}

/// Returns a digest for each scope, of everything in it that isn't a position.
fn scopes(archive: &Archive) -> Result<BTreeMap<&[u8], Digest>, Corrupt> {
    let mut scopes = BTreeMap::new();
    for entry in archive.entries() {
        let entry = entry?;
        let RecordKind::Scope(directory) = entry.kind() else { continue };
        let scope = archive.decode_scope(&entry)?;
        let mut seen = Vec::new();
        for inner in scope.entries() {
            describe(archive, inner?, &mut seen)?;
        }
        scopes.insert(directory, Digest::of(&seen));
    }
    Ok(scopes)
}

fn describe(archive: &Archive, entry: ScopeEntry<'_>, seen: &mut Vec<u8>) -> Result<(), Corrupt> {
    let record = match entry {
        ScopeEntry::Fallback { suffix, record } => {
            seen.push(b'f');
            seen.extend_from_slice(suffix);
            record
        }
        ScopeEntry::ErrorPage { status, record } => {
            seen.extend_from_slice(format!("e{status}").as_bytes());
            record
        }
        ScopeEntry::Rule(rule) => {
            seen.push(b'r');
            describe_pieces(rule.pattern, seen)?;
            seen.extend_from_slice(&[u8::from(rule.force), u8::from(rule.pages_only)]);
            rule.record
        }
        ScopeEntry::HeaderRule(rule) => {
            seen.push(b'h');
            seen.extend_from_slice(rule.host);
            describe_pieces(rule.pattern, seen)?;
            for field in rule.fields {
                seen.extend_from_slice(format!("{:?}", field?).as_bytes());
            }
            return Ok(());
        }
    };
    match record {
        Record::Resource(resource) => {
            seen.extend_from_slice(&resource.status.to_le_bytes());
            for representation in resource.representations() {
                let representation = representation?;
                seen.extend_from_slice(representation.etag);
                seen.extend_from_slice(archive.head(representation.head)?.text);
            }
        }
        Record::Redirect(redirect) => {
            seen.extend_from_slice(&redirect.status.to_le_bytes());
            seen.extend_from_slice(redirect.fragment);
            describe_pieces(redirect.target, seen)?;
        }
        Record::Rewrite(rewrite) => {
            seen.extend_from_slice(&rewrite.status.to_le_bytes());
            describe_pieces(rewrite.path, seen)?;
        }
    }
    Ok(())
}

fn describe_pieces(pieces: Pieces<'_>, seen: &mut Vec<u8>) -> Result<(), Corrupt> {
    for piece in pieces {
        seen.extend_from_slice(format!("{:?};", piece?).as_bytes());
    }
    Ok(())
}

fn new_body_bytes(old: &Archive, new: &Archive) -> Result<u64, Corrupt> {
    let mut bytes = 0;
    for entry in new.entries() {
        let entry = entry?;
        if let RecordKind::Body(digest) = entry.kind()
            && old.find_body(&digest)?.is_none()
        {
            bytes += entry.data.len() as u64;
        }
    }
    Ok(bytes)
}

fn name(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn text(differences: &Differences, file_bytes: u64) -> String {
    let paint = Paint::for_results();
    let mut text = String::new();
    let moved: Vec<_> = differences.moved.iter().map(|Move { from, to }| format!("{from} -> {to}")).collect();
    for (title, sign, paths) in [
        ("added", "+", &differences.added),
        ("removed", "-", &differences.removed),
        ("changed", "~", &differences.changed),
        ("other header fields", "h", &differences.headers),
        ("moved", ">", &moved),
        ("other rules or fallback pages", "r", &differences.rules),
    ] {
        if paths.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "{}\n",
            paint.strong(&format!("{title}: {}", counted(paths.len() as u64, "path")))
        ));
        for path in paths.iter().take(PATHS_SHOWN) {
            text.push_str(&format!("  {sign} {}\n", one_line(path)));
        }
        if paths.len() > PATHS_SHOWN {
            text.push_str(&format!("  and {} more: `--json` lists all\n", paths.len() - PATHS_SHOWN));
        }
    }
    if text.is_empty() {
        text.push_str("no path, header field or rule differs\n");
    }
    text.push_str(&format!(
        "push transfers {} of {}, {}\na returning visitor downloads up to {}, a new one up to {}\n",
        bytes(differences.push_bytes),
        bytes(file_bytes),
        percent(differences.push_bytes, file_bytes),
        bytes(differences.visitor_bytes),
        bytes(differences.new_visitor_bytes),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample::Sample;

    #[test]
    fn same_archives_have_no_differences() {
        let sample = Sample::write();
        let archive = sample.open();
        let (before, after) = (paths(&archive).unwrap(), paths(&archive).unwrap());
        let differences = compare(&before, &after);
        let lists = [&differences.added, &differences.removed, &differences.changed, &differences.headers];
        assert!(lists.iter().all(|list| list.is_empty()) && differences.moved.is_empty());
        assert_eq!(differences.visitor_bytes, 0);
        assert_eq!(rules(&archive, &archive).unwrap(), Vec::<String>::new());
        assert_eq!(new_body_bytes(&archive, &archive).unwrap(), 0);
    }
}
