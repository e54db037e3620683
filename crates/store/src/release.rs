//! The document that names the current release of a site, a staged one if there is any, and where their parts are.
//!
//! It is JSON. Everything in it is checked before use, and what matters is signed: the statement has the digest of the archive, and no
//! other part of the document can lead to an archive with another one.

use cannery_archive::Digest;
use cannery_base::hex::{self, Hex};
use cannery_trust::Signed;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::limits::{DOCUMENT_BYTES_MAX, EARLIER_MAX, PATCHES_MAX, RECIPE_BLOB_BYTES_MAX};

/// Version of the document.
const VERSION: u32 = 1;

/// The releases of a site in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSite {
    /// The release that nodes should serve.
    pub current: StoredRelease,
    /// The release that will become current, which nodes should have by then. Programs of versions without it ignore this member.
    pub staged: Option<StoredRelease>,
    /// Other releases, newest first.
    pub earlier: Vec<StoredRelease>,
}

/// A release, and where its parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRelease {
    /// The serial of the archive.
    pub serial: u64,
    /// The digest in the archive's facts.
    pub digest: Digest,
    /// When it was uploaded, in seconds since 1970.
    pub date: u64,
    /// The statement about it.
    pub signed: Option<Signed>,
    /// The archive.
    pub archive: Blob,
    /// The compressed recipe of the archive.
    pub recipe: Blob,
    /// The recipe as a patch of others.
    pub patches: Vec<Patch>,
}

/// A recipe as a patch of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The digest of the other archive.
    pub base: Digest,
    /// The digest of the other archive's recipe. Another version of the program may make another recipe.
    pub base_recipe: Digest,
    /// The compressed patch.
    pub blob: Blob,
}

/// A file in a store, by its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blob {
    /// The SHA-256.
    pub sha256: [u8; 32],
    /// The length in bytes.
    pub bytes: u64,
}

/// Why bytes aren't such a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// It was written by a later program.
    #[error("the document about the releases has version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// It is no such document, or was changed.
    #[error("the document about the releases is malformed: {0}")]
    Malformed(String),
}

impl ReleaseError {
    /// Makes an error of a store's document.
    pub(crate) fn in_document(&self, place: &str) -> StoreError {
        let hint = match self {
            ReleaseError::Version(_) => "update Cannery here: a later version has written the store",
            ReleaseError::Malformed(_) => {
                "the store or something on the way to it is at fault: check the address, or push the site into an empty store"
            }
        };
        StoreError::wrong(format!("{place}: {self}")).hint(hint)
    }
}

impl Blob {
    /// Returns the digest as in OCI: `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("sha256:{}", Hex(&self.sha256))
    }

    /// Returns the hexadecimal digits of the digest.
    #[must_use]
    pub fn hex(&self) -> String {
        Hex(&self.sha256).to_string()
    }

    pub(crate) fn parse(digest: &str, bytes: u64) -> Option<Blob> {
        Some(Blob { sha256: hex::decode(digest.strip_prefix("sha256:")?)?, bytes })
    }
}

#[derive(Deserialize)]
struct VersionJson {
    cannery: u32,
}

#[derive(Serialize, Deserialize)]
struct DocumentJson {
    cannery: u32,
    current: ReleaseJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<ReleaseJson>,
    #[serde(default)]
    earlier: Vec<ReleaseJson>,
}

#[derive(Serialize, Deserialize)]
struct ReleaseJson {
    serial: u64,
    digest: String,
    date: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signed: Option<Signed>,
    archive: BlobJson,
    recipe: BlobJson,
    #[serde(default)]
    patches: Vec<PatchJson>,
}

#[derive(Serialize, Deserialize)]
struct BlobJson {
    digest: String,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct PatchJson {
    base: String,
    base_recipe: String,
    #[serde(flatten)]
    blob: BlobJson,
}

impl StoredSite {
    /// Returns the document.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let document = DocumentJson {
            cannery: VERSION,
            current: self.current.to_document(),
            staged: self.staged.as_ref().map(StoredRelease::to_document),
            earlier: self.earlier.iter().map(StoredRelease::to_document).collect(),
        };
        let mut text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Parses a document.
    ///
    /// # Errors
    /// Returns [`ReleaseError`] if it is malformed, too long, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<StoredSite, ReleaseError> {
        let malformed = |why: &str| ReleaseError::Malformed(why.to_owned());
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        // The version comes first: other members may have changed with it.
        let VersionJson { cannery } =
            serde_json::from_slice(bytes).map_err(|error| malformed(&error.to_string()))?;
        if cannery != VERSION {
            return Err(ReleaseError::Version(cannery));
        }
        let document: DocumentJson =
            serde_json::from_slice(bytes).map_err(|error| malformed(&error.to_string()))?;
        if document.earlier.len() > EARLIER_MAX {
            return Err(malformed("it has too many releases"));
        }
        let earlier: Option<Vec<_>> = document.earlier.into_iter().map(StoredRelease::of_document).collect();
        let current = StoredRelease::of_document(document.current);
        let staged = document.staged.map(StoredRelease::of_document);
        match (current, staged, earlier) {
            (_, Some(None), _) | (None, ..) | (.., None) => Err(malformed("a digest or length")),
            (Some(current), staged, Some(earlier)) => {
                Ok(StoredSite { current, staged: staged.flatten(), earlier })
            }
        }
    }

    /// Returns all releases: the current one, the staged one, and then the earlier ones. The staged one may be among these, too.
    pub fn releases(&self) -> impl Iterator<Item = &StoredRelease> {
        std::iter::once(&self.current).chain(&self.staged).chain(&self.earlier)
    }

    /// Returns all files of all releases.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> {
        self.releases().flat_map(StoredRelease::blobs)
    }
}

