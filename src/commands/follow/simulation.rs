//! A fleet of nodes that follow a store through a bad network, by a virtual clock.
//!
//! Followers, archives and release directories are real. The store is in memory, and its answers are lost, late, cut or wrong by the
//! choices of a seed. Servers and visitors are modelled: each node has two serving processes, which look at the directory every half
//! second, like those of `cannery-server`.

mod bad_store;
mod servers;
mod turns;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cannery_archive::{Archive, Digest, Loading};
use cannery_archiver::{Options, compile};
use cannery_publish::Recipe;
use cannery_publish::signing::SecretKey;
use cannery_store::{Address, StoredSite, upload};
use cannery_trust::Statement;

use self::bad_store::{BadStore, Shelf};
use self::servers::{Outcome, serve};
use self::turns::{Turns, VirtualClock};
use super::report::Report;
use super::state::State;
use super::{DirectoryHost, Follower, delay};
use crate::commands::release_trust::ReleaseTrust;
use crate::flags::signing::TrustFlags;
use crate::progress::ProgressDisplay;

/// Time between two looks of a node at the store.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time between two releases.
const BETWEEN_RELEASES: Duration = Duration::from_secs(20);

/// After the last release, nothing is wrong any more. By the end, the longest wait of a node is over.
const CALM: Duration = Duration::from_secs(400);

/// The generator xorshift64.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of consecutive seeds are similar.
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn is_one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A release that was published: its number, and the numbers of the releases whose assets it has.
struct Published {
    number: u64,
    assets: BTreeSet<u64>,
}

/// State that all tasks share.
struct World {
    turns: Turns,
    shelf: Mutex<Shelf>,
    /// By digest, from the moment of the upload.
    published: Mutex<HashMap<Digest, Published>>,
    nodes: Vec<Node>,
    /// Set after the last release.
    is_calm: AtomicBool,
}

