//! Unreadable files in a folder that is being edited, without which the build continues after a
//! warning.
//!
//! In contrast, a single build fails, as its archive might be deployed before anyone reads the
//! warnings.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_base::FileStamp;

use crate::ground::diagnostic::Diagnostic;
use crate::tree::folder_file;

/// Unreadable files of a folder, by path. All clones share the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadableFiles(Arc<Mutex<BTreeMap<Box<[u8]>, UnreadableFile>>>);

#[derive(Debug, Clone)]
struct UnreadableFile {
    stamp: FileStamp,
    reason: String,
    /// Whether the file cannot be opened, or else can be opened but not read.
    fails_to_open: bool,
}

impl UnreadableFiles {
    pub(super) fn add(&self, root: &Path, path: &[u8], stamp: FileStamp, error: &io::Error) {
        let fails_to_open = folder_file::open(&folder_file::full_path(root, path)).is_err();
        let file = UnreadableFile { stamp, reason: error.to_string(), fails_to_open };
        self.files().insert(path.into(), file);
    }

    pub(crate) fn len(&self) -> usize {
        self.files().len()
    }

    pub(crate) fn paths(&self) -> Vec<Box<[u8]>> {
        self.files().keys().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    /// Forgets files that are no longer in the folder, or that may have become readable.
    pub(crate) fn refresh(&self, root: &Path, stamp: impl Fn(&[u8]) -> Option<FileStamp>) {
        self.files().retain(|path, file| {
            let is_same = stamp(path).is_some_and(|stamp| stamp == file.stamp);
            match folder_file::open(&folder_file::full_path(root, path)) {
                Ok(_) => is_same && !file.fails_to_open,
                Err(_) => stamp(path).is_some(),
            }
        });
    }

    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.files().contains_key(path)
    }

    /// Returns a warning for each file.
    ///
    /// For files in the last build, `is_known` should return `true`.
    pub(crate) fn warnings(&self, is_known: impl Fn(&[u8]) -> bool) -> Vec<Diagnostic> {
        let warning = |path: &[u8], file: &UnreadableFile| {
            let outcome = if is_known(path) { "its last version is served" } else { "it is left out" };
            let remedy = "let the user of this process read it, or name it in `.canneryignore`";
            let message = format!("this file cannot be read ({}), so {outcome}; {remedy}", file.reason);
            Diagnostic::warning(path, "unreadable-file", message)
        };
        self.files().iter().map(|(path, file)| warning(path, file)).collect()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, UnreadableFile>> {
        // A poisoned lock is harmless because each update leaves a consistent map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
