//! Stores: places that nodes pull releases of a site from.
//!
//! A publisher uploads an archive, its recipe, and patches of the recipe against earlier ones, each under its SHA-256. Then it
//! replaces one short document, which names the current release. A node looks at that document, fetches the recipe, and those
//! ranges of the archive that it lacks; [`pull()`] writes the same archive again, bit by bit. So a store only has to keep files, and
//! to answer range requests.
//!
//! This crate is internal to Cannery, that is, its interface may change in any release. Programs should use the `cannery`
//! crate instead.

#![forbid(unsafe_code)]

// The publisher's side of a store.
mod upload;

// The node's side. Publishers read what they find, too.
mod pull;

// The kinds of stores.
mod engines;

// An HTTP client with bounds.
mod http;

// The interface of stores.
mod store;

// The document that names the current release.
mod release;

mod error;

// Bounds of what a store can make us do.
pub mod limits;

pub use engines::{Address, Credentials, Finder, ImageReport, Lease, Login, Source, StoreSettings};
pub use error::{StoreError, StoreErrorKind};
pub use pull::{PullError, PullReport, pull};
pub use release::{Blob, Patch, ReleaseError, StoredRelease, StoredSite};
pub use store::{Look, Opened, Store};
pub use upload::{UploadError, UploadReport, check_stored, upload};
