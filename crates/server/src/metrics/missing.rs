//! The paths that are asked for most and are not there, in room that does not grow: the Space-Saving summary of
//! Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! 2005). A path that is frequent is always among them; a count may be too high by what it displaced.

use std::collections::HashMap;

/// Paths that are remembered.
const PATHS_MAX: usize = 64;
/// Bytes of a path that are remembered.
const PATH_BYTES_MAX: usize = 128;

/// The most frequent paths, and how often they were counted.
#[derive(Debug, Default)]
pub(crate) struct Missing(HashMap<Box<[u8]>, u64>);

impl Missing {
    /// Counts a request target, as far as its query.
    pub(crate) fn count(&mut self, target: &[u8]) {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        self.add(&path[..path.len().min(PATH_BYTES_MAX)], 1);
    }

    pub(crate) fn merge(&mut self, other: &Missing) {
        other.0.iter().for_each(|(path, count)| self.add(path, *count));
    }

    fn add(&mut self, path: &[u8], more: u64) {
        if let Some(count) = self.0.get_mut(path) {
            *count += more;
            return;
        }
        let mut count = more;
        if self.0.len() >= PATHS_MAX {
            // The least frequent gives way, and leaves its count behind.
            let least = self.0.iter().min_by_key(|(path, count)| (**count, path.len()));
            if let Some((path, least)) = least.map(|(path, count)| (path.clone(), *count)) {
                self.0.remove(&path);
                count += least;
            }
        }
        self.0.insert(path.into(), count);
    }

    /// The paths, the most frequent first.
    pub(crate) fn top(&self, most: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(path, count)| (&**path, *count)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_stays_and_room_does_not_grow() {
        let mut missing = Missing::default();
        for number in 0..10_000 {
            missing.count(format!("/rare/{number}?x").as_bytes());
            if number % 3 == 0 {
                missing.count(b"/often");
            }
        }
        assert_eq!(missing.0.len(), PATHS_MAX);
        let (path, count) = missing.top(1)[0];
        assert_eq!(path, b"/often");
        assert!((3334..=3334 + 10_000 / PATHS_MAX as u64 * 2).contains(&count), "{count}");
    }

    #[test]
    fn long_paths_are_cut() {
        let mut missing = Missing::default();
        missing.count(&[b'a'; 5000]);
        assert_eq!(missing.top(9)[0].0.len(), PATH_BYTES_MAX);
    }
}
