//! The interface of stores.

use std::io::Read;
use std::ops::Range;

use crate::error::StoreError;
use crate::release::{Blob, StoredSite};

/// A place with releases of a site.
pub trait Store: Send {
    /// Looks which release is current. `known` is the version that the caller has seen, so that nothing is transferred if it is
    /// still the same.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store can't be read.
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError>;

    /// Opens a range of a blob. The store may return more of it. The contents are not verified.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store doesn't have it.
    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError>;

    /// Returns whether the store has a blob.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store can't be read.
    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError>;

    /// Adds a blob, which the store doesn't have.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store can't be written.
    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError>;

    /// Replaces the document. All blobs that it names must be there.
    ///
    /// `seen` is the version that the new document was made from. A store that can compares it.
    ///
    /// # Errors
    /// Returns [`StoreError`] if another publisher was faster, or if the store can't be written.
    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError>;

    /// Removes what publishers that were killed have left.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store can't be written.
    fn clean(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes a blob that no release of the document has. Stores with a garbage collection of their own do nothing.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store can't be written.
    fn remove(&mut self, blob: &Blob) -> Result<(), StoreError>;
}

/// The answer of a store about its current release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// It is the one that the caller knows.
    Same,
    /// There is no release yet.
    Empty,
    /// There is another version of the document.
    New {
        /// The document.
        site: Box<StoredSite>,
        /// Its version, for the next look.
        version: String,
    },
}

/// An open range of a blob.
pub struct Opened {
    /// The position of the first byte in the blob.
    pub start: u64,
    /// The bytes from there.
    pub reader: Box<dyn Read + Send>,
}
