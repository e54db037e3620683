//! Unit tests for the store. It should keep each body only once, and write the archive's format.

use super::*;
use crate::destination::publish::Staging;

fn store(folder: &tempfile::TempDir, format: FormatChoice) -> Store {
    let staging = Staging::beside(&folder.path().join("a.cdb")).unwrap();
    Store::begin(Destination::Path(staging), format, None, 0).unwrap()
}

#[test]
fn digest_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(&folder, FormatChoice::Auto);
    let digest = Digest::of(b"content");
    let body = store.body(&digest, b"content").unwrap();
    assert_eq!(store.body(&digest, b"content").unwrap(), body);
    assert_eq!(store.find(&digest), Some(body));
    assert_eq!(store.find(&Digest::of(b"other")), None);
}

#[test]
fn full_archive_is_widened() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(&folder, FormatChoice::Auto);
    let digest = Digest::of(b"content");
    let body = store.body(&digest, b"content").unwrap();
    store.require(u64::from(u32::MAX), 1).unwrap();
    let (writer, destination, _) = store.into_parts().unwrap();
    assert_eq!((writer.format(), writer.body_length(body)), (Format::Cdb64, 7));
    let (file, written) = writer.finish().unwrap();
    assert_eq!(written.facts.bodies, 1);
    destination.publish(file).unwrap();
    let archive =
        cannery_archive::Archive::open(&folder.path().join("a.cdb"), cannery_archive::Loading::InMemory);
    archive.unwrap().verify(|_| ()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the narrow file is gone");
}

#[test]
fn required_format_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut narrow = store(&folder, FormatChoice::Cdb);
    let error = narrow.require(u64::from(u32::MAX), 1).unwrap_err();
    assert!(matches!(error, Error::Write { source: WriteError::Full, .. }), "{error}");
    let (writer, _destination, _) = store(&folder, FormatChoice::Cdb64).into_parts().unwrap();
    assert_eq!(writer.format(), Format::Cdb64);
}
