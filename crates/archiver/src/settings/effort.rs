//! Effort of a build, i.e. the amount of work to do.

/// The amount of work to be done by a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Does not compress anything and only stores compressed contents that are in the cache. Links are not
    /// checked.
    Quick,
    /// Does everything the options ask for.
    Full,
}
