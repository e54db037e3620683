//! Models of servers and of their visitors.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cannery_archive::{Archive, Loading};

use super::{Random, World, lock};
use crate::commands::release_dir::CURRENT;

/// Serving processes of a node.
const PROCESSES: usize = 2;

/// The time between two looks of a process, in steps of [`STEP`].
const LOOK_STEPS: u64 = 10;

/// How often something happens.
const STEP: Duration = Duration::from_millis(50);

/// For this long after the last change, processes may notice something.
const NOTICED_MS: u64 = 2000;

/// Identifies the file of a release: device, inode, length and change.
type Version = (u64, u64, u64, i64, i64);

/// A process that serves the releases of a node.
#[derive(Default, Clone)]
struct Process {
    /// The files that the last look has found.
    seen: BTreeMap<String, Version>,
    /// The releases that it answers for. A file must be the same in two looks.
    known: BTreeMap<String, Version>,
    /// The release whose pages it serves.
    current: Option<(String, Version)>,
}

/// Counts of visits and switches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) pages: u64,
    pub(super) assets: u64,
    /// Assets of live pages that a process didn't have.
    pub(super) missing: u64,
    /// Switches to another release.
    pub(super) switches: u64,
    /// Switches to a file that isn't a release, bit by bit.
    pub(super) unverified: u64,
}

/// An open page, which requests its asset later.
struct OpenPage {
    node: usize,
    number: u64,
}

/// Lets servers look and visitors visit until the end.
pub(super) fn serve(world: &World, task: usize, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let mut outcome = Outcome::default();
    let mut fleet = vec![vec![Process::default(); PROCESSES]; world.nodes.len()];
    // The release of each file, or `None` if it isn't a release that was published.
    let mut verified: Vec<HashMap<Version, Option<u64>>> = vec![HashMap::new(); world.nodes.len()];
    let mut open_pages: BTreeMap<u64, Vec<OpenPage>> = BTreeMap::new();

    for step in 0_u64.. {
        if world.turns.now() >= world.turns.end() {
            break;
        }
        let now = u64::try_from(world.turns.now().as_millis()).unwrap();
        for (index, node) in world.nodes.iter().enumerate() {
            let is_quiet = !node.is_busy.load(Ordering::Relaxed)
                && now > node.busy_until.load(Ordering::Relaxed) + NOTICED_MS;
            if is_quiet {
                continue;
            }
            let verified = &mut verified[index];
            for (number, process) in fleet[index].iter_mut().enumerate() {
                let phase = (index * 3 + number * 7) as u64;
                if !(step + phase).is_multiple_of(LOOK_STEPS) {
                    continue;
                }
                let before = process.current.clone();
                process.look(&node.directory, |path, version| {
                    *verified.entry(version).or_insert_with(|| verify(world, path))
                });
                let Some((_, version)) =
                    process.current.as_ref().filter(|current| before.as_ref() != Some(*current))
                else {
                    continue;
                };
                outcome.switches += 1;
                outcome.unverified += u64::from(verified[version].is_none());
            }
            // Whatever process gets the requests.
            for page in &fleet[index] {
                let number = page.current.as_ref().and_then(|(_, version)| verified[version]);
                let Some(number) = number else { continue };
                outcome.pages += 1;
                for process in &fleet[index] {
                    outcome.request(world, process, verified, number);
                }
                let later = step + random.below(600);
                open_pages.entry(later).or_default().push(OpenPage { node: index, number });
            }
        }
        for OpenPage { node, number } in open_pages.remove(&step).unwrap_or_default() {
            for process in &fleet[node] {
                outcome.request(world, process, &verified[node], number);
            }
        }
        world.turns.sleep(task, STEP);
    }
    outcome
}

impl Outcome {
    /// Requests the asset of a release from a process. It has begun to serve with the node's first release.
    fn request(
        &mut self,
        world: &World,
        process: &Process,
        verified: &HashMap<Version, Option<u64>>,
        number: u64,
    ) {
        if process.current.is_none() {
            return;
        }
        self.assets += 1;
        let published = lock(&world.published);
        let has_asset = |release: u64| {
            published
                .values()
                .any(|published| published.number == release && published.assets.contains(&number))
        };
        let versions = process.known.values().chain(process.current.as_ref().map(|(_, version)| version));
        let mut releases = versions.filter_map(|version| verified[version]);
        self.missing += u64::from(!releases.any(has_asset));
    }
}

/// Reads the whole of a file. Returns the number of the release.
fn verify(world: &World, path: &std::path::Path) -> Option<u64> {
    let archive = Archive::open(path, Loading::Mapped).ok()?;
    archive.verify_digest().ok()?;
    lock(&world.published).get(&archive.facts().digest).map(|published| published.number)
}

impl Process {
    /// Looks at the directory, and verifies new releases.
    fn look(
        &mut self,
        directory: &std::path::Path,
        mut verify: impl FnMut(&std::path::Path, Version) -> Option<u64>,
    ) {
        let mut seen = BTreeMap::new();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if !name.starts_with('.')
                && name.ends_with(".cdb")
                && let Ok(found) = entry.metadata()
            {
                seen.insert(name, (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()));
            }
        }
        self.known = seen
            .iter()
            .filter(|(name, version)| self.seen.get(*name) == Some(version))
            .map(|(name, version)| (name.clone(), *version))
            .collect();
        for (name, version) in &self.known {
            verify(&directory.join(name), *version);
        }
        let target = fs::read_link(directory.join(CURRENT)).ok();
        let target = target.and_then(|target| target.into_os_string().into_string().ok());
        if let Some(name) = target
            && let Some(version) = seen.get(&name)
        {
            verify(&directory.join(&name), *version);
            self.current = Some((name, *version));
        }
        self.seen = seen;
    }
}
