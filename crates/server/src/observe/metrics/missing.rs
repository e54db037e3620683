//! The paths that are asked for most and are not there, in room that does not grow: the Space-Saving summary of
//! Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! 2005). A path that is frequent is always among them; a count may be too high by what it displaced.

use serde::{Deserialize, Serialize};

/// Paths that are remembered.
const PATHS_MAX: usize = 64;
/// Bytes of a path that are remembered.
const PATH_BYTES_MAX: usize = 128;

/// The most frequent paths, and how often they were counted. All the room is taken at once: who counts is a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Vec<(Vec<u8>, u64)>", from = "Vec<(Vec<u8>, u64)>")]
pub(crate) struct Missing(Vec<Counted>);

/// A path, and how often it was counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Its first bytes, and zeros.
    bytes: [u8; PATH_BYTES_MAX],
    length: usize,
    count: u64,
}

impl Counted {
    fn new(path: &[u8], count: u64) -> Counted {
        let path = &path[..path.len().min(PATH_BYTES_MAX)];
        let mut bytes = [0; PATH_BYTES_MAX];
        bytes[..path.len()].copy_from_slice(path);
        Counted { bytes, length: path.len(), count }
    }

    fn path(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Default for Missing {
    fn default() -> Self {
        Missing(Vec::with_capacity(PATHS_MAX))
    }
}

impl From<Missing> for Vec<(Vec<u8>, u64)> {
    fn from(missing: Missing) -> Self {
        missing.0.iter().map(|counted| (counted.path().to_vec(), counted.count)).collect()
    }
}

impl From<Vec<(Vec<u8>, u64)>> for Missing {
    fn from(paths: Vec<(Vec<u8>, u64)>) -> Missing {
        let mut missing = Missing::default();
        paths.iter().for_each(|(path, count)| missing.add(Counted::new(path, *count)));
        missing
    }
}

impl Missing {
    /// Counts a request target, as far as its query.
    pub(crate) fn count(&mut self, target: &[u8]) {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        self.add(Counted::new(path, 1));
    }

    pub(crate) fn merge(&mut self, other: &Missing) {
        other.0.iter().for_each(|counted| self.add(*counted));
    }

    fn add(&mut self, new: Counted) {
        if let Some(known) = self.0.iter_mut().find(|known| known.path() == new.path()) {
            known.count = known.count.saturating_add(new.count);
        } else if self.0.len() < PATHS_MAX {
            self.0.push(new);
        } else if let Some(least) = self.0.iter_mut().min_by_key(|known| (known.count, known.length)) {
            // The least frequent gives way, and leaves its count behind.
            *least = Counted { count: least.count.saturating_add(new.count), ..new };
        }
    }

    /// The paths, the most frequent first.
    pub(crate) fn top(&self, most: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<_> = self.0.iter().map(|known| (known.path(), known.count)).collect();
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
