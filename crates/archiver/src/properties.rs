//! Properties of a file that follow from its name.

pub mod caching; // `Cache-Control` by kind of file.
pub mod classify; // Media types.
pub mod fingerprint; // Names that contain a digest of the content.
pub(crate) mod precompressed; // Files that are compressed already.
pub(crate) mod special; // Names with a meaning, such as `index.html` and `404.html`.
