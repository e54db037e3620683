//! Steps from a request to an answer.

// The path's record, or a rule or fallback page.
pub(crate) mod resolve;

// Paths that get no fallback page.
pub(crate) mod asset;

// Representation, conditions and ranges.
pub(crate) mod deliver;

// Error responses.
pub(crate) mod failure;

// The site's own pages for errors.
pub(crate) mod custom_page;

// The best representation for the client.
pub(crate) mod negotiate;

// Responses that never change.
pub(crate) mod immutable;