impl StoredRelease {
    /// Returns all files of the release.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> {
        [self.archive, self.recipe].into_iter().chain(self.patches.iter().map(|patch| patch.blob))
    }

    fn to_document(&self) -> ReleaseJson {
        let blob = |blob: &Blob| BlobJson { digest: blob.digest(), bytes: blob.bytes };
        let patches = self.patches.iter().map(|patch| PatchJson {
            base: patch.base.to_string(),
            base_recipe: patch.base_recipe.to_string(),
            blob: blob(&patch.blob),
        });
        ReleaseJson {
            serial: self.serial,
            digest: self.digest.to_string(),
            date: self.date,
            signed: self.signed.clone(),
            archive: blob(&self.archive),
            recipe: blob(&self.recipe),
            patches: patches.collect(),
        }
    }

    fn of_document(document: ReleaseJson) -> Option<StoredRelease> {
        let blob = |json: &BlobJson| Blob::parse(&json.digest, json.bytes);
        // Recipes are read into memory.
        let recipe_blob = |json: &BlobJson| blob(json).filter(|blob| blob.bytes <= RECIPE_BLOB_BYTES_MAX);
        if document.patches.len() > PATCHES_MAX {
            return None;
        }
        let patch = |json: &PatchJson| {
            Some(Patch {
                base: Digest(hex::decode(&json.base)?),
                base_recipe: Digest(hex::decode(&json.base_recipe)?),
                blob: recipe_blob(&json.blob)?,
            })
        };
        Some(StoredRelease {
            serial: document.serial,
            digest: Digest(hex::decode(&document.digest)?),
            date: document.date,
            archive: blob(&document.archive)?,
            recipe: recipe_blob(&document.recipe)?,
            patches: document.patches.iter().map(patch).collect::<Option<_>>()?,
            signed: document.signed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> StoredSite {
        let blob = |byte: u8| Blob { sha256: [byte; 32], bytes: 100 + u64::from(byte) };
        let release = |serial: u64| StoredRelease {
            serial,
            digest: Digest([1; Digest::BYTES]),
            date: 5,
            signed: Some(Signed { statement: "a\n".into(), signature: "b".into() }),
            archive: blob(2),
            recipe: blob(3),
            patches: vec![Patch {
                base: Digest([4; Digest::BYTES]),
                base_recipe: Digest([5; Digest::BYTES]),
                blob: blob(6),
            }],
        };
        StoredSite { current: release(2), staged: Some(release(3)), earlier: vec![release(1)] }
    }

    #[test]
    fn documents_are_read_as_written() {
        let site = sample();
        assert_eq!(StoredSite::parse(&site.to_json()), Ok(site));
    }

    #[test]
    fn staged_release_may_be_missing() {
        let site = StoredSite { staged: None, ..sample() };
        let text = String::from_utf8(site.to_json()).unwrap();
        assert!(!text.contains("staged"), "older programs get what they know");
        assert_eq!(StoredSite::parse(text.as_bytes()), Ok(site));
        // Like older programs, we ignore members that we don't know.
        let extended = text.replacen('{', "{\"added_later\": [1],", 1);
        assert!(StoredSite::parse(extended.as_bytes()).is_ok());
    }

    #[test]
    fn other_documents_are_refused() {
        let text = String::from_utf8(sample().to_json()).unwrap();
        for wrong in [
            String::new(),
            "{}".to_owned(),
            text.replace("\"cannery\": 1", "\"cannery\": 2"),
            text.replace("sha256:", "sha512:"),
            text.replace("0303", "03"),
            text.replace("\"bytes\": 103", &format!("\"bytes\": {}", u64::MAX)),
            format!("{text}{}", " ".repeat(usize::try_from(DOCUMENT_BYTES_MAX).unwrap())),
        ] {
            assert!(StoredSite::parse(wrong.as_bytes()).is_err(), "{wrong:.200}");
        }
        assert_eq!(StoredSite::parse(b"{\"cannery\": 2}"), Err(ReleaseError::Version(2)));
        let mut many = sample();
        many.earlier = vec![many.current.clone(); EARLIER_MAX + 1];
        assert!(StoredSite::parse(&many.to_json()).is_err());
        let mut wrong = sample();
        wrong.staged.as_mut().unwrap().recipe.bytes = u64::MAX;
        assert!(StoredSite::parse(&wrong.to_json()).is_err());
    }
}
