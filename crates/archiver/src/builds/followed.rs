//! Tells programs that follow a source folder which changes can affect a build.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::options::Options;
use crate::tree::boundary::{Boundary, LinksOut};
use crate::tree::skip::SkipRules;

/// Decides whether a change in a source folder can affect a build.
#[derive(Debug)]
pub struct FollowedNames {
    rules: SkipRules,
    root: PathBuf,
    links_out: LinksOut,
    /// The boundary, cached for the folder with this ID.
    boundary: Mutex<Option<(FolderId, Arc<Boundary>)>>,
}

/// Device and inode.
type FolderId = (u64, u64);

impl FollowedNames {
    /// Returns the names for the folder in `options`.
    ///
    /// This does not read the ignore file, because it may change at any time.
    #[must_use]
    pub fn of(options: &Options) -> FollowedNames {
        let mut rules = if options.default_ignores { SkipRules::default() } else { SkipRules::none() };
        for pattern in &options.ignore {
            // The build will report invalid patterns.
            let _ = rules.add_pattern(pattern);
        }
        let (root, links_out) = (options.sources.clone(), options.links_out);
        FollowedNames { rules, root, links_out, boundary: Mutex::default() }
    }

    /// Returns `true` if a change to this path (relative to the folder) may affect builds.
    #[must_use]
    pub fn contain(&self, path: &Path, is_folder: bool) -> bool {
        self.rules.may_matter(path, is_folder)
    }

    /// Returns `true` if builds follow a link to `target`.
    #[must_use]
    pub fn admit(&self, link: &Path, target: &Metadata) -> bool {
        self.boundary().is_ok_and(|boundary| boundary.admits(link, target, true))
    }

    /// Returns the boundary of the folder. The folder may have been replaced, so this needs to be
    /// determined each time.
    fn boundary(&self) -> io::Result<Arc<Boundary>> {
        let found = fs::metadata(&self.root)?;
        let identity = (found.dev(), found.ino());
        let mut known = self.boundary.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, boundary)) = &*known
            && *of == identity
        {
            return Ok(Arc::clone(boundary));
        }
        let boundary = Arc::new(Boundary::of(&self.root, self.links_out)?);
        *known = Some((identity, Arc::clone(&boundary)));
        Ok(boundary)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Regression test: each scan used to resolve all parents of the root for every link.
    #[test]
    fn boundary_of_followed_names_is_found_once_per_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("site");
        for name in ["site", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("a"), "").unwrap();
        }
        symlink("../other/a", root.join("out")).unwrap();
        symlink("a", root.join("in")).unwrap();

        let mut options = Options::new(&root, "");
        options.links_out = LinksOut::LeftOut;
        options.ignore.push("*.psd".to_owned());
        let names = FollowedNames::of(&options);

        assert!(names.contain(Path::new("a"), false) && !names.contain(Path::new("a.psd"), false));
        let admits = |name: &str| {
            let link = root.join(name);
            names.admit(&link, &fs::metadata(&link).unwrap())
        };
        assert!(admits("in") && !admits("out"));
        assert!(Arc::ptr_eq(&names.boundary().unwrap(), &names.boundary().unwrap()));

        let before = names.boundary().unwrap();
        fs::rename(&root, folder.path().join("old")).unwrap();
        symlink("other", &root).unwrap();
        symlink("a", root.join("in")).unwrap();
        assert!(admits("in"));
        assert!(!Arc::ptr_eq(&names.boundary().unwrap(), &before));
    }
}
