//! Uploads a release: archive, recipe, patches against earlier releases, and then the document that names it.

use cannery_archive::{Archive, Digest};
use cannery_publish::trust::Signed;
use cannery_publish::{Recipe, RecipeError};

use crate::error::StoreError;
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
    /// Returns the document after a release was made current, which may be one of the earlier ones, and the files that no release of
    /// the document has any more. At most `keep` releases stay.
    #[must_use]
    pub fn with_current(
        before: Option<&StoredSite>,
        current: StoredRelease,
        keep: usize,
    ) -> (StoredSite, Vec<Blob>) {
        let others = before.into_iter().flat_map(StoredSite::releases);
        let mut others: Vec<_> = others.filter(|other| other.digest != current.digest).cloned().collect();
        others.sort_by_key(|release| std::cmp::Reverse((release.serial, release.date)));
        let dropped = others.split_off(others.len().min(keep.saturating_sub(1).min(EARLIER_MAX)));
        let site = StoredSite { current, earlier: others };
        let is_used =
            |blob: &Blob| site.releases().any(|release| release.blobs().any(|other| other == *blob));
        let unused = dropped.iter().flat_map(StoredRelease::blobs).filter(|blob| !is_used(blob)).collect();
        (site, unused)
    }
}
