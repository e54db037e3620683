//! Which checks a run has.

/// Selects the checks of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Formatting, clippy and cargo test. Tests with other programs are skipped, unless all of those are installed.
    Fast,
    /// Everything except the long tests and the checks that need tools with minutes of installation.
    Usual,
    /// The checks of continuous integration: the usual ones and cargo deny.
    Integration,
    /// Everything.
    Slow,
}
