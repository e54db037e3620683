//! Counts the most frequently requested paths that do not exist, in constant space.
//!
//! This is the Space-Saving algorithm by Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent
//! and Top-k Elements in Data Streams", 2005). A frequent path will always be in the summary, however its
//! count can be too high by up to the count of the path that it has replaced.

use serde::{Deserialize, Serialize};

/// Maximum number of paths.
const PATHS_MAX: usize = 64;
/// Maximum length of a path in bytes. Longer paths are truncated.
const PATH_BYTES_MAX: usize = 128;

/// The most frequent paths and their counts. Since workers do the counting, all memory is allocated
/// in advance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Vec<(Vec<u8>, u64)>", from = "Vec<(Vec<u8>, u64)>")]
pub(crate) struct Missing(Vec<Counted>);

/// A path and a count.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// First bytes of the path, padded with zeros.
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
    /// Counts the path in a request target, without the query.
    pub(super) fn count(&mut self, target: &[u8]) {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        self.add(Counted::new(path, 1));
    }

    pub(super) fn merge(&mut self, other: &Missing) {
        for counted in &other.0 {
            self.add(*counted);
        }
    }

    fn add(&mut self, new: Counted) {
        if let Some(known) = self.0.iter_mut().find(|known| known.path() == new.path()) {
            known.count = known.count.saturating_add(new.count);
        } else if self.0.len() < PATHS_MAX {
            self.0.push(new);
        } else if let Some(least) = self.0.iter_mut().min_by_key(|known| (known.count, known.length)) {
            // The new path replaces the least frequent one, and inherits its count.
            *least = Counted { count: least.count.saturating_add(new.count), ..new };
        }
    }

    /// Returns up to `most` paths and their counts. The most frequent come first.
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
    fn frequent_path_stays_in_constant_space() {
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
    fn long_paths_are_truncated() {
        let mut missing = Missing::default();
        missing.count(&[b'a'; 5000]);
        assert_eq!(missing.top(9)[0].0.len(), PATH_BYTES_MAX);
    }
}
