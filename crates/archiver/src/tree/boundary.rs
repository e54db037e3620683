//! Boundary of the source folder: whether links lead out of it, to a folder above it, or into a kernel file system.
//!
//! Both builds and the search for changes walk the folder. They need to share these rules to make sure that they
//! visit the same folders.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How to treat symlinks that lead out of the source folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LinksOut {
    /// Follow them, but warn about each.
    #[default]
    Reported,
    /// Follow them.
    Allowed,
    /// Leave them out, and warn about each.
    LeftOut,
}

/// Where a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Into the source folder.
    Inside,
    /// To this path outside the source folder, by a link.
    Outside(Arc<Path>),
    /// To a folder that contains the source folder. If we followed it, the walk would never end.
    Above,
    /// Into a kernel file system such as `/proc`, in which files have no length and reading them may
    /// block.
    Kernel,
}

/// The boundary of a source folder in its current state.
#[derive(Debug)]
pub struct Boundary {
    /// Canonical path of the folder.
    inside: PathBuf,
    links_out: LinksOut,
    /// Device and inode of each folder above.
    above: Vec<(u64, u64)>,
    device: u64,
    /// For each other device, whether it's a kernel file system.
    devices: Mutex<HashMap<u64, bool>>,
}

impl Boundary {
    /// Resolves the path of the source folder.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the path cannot be resolved.
    pub fn of(root: &Path, links_out: LinksOut) -> io::Result<Boundary> {
        let inside = fs::canonicalize(root)?;
        let device = fs::metadata(&inside)?.dev();
        let above = inside.ancestors().skip(1).filter_map(|folder| fs::metadata(folder).ok());
        let above = above.map(|found| (found.dev(), found.ino())).collect();
        Ok(Boundary { inside, links_out, above, device, devices: Mutex::default() })
    }

    /// Returns `true` if a name at `path` belongs to the source folder.
    ///
    /// For links, `metadata` must be that of the target.
    #[must_use]
    pub fn admits(&self, path: &Path, metadata: &Metadata, is_link: bool) -> bool {
        match self.place(path, metadata, is_link) {
            Place::Inside => true,
            Place::Outside(_) => self.links_out != LinksOut::LeftOut,
            Place::Above | Place::Kernel => false,
        }
    }

    pub(super) fn links_out(&self) -> LinksOut {
        self.links_out
    }

    /// Returns where a name leads to.
    pub(super) fn place(&self, path: &Path, metadata: &Metadata, is_link: bool) -> Place {
        if metadata.is_dir() && self.above.contains(&(metadata.dev(), metadata.ino())) {
            return Place::Above;
        }
        if metadata.dev() != self.device && self.is_of_kernel(path, metadata.dev()) {
            return Place::Kernel;
        }
        if !is_link || self.links_out == LinksOut::Allowed {
            return Place::Inside;
        }
        match fs::canonicalize(path) {
            Ok(target) if !target.starts_with(&self.inside) => Place::Outside(target.into()),
            Ok(_) | Err(_) => Place::Inside,
        }
    }

    fn is_of_kernel(&self, path: &Path, device: u64) -> bool {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        *devices.entry(device).or_insert_with(|| is_kernel_file_system(path))
    }
}

/// Returns `true` if the path is in a file system with contents that the kernel makes up when they are read (see
/// `statfs(2)`).
#[cfg(target_os = "linux")]
fn is_kernel_file_system(path: &Path) -> bool {
    /// proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs, selinuxfs, bpf, pstore, efivarfs, devpts, configfs, binfmt_misc,
    /// mqueue, nsfs.
    const MAGIC_NUMBERS: [u64; 16] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x0027_e0eb,
        0x6367_7270,
        0x7363_6673,
        0xf97c_ff8c,
        0xcafe_4a11,
        0x6165_676c,
        0xde5e_81e4,
        0x1cd1,
        0x6265_6570,
        0x4249_4e4d,
        0x1980_0202,
        0x6e73_6673,
    ];

    // Magic numbers always have 32 bits, but the type of `f_type` depends on the architecture.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "a bit pattern")]
    rustix::fs::statfs(path).is_ok_and(|found| MAGIC_NUMBERS.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

/// Not needed on other systems: either they do not have such file systems, or sites do not link to
/// them.
#[cfg(not(target_os = "linux"))]
fn is_kernel_file_system(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place(boundary: &Boundary, path: &Path) -> Place {
        boundary.place(path, &fs::metadata(path).unwrap(), true)
    }

    #[test]
    fn links_lead_to_four_kinds_of_places() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("site");
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::write(folder.path().join("secret"), "").unwrap();
        for (name, target) in [
            ("root", "/"),
            ("parent", ".."),
            ("again", "root"),
            ("inside", "docs"),
            ("out", "../secret"),
            ("twice", "out"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }

        let reported = Boundary::of(&root, LinksOut::Reported).unwrap();
        for name in ["root", "parent", "again"] {
            assert_eq!(place(&reported, &root.join(name)), Place::Above, "{name}");
        }
        assert_eq!(place(&reported, &root.join("inside")), Place::Inside);
        for name in ["out", "twice"] {
            assert!(matches!(place(&reported, &root.join(name)), Place::Outside(_)), "{name}");
        }

        let allowed = Boundary::of(&root, LinksOut::Allowed).unwrap();
        assert_eq!(place(&allowed, &root.join("out")), Place::Inside);
        assert_eq!(place(&allowed, &root.join("root")), Place::Above);

        if cfg!(target_os = "linux") {
            symlink("/proc/self/status", root.join("status")).unwrap();
            assert_eq!(place(&allowed, &root.join("status")), Place::Kernel);
        }
    }
}
