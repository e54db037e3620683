//! Files in memory on systems without `memfd_create(2)`: temporary files that are unlinked at once.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::temporary::Temporary;

/// Only this user may open the file, in the moment in which it has a name.
const MODE: u32 = 0o600;

/// Makes names unique within this process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Creates an empty file, open for reading and writing.
///
/// # Errors
/// Returns the error of the system if the file can't be created.
pub(crate) fn create() -> io::Result<File> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!(".cannery-{}-{serial}.tmp", std::process::id());
    let (temporary, file) = Temporary::create(std::env::temp_dir().join(name), MODE)?;
    drop(temporary);
    Ok(file)
}

/// Does nothing: without a name, other processes can't open the file.
///
/// # Errors
/// None.
pub(crate) fn protect(_file: &File) -> io::Result<()> {
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
