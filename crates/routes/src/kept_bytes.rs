//! Counts the response bytes that wait for a worker's connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the response bytes that handlers have written and that connections have not taken yet.
///
/// Handlers add bytes on their own threads. The worker reads the sum, which counts towards its memory limit.
// Only for the server.
#[doc(hidden)]
pub struct KeptBytes {
    bytes: AtomicUsize,
    /// Beyond this many bytes, handlers should write less.
    plenty: AtomicUsize,
    /// Beyond this many bytes, requests should be refused.
    full: AtomicUsize,
    /// Whether the worker has little memory left, whatever takes it.
    is_tight: AtomicBool,
    /// Whether a request was refused since the worker has last asked.
    has_refused: AtomicBool,
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
            full: AtomicUsize::new(usize::MAX),
            is_tight: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            step_bytes,
            wake: Box::new(wake),
        })
    }

    /// Makes memory scarce beyond `plenty` bytes, and lets requests be refused beyond `full` bytes.
    pub fn set_limits(&self, plenty: usize, full: usize) {
        self.plenty.store(plenty, Ordering::Relaxed);
        self.full.store(full, Ordering::Relaxed);
    }

    /// Records the fact that the worker has little memory left, or that it has enough again.
    #[inline]
    pub fn set_tight(&self, is_tight: bool) {
        // Handlers on other threads use the same cache line.
        if self.is_tight.load(Ordering::Relaxed) != is_tight {
            self.is_tight.store(is_tight, Ordering::Relaxed);
        }
    }

    /// Returns `true` if a request should be refused because its response might not fit into memory any more.
    #[must_use]
    pub fn refuses(&self) -> bool {
        let refuses = self.get() > self.full.load(Ordering::Relaxed) || self.is_tight.load(Ordering::Relaxed);
        if refuses {
            self.has_refused.store(true, Ordering::Relaxed);
        }
        refuses
    }

    /// Returns `true` if a request was refused since the last call.
    #[must_use]
    pub fn take_refused(&self) -> bool {
        self.has_refused.swap(false, Ordering::Relaxed)
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

    /// Counts these bytes until the result is dropped. This doesn't wake up the worker, which will be woken up when the bytes are
    /// delivered. Before that, it couldn't tell which connection they are for.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> HeldBytes {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        HeldBytes { kept: Arc::clone(self), bytes }
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
        let whole = kept.hold(1000);
        assert_eq!((whole.bytes(), kept.get(), woken()), (1000, 1000, 0), "its delivery wakes");
    }

    #[test]
    fn requests_are_refused_later_than_bodies_are_throttled() {
        let kept = KeptBytes::new(usize::MAX, || {});
        kept.set_limits(400, 700);
        let state = || (kept.is_scarce(), kept.refuses(), kept.take_refused());
        assert_eq!(state(), (false, false, false));
        let mut held = kept.hold(401);
        assert_eq!(state(), (true, false, false));
        held.set(700);
        assert_eq!(state(), (true, false, false));
        held.set(701);
        assert_eq!(state(), (true, true, true));
        assert!(!kept.take_refused(), "it is told once");
        drop(held);
        kept.set_tight(true);
        assert_eq!(state(), (false, true, true));
        kept.set_tight(false);
        assert_eq!(state(), (false, false, false));
    }
}
