//! Fingerprinted assets of earlier releases into this archive: a page that was loaded before a deploy finds
//! after it what it was made with.
//!
//! What is carried answers as it did: the same bytes, the same head. Never takes a path that this release
//! answers itself, and nothing of a host that it has no site for: a site that was taken down stays down.

use std::collections::BTreeMap;

use cannery_archive::{
    Corrupt, Digest, Head, NewHead, Origin, Record, RecordKind, Resource, percent_encode, split_host,
};

use cannery_site::is_immutable;

use crate::content::Form;
use crate::error::{Error, PreviousError};
use crate::previous::{Earlier, Previous, Rank, Release};
use crate::routes::{HostId, Routes};
use crate::store::Store;

/// What is carried forward.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) paths: Vec<CarriedPath>,
    /// The releases within the bounds, newest first, with the paths that each gave.
    pub(crate) releases: Vec<Release>,
}

/// A path that an earlier release answered.
pub(crate) struct CarriedPath {
    pub(crate) host: HostId,
    pub(crate) key: Box<[u8]>,
    pub(crate) modified: Option<u64>,
    /// Smallest first.
    pub(crate) forms: Vec<(Form, NewHead)>,
}

/// An asset that may be carried.
struct Candidate<'a> {
    release: Rank,
    earlier: &'a Earlier,
    /// The key under which it lies there.
    stored: &'a [u8],
    resource: Resource<'a>,
}

impl Carried {
    /// Finds what is to be carried, and stores its bodies.
    pub(crate) fn store(previous: &Previous, routes: &Routes, store: &mut Store) -> Result<Carried, Error> {
        let mut candidates = BTreeMap::new();
        for earlier in &previous.archives {
            let failed = |source| Error::Previous { path: earlier.path.clone(), source };
            gather(earlier, previous, routes, &mut candidates).map_err(failed)?;
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
        Ok(Carried { paths, releases: releases.into_values().collect() })
    }

    /// How many bytes and records are to be written for it, at most, beside bodies and heads.
    pub(crate) fn bound(&self) -> (u64, u64) {
        // The header of a record, its host and key, then its representations; all with wide numbers. The
        // manifest spells host and key once more, a byte by three characters at most.
        let path = |path: &CarriedPath| (29 + (256 + path.key.len()) * 4 + path.forms.len() * 41) as u64;
        (self.paths.iter().map(path).sum(), self.paths.len() as u64)
    }
}

/// Adds the assets of one archive; of two with the same path the newer release's stays.
fn gather<'a>(
    earlier: &'a Earlier,
    previous: &Previous,
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
        if routes.paths.contains_key(&place) || !is_immutable(archive, &resource)? {
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

/// The release that a resource was last part of.
fn release_of(earlier: &Earlier, resource: &Resource<'_>, stored: &[u8]) -> Result<Rank, PreviousError> {
    if resource.origin != Origin::Carried {
        return Ok(earlier.own.clone());
    }
    let path = shown(stored);
    earlier.carried.get(&path).cloned().ok_or(PreviousError::Unlisted { path })
}

/// Stores the bodies of an asset.
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
    }
}

/// The number of a host by its name; nothing if this release has no site of its own for it.
fn host_with_site(routes: &Routes, name: Option<&[u8]>) -> Option<HostId> {
    let Some(name) = name else { return Some(None) };
    let place = routes.hosts.iter().position(|(known, own_site)| *own_site && known.as_bytes() == name)?;
    Some(Some(u32::try_from(place).ok()?))
}

/// A stored key as a URL spells it: `/a%20b`, or `//host/a%20b`.
fn shown(stored: &[u8]) -> String {
    let (host, key) = split_host(stored);
    let host = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(host)));
    let pieces = percent_encode(key).map(|piece| String::from_utf8_lossy(piece.bytes()).into_owned());
    [host].into_iter().chain(pieces).collect()
}
