//! A queue with a maximum length, for what waits until there is budget for it.

use std::collections::VecDeque;

/// A queue, oldest first, which keeps the memory that it needs every now and then.
///
/// Its items are in one piece of memory: during a flood, allocations of their own would leave gaps between those of
/// connections.
#[derive(Debug)]
pub(super) struct BoundedQueue<T> {
    items: VecDeque<T>,
    max: usize,
    /// Maximum length since the last call of [`free_unused`](Self::free_unused).
    peak: usize,
}

/// There are as many items as the queue may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Number of items for which memory is allocated first. It doubles after that.
const ITEMS_AT_FIRST: usize = 16;

impl<T> BoundedQueue<T> {
    /// Creates a queue of at most `max` items. It allocates once there is one.
    pub(super) fn new(max: usize) -> Self {
        Self { items: VecDeque::new(), max, peak: 0 }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.max
    }

    /// Returns the item after the `index` oldest ones.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)
    }

    /// Appends an item.
    ///
    /// # Errors
    /// Returns an error if the queue is full.
    pub(super) fn push(&mut self, item: T) -> Result<(), Full> {
        let length = self.items.len();
        if length >= self.max {
            return Err(Full);
        }
        if length == self.items.capacity() {
            // `VecDeque` would double beyond the maximum.
            self.items.reserve_exact(length.max(ITEMS_AT_FIRST).min(self.max - length));
        }
        self.items.push_back(item);
        self.peak = self.peak.max(length + 1);
        Ok(())
    }

    /// Removes the oldest item.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// Removes the item after the `index` oldest ones, which are moved.
    pub(super) fn remove(&mut self, index: usize) -> Option<T> {
        self.items.remove(index)
    }

    /// Frees memory if less than half of it was needed since the last call. This should be called once a second.
    pub(super) fn free_unused(&mut self) {
        let peak = std::mem::replace(&mut self.peak, self.items.len());
        if self.items.capacity() / 2 >= peak {
            self.items.shrink_to(peak);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_returned_in_order() {
        let mut queue = BoundedQueue::new(200);
        let mut next = 0;
        for number in 0..2000 {
            assert_eq!(queue.push(number), Ok(()));
            // Up to 100 are waiting.
            while queue.len() > 100 || number % 500 == 499 && !queue.is_empty() {
                assert_eq!(queue.pop(), Some(next));
                next += 1;
            }
        }
        assert_eq!((next, queue.pop()), (2000, None));
    }

    #[test]
    fn item_can_be_removed_before_earlier_ones() {
        let mut queue = BoundedQueue::new(10);
        for number in 0..10 {
            assert_eq!(queue.push(number), Ok(()));
        }
        assert_eq!(queue.get(3), Some(&3));
        assert_eq!((queue.remove(3), queue.remove(9)), (Some(3), None));
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn length_and_memory_are_limited() {
        for max in [1, 20, 2048] {
            let mut queue = BoundedQueue::new(max);
            for number in 0..max {
                assert!(!queue.is_full());
                assert_eq!(queue.push(number), Ok(()));
            }
            assert!(queue.is_full());
            assert_eq!(queue.push(max), Err(Full));
            assert_eq!(queue.items.capacity(), max);
            assert_eq!(queue.pop(), Some(0));
            assert_eq!(queue.push(max), Ok(()));
        }
    }

    #[test]
    fn memory_stays_if_it_is_needed_again() {
        let mut queue = BoundedQueue::new(2048);
        let mut burst = |length: usize| {
            for number in 0..length {
                assert_eq!(queue.push(number), Ok(()));
            }
            while queue.pop().is_some() {}
            queue.free_unused();
            queue.items.capacity()
        };
        assert_eq!([burst(2000), burst(1500), burst(2000)], [2048; 3]);
        assert_eq!([burst(20), burst(0)], [20, 0]);
    }
}
