//! Carries fingerprinted files of earlier releases forward, so that a page loaded before a deploy keeps working.
//!
//! Carried paths keep their bytes and heads. They never replace a path of this release, and hosts without a site in this
//! release get none: a removed site stays removed.

use std::collections::BTreeMap;

use cannery_archive::{
    Corrupt, Digest, Head, NewHead, Origin, Record, RecordKind, Resource, percent_encode, split_host,
};

use cannery_site::is_immutable;

use crate::bundles::ToolFolders;
use crate::content::Form;
use crate::error::{Error, PreviousError};
use crate::manifest::Release;
use crate::previous::{Earlier, Previous, Rank};
use crate::routes::{HostId, Routes};
use crate::store::Store;

/// The carried paths.
#[derive(Default)]
pub(crate) struct Carryover {
    pub(crate) paths: Vec<CarriedPath>,
    /// The releases within the limits, newest first, with the paths of each.
    pub(crate) releases: Vec<Release>,
}

/// A carried path.
pub(crate) struct CarriedPath {
    pub(crate) host: HostId,
    pub(crate) key: Box<[u8]>,
    pub(crate) modified: Option<u64>,
    /// Smallest first.
    pub(crate) forms: Vec<(Form, NewHead)>,
}

/// A file that may be carried.
struct Candidate<'a> {
    release: Rank,
    earlier: &'a Earlier,
    /// Its key in that archive.
    stored: &'a [u8],
    resource: Resource<'a>,
}

impl Carryover {
    /// Selects the paths to carry, and stores their bodies.
    pub(crate) fn store(
        previous: &Previous,
        tool_folders: &ToolFolders<'_>,
        routes: &Routes,
        store: &mut Store,
    ) -> Result<Carryover, Error> {
        let mut candidates = BTreeMap::new();
        for earlier in &previous.archives {
            let failed = |source| Error::Previous { path: earlier.path.clone(), source };
            gather(earlier, previous, tool_folders, routes, &mut candidates).map_err(failed)?;
        }
        let mut releases = previous.releases.clone();
        let mut paths = Vec::with_capacity(candidates.len());
        for ((host, key), candidate) in candidates {
            let forms = forms(&candidate, store)?;
            if let Some(release) = releases.get_mut(&candidate.release) {
                release.carried.push(shown(candidate.stored));
            }
            paths.push(CarriedPath { host, key, modified: candidate.resource.modified, forms });
        }
        Ok(Carryover { paths, releases: releases.into_values().collect() })
    }

    /// Returns upper bounds of the bytes and records that remain to be written.
    pub(crate) fn bound(&self) -> (u64, u64) {
        // Record header, host and key, then representations, all with 64-bit numbers. The manifest contains host and key
        // again, with at most three characters per byte.
        let path = |path: &CarriedPath| (29 + (256 + path.key.len()) * 4 + path.forms.len() * 41) as u64;
        (self.paths.iter().map(path).sum(), self.paths.len() as u64)
    }
}

/// Adds the files of one archive. If two have the same path, the newer release wins.
fn gather<'a>(
    earlier: &'a Earlier,
    previous: &Previous,
    tool_folders: &ToolFolders<'_>,
    routes: &Routes,
    candidates: &mut BTreeMap<(HostId, Box<[u8]>), Candidate<'a>>,
) -> Result<(), PreviousError> {
    let archive = &earlier.archive;
    for entry in archive.entries() {
        let entry = entry?;
        let RecordKind::Path(stored) = entry.kind() else { continue };
        let Record::Resource(resource) = archive.decode_path(&entry)? else { continue };
        let (name, key) = split_host(stored);
        let Some(host) = host_with_site(routes, name) else { continue };
        let place = (host, key.into());
        // The earlier build may not have recognized names that are recognized by comparison with this release.
        let is_fingerprinted = resource.origin == Origin::Carried
            || tool_folders.has_fingerprinted_key(stored)
            || is_immutable(archive, &resource)?;
        if routes.paths.contains_key(&place) || !is_fingerprinted {
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

/// Returns the rank of the release that a resource was last part of.
fn release_of(earlier: &Earlier, resource: &Resource<'_>, stored: &[u8]) -> Result<Rank, PreviousError> {
    if resource.origin != Origin::Carried {
        return Ok(earlier.own.clone());
    }
    let path = shown(stored);
    earlier.carried.get(&path).cloned().ok_or(PreviousError::Unlisted { path })
}

/// Stores the bodies of a file.
fn forms(candidate: &Candidate<'_>, store: &mut Store) -> Result<Vec<(Form, NewHead)>, Error> {
    let Candidate { earlier, resource, .. } = candidate;
    let corrupt = |source: Corrupt| Error::Previous { path: earlier.path.clone(), source: source.into() };
    let mut forms = Vec::new();
    for representation in resource.representations() {
        let representation = representation.map_err(corrupt)?;
        let bytes = earlier.archive.body(representation.body).map_err(corrupt)?;
        let head = earlier.archive.head(representation.head).map_err(corrupt)?;
        let digest = Digest::of(bytes);
        let body = store.body(&digest, bytes)?;
        let (coding, length, etag) = (representation.coding, bytes.len() as u64, digest.etag());
        forms.push((Form { coding, body, length, etag }, copied(&head)));
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

/// Returns the index of a host; `None` if this release has no site for it.
fn host_with_site(routes: &Routes, name: Option<&[u8]>) -> Option<HostId> {
    let Some(name) = name else { return Some(None) };
    let place = routes.hosts.iter().position(|host| host.has_site && host.name.as_bytes() == name)?;
    Some(Some(u32::try_from(place).ok()?))
}

/// Formats a stored key as in a URL: `/a%20b`, or `//host/a%20b`.
fn shown(stored: &[u8]) -> String {
    let (host, key) = split_host(stored);
    let host = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    let pieces = percent_encode(key).map(|piece| String::from_utf8_lossy(piece.bytes()).into_owned());
    [host].into_iter().chain(pieces).collect()
}
