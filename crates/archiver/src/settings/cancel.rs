//! Cancels builds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::settings::error::Error;

/// Cancels a build from any thread.
///
/// The flag is checked before each file that is read or compressed.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Cancels the builds that have this flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the build was canceled.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    ///
    /// Returns [`Error::Canceled`] if the build was canceled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_canceled() { Err(Error::Canceled) } else { Ok(()) }
    }
}
