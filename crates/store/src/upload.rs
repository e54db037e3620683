//! Uploads a release: archive, recipe, patches against earlier releases, and then the document that names it.

use std::collections::HashSet;

use cannery_archive::{Archive, Digest};
use cannery_publish::{Recipe, RecipeError};
use cannery_trust::Signed;

use crate::error::{StoreError, StoreErrorKind};
use crate::limits::EARLIER_MAX;
use crate::pull::is_intact;
use crate::release::{Blob, Patch, StoredRelease, StoredSite};
use crate::store::Store;

/// The costs of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadReport {
    /// Number of bytes that were uploaded.
    pub bytes: u64,
    /// Whether the store had the archive before.
    pub was_known: bool,
}

/// Why a release couldn't be uploaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// The store can't be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive has no recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
}

/// Uploads the files of a release, without making it current. Returns what the document should say about it.
///
/// `bases` are recipes of earlier releases that nodes are likely to have.
///
/// # Errors
/// Returns [`UploadError`] if the store can't be written. It still names the release that it named before.
pub fn upload(
    store: &mut dyn Store,
    archive: &Archive,
    recipe: &Recipe,
    bases: &[Recipe],
    signed: Option<Signed>,
    date: u64,
) -> Result<(StoredRelease, UploadReport), UploadError> {
    store.clean()?;
    let mut report = UploadReport::default();
    let alone = recipe.compress(None)?;
    let mut patches = Vec::new();
    let mut contents = vec![(Blob::of(&alone), alone)];
    for base in bases.iter().filter(|base| base.digest() != recipe.digest()) {
        let content = recipe.compress(Some(base))?;
        let blob = Blob::of(&content);
        // A patch against an unrelated base is no shorter.
        if blob.bytes < contents[0].0.bytes {
            patches.push(Patch { base: base.digest(), base_recipe: Digest::of(base.bytes()), blob });
            contents.push((blob, content));
        }
    }
    let archive_blob = Blob::of(archive.bytes());
    report.was_known = !put(store, &archive_blob, archive.bytes(), &mut report.bytes)?;
    for (blob, content) in &contents {
        put(store, blob, content, &mut report.bytes)?;
    }
    let release = StoredRelease {
        serial: archive.facts().serial,
        digest: archive.facts().digest,
        date,
        signed,
        archive: archive_blob,
        recipe: contents[0].0,
        patches,
    };
    Ok((release, report))
}

/// Adds a blob unless the store has it, undamaged. Returns `true` if it was added.
///
/// Reads a blob that is there, even though that transfers it: users push a release again if nodes report wrong bytes of it.
fn put(store: &mut dyn Store, blob: &Blob, content: &[u8], bytes: &mut u64) -> Result<bool, StoreError> {
    if store.has(blob)? && is_intact(store, blob)? {
        return Ok(false);
    }
    store.put(blob, content)?;
    *bytes += blob.bytes;
    Ok(true)
}

/// Makes sure that a store still has the files of the releases that nodes pull. A clean-up of the store may have removed files that no
/// document named yet, and then nodes would look for them in vain.
///
/// # Errors
/// Returns [`StoreError`] if a file is missing, or if the store can't be read.
pub fn check_stored(store: &mut dyn Store, site: &StoredSite) -> Result<(), StoreError> {
    for release in std::iter::once(&site.current).chain(&site.staged) {
        for blob in release.blobs() {
            if store.has(&blob)? || !is_missing(store, &blob)? {
                continue;
            }
            let message = format!("the store has lost {} of release {}", blob.digest(), release.serial);
            return Err(StoreError::new(StoreErrorKind::Missing, message).hint(
                "push that release again; if it is lost again, a rule of the store removes files that are in use",
            ));
        }
    }
    Ok(())
}

/// Returns whether a request for a file that the store doesn't seem to have says so, too: some stores only hide it from this user.
fn is_missing(store: &mut dyn Store, blob: &Blob) -> Result<bool, StoreError> {
    match store.open(blob, 0..blob.bytes.min(1)) {
        Ok(_) => Ok(false),
        Err(error) => match error.kind {
            StoreErrorKind::Missing => Ok(true),
            StoreErrorKind::Denied => Ok(false),
            _ => Err(error),
        },
    }
}

impl Blob {
    /// Returns the name of a content.
    #[must_use]
    pub fn of(content: &[u8]) -> Blob {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content).as_ref());
        Blob { sha256, bytes: content.len() as u64 }
    }
}

