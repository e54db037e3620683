//! Files in which other processes write their state for operators. They are read again when they change.

use std::collections::HashMap;
use std::path::PathBuf;

use cannery_base::FileVersion;

use crate::short_file::{self, SETTINGS_BYTES_MAX};

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
        let Ok(version) = FileVersion::at(&path) else {
            self.0.remove(&path);
            return None;
        };
        if let Some((known, state)) = self.0.get(&path)
            && *known == version
        {
            return state.clone();
        }
        // A failure may pass, so it isn't remembered.
        let Ok(bytes) = short_file::read(&path, SETTINGS_BYTES_MAX) else {
            self.0.remove(&path);
            return None;
        };
        let state = parse(&bytes);
        self.0.insert(path, (version, state.clone()));
        state
    }
}
