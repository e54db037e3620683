//! Limits of what publishers can make us read.

/// Maximum length of a signed statement, and of its signature, in bytes. Ours have less than 600.
pub const STATEMENT_BYTES_MAX: usize = 8 << 10;

/// Maximum length of the name of a site in bytes: that of the longest host name.
pub const SITE_BYTES_MAX: usize = 253;