impl StoredSite {
    /// Returns the document after a release was made current, which may be the staged or an earlier one, and the files that no release of
    /// the document has any more. At most `keep` releases stay. Another release that was staged has never been current, and isn't kept.
    #[must_use]
    pub fn with_current(
        before: Option<&StoredSite>,
        current: StoredRelease,
        keep: usize,
    ) -> (StoredSite, Vec<Blob>) {
        let others = before.into_iter().flat_map(|site| std::iter::once(&site.current).chain(&site.earlier));
        let mut others: Vec<_> = others.filter(|other| other.digest != current.digest).cloned().collect();
        others.sort_by_key(|release| std::cmp::Reverse((release.serial, release.date)));
        others.truncate(keep.saturating_sub(1).min(EARLIER_MAX));
        let site = StoredSite { current, staged: None, earlier: others };
        let unused = before.map_or(Vec::new(), |before| unused(before, &site));
        (site, unused)
    }

    /// Returns the document after a release was staged, and the files that no release of the document has any more. A release that was
    /// staged before and never became current isn't kept.
    #[must_use]
    pub fn with_staged(before: &StoredSite, staged: StoredRelease) -> (StoredSite, Vec<Blob>) {
        // Before a rollback, an earlier release is staged. It stays in the list, in case that another one is staged instead.
        let site = StoredSite { staged: Some(staged), ..before.clone() };
        let unused = unused(before, &site);
        (site, unused)
    }
}

/// Returns the files that only the document before has.
fn unused(before: &StoredSite, after: &StoredSite) -> Vec<Blob> {
    let used: HashSet<_> = after.blobs().collect();
    let unused: HashSet<_> = before.blobs().filter(|blob| !used.contains(blob)).collect();
    unused.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(serial: u64) -> StoredRelease {
        let byte = u8::try_from(serial).unwrap();
        let blob = |part: u8| Blob { sha256: [byte, part].repeat(16).try_into().unwrap(), bytes: 1 };
        StoredRelease {
            serial,
            digest: Digest([byte; Digest::BYTES]),
            date: serial,
            signed: None,
            archive: blob(0),
            recipe: blob(1),
            patches: Vec::new(),
        }
    }

    fn set(blobs: impl IntoIterator<Item = Blob>) -> HashSet<Blob> {
        blobs.into_iter().collect()
    }

    fn serials(site: &StoredSite) -> (u64, Option<u64>, Vec<u64>) {
        let earlier = site.earlier.iter().map(|release| release.serial).collect();
        (site.current.serial, site.staged.as_ref().map(|release| release.serial), earlier)
    }

    #[test]
    fn releases_are_staged_and_then_current() {
        let (site, unused) = StoredSite::with_current(None, release(1), 10);
        assert_eq!((serials(&site), unused.len()), ((1, None, vec![]), 0));
        let (site, _) = StoredSite::with_staged(&site, release(2));
        let (site, _) = StoredSite::with_current(Some(&site), release(2), 10);
        assert_eq!(serials(&site), (2, None, vec![1]));

        // A release that never became current leaves with its files.
        let (site, _) = StoredSite::with_staged(&site, release(3));
        let (site, unused) = StoredSite::with_staged(&site, release(4));
        assert_eq!(serials(&site), (2, Some(4), vec![1]));
        assert_eq!(set(unused), set(release(3).blobs()));
        let (again, unused) = StoredSite::with_staged(&site, release(4));
        assert!(again == site && unused.is_empty());

        let (site, unused) = StoredSite::with_current(Some(&site), release(5), 3);
        assert_eq!(serials(&site), (5, None, vec![2, 1]));
        assert_eq!(set(unused), set(release(4).blobs()));
        let (site, unused) = StoredSite::with_current(Some(&site), release(6), 3);
        assert_eq!(serials(&site), (6, None, vec![5, 2]));
        assert_eq!(set(unused), set(release(1).blobs()));

        // A rollback, whose release isn't lost if another one is staged instead.
        let (site, _) = StoredSite::with_staged(&site, release(2));
        let (other, unused) = StoredSite::with_staged(&site, release(7));
        assert_eq!((serials(&other), unused.len()), ((6, Some(7), vec![5, 2]), 0));
        let (site, _) = StoredSite::with_current(Some(&site), release(2), 3);
        assert_eq!(serials(&site), (2, None, vec![6, 5]));
    }
}
