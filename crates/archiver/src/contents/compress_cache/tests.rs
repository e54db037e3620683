//! Unit tests of the cache of compressed contents.

use super::*;
use crate::codings::levels::Levels;

const CONTENT: &[u8] = b"the same and the same and the same and the same and the same and the same";

fn key(content: &[u8], encoder: Encoder, level: i32) -> ResultKey {
    ResultKey { content: Digest::of(content), encoder, level }
}

fn coders() -> Coders {
    Coders::new(Levels::default())
}

fn outcome(encoder: Encoder) -> Outcome {
    let coded = coders().encode(encoder, CONTENT).unwrap();
    let digest = Digest::of(&coded);
    Outcome::Coded(coded, digest)
}

fn find(cache: &CompressCache, key: &ResultKey) -> Option<Outcome> {
    cache.find(key, CONTENT.len() as u64, None, &mut coders())
}

#[test]
fn result_is_found_by_content_encoder_and_level() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(&folder.path().join("made/when/missing")).unwrap();
    cache.keep(&key(CONTENT, Encoder::Gzip, 12), &outcome(Encoder::Gzip));
    assert_eq!(find(&cache, &key(CONTENT, Encoder::Gzip, 12)), Some(outcome(Encoder::Gzip)));
    assert_eq!(find(&cache, &key(CONTENT, Encoder::Gzip, 11)), None);
    assert_eq!(find(&cache, &key(CONTENT, Encoder::Zopfli, 12)), None);
    assert_eq!(find(&cache, &key(b"other", Encoder::Gzip, 12)), None);
    assert_eq!(cache.warnings(), []);
}

#[test]
fn useless_compression_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    let key = key(CONTENT, Encoder::Brotli, 11);
    cache.keep(&key, &Outcome::NotWorth);
    assert_eq!(find(&cache, &key), Some(Outcome::NotWorth));
}

#[test]
fn damaged_result_is_missing_and_replaceable() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    let key = key(CONTENT, Encoder::Brotli, 11);
    cache.keep(&key, &outcome(Encoder::Brotli));
    let place = cache.place(&key);
    let whole = fs::read(&place).unwrap();
    for length in 0..whole.len() {
        fs::write(&place, &whole[..length]).unwrap();
        assert_eq!(find(&cache, &key), None, "cut to {length} bytes");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&place, &bytes).unwrap();
        assert_eq!(find(&cache, &key), None, "byte {at} flipped");
    }
    cache.keep(&key, &outcome(Encoder::Brotli));
    assert_eq!(find(&cache, &key), Some(outcome(Encoder::Brotli)));
    assert_eq!(cache.warnings()[0].code, "cache-untrue");
}

#[test]
fn digest_of_another_content_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    for encoder in [Encoder::Gzip, Encoder::Brotli, Encoder::Zstd] {
        let evil = coders().encode(encoder, &CONTENT.to_ascii_uppercase()).unwrap();
        let key = key(CONTENT, encoder, 1);
        cache.keep(&key, &Outcome::Coded(evil.clone(), Digest::of(&evil)));
        assert_eq!(find(&cache, &key), None, "{}", encoder.name());
    }
    let warnings = cache.warnings();
    assert!(warnings[0].message.contains("one of 3 results"), "{}", warnings[0].message);
}

#[test]
fn verified_result_is_not_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    let key = key(CONTENT, Encoder::Gzip, 1);
    let (coded, digest) = (b"does not decode".to_vec(), Digest::of(b"does not decode"));
    cache.keep(&key, &Outcome::Coded(coded, digest));
    let found = cache.find(&key, CONTENT.len() as u64, Some(&digest), &mut coders());
    assert!(matches!(found, Some(Outcome::Coded(..))));
    assert_eq!(cache.find(&key, CONTENT.len() as u64, Some(&Digest::of(b"")), &mut coders()), None);
}

#[test]
fn pipes_and_endless_files_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    let key = key(CONTENT, Encoder::Gzip, 1);
    let place = cache.place(&key);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &place).unwrap();
    assert_eq!(find(&cache, &key), None);
    fs::remove_file(&place).unwrap();
    File::create(&place).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(find(&cache, &key), None);
}

#[test]
fn unwritable_directory_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CompressCache::open(folder.path()).unwrap();
    let key = key(CONTENT, Encoder::Gzip, 1);
    // Not even root can create a directory where a file is.
    fs::write(cache.place(&key).parent().unwrap(), "").unwrap();
    cache.keep(&key, &outcome(Encoder::Gzip));
    assert_eq!(cache.warnings()[0].code, "cache-unwritable");
}

#[test]
fn file_in_place_of_the_directory_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"").unwrap();
    let error = CompressCache::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Cache { path: named, .. } if *named == path), "{error}");
}
