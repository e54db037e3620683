//! Files in which other processes write their state for operators. They are read again when they change.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cannery_base::FileVersion;

/// Larger files are not states.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Parsed states by their files, or `None` for a file that has none.
pub(super) struct StateFiles<T>(HashMap<PathBuf, (FileVersion, Option<T>)>);

impl<T> Default for StateFiles<T> {
    fn default() -> Self {
        StateFiles(HashMap::new())
    }
}

impl<T: Clone> StateFiles<T> {
    /// Returns the state in a file, if there is one.
    pub(super) fn read(&mut self, path: PathBuf, parse: fn(&[u8]) -> Option<T>) -> Option<T> {
        let Ok(metadata) = path.metadata() else {
            self.0.remove(&path);
            return None;
        };
        let version = FileVersion::of(&metadata);
        if let Some((known, state)) = self.0.get(&path)
            && *known == version
        {
            return state.clone();
        }
        // A failure may pass, so it isn't remembered.
        let Ok(bytes) = read(&path) else {
            self.0.remove(&path);
            return None;
        };
        let state = parse(&bytes);
        self.0.insert(path, (version, state.clone()));
        state
    }
}

/// Reads a short file. Anything else at the path, such as a FIFO, is refused without blocking.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut state = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut state)?;
    Ok(state)
}
