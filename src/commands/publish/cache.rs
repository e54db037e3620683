//! A cache that makes the next push fast: digests of files, compressed contents, recipes of releases, and the last archives of folders.
//!
//! Everything in it can be made again or fetched from a target, so errors only cost time.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cannery_archive::{Archive, Digest, Loading};
use cannery_publish::Recipe;

/// Number of archives to keep. One is needed for the next push of each site.
const ARCHIVES_KEPT: usize = 3;

/// Number of recipes to keep. They are small, and several sites share the cache.
const RECIPES_KEPT: usize = 50;

/// Number of folders whose files are known. A runner may have another folder for each build.
const FOLDERS_KEPT: usize = 10;

const ARCHIVE_SUFFIX: &str = "cdb";
const RECIPE_SUFFIX: &str = "recipe";
const SOURCES_SUFFIX: &str = "sources";

/// A cache folder.
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the cache in `folder`, or in the user's cache folder. Returns `None` if there is no place for it.
    pub(super) fn open(folder: Option<&Path>) -> Option<Cache> {
        let folder = folder.map(Path::to_owned).or_else(default_folder)?;
        let folder = std::path::absolute(folder).ok()?;
        fs::create_dir_all(&folder).ok()?;
        Some(Cache { folder })
    }

    /// Returns the folder of compressed contents.
    pub(super) fn compressed(&self) -> PathBuf {
        self.folder.join("compressed")
    }

    /// Returns the file with the digests of a folder's files.
    pub(super) fn sources(&self, folder: &Path) -> Option<PathBuf> {
        let folder = fs::canonicalize(folder).ok()?;
        self.prune(SOURCES_SUFFIX, FOLDERS_KEPT);
        self.path(&Digest::of(folder.as_os_str().as_bytes()).to_string(), SOURCES_SUFFIX)
    }

    /// Returns a folder for an archive that is being made. It is on the same file system.
    pub(super) fn workplace(cache: Option<&Cache>) -> io::Result<tempfile::TempDir> {
        match cache {
            Some(cache) => tempfile::Builder::new().prefix("push-").tempdir_in(&cache.folder),
            None => tempfile::tempdir(),
        }
    }

    /// Returns the path of the archive with this digest, if it is there and intact enough to open.
    pub(super) fn archive(&self, digest: &str) -> Option<PathBuf> {
        let path = self.path(digest, ARCHIVE_SUFFIX)?;
        let archive = Archive::open(&path, Loading::Mapped).ok()?;
        (archive.facts().digest.to_string() == digest).then_some(path)
    }

    /// Adds an archive, which must be in a temporary folder of this cache. It stays there, too.
    pub(super) fn add_archive(&self, digest: &str, file: &Path) {
        let Some(path) = self.path(digest, ARCHIVE_SUFFIX) else { return };
        // If it is there already, its bytes are the same.
        let _ = fs::hard_link(file, path);
        self.prune(ARCHIVE_SUFFIX, ARCHIVES_KEPT);
    }

    /// Returns the recipe of the archive with this digest, if it is there.
    pub(super) fn recipe(&self, digest: &str) -> Option<Recipe> {
        let compressed = fs::read(self.path(digest, RECIPE_SUFFIX)?).ok()?;
        let recipe = Recipe::decompress(&compressed, None).ok()?;
        (recipe.digest().to_string() == digest).then_some(recipe)
    }

    /// Keeps a recipe.
    pub(super) fn add_recipe(&self, recipe: &Recipe) {
        let digest = recipe.digest().to_string();
        let Some(path) = self.path(&digest, RECIPE_SUFFIX) else { return };
        let Ok(compressed) = recipe.compress(None) else { return };
        // Two pushes may write the same recipe at once.
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = fs::write(&temporary, compressed).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.prune(RECIPE_SUFFIX, RECIPES_KEPT);
    }

    /// Hosts choose digests, so only names that are one may become part of a path.
    fn path(&self, digest: &str, suffix: &str) -> Option<PathBuf> {
        let is_digest = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then(|| self.folder.join(digest).with_extension(suffix))
    }

    /// Removes all but the newest files with this suffix.
    fn prune(&self, suffix: &str, kept: usize) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let written = |path: &Path| {
            fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut files: Vec<_> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == suffix))
            .map(|path| (written(&path), path))
            .collect();
        files.sort();
        for (_, path) in files.iter().rev().skip(kept) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The folder that the XDG base directory specification suggests.
fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("cannery"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_few_folders_are_known() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(&place.path().join("cache"))).unwrap();
        let mut files = Vec::new();
        for number in 0..FOLDERS_KEPT + 5 {
            let folder = place.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            let file = cache.sources(&folder).unwrap();
            assert_eq!(cache.sources(&folder.join("../").join(number.to_string())), Some(file.clone()));
            fs::write(&file, "digests").unwrap();
            files.push(file);
        }
        // The last one is written after the others are counted.
        assert_eq!(files.iter().filter(|file| file.exists()).count(), FOLDERS_KEPT + 1);
        assert_eq!(cache.sources(&place.path().join("missing")), None);
    }
}
