//! Carries fingerprinted files of earlier releases forward, so that pages which were loaded before a deploy
//! keep working.
//!
//! Carried paths keep their bytes and heads, but never replace a path of this release. In order to keep removed sites removed, none
//! of a host's files are carried once it no longer has a site. Pages are never carried.
//!
//! A path is withdrawn if it is matched by `--ignore` or `.canneryignore`. For such paths, this archive answers 410; otherwise,
//! the server would find them in an earlier release.

use std::collections::{BTreeMap, BTreeSet};

use cannery_archive::{Coding, Corrupt, Digest, Head, NewHead, Origin, Resource, percent_encode, split_host};

use cannery_site::is_immutable;

use crate::contents::content::Form;
use crate::contents::store::Store;
use crate::ground::diagnostic::Diagnostic;
use crate::hosts::site_path::other_wildcard_folder;
use crate::releases::bundles::{Evidence, InferableNames};
use crate::releases::manifest::Release;
use crate::releases::previous::{Earlier, Previous, Rank};
use crate::releases::resources::{GoneFile, gone_files};
use crate::routes::{HostId, Routes};
use crate::settings::error::{Error, PreviousError};
use crate::tree::skip::{SkipReason, SkipRules};

pub(crate) const WITHDRAWN_STATUS: u16 = 410;

#[derive(Default)]
pub(crate) struct Carryover {
    pub(crate) paths: Vec<CarriedPath>,
    /// Paths of earlier releases that are now left out by a pattern.
    pub(crate) withdrawn: BTreeSet<(HostId, Box<[u8]>)>,
    /// Response body for withdrawn paths, if any.
    pub(crate) withdrawn_body: Option<Form>,
    /// Releases within the limits, the newest first, with the carried paths of each.
    pub(crate) releases: Vec<Release>,
}

/// A carried path.
pub(crate) struct CarriedPath {
    pub(crate) host: HostId,
    pub(crate) key: Box<[u8]>,
    pub(crate) modified: Option<u64>,
    /// The smallest comes first.
    pub(crate) forms: Vec<CarriedForm>,
}

/// A representation of a carried path.
pub(crate) struct CarriedForm {
    pub(crate) form: Form,
    /// Head with the header rules of its release.
    pub(crate) head: NewHead,
    /// Head without them. The server adds the rules of this release.
    pub(crate) plain: NewHead,
}

/// A file that may be carried.
struct Candidate<'a> {
    release: Rank,
    earlier: &'a Earlier,
    /// Key in that archive.
    stored: &'a [u8],
    resource: Resource<'a>,
}

impl Carryover {
    /// Selects the paths to carry and stores their bodies.
    pub(crate) fn store(
        previous: &Previous,
        selection: &Selection<'_>,
        store: &mut Store,
    ) -> Result<Carryover, Error> {
        let mut candidates = BTreeMap::new();
        let mut withdrawn = BTreeSet::new();
        for earlier in &previous.archives {
            let failed = |source| Error::Previous { path: earlier.path.clone(), source };
            gather(earlier, previous, selection, &mut candidates, &mut withdrawn).map_err(failed)?;
        }

        let withdrawn_body = match withdrawn.is_empty() {
            true => None,
            false => Some(withdrawn_form(store)?),
        };

        let mut releases = previous.releases.clone();
        let mut paths = Vec::with_capacity(candidates.len());
        for ((host, key), candidate) in candidates {
            let forms = forms(&candidate, store)?;
            if let Some(release) = releases.get_mut(&candidate.release) {
                release.carried.push(shown(candidate.stored));
            }
            paths.push(CarriedPath { host, key, modified: candidate.resource.modified, forms });
        }

        Ok(Carryover { paths, withdrawn, withdrawn_body, releases: releases.into_values().collect() })
    }

    /// Returns a note about withdrawn paths.
    pub(crate) fn note(&self) -> Option<Diagnostic> {
        let (_, example) = self.withdrawn.first()?;
        let example = String::from_utf8_lossy(example);
        let message = match self.withdrawn.len() - 1 {
            0 => format!(
                "`{example}` of an earlier release answers {WITHDRAWN_STATUS} from now on, because a pattern leaves it out"
            ),
            count => format!(
                "`{example}` and {count} more {} of earlier releases answer {WITHDRAWN_STATUS} from now on, because a pattern \
                 leaves them out",
                if count == 1 { "path" } else { "paths" }
            ),
        };
        Some(Diagnostic::note(b".", "withdrawn", message))
    }

    /// Returns upper bounds for the bytes and records yet to be written.
    pub(crate) fn bound(&self) -> (u64, u64) {
        // Record header, host and key, then representations, with all numbers as 64 bits. The host and key also occur in the
        // manifest, where each byte takes at most three characters.
        let path = |path: &CarriedPath| (29 + (256 + path.key.len()) * 4 + path.forms.len() * 41) as u64;
        // The site's error page may have a form for each coding.
        let withdrawn =
            |(_, key): &(HostId, Box<[u8]>)| (29 + 256 + key.len() + Coding::ALL.len() * 41) as u64;
        let bytes = self.paths.iter().map(path).chain(self.withdrawn.iter().map(withdrawn)).sum();
        (bytes, (self.paths.len() + self.withdrawn.len()) as u64)
    }
}

