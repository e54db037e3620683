//! Tests that any archive can be rebuilt from any other, bit by bit, and that malformed recipes are refused.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;

use cannery_archive::{Archive, Format, RecordKind};
use cannery_publish::{BodyIndex, RebuildError, Recipe, rebuild};
use proptest::prelude::*;

use crate::support::{Site, noise, read_all};

/// Returns the bodies of `archive` that `index` doesn't have, as they are sent.
fn missing(archive: &Archive, index: &BodyIndex, recipe: &Recipe) -> Vec<u8> {
    let mut bodies = recipe.bodies();
    let mut stream = Vec::new();
    for entry in archive.entries() {
        let entry = entry.unwrap();
        let RecordKind::Body(digest) = entry.kind() else { continue };
        if index.find(&bodies.next().unwrap()).is_none() {
            stream.extend_from_slice(&digest.0);
            stream.extend_from_slice(entry.data);
        }
    }
    stream
}

fn index(bases: &[Arc<Archive>]) -> BodyIndex {
    let mut index = BodyIndex::default();
    bases.iter().for_each(|base| index.add(Arc::clone(base)));
    index
}

/// Rebuilds `archive` from `bases`, with the recipe as a patch of the first one.
fn transfer(archive: &Archive, bases: &[Arc<Archive>]) -> Vec<u8> {
    let recipe = Recipe::of(archive).unwrap();
    let patch_base = bases.first().map(|base| Recipe::of(base).unwrap());
    let compressed = recipe.compress(patch_base.as_ref()).unwrap();
    let received = Recipe::decompress(&compressed, patch_base.as_ref()).unwrap();
    assert!(received == recipe);

    // Bodies can be fetched one by one from the archive, with the digests before them.
    let positions = recipe.body_positions().unwrap();
    assert_eq!(positions.len(), recipe.bodies().count());
    for (position, body) in positions.into_iter().zip(recipe.bodies()) {
        let position = usize::try_from(position).unwrap();
        let content = &archive.bytes()[position..][..usize::try_from(body.length).unwrap()];
        let digest = &archive.bytes()[position - 32..position];
        assert!(cannery_archive::Digest::of(content).0 == digest && digest.starts_with(&body.name));
    }
    assert_eq!(recipe.serial(), archive.facts().serial);

    let index = index(bases);
    let stream = missing(archive, &index, &recipe);
    let mut rest = stream.as_slice();
    let (file, report) = rebuild(&received, &index, &mut rest, tempfile::tempfile().unwrap()).unwrap();
    assert!(rest.is_empty(), "the stream has only missing bodies");
    assert_eq!(report.missing_bytes + report.found_bytes, archive.facts().body_bytes);
    read_all(file)
}

fn sites() -> impl Strategy<Value = Site> {
    // Few contents and paths, so that sites have some in common. Some contents are long enough to be aligned.
    let content = (0..12_u64, prop_oneof![4 => 0..200_usize, 1 => 61_000..70_000_usize]);
    let file = ("[a-c]{1,2}(/[a-c]{1,3}){0,2}", content);
    (prop::collection::vec(file, 0..12), prop::bool::ANY, 0..5_u64).prop_map(|(files, is_wide, serial)| {
        Site {
            files: files.into_iter().map(|(path, (seed, length))| (path, noise(seed, length))).collect(),
            format: if is_wide { Format::Cdb64 } else { Format::Cdb },
            serial,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn archives_are_rebuilt_from_any_other(site in sites(), bases in prop::collection::vec(sites(), 0..3)) {
        let bases: Vec<_> = bases.iter().map(Site::archive).collect();
        prop_assert!(transfer(&site.archive(), &bases) == site.bytes());
    }

    #[test]
    fn changed_recipes_are_no_other_archive(site in sites(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let archive = site.archive();
        let mut bytes = Recipe::of(&archive).unwrap().bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(recipe) = Recipe::parse(bytes) {
            let index = index(&[Arc::clone(&archive)]);
            let rebuilt = rebuild(&recipe, &index, &mut std::io::empty(), tempfile::tempfile().unwrap());
            // A change may have no meaning: how bodies are aligned, for example, if there is none to align.
            prop_assert!(rebuilt.is_err() || rebuilt.is_ok_and(|(file, _)| read_all(file) == site.bytes()));
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Recipe::decompress(&bytes, None);
        let _ = Recipe::parse(bytes);
    }
}

#[test]
fn same_base_needs_no_body() {
    let site = Site::new(&[("a", b"one"), ("b", b"two"), ("c/d", b"one")], 3);
    let archive = site.archive();
    let recipe = Recipe::of(&archive).unwrap();
    assert!(missing(&archive, &index(&[site.archive()]), &recipe).is_empty());
    assert_eq!(recipe.digest(), archive.facts().digest);
    assert_eq!(recipe.file_bytes(), archive.bytes().len() as u64);
}

#[test]
fn recipe_is_small_beside_its_archive() {
    let files: Vec<_> =
        (0..300).map(|number| (format!("pages/{number}.html"), noise(number, 4000))).collect();
    let old = Site { files: files.clone(), format: Format::Cdb, serial: 1 };
    let mut new = Site { files, format: Format::Cdb, serial: 2 };
    // The first body grows, so that every position changes.
    new.files[0].1 = noise(999, 5000);
    let (base, recipe) = (Recipe::of(&old.archive()).unwrap(), Recipe::of(&new.archive()).unwrap());
    let whole = recipe.compress(None).unwrap().len();
    assert!(whole < 300 * 20, "{whole} bytes");
    let patch = recipe.compress(Some(&base)).unwrap().len();
    assert!(patch < 300, "{patch} bytes");
}

#[test]
fn wrong_bodies_are_refused() {
    let site = Site::new(&[("a", b"one"), ("b", b"two")], 1);
    let archive = site.archive();
    let recipe = Recipe::of(&archive).unwrap();
    let index = BodyIndex::default();
    let stream = missing(&archive, &index, &recipe);
    let outcome = |stream: &[u8]| rebuild(&recipe, &index, &mut &*stream, tempfile::tempfile().unwrap());
    assert!(outcome(&stream).is_ok());

    let mut changed = stream.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(matches!(outcome(&changed), Err(RebuildError::Body { .. })));
    changed = stream.clone();
    changed[0] ^= 1;
    assert!(matches!(outcome(&changed), Err(RebuildError::Missing(_))));
    for end in 0..stream.len() {
        assert!(matches!(outcome(&stream[..end]), Err(RebuildError::Missing(_))), "{end}");
    }
}

#[test]
fn damaged_base_is_named() {
    let site = Site::new(&[("a", b"a content that is easy to find")], 1);
    let new = Site::new(&[("a", b"a content that is easy to find"), ("b", b"more")], 2);
    let mut bytes = site.bytes();
    let at = bytes.windows(7).position(|window| window == b"content").unwrap();
    bytes[at] ^= 1;
    let damaged = Arc::new(Archive::from_bytes(bytes).unwrap());
    let archive = new.archive();
    let recipe = Recipe::of(&archive).unwrap();
    let index = index(&[damaged]);
    let stream = missing(&archive, &index, &recipe);
    let outcome = rebuild(&recipe, &index, &mut stream.as_slice(), tempfile::tempfile().unwrap());
    assert!(matches!(outcome, Err(RebuildError::Assemble(_))));
    assert_eq!(index.find_damaged(recipe.bodies()).unwrap().facts().serial, 1);
}
