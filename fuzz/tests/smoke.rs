//! Smoke run: replays the corpora, then mutations of them from a fixed seed.
//!
//! It needs no nightly compiler and gives the same result on every machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Mutations per target.
const MUTATIONS: u32 = 20_000;

/// Mutations of a target that makes TLS handshakes, or that takes about a millisecond for an input.
const MUTATIONS_OF_SLOW_TARGETS: u32 = 5_000;

/// Mutations of a target that writes files, or that takes several milliseconds for an input.
const MUTATIONS_OF_SLOWEST_TARGETS: u32 = 2_000;

/// One test per target, and the names of all.
macro_rules! targets {
    ($($name:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                replay_and_mutate(stringify!($name), cannery_fuzz::$name);
            }
        )*
    };
}

targets! {
    accept_encoding
    archive_open
    conditions
    datagrams
    date
    frames
    headers
    hpack
    hpack_encoder
    import
    interop_client
    interop_server
    key
    proxy_header
    qpack
    qpack_encoder
    ranges
    receive
    recipe
    redirects
    requests
    statement
    store_document
    streams
}

#[test]
fn each_target_has_a_corpus_an_entry_point_and_a_test() {
    let names = |directory: &str| -> BTreeSet<String> {
        let paths = files(&fuzz_directory().join(directory));
        paths.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let tested: BTreeSet<String> = TARGETS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names("corpus"), tested);
    assert_eq!(names("fuzz_targets"), tested);
}

fn replay_and_mutate(name: &str, target: fn(&[u8])) {
    let paths = files(&fuzz_directory().join("corpus").join(name));
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    for data in &corpus {
        target(data);
    }

    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mutations = match name {
        "datagrams" | "frames" | "interop_client" => MUTATIONS_OF_SLOW_TARGETS,
        "hpack_encoder" | "import" | "receive" | "recipe" => MUTATIONS_OF_SLOWEST_TARGETS,
        _ => MUTATIONS,
    };
    for _ in 0..mutations {
        let mut data = corpus[random.below(corpus.len())].clone();
        mutate(&mut data, &mut random);
        target(&data);
    }
}

fn fuzz_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the paths in a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Changes a few bytes: flips a bit, replaces a byte, sets eight bytes to 0xff, truncates, or inserts.
fn mutate(data: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if data.is_empty() {
            data.push(random.byte());
        }
        let position = random.below(data.len());
        match random.below(5) {
            0 => data[position] ^= 1 << random.below(8),
            1 => data[position] = random.byte(),
            2 => data.iter_mut().skip(position).take(8).for_each(|byte| *byte = 0xff),
            3 => data.truncate(position),
            _ => data.insert(position, b"/.%2Fe\0"[random.below(7)]),
        }
    }
}

/// Xorshift generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}