/// Decides which files of earlier releases to carry.
pub(crate) struct Selection<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) evidence: &'a Evidence,
    pub(crate) names: InferableNames<'a>,
    pub(crate) skip_rules: &'a SkipRules,
}

impl Selection<'_> {
    /// Returns `true` if a path in the source folder, or one of its parents, is matched by one of this build's
    /// patterns.
    fn is_withdrawn(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| slash);
        let is_left_out = |path: &[u8], is_folder| {
            matches!(self.skip_rules.verdict(path, is_folder), Some(SkipReason::Pattern { .. }))
        };
        let is_left_out_within = slashes.into_iter().any(|slash| is_left_out(&path[..slash], true));
        let other_spelling = || other_wildcard_folder(path).is_some_and(|path| self.is_withdrawn(&path));
        is_left_out_within || is_left_out(path, false) || other_spelling()
    }
}

/// Adds the files of one archive.
///
/// For paths that exist in several releases, the newest release takes precedence.
fn gather<'a>(
    earlier: &'a Earlier,
    previous: &Previous,
    selection: &Selection<'_>,
    candidates: &mut BTreeMap<(HostId, Box<[u8]>), Candidate<'a>>,
    withdrawn: &mut BTreeSet<(HostId, Box<[u8]>)>,
) -> Result<(), PreviousError> {
    let archive = &earlier.archive;
    let Selection { routes, evidence, names, .. } = selection;
    for found in gone_files(archive, routes) {
        let GoneFile { stored, resource, place, path } = found?;
        let was_withdrawn = resource.origin == Origin::Rule && resource.status == WITHDRAWN_STATUS;

        // We may recognize more names than the earlier build did, because it is now possible to compare
        // two releases.
        let is_fingerprinted = resource.origin == Origin::Carried
            || evidence.has_fingerprinted_key(stored)
            || is_immutable(archive, &resource)?;
        if !is_fingerprinted && !was_withdrawn {
            continue;
        }

        if selection.is_withdrawn(&path) {
            withdrawn.insert(place);
            continue;
        }

        if was_withdrawn || !names.may_infer(&path) || evidence.is_ambiguous_key(stored) {
            continue;
        }

        let release = release_of(earlier, &resource, stored)?;
        if !previous.releases.contains_key(&release) {
            continue;
        }

        let newer = candidates.get(&place).is_none_or(|known| release < known.release);
        if newer {
            candidates.insert(place, Candidate { release, earlier, stored, resource });
        }
    }
    Ok(())
}

/// Stores the response body for withdrawn paths.
fn withdrawn_form(store: &mut Store) -> Result<Form, Error> {
    let bytes = b"This file was withdrawn.\n";
    let digest = Digest::of(bytes);
    let body = store.body(&digest, bytes)?;
    Ok(Form { coding: Coding::Identity, body, length: bytes.len() as u64, etag: digest.etag() })
}

/// Returns the rank of the last release that a resource was part of.
fn release_of(earlier: &Earlier, resource: &Resource<'_>, stored: &[u8]) -> Result<Rank, PreviousError> {
    if resource.origin != Origin::Carried {
        return Ok(earlier.own.clone());
    }
    let path = shown(stored);
    earlier.carried.get(&path).cloned().ok_or(PreviousError::Unlisted { path })
}

/// Stores all bodies of a file.
fn forms(candidate: &Candidate<'_>, store: &mut Store) -> Result<Vec<CarriedForm>, Error> {
    let Candidate { earlier, resource, .. } = candidate;
    let corrupt = |source: Corrupt| Error::Previous { path: earlier.path.clone(), source: source.into() };
    let mut forms = Vec::new();
    for representation in resource.representations() {
        let representation = representation.map_err(corrupt)?;
        let bytes = earlier.archive.body(representation.body).map_err(corrupt)?;
        let head = earlier.archive.head(representation.head).map_err(corrupt)?;
        let plain = earlier.archive.plain_head(representation.head).map_err(corrupt)?;
        let digest = Digest::of(bytes);
        let body = store.body(&digest, bytes)?;
        let (coding, length, etag) = (representation.coding, bytes.len() as u64, digest.etag());
        let form = Form { coding, body, length, etag };
        forms.push(CarriedForm { form, head: copied(&head), plain: copied(&plain) });
    }
    Ok(forms)
}

fn copied(head: &Head<'_>) -> NewHead {
    NewHead {
        status: head.status,
        sends_etag: head.sends_etag,
        overrides: head.overrides,
        status_line: head.status_line().to_vec(),
        content_type: head.content_type().to_vec(),
        representation: head.representation().to_vec(),
        resource: head.resource().to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    }
}

/// Formats a stored key like in a URL: `/a%20b` or `//host/a%20b`.
fn shown(stored: &[u8]) -> String {
    let (host, key) = split_host(stored);
    let host = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    let pieces = percent_encode(key).map(|piece| String::from_utf8_lossy(piece.bytes()).into_owned());
    [host].into_iter().chain(pieces).collect()
}
