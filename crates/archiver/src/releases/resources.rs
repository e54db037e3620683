//! Lists the files in an earlier archive, including those at paths that don't exist in this
//! release.

use cannery_archive::{Archive, Corrupt, Record, RecordKind, Resource, split_host};

use crate::hosts::site_path::source_path;
use crate::routes::{HostId, Routes};

/// A file from an earlier archive at a path that doesn't exist in this release.
pub(super) struct GoneFile<'a> {
    /// The key in that archive.
    pub(super) stored: &'a [u8],
    pub(super) resource: Resource<'a>,
    pub(super) place: (HostId, Box<[u8]>),
    /// Where the file was in the source folder.
    pub(super) path: Vec<u8>,
}

/// Lists the resources in an archive together with their keys.
pub(super) fn resources(archive: &Archive) -> impl Iterator<Item = Result<(&[u8], Resource<'_>), Corrupt>> {
    archive.entries().filter_map(|entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(corrupt) => return Some(Err(corrupt)),
        };
        let RecordKind::Path(stored) = entry.kind() else { return None };
        match archive.decode_path(&entry) {
            Ok(Record::Resource(resource)) => Some(Ok((stored, resource))),
            Ok(_) => None,
            Err(corrupt) => Some(Err(corrupt)),
        }
    })
}

/// Lists resources at paths that don't exist in this release, ignoring hosts without a site in this release.
pub(super) fn gone_files<'a>(
    archive: &'a Archive,
    routes: &Routes,
) -> impl Iterator<Item = Result<GoneFile<'a>, Corrupt>> {
    resources(archive).filter_map(|found| {
        let (stored, resource) = match found {
            Ok(found) => found,
            Err(corrupt) => return Some(Err(corrupt)),
        };
        let (name, key) = split_host(stored);
        let place = (host_with_site(routes, name)?, key.into());
        let is_gone = !routes.paths.contains_key(&place);
        is_gone.then(|| Ok(GoneFile { stored, resource, place, path: source_path(stored) }))
    })
}

/// Returns a host's index, or `None` when this release has no site for it.
fn host_with_site(routes: &Routes, name: Option<&[u8]>) -> Option<HostId> {
    let Some(name) = name else { return Some(None) };
    let place = routes.hosts.iter().position(|host| host.has_site && host.name.as_bytes() == name)?;
    Some(Some(u32::try_from(place).ok()?))
}
