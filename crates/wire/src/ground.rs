//! Helpers that all protocols share.

// Budgets against floods.
pub(crate) mod abuse;

// The archive of a response.
pub(crate) mod archive_ref;

// Numbers as text.
pub(crate) mod decimal;

// Tokens, hosts and lists (RFC 9110).
pub(crate) mod grammar;

// Byte searches.
pub(crate) mod scan;
