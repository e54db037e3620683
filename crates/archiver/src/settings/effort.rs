//! The effort of a build.

/// The effort of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Compresses nothing, and stores only the compressed contents that are in the cache. Doesn't check links.
    Quick,
    /// Does everything that the options say.
    Full,
}
