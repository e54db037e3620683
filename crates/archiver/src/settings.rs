//! Input and outcome of a build: options, effort, cancellation, errors.

pub(crate) mod cancel; // Cancellation.
pub(crate) mod effort; // How thorough a build is.
pub mod error; // Why a build fails.
pub mod library; // Messages for programs without flags.
pub mod options; // All options, with defaults.
