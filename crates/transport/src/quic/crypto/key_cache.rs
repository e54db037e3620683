//! A key cache, in which each thread keeps the keys that it is using in expanded form.
//!
//! AES encrypts with a schedule of round keys, and GCM authenticates with powers of a hash key. In this form,
//! the four keys of a connection take two kilobytes. An idle connection therefore only keeps the original 16
//! or 32 bytes of each key, which can be expanded again in 0.2 µs. This is worth 9 % of its memory: 1.2 of
//! 13.7 kB that we allocate, and 1.6 of 19.8 kB of the process.
//!
//! Since `quinn-proto` uses keys by shared reference, a cache that belonged to the connection would need a
//! lock for each packet, at a cost of 3 % of the CPU time of a large response. For this reason, it belongs
//! to the thread instead.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::LocalKey;

use aws_lc_rs::aead::LessSafeKey;
use aws_lc_rs::aead::quic::HeaderProtectionKey;

/// An expanded key.
pub(super) trait ExpandedKey: Sized + 'static {
    /// Returns the current thread's cache.
    fn cache() -> &'static LocalKey<RefCell<KeyCache<Self>>>;
}

/// Packet keys.
impl ExpandedKey for LessSafeKey {
    fn cache() -> &'static LocalKey<RefCell<KeyCache<Self>>> {
        thread_local!(static CACHE: RefCell<KeyCache<LessSafeKey>> = const { RefCell::new(KeyCache::EMPTY) });
        &CACHE
    }
}

/// Header keys. They need to be boxed because a growing vector leaves copies of its elements in
/// freed memory.
impl ExpandedKey for Box<HeaderProtectionKey> {
    fn cache() -> &'static LocalKey<RefCell<KeyCache<Self>>> {
        thread_local! {
            static CACHE: RefCell<KeyCache<Box<HeaderProtectionKey>>> = const { RefCell::new(KeyCache::EMPTY) };
        }
        &CACHE
    }
}

/// Identifies a key in the caches of all threads. Once this value is dropped, so is the expanded key.
pub(super) struct CachedKey<K: ExpandedKey> {
    /// ID of the key. It is unique across threads.
    id: u64,
    /// Index of the expanded key in the thread that used it last.
    index: AtomicU32,
    form: PhantomData<fn() -> K>,
}

/// ID for the next key. All threads increment it, eight times per handshake.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl<K: ExpandedKey> CachedKey<K> {
    /// Creates an identity for another key.
    pub(super) fn new() -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, index: AtomicU32::new(u32::MAX), form: PhantomData }
    }

    /// Calls `f` with the expanded key, getting it from `expand` if this thread does not have it
    /// yet.
    pub(super) fn with<R>(&self, expand: impl FnOnce() -> K, f: impl FnOnce(&K) -> R) -> R {
        K::cache().with_borrow_mut(|cache| {
            if let Some(key) = cache.get(self.id, self.index.load(Ordering::Relaxed)) {
                return f(key);
            }
            let index = cache.insert(self.id, expand());
            self.index.store(index, Ordering::Relaxed);
            f(cache.get(self.id, index).expect("it was inserted"))
        })
    }
}

impl<K: ExpandedKey> Drop for CachedKey<K> {
    fn drop(&mut self) {
        let index = self.index.load(Ordering::Relaxed);
        // If the thread is exiting, its cache may have been dropped already.
        let _ = K::cache().try_with(|cache| cache.borrow_mut().remove(self.id, index));
    }
}

/// Drops expanded keys that the current thread has not used since the last call.
///
/// Threads with connections should call this about once a second. Otherwise, each expanded key will be kept
/// for as long as the key itself, or even longer if another thread drops the key.
pub fn drop_unused_keys() {
    LessSafeKey::cache().with_borrow_mut(KeyCache::drop_unused);
    Box::<HeaderProtectionKey>::cache().with_borrow_mut(KeyCache::drop_unused);
}

/// Expanded keys of a thread.
pub(super) struct KeyCache<K> {
    entries: Vec<Entry<K>>,
    /// Indices of vacant entries.
    free: Vec<u32>,
}

struct Entry<K> {
    /// The expanded key and the ID.
    key: Option<(u64, K)>,
    /// Whether the key was used since the last call of [`drop_unused_keys`].
    is_used: bool,
}

impl<K> KeyCache<K> {
    const EMPTY: Self = Self { entries: Vec::new(), free: Vec::new() };

    /// Returns the key at this index, if it has this ID.
    fn get(&mut self, id: u64, index: u32) -> Option<&K> {
        let entry = self.entries.get_mut(index as usize)?;
        let (key_id, key) = entry.key.as_ref()?;
        if *key_id != id {
            return None;
        }
        entry.is_used = true;
        Some(key)
    }

