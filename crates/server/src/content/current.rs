//! The current content. It is always replaced as a whole, with each worker noticing between two
//! events.
//!
//! The request path does not use this: each worker has its own reference, which it renews whenever it is
//! woken up.

use std::sync::{Arc, Mutex, PoisonError};

use super::Content;

/// The content being served.
#[derive(Debug)]
pub(crate) struct Current(Mutex<Arc<Content>>);

impl Current {
    pub(crate) fn new(content: Arc<Content>) -> Current {
        Current(Mutex::new(content))
    }

    /// Returns the content being served. The reference remains valid after the content is replaced.
    pub(crate) fn get(&self) -> Arc<Content> {
        // If another thread panics, the reference is still valid, so we can ignore poisoning.
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the content. Workers will notice when they are woken up.
    pub(crate) fn replace(&self, content: Arc<Content>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }
}
