//! What earlier archives say of their releases, and which of those are still carried forward.
//!
//! An archive's manifest lists the releases before its own that it carries assets of, so that a chain of
//! builds, each of which is given the archive before it, knows them all. Never reads a clock: a release's age
//! is the time between the dates that the releases state.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, Loading};
use serde::{Deserialize, Serialize};

use crate::error::{Error, PreviousError};
use crate::options::Options;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// A release before this one. Its digest tells it from another of the same serial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Release {
    pub(crate) serial: u64,
    pub(crate) digest: String,
    /// Seconds since 1970-01-01 UTC, if it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) released: Option<u64>,
    /// The paths that were last part of this release, as URLs spell them; `//host` before those of a host.
    #[serde(default)]
    pub(crate) carried: Vec<String>,
}

/// What this file reads of a manifest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Manifest {
    released: Option<u64>,
    previous: Vec<Release>,
}

/// The newest release comes first; of one serial, the lower digest, so that the order of flags decides nothing.
pub(crate) type Rank = (std::cmp::Reverse<u64>, String);

fn rank(release: &Release) -> Rank {
    (std::cmp::Reverse(release.serial), release.digest.clone())
}

/// An earlier archive, open.
pub(crate) struct Earlier {
    pub(crate) path: PathBuf,
    pub(crate) archive: Archive,
    /// Of the release that the archive is.
    pub(crate) own: Rank,
    /// Of the release that each carried path was last part of.
    pub(crate) carried: HashMap<String, Rank>,
}

/// The earlier archives that a build was given.
#[derive(Default)]
pub(crate) struct Previous {
    pub(crate) archives: Vec<Earlier>,
    /// Those still within the bounds, newest first; nothing is carried yet.
    pub(crate) releases: BTreeMap<Rank, Release>,
    serial_max: Option<u64>,
}

impl Previous {
    /// Opens the earlier archives, and bounds how far back they reach.
    pub(crate) fn open(options: &Options) -> Result<Previous, Error> {
        let mut previous = Previous::default();
        for path in &options.previous {
            let failed = |source| Error::Previous { path: path.clone(), source };
            previous.add(path).map_err(failed)?;
        }
        previous.serial_max = previous.releases.values().map(|release| release.serial).max();
        if let (Some(serial), Some(newest)) = (options.serial, previous.serial_max)
            && serial <= newest
        {
            return Err(Error::Serial { serial, newest });
        }
        previous.bound(options);
        Ok(previous)
    }

    /// The serial of this release: the one that was ordered, else one more than the newest before it.
    pub(crate) fn serial(&self, options: &Options) -> u64 {
        options.serial.unwrap_or_else(|| self.serial_max.map_or(1, |newest| newest.saturating_add(1)))
    }

    fn add(&mut self, path: &Path) -> Result<(), PreviousError> {
        let archive = Archive::open(path, Loading::Mapped)?;
        // What is carried will be believed for as long as this release lives: it is read whole before.
        archive.verify(|_| ())?;
        let manifest: Manifest = match archive.manifest()? {
            Some(json) => serde_json::from_slice(json)?,
            None => Manifest::default(),
        };
        let facts = archive.facts();
        let digest = facts.digest.to_string();
        let own = Release { serial: facts.serial, digest, released: manifest.released, carried: Vec::new() };
        let mut carried = HashMap::new();
        for mut release in manifest.previous {
            let paths = std::mem::take(&mut release.carried);
            carried.extend(paths.into_iter().map(|path| (path, rank(&release))));
            self.releases.entry(rank(&release)).or_insert(release);
        }
        self.archives.push(Earlier { path: path.to_owned(), archive, own: rank(&own), carried });
        self.releases.insert(rank(&own), own);
        Ok(())
    }

    /// Forgets the releases that are too many or too old.
    ///
    /// A release is as old as the one that took its place: until then its pages were what people loaded. One
    /// whose successor states no date has no age.
    fn bound(&mut self, options: &Options) {
        let age_max = options.previous_age_days.map(|days| u64::from(days) * SECONDS_PER_DAY);
        let mut replaced = options.released;
        let mut too_old = false;
        let mut left = options.previous_releases;
        self.releases.retain(|_, release| {
            let age = options.released.zip(replaced).map(|(now, then)| now.saturating_sub(then));
            too_old |= age.zip(age_max).is_some_and(|(age, max)| age > max);
            replaced = release.released;
            let kept = left > 0 && !too_old;
            left = left.saturating_sub(1);
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(dates: &[(u64, Option<u64>)], options: &Options) -> Vec<u64> {
        let release = |(serial, released): &(u64, Option<u64>)| Release {
            serial: *serial,
            digest: serial.to_string(),
            released: *released,
            carried: Vec::new(),
        };
        let releases = dates.iter().map(release).map(|release| (rank(&release), release)).collect();
        let mut previous = Previous { releases, ..Previous::default() };
        previous.bound(options);
        previous.releases.into_values().map(|release| release.serial).collect()
    }

    fn day(number: u64) -> Option<u64> {
        Some(number * SECONDS_PER_DAY)
    }

    #[test]
    fn no_more_releases_are_kept_than_were_asked_for() {
        let mut options = Options::new("a", "b");
        let all = [(1, None), (2, None), (3, None), (4, None)];
        assert_eq!(kept(&all, &options), [4, 3, 2], "three by default");
        options.previous_releases = 1;
        assert_eq!(kept(&all, &options), [4]);
        options.previous_releases = 0;
        assert_eq!(kept(&all, &options), [0u64; 0]);
    }

    #[test]
    fn a_release_ages_from_the_day_it_was_replaced() {
        let mut options = Options::new("a", "b");
        options.released = day(100);
        options.previous_age_days = Some(7);
        // The first stood for ninety days, and was replaced five days ago.
        assert_eq!(kept(&[(1, day(5)), (2, day(95))], &options), [2, 1]);
        assert_eq!(kept(&[(1, day(5)), (2, day(92))], &options), [2], "replaced eight days ago");
        assert_eq!(kept(&[(1, day(5)), (2, None)], &options), [2, 1], "nobody said when it was replaced");
        options.released = None;
        assert_eq!(kept(&[(1, day(5)), (2, day(6))], &options), [2, 1], "this one has no date to count from");
    }
}
