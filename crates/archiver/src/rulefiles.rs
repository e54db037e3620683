//! The grammar of `_redirects` and `_headers`.

pub(crate) mod access_words; // Words that restrict access elsewhere: an error.
pub mod headers; // The grammar of `_headers`.
pub mod pattern; // Path patterns of both rule files.
pub(crate) mod pattern_index; // Finds patterns that may match.
pub(crate) mod percent; // Percent-encoding.
pub mod redirects; // The grammar of `_redirects`.
