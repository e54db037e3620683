//! Arbitrary bytes as an archive of kawipiko. They are refused, or become a valid archive.

use std::cell::OnceCell;
use std::fs;

use cannery_archive::{Archive, Loading};
use tempfile::TempDir;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Imports arbitrary bytes, and verifies the archive that they become.
pub fn import(data: &[u8]) {
    FOLDER.with(|folder| {
        let folder =
            folder.get_or_init(|| tempfile::tempdir().expect("there is room for temporary files")).path();
        let (input, output) = (folder.join("kawipiko.cdb"), folder.join("site.cdb"));
        fs::write(&input, data).expect("there is room for temporary files");
        if cannery_archiver::import(&input, &output).is_err() {
            assert!(!output.exists(), "a refused archive leaves nothing behind");
            return;
        }
        let archive = Archive::open(&output, Loading::InMemory).expect("the archive is complete");
        archive.verify(|_| {}).expect("the archive is valid");
        fs::remove_file(&output).expect("the archive is ours");
    });
}
