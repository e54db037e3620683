//! The content that is served now: replaced as a whole, taken up by each worker between two events.
//!
//! Never touched on the request path: a worker holds its own reference, and looks here when it is woken.

use std::sync::{Arc, Mutex, PoisonError};

use crate::content::Content;

/// The content that is served now.
#[derive(Debug)]
pub(crate) struct Current(Mutex<Arc<Content>>);

impl Current {
    pub(crate) fn new(content: Arc<Content>) -> Current {
        Current(Mutex::new(content))
    }

    /// What is served now. Whoever holds it goes on with it, also after it was replaced.
    pub(crate) fn get(&self) -> Arc<Content> {
        // A reference is whole at any moment: who panicked while holding the lock broke nothing.
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves this from now on, as soon as the workers are woken.
    pub(crate) fn replace(&self, content: Arc<Content>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }
}