/// A node as its servers know it.
struct Node {
    directory: PathBuf,
    /// Whether a look of the node at the store is going on, and when the last one ended in milliseconds. Without one, nothing changes in
    /// the directory.
    is_busy: AtomicBool,
    busy_until: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles releases of a site: a page, an asset of its own, and a file that stays. Each has the assets of earlier ones.
fn compile_releases(place: &Path, count: u64) -> Vec<Archive> {
    let mut previous = None;
    let mut archives = Vec::new();
    for number in 1..=count {
        let site = place.join("public");
        let _ = fs::remove_dir_all(&site);
        fs::create_dir_all(site.join("_astro")).unwrap();
        fs::write(site.join("index.html"), format!("<!doctype html><title>release {number}</title>"))
            .unwrap();
        fs::write(site.join(format!("_astro/app.A1b2C{number:03}.js")), format!("run({number})")).unwrap();
        let mut random = Random::new(7);
        let noise: Vec<u8> = (0..40_000).map(|_| random.below(256).to_le_bytes()[0]).collect();
        fs::write(site.join("noise.bin"), noise).unwrap();

        let path = place.join(format!("{number}.cdb"));
        let mut options = Options::new(&site, &path);
        options.serial = Some(number);
        options.previous.extend(previous.replace(path.clone()));
        compile(&options, &ProgressDisplay::hidden()).unwrap();
        archives.push(Archive::open(&path, Loading::Mapped).unwrap());
    }
    archives
}

/// Publishes one release after another, sometimes the one before again.
fn publish(world: &Arc<World>, task: usize, archives: &[Archive], key: &SecretKey) {
    let mut store = BadStore::without_faults(world);
    let mut site: Option<StoredSite> = None;
    let mut bases: Vec<Recipe> = Vec::new();
    let mut sequence = 0;
    let mut sign = |archive: &Archive| {
        sequence += 1;
        Some(key.sign(&Statement::of(archive, "example.com", sequence, 0)).unwrap())
    };
    let point = |site: &mut Option<StoredSite>, current| {
        let (next, _) = StoredSite::with_current(site.as_ref(), current, 10);
        lock(&world.shelf).point(next.clone());
        *site = Some(next);
    };
    for (number, archive) in (1..).zip(archives) {
        let facts = archive.facts();
        let has_asset = |number: &u64| {
            let digest = Digest::of(format!("run({number})").as_bytes());
            archive.find_body(&digest).unwrap().is_some()
        };
        let published = Published { number, assets: (1..=number).filter(has_asset).collect() };
        assert!(published.assets.contains(&number));
        lock(&world.published).insert(facts.digest, published);
        let recipe = Recipe::of(archive).unwrap();
        let (release, _) = upload(&mut store, archive, &recipe, &bases, sign(archive), 0).unwrap();
        point(&mut site, release);
        bases.insert(0, recipe);
        bases.truncate(2);
        world.turns.sleep(task, BETWEEN_RELEASES);

        if number % 4 == 3 {
            let mut before = site.as_ref().unwrap().earlier[0].clone();
            before.signed = sign(&archives[usize::try_from(before.serial).unwrap() - 1]);
            point(&mut site, before);
            world.turns.sleep(task, BETWEEN_RELEASES);
        }
    }
    world.is_calm.store(true, Ordering::Relaxed);
}

/// Follows the store until the end, as `cannery follow` does. Returns the serial that is current at the end.
fn follow(
    world: &Arc<World>,
    task: usize,
    seed: u64,
    settle: u64,
    trust: Option<&ReleaseTrust>,
) -> Option<u64> {
    let node = &world.nodes[task];
    let mut random = Random::new(seed);
    let address = Address::Web("https://store.example/".to_owned());
    let start = |seed: u64| {
        let clock = VirtualClock::new(world, task);
        Follower {
            store: Box::new(BadStore::new(world, task, seed)),
            host: DirectoryHost::new(&node.directory, trust.cloned()).with_clock(clock),
            keep: 3,
            settle,
            // Failures are returned, but not printed.
            once: true,
            hook: None,
            hook_ended: None,
            staged_retry: None,
            has_looked: false,
            version: None,
            state: State::read(&node.directory, &address.to_string()),
            directory: node.directory.clone(),
            address: address.clone(),
            report: Report::Quiet,
        }
    };
    let mut follower = start(random.below(u64::MAX));
    let mut failures = 0;
    let end = world.turns.end();
    while world.turns.now() < end {
        let before = (world.turns.now(), follower.state.serial);
        node.is_busy.store(true, Ordering::Relaxed);
        let stepped = follower.step();
        node.is_busy.store(false, Ordering::Relaxed);
        let now = world.turns.now();
        if (now, follower.state.serial) != before {
            node.busy_until.store(now.as_millis().try_into().unwrap(), Ordering::Relaxed);
        }
        match stepped {
            Ok(()) => failures = 0,
            Err(_) if follower.state.is_refused() => failures = 0,
            Err(_) => failures += 1,
        }
        let chance = f64::from(u32::try_from(random.below(1 << 16)).unwrap()) / 65_536.0;
        world.turns.sleep(task, delay(INTERVAL, failures, chance));
        if random.is_one_in(40) {
            // The process was started again.
            follower = start(random.below(u64::MAX));
        }
    }
    follower.state.serial
}

/// A fleet, and how it behaves.
struct Scenario {
    seed: u64,
    nodes: usize,
    releases: u64,
    settle: u64,
}

impl Scenario {
    fn run(&self) -> Outcome {
        // Synchronizing files takes no time in memory.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let archives = compile_releases(place.path(), self.releases);
        let (secret, public) = SecretKey::generate(None).unwrap();
        let key = SecretKey::parse(&secret, None).unwrap();
        let public_key = vec![public.lines().nth(1).unwrap().to_owned()];
        let trust = ReleaseTrust::from_flags(&TrustFlags { public_key, site: None }).ok().flatten().unwrap();

        let node = |number: usize| {
            let directory = place.path().join(format!("node-{number}"));
            fs::create_dir(&directory).unwrap();
            Node { directory, is_busy: AtomicBool::new(false), busy_until: AtomicU64::new(0) }
        };
        let published = BETWEEN_RELEASES * u32::try_from(self.releases + self.releases / 4 + 1).unwrap();
        let world = Arc::new(World {
            turns: Turns::new(self.nodes + 2, published + CALM),
            shelf: Mutex::default(),
            published: Mutex::default(),
            nodes: (0..self.nodes).map(node).collect(),
            is_calm: AtomicBool::new(false),
        });
        let (outcome, serials) = thread::scope(|scope| {
            let world = &world;
            let nodes: Vec<_> = (0..self.nodes)
                .map(|task| {
                    // Every other node demands signatures.
                    let trust = (task % 2 == 0).then_some(&trust);
                    let seed = self.seed.wrapping_mul(1_000_003) + task as u64;
                    let run = move || {
                        let _turn = world.turns.begin(task);
                        follow(world, task, seed, self.settle, trust)
                    };
                    let builder = thread::Builder::new().stack_size(1 << 20);
                    builder.spawn_scoped(scope, run).unwrap()
                })
                .collect();
            let (archives, key) = (&archives, &key);
            scope.spawn(move || {
                let _turn = world.turns.begin(self.nodes);
                publish(world, self.nodes, archives, key);
            });
            let servers = scope.spawn(move || {
                let _turn = world.turns.begin(self.nodes + 1);
                serve(world, self.nodes + 1, self.seed)
            });
            let serials: Vec<_> = nodes.into_iter().map(|node| node.join().unwrap()).collect();
            (servers.join().unwrap(), serials)
        });
        println!("seed {}: {outcome:?}", self.seed);
        let last = lock(&world.shelf).current_serial();
        let behind = serials.iter().filter(|serial| **serial != last).count();
        assert_eq!(behind, 0, "seed {}: nodes that never caught up", self.seed);
        for node in &world.nodes {
            let names = fs::read_dir(&node.directory).unwrap().map(|entry| entry.unwrap().file_name());
            let mut rubbish = names.filter(|name| name.to_string_lossy().starts_with(".incoming"));
            assert_eq!(rubbish.next(), None);
        }
        outcome
    }
}

/// No page lacks an asset, and no node switches to what it hasn't verified.
#[test]
fn fleet_stays_whole_behind_a_bad_store() {
    let is_slow = std::env::var_os("CANNERY_SLOW").is_some();
    let (seeds, nodes) = if is_slow { (1..3, 1000) } else { (1..2, 50) };
    for seed in seeds {
        let outcome = Scenario { seed, nodes, releases: 6, settle: 1500 }.run();
        assert_eq!((outcome.missing, outcome.unverified), (0, 0), "seed {seed}: {outcome:?}");
        // Each process has served several releases.
        assert!(outcome.switches > 2 * 4 * nodes as u64, "seed {seed}: {outcome:?}");
    }
}

/// The test above can fail: these nodes switch at once, while one of their processes doesn't know the new assets.
#[test]
fn fleet_that_does_not_settle_lacks_assets() {
    let outcome = Scenario { seed: 1, nodes: 10, releases: 3, settle: 0 }.run();
    assert!(outcome.missing > 0 && outcome.unverified == 0, "{outcome:?}");
}