    /// Inserts a key. Returns the index.
    fn insert(&mut self, id: u64, key: K) -> u32 {
        let entry = Entry { key: Some((id, key)), is_used: true };
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            return index;
        }
        self.entries.push(entry);
        entry_count(self.entries.len()) - 1
    }

    /// Removes the key at this index, if it has this ID.
    fn remove(&mut self, id: u64, index: u32) {
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        if entry.key.take_if(|(key_id, _)| *key_id == id).is_some() {
            self.free.push(index);
        }
    }

    /// Drops keys that have not been used since the last call.
    ///
    /// New keys get the lowest indices in order to be able to free the end of the table once its keys are no
    /// longer used. The table keeps its memory if a quarter of it was used since the last call, even if these
    /// keys have been removed.
    fn drop_unused(&mut self) {
        let used_end = self.entries.iter().rposition(|entry| entry.is_used).map_or(0, |last| last + 1);
        for entry in &mut self.entries {
            if !std::mem::take(&mut entry.is_used) {
                entry.key = None;
            }
        }
        let length = self.entries.iter().rposition(|entry| entry.key.is_some()).map_or(0, |last| last + 1);
        self.entries.truncate(length);
        if self.entries.capacity() / 4 >= used_end {
            self.entries.shrink_to(2 * used_end);
            self.free = Vec::new();
        }
        self.free.clear();
        let is_free = |index: &u32| self.entries[*index as usize].key.is_none();
        self.free.extend((0..entry_count(length)).rev().filter(is_free));
    }
}

fn entry_count(length: usize) -> u32 {
    u32::try_from(length).expect("memory doesn't hold more keys")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::quic::AES_128;

    use super::*;

    /// A key whose bytes are all the same.
    struct Key {
        byte: u8,
        cached: CachedKey<Box<HeaderProtectionKey>>,
    }

    impl Key {
        fn new(byte: u8) -> Key {
            Key { byte, cached: CachedKey::new() }
        }

        /// Returns `true` if the key had to be expanded, after checking that it is the right one.
        fn is_expanded_by_use(&self) -> bool {
            let mut is_expanded = false;
            let expand = || Box::new(HeaderProtectionKey::new(&AES_128, &[self.byte; 16]).unwrap());
            let mask = self.cached.with(
                || {
                    is_expanded = true;
                    expand()
                },
                |key| key.new_mask(&[0; 16]).unwrap(),
            );
            assert_eq!(mask, expand().new_mask(&[0; 16]).unwrap());
            is_expanded
        }
    }

    fn expanded_keys() -> usize {
        Box::<HeaderProtectionKey>::cache()
            .with_borrow(|cache| cache.entries.iter().filter(|entry| entry.key.is_some()).count())
    }

    /// Returns the number of keys for which the table has memory.
    fn capacity() -> usize {
        Box::<HeaderProtectionKey>::cache().with_borrow(|cache| cache.entries.capacity())
    }

    #[test]
    fn key_that_is_not_used_is_dropped_and_expanded_again() {
        let [used, idle] = [1, 2].map(Key::new);
        assert!(used.is_expanded_by_use() && idle.is_expanded_by_use());
        for _ in 0..3 {
            drop_unused_keys();
            assert!(!used.is_expanded_by_use());
        }
        assert_eq!(expanded_keys(), 1);

        // Another key gets the place of the one that was dropped.
        let third = Key::new(3);
        assert!(third.is_expanded_by_use());
        assert_eq!(third.cached.index.load(Ordering::Relaxed), idle.cached.index.load(Ordering::Relaxed));
        drop(idle);
        assert!(!third.is_expanded_by_use() && !used.is_expanded_by_use());
        drop_unused_keys();
        drop_unused_keys();
        assert!(third.is_expanded_by_use() && used.is_expanded_by_use());
    }

    #[test]
    fn expanded_key_is_dropped_with_its_key() {
        let keys: Vec<Key> = (0..20).map(Key::new).collect();
        assert!(keys.iter().all(Key::is_expanded_by_use));
        assert_eq!(expanded_keys(), 20);
        drop(keys);
        assert_eq!(expanded_keys(), 0);

        // Just as many keys might be needed again. If this has not happened by the next call, the
        // memory is freed.
        drop_unused_keys();
        assert!(capacity() >= 20);
        drop_unused_keys();
        assert_eq!(capacity(), 0);
    }

    #[test]
    fn memory_of_many_keys_is_freed() {
        let mut keys: Vec<Key> = (0..200).map(Key::new).collect();
        assert!(keys.iter().all(Key::is_expanded_by_use));
        assert!(capacity() >= 200);
        // One of them is in use all the time.
        let used = keys.swap_remove(0);
        for _ in 0..3 {
            drop_unused_keys();
            assert!(!used.is_expanded_by_use());
        }
        assert_eq!(expanded_keys(), 1);
        assert!(capacity() < 16, "{}", capacity());
    }

    #[test]
    fn key_gets_the_lowest_index() {
        let keys: Vec<Key> = (0..20).map(Key::new).collect();
        assert!(keys.iter().all(Key::is_expanded_by_use));
        for _ in 0..2 {
            drop_unused_keys();
            assert!(!keys[0].is_expanded_by_use() && !keys[19].is_expanded_by_use());
        }
        let next = Key::new(20);
        assert!(next.is_expanded_by_use());
        assert_eq!(next.cached.index.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn threads_expand_a_key_each() {
        let key = Key::new(7);
        let others: Vec<Key> = (8..12).map(Key::new).collect();
        assert!(others.iter().all(Key::is_expanded_by_use));
        assert!(key.is_expanded_by_use());
        std::thread::scope(|scope| {
            // There the key has another index.
            scope.spawn(|| assert!(key.is_expanded_by_use() && !key.is_expanded_by_use())).join().unwrap();
        });
        assert!(key.is_expanded_by_use());
        assert!(others.iter().all(|key| !key.is_expanded_by_use()));
        std::thread::spawn(move || drop(key)).join().unwrap();
        assert!(others.iter().all(|key| !key.is_expanded_by_use()));
    }
}
