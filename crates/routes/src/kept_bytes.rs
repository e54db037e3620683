//! Counts the response bytes that wait for a worker's connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the response bytes that handlers have written and that connections have not taken yet.
///
/// Handlers add bytes on their own threads. The worker reads the sum, which counts towards its memory limit.
// Only for the server.
#[doc(hidden)]
pub struct KeptBytes {
    bytes: AtomicUsize,
    /// Beyond this many bytes, handlers should write less.
    plenty: AtomicUsize,
    step_bytes: usize,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Bytes that count until this is dropped.
// Only for the server.
#[doc(hidden)]
#[derive(Debug)]
pub struct HeldBytes {
    kept: Arc<KeptBytes>,
    bytes: usize,
}

impl KeptBytes {
    /// Creates a count of zero. `wake` is called whenever the count grows beyond another multiple of `step_bytes`. While no
    /// connection takes anything, the worker might be asleep and would not notice the growth otherwise.
    #[must_use]
    pub fn new(step_bytes: usize, wake: impl Fn() + Send + Sync + 'static) -> Arc<KeptBytes> {
        let step_bytes = step_bytes.max(1);
        Arc::new(KeptBytes {
            bytes: AtomicUsize::new(0),
            plenty: AtomicUsize::new(usize::MAX),
            step_bytes,
            wake: Box::new(wake),
        })
    }

    /// Makes memory scarce beyond this many bytes.
    pub fn set_plenty(&self, bytes: usize) {
        self.plenty.store(bytes, Ordering::Relaxed);
    }

    /// Returns `true` if so many bytes are waiting that handlers should write less. The worker may not be able to close
    /// connections as fast as handlers write.
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        self.get() > self.plenty.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes.
    #[must_use]
    #[inline]
    pub fn get(&self) -> usize {
        // No other memory depends on it.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts these bytes until the result is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> HeldBytes {
        let mut held = HeldBytes { kept: Arc::clone(self), bytes: 0 };
        held.set(bytes);
        held
    }
}

impl HeldBytes {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if handlers should write less.
    pub(crate) fn is_scarce(&self) -> bool {
        self.kept.is_scarce()
    }

    /// Changes the number of bytes.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes > before {
            let grown = bytes - before;
            let sum = self.kept.bytes.fetch_add(grown, Ordering::Relaxed);
            if sum / self.kept.step_bytes != (sum + grown) / self.kept.step_bytes {
                (self.kept.wake)();
            }
        } else if bytes < before {
            self.kept.bytes.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for KeptBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBytes").field("bytes", &self.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_wakes_once_per_step() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let kept = KeptBytes::new(100, {
            let wakes = Arc::clone(&wakes);
            move || _ = wakes.fetch_add(1, Ordering::Relaxed)
        });
        let woken = || wakes.swap(0, Ordering::Relaxed);

        let mut first = kept.hold(60);
        let second = kept.hold(39);
        assert_eq!((kept.get(), woken()), (99, 0));
        first.set(61);
        assert_eq!((kept.get(), woken()), (100, 1));
        first.set(500);
        assert_eq!((kept.get(), woken()), (539, 1));
        drop(second);
        first.set(0);
        assert_eq!((kept.get(), woken()), (0, 0));
        drop(first);
        assert_eq!(kept.get(), 0);
    }
}
