//! Smoke run: replays the corpora, then mutations of them from a fixed seed.
//!
//! It needs no nightly compiler, gives the same result on every machine, and takes seconds.

use std::fs;
use std::path::Path;

use cannery_fuzz::TARGETS;

/// Mutations per target.
const MUTATIONS: u32 = 20_000;

fn main() {
    for (name, target) in TARGETS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let files =
            fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut corpus: Vec<_> =
            files.map(|file| file.expect("the directory can be listed").path()).collect();
        corpus.sort();
        let corpus: Vec<Vec<u8>> =
            corpus.iter().map(|path| fs::read(path).expect("the corpus is readable")).collect();
        assert!(!corpus.is_empty(), "{} is empty", directory.display());
        for data in &corpus {
            target(data);
        }

        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..MUTATIONS {
            let mut data = corpus[random.below(corpus.len())].clone();
            mutate(&mut data, &mut random);
            target(&data);
        }
        println!("{name}: {} inputs and {MUTATIONS} mutations passed", corpus.len());
    }
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
