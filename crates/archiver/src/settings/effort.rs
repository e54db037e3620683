//! How much work a build does.

/// How much work a build does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Compresses nothing and only stores compressed contents that are in the cache. Does not check links.
    Quick,
    /// Does everything the options ask for.
    Full,
}
