//! Unit tests of the cache of source facts.

use super::*;

fn stamp(modified_ns: i128) -> FileStamp {
    FileStamp { version: FileVersion { device: 1, inode: 2, size: 3, modified_ns }, changed_ns: 5 }
}

fn facts(content: &[u8], probe: Probe) -> SourceFacts {
    SourceFacts { digest: Digest::of(content), utf8: true, fingerprinted: false, probe }
}

fn result(content: &[u8]) -> ResultKey {
    ResultKey { content: Digest::of(content), encoder: Encoder::Brotli, level: 11 }
}

fn replace(place: &Path, root: &[u8], files: &[(&[u8], FileStamp, SourceFacts)]) {
    let files = files.iter().map(|(path, stamp, facts)| (Box::from(*path), *stamp, *facts));
    let verified = Verified::from([(result(b"a"), Digest::of(b"coded a"))]);
    let extracts = Extracts::from([(Digest::of(b"a"), b"links of a".as_slice().into())]);
    let warnings = SourcesCache::load(place).unwrap().replace(root, files, News { verified, extracts });
    assert_eq!(warnings, []);
}

#[test]
fn file_is_known_while_its_stamp_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let known = facts(b"a", Probe::Incompressible);
    replace(&place, b"/site", &[(b"/site/a", stamp(7), known)]);
    let cache = SourcesCache::load(&place).unwrap();
    assert_eq!(cache.find(b"/site/a", &stamp(7)), Some(known));
    assert_eq!(cache.find(b"/site/a", &stamp(8)), None);
    assert_eq!(cache.find(b"/site/b", &stamp(7)), None);
}

#[test]
fn one_cache_serves_several_folders() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let known = facts(b"a", Probe::Missing);
    replace(&place, b"/one", &[(b"/one/a", stamp(7), known), (b"/one/b", stamp(7), known)]);
    replace(&place, b"/on", &[(b"/on/a", stamp(7), known)]);
    replace(&place, b"/one", &[(b"/one/b", stamp(7), known)]);
    let cache = SourcesCache::load(&place).unwrap();
    let paths: Vec<&[u8]> = cache.memory.entries.keys().map(|path| &**path).collect();
    assert_eq!(paths, [b"/on/a".as_slice(), b"/one/b"]);
}

#[test]
fn recently_modified_file_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let now_ns = SourcesCache::load(&place).unwrap().began_ns;
    replace(&place, b"/site", &[(b"/site/a", stamp(now_ns), facts(b"a", Probe::Missing))]);
    assert_eq!(SourcesCache::load(&place).unwrap().find(b"/site/a", &stamp(now_ns)), None);
}

#[test]
fn damaged_cache_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    replace(&place, b"/site", &[(b"/site/a", stamp(7), facts(b"a", Probe::Compressible))]);
    let whole = fs::read(&place).unwrap();
    assert!(decode(&whole).is_some());
    for length in 0..whole.len() {
        assert!(decode(&whole[..length]).is_none(), "cut to {length} bytes");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        assert!(decode(&bytes).is_none(), "byte {at} flipped");
    }
}

#[test]
fn results_and_extracts_are_known_while_a_file_has_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    replace(&place, b"/site", &[(b"/site/a", stamp(7), facts(b"a", Probe::Missing))]);
    let cache = SourcesCache::load(&place).unwrap();
    assert_eq!(cache.verified(&result(b"a")), Some(&Digest::of(b"coded a")));
    assert_eq!(cache.verified(&ResultKey { level: 10, ..result(b"a") }), None);
    assert_eq!(cache.extract(&Digest::of(b"a")), Some(&b"links of a"[..]));
    replace(&place, b"/site", &[(b"/site/a", stamp(7), facts(b"b", Probe::Missing))]);
    let cache = SourcesCache::load(&place).unwrap();
    assert_eq!((cache.verified(&result(b"a")), cache.extract(&Digest::of(b"a"))), (None, None));
}

#[test]
fn file_that_others_can_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    replace(&place, b"/site", &[(b"/site/a", stamp(7), facts(b"a", Probe::Missing))]);
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        let cache = SourcesCache::load(&place).unwrap();
        assert_eq!(cache.find(b"/site/a", &stamp(7)), None, "{mode:o}");
        assert_eq!(cache.verified(&result(b"a")), None, "{mode:o}");
        let warnings = cache.replace(b"/site", std::iter::empty(), News::default());
        assert_eq!(warnings[0].code, "cache-unused");
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn unwritable_place_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SourcesCache::load(&folder.path().join("missing/cache")).unwrap();
    let warnings = cache.replace(b"/site", std::iter::empty(), News::default());
    assert_eq!(warnings[0].code, "cache-unwritable");
}

#[test]
fn folder_in_place_of_the_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = SourcesCache::load(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::Cache { path, .. } if path == folder.path()), "{error}");
}
