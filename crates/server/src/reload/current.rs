//! Current content: replaced as a whole, and adopted by each worker between two events.
//!
//! The request path never accesses it: a worker has its own reference, and renews it after a wake-up.

use std::sync::{Arc, Mutex, PoisonError};

use crate::content::Content;

/// The content that is served now.
#[derive(Debug)]
pub(crate) struct Current(Mutex<Arc<Content>>);

impl Current {
    pub(crate) fn new(content: Arc<Content>) -> Current {
        Current(Mutex::new(content))
    }

    /// Returns the content that is served now. The reference stays valid after a replacement.
    pub(crate) fn get(&self) -> Arc<Content> {
        // A panic of another thread cannot leave the reference in an invalid state, so we ignore poisoning.
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the content. The workers adopt it when they are woken up.
    pub(crate) fn replace(&self, content: Arc<Content>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }
}
