//! The current content. It's replaced as a whole, and each worker notices between two events.
//!
//! This is not part of the request path: each worker has its own reference, and renews it when it's woken up.

use std::sync::{Arc, Mutex, PoisonError};

use crate::content::Content;

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
