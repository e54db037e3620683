//! In-memory files on systems without `memfd_create(2)`: temporary files that are unlinked at once.

use std::fs::File;
use std::io;

use crate::ground::temporary::create_unlinked;

/// Creates an empty file for reading and writing.
///
/// # Errors
///
/// This will fail if the file cannot be created.
pub(super) fn create() -> io::Result<File> {
    create_unlinked(&std::env::temp_dir())
}

/// Nothing to do: without a name, other processes are unable to open the file.
///
/// # Errors
///
/// This never fails.
pub(super) fn protect(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn file_has_no_name() {
        let file = create().unwrap();
        protect(&file).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
    }
}
