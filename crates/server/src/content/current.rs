//! The current content. It is always replaced as a whole, with each worker noticing between two
//! events.
//!
//! The request path does not use this: each worker has its own reference, which it renews whenever it is
//! woken up.

use std::sync::{Arc, Mutex, PoisonError};

use super::Content;

/// The content being served.
#[derive(Debug)]
pub(crate) struct Current(Mutex<(Arc<Content>, Mark)>);

/// Held by each worker that responds from some content. Connections may keep older content, but not its mark.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Arc<()>);

impl Mark {
    /// Returns `true` if no worker has this mark. Must be called after the content was replaced.
    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Current {
    pub(crate) fn new(content: Arc<Content>) -> Current {
        Current(Mutex::new((content, Mark::default())))
    }

    /// Returns the content being served. The reference remains valid after the content is replaced.
    pub(crate) fn get(&self) -> Arc<Content> {
        self.adopt().0
    }

    /// Returns the content being served and its mark, for a worker.
    pub(crate) fn adopt(&self) -> (Arc<Content>, Mark) {
        // If another thread panics, the reference is still valid, so we can ignore poisoning.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the content with what `next` makes from it. Several threads may each replace a part of it. Workers will notice when
    /// they are woken up. Returns the mark of the previous content.
    pub(crate) fn update(&self, next: impl FnOnce(&Content) -> Arc<Content>) -> Mark {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(&current.0);
        let (replaced, mark) = std::mem::replace(&mut *current, (next, Mark::default()));
        // Dropping it may take long.
        drop(current);
        drop(replaced);
        mark
    }

    /// Replaces the content as a whole.
    #[cfg(test)]
    pub(crate) fn replace(&self, content: Arc<Content>) -> Mark {
        self.update(|_| content)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::content::dummy::Dummy;

    #[test]
    fn content_is_used_until_all_workers_have_adopted_the_next() {
        let content = || Arc::new(Content::Dummy(Dummy::new(b"", Duration::ZERO)));
        let current = Current::new(content());
        let mut workers = [current.adopt(), current.adopt()];
        let replaced = current.replace(content());
        let _of_a_connection = Arc::clone(&workers[0].0);
        for worker in &mut workers {
            assert!(!replaced.is_unused());
            *worker = current.adopt();
        }
        assert!(replaced.is_unused());
    }
}
