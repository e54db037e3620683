//! Source folder -> sorted list of what is in it.
//!
//! The walk looks at names and inodes only: it never opens a file, and its result does not
//! depend on the order in which the system lists a folder. Names are bytes from end to end,
//! for a URL can spell any byte.
//!
//! Symlinks are followed. One that leaves the root is reported, unless that was allowed. One that leads back to a
//! folder above it is left out. Where several links lead to one folder, the folder is listed once for all that meet at
//! the same depth; the number of paths to it through links within links is bounded, because each level of such links
//! can double it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::diagnostic::Diagnostic;
use crate::skip::{SkipReason, SkipRules};

/// How many paths through links within links may lead to one folder.
const LINKED_PATHS_MAX: usize = 256;

/// How many links out of the root are reported one by one.
const OUTSIDE_REPORTED_MAX: usize = 5;

/// The code of a link out of the root.
const OUTSIDE: &str = "symlink-outside";

/// What becomes of links out of the root, which are followed either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinksOut {
    /// Each is a warning.
    Reported,
    /// They are meant.
    Allowed,
}

/// All that a walk has found, each list sorted by the bytes of its paths.
///
/// Paths are relative to the source root, with `/` between segments and none at either end.
#[derive(Debug, Default)]
pub struct Walked {
    /// The regular files, symlinks resolved.
    pub files: Vec<SourceFile>,
    /// The folders that were entered. The root is the first and its path is empty.
    pub folders: Vec<Box<[u8]>>,
    /// What the skip rules left out. Nothing below a skipped folder is listed.
    pub skipped: Vec<Skipped>,
    /// What could not be walked, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// One file of the source folder, not yet opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path relative to the source root.
    pub path: Box<[u8]>,
    /// What the file system says about the content.
    pub stamp: Stamp,
}

/// What tells, without reading it, whether a file is still the same: if any field has changed,
/// the content may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change to the content, in nanoseconds since 1970; negative before.
    pub modified_ns: i128,
    /// Time of the last change to the inode, in nanoseconds since 1970. Unlike `modified_ns` a
    /// program cannot set it back.
    pub changed_ns: i128,
    /// The device that `inode` belongs to.
    pub device: u64,
    /// Hard links to one content share it.
    pub inode: u64,
}

impl Stamp {
    /// The stamp that `metadata` carries.
    pub fn of(metadata: &Metadata) -> Stamp {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Stamp {
            size: metadata.size(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// A name that a rule has left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The path relative to the source root.
    pub path: Box<[u8]>,
    /// Whether it is a folder, and all below it stayed out too.
    pub is_folder: bool,
    /// The rule.
    pub reason: SkipReason,
}

/// Why a walk could not begin. Faults further down are diagnostics.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The source root is not there, or may not be read.
    #[error("cannot read the source folder {}; check that it exists and may be read", path.display())]
    Root {
        /// The source root as it was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The source root is something other than a folder.
    #[error("the source {} is not a folder; name the folder that holds the site", path.display())]
    NotAFolder {
        /// The source root as it was given.
        path: PathBuf,
    },
}

/// Lists all that is in `root` and that `rules` let in, on all the threads of the current pool.
///
/// # Errors
/// The root itself cannot be read or is not a folder.
pub fn walk(root: &Path, rules: &SkipRules, links_out: LinksOut) -> Result<Walked, WalkError> {
    let root_error = |source| WalkError::Root { path: root.to_owned(), source };
    let metadata = fs::metadata(root).map_err(root_error)?;
    if !metadata.is_dir() {
        return Err(WalkError::NotAFolder { path: root.to_owned() });
    }
    // Asked once more for each folder below; here a refusal must end the walk instead.
    fs::read_dir(root).map_err(root_error)?;
    let inside = match links_out {
        LinksOut::Reported => Some(fs::canonicalize(root).map_err(root_error)?),
        LinksOut::Allowed => None,
    };

    let walk = Walk { root, inside, rules };
    let mut walked = Walked::default();
    let mut linked_paths = HashMap::new();
    let mut level = vec![Folder::root(&metadata)];
    // Folders of one depth are read at the same time. Going down level by level rather than by
    // recursion keeps a deep tree off the stack.
    while !level.is_empty() {
        level
            .sort_unstable_by(|one, other| (one.identity(), &one.path).cmp(&(other.identity(), &other.path)));
        let groups: Vec<&[Folder]> =
            level.chunk_by(|one, other| one.identity() == other.identity()).collect();
        let readings: Vec<Vec<Reading>> = groups.par_iter().map(|group| walk.read(group)).collect();
        let mut next = Vec::new();
        for reading in readings.into_iter().flatten() {
            next.extend(reading.subfolders);
            walked.absorb(reading.found);
        }
        next.sort_unstable_by(|one: &Folder, other| one.path.cmp(&other.path));
        next.retain(|folder| walked.admit(folder, &mut linked_paths));
        level = next;
    }
    walked.sort();
    walked.summarize_links_out();
    Ok(walked)
}

impl Walked {
    fn absorb(&mut self, mut other: Walked) {
        self.files.append(&mut other.files);
        self.folders.append(&mut other.folders);
        self.skipped.append(&mut other.skipped);
        self.diagnostics.append(&mut other.diagnostics);
    }

    /// Whether a folder is entered: not if too many paths through links within links lead to it.
    fn admit(&mut self, folder: &Folder, linked_paths: &mut HashMap<(u64, u64), usize>) -> bool {
        if folder.links < 2 {
            return true;
        }
        let paths = linked_paths.entry(folder.identity()).or_default();
        *paths += 1;
        if *paths == LINKED_PATHS_MAX + 1 {
            let message = format!(
                "more than {LINKED_PATHS_MAX} paths of links within links lead to this folder: it is left out here \
                 and at further ones; remove some of the links"
            );
            self.diagnostics.push(Diagnostic::warning(&folder.path, "symlink-fan", message));
        }
        *paths <= LINKED_PATHS_MAX
    }

    /// Counts the links out of the root behind the first few.
    fn summarize_links_out(&mut self) {
        let mut outside = 0;
        self.diagnostics.retain(|diagnostic| {
            outside += usize::from(diagnostic.code == OUTSIDE);
            diagnostic.code != OUTSIDE || outside <= OUTSIDE_REPORTED_MAX
        });
        if let Some(more) = outside.checked_sub(OUTSIDE_REPORTED_MAX).filter(|more| *more > 0) {
            let message = format!("{more} more links lead out of the source folder");
            self.diagnostics.push(Diagnostic::warning(b".", OUTSIDE, message));
        }
    }

    fn sort(&mut self) {
        // No path occurs twice in a list, so an unstable sort has one outcome only.
        self.files.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.folders.par_sort_unstable();
        self.skipped.par_sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.diagnostics.sort_by(|a, b| (&a.file, &a.message).cmp(&(&b.file, &b.message)));
    }
}

/// A folder that is to be read.
struct Folder {
    path: Box<[u8]>,
    lineage: Arc<Lineage>,
    /// How many links its path goes through.
    links: u32,
    /// Where the path left the root, if it did: what the link there leads to.
    outside: Option<Arc<Path>>,
}

impl Folder {
    fn root(metadata: &Metadata) -> Folder {
        Folder { path: Box::default(), lineage: Lineage::root(metadata), links: 0, outside: None }
    }

    fn identity(&self) -> (u64, u64) {
        (self.lineage.device, self.lineage.inode)
    }
}

/// A folder's identity, and those of the folders it was reached through.
struct Lineage {
    device: u64,
    inode: u64,
    parent: Option<Arc<Lineage>>,
}

impl Lineage {
    fn root(metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: None })
    }

    fn child(self: &Arc<Lineage>, metadata: &Metadata) -> Arc<Lineage> {
        Arc::new(Lineage { device: metadata.dev(), inode: metadata.ino(), parent: Some(Arc::clone(self)) })
    }

    fn contains(&self, metadata: &Metadata) -> bool {
        let mut ancestors = std::iter::successors(Some(self), |lineage| lineage.parent.as_deref());
        ancestors.any(|ancestor| (ancestor.device, ancestor.inode) == (metadata.dev(), metadata.ino()))
    }
}

/// What one folder holds.
#[derive(Default)]
struct Reading {
    found: Walked,
    subfolders: Vec<Folder>,
}

/// What holds for all folders of a walk.
struct Walk<'a> {
    root: &'a Path,
    /// The root without links on the way to it, if links out of it are reported.
    inside: Option<PathBuf>,
    rules: &'a SkipRules,
}

/// A name in a folder, and what it stands for.
struct Entry {
    name: Vec<u8>,
    is_link: bool,
    metadata: io::Result<Metadata>,
    /// What a link leads to, without links on the way, if that is outside the root.
    outside: Option<Arc<Path>>,
}

impl Walk<'_> {
    /// Reads one folder, for each of the paths that lead to it.
    fn read(&self, paths: &[Folder]) -> Vec<Reading> {
        let Some(first) = paths.first() else { return Vec::new() };
        // Joining an empty path would add a `/`, which a root given as a symlink does not mind.
        let mut entries = Vec::new();
        let mut broken_off = None;
        match fs::read_dir(self.root.join(OsStr::from_bytes(&first.path))) {
            Ok(found) => {
                for entry in found {
                    match entry {
                        Ok(entry) => entries.push(self.look_at(&entry)),
                        Err(error) => {
                            broken_off = Some(format!(
                                "the folder's listing breaks off, so files may be missing: {error}"
                            ));
                            break;
                        }
                    }
                }
            }
            Err(error) => {
                let message = format!("the folder cannot be read and is left out: {error}");
                return paths.iter().map(|folder| Reading::unreadable(folder, message.clone())).collect();
            }
        }
        let reading = |folder: &Folder| {
            let mut reading = Reading::default();
            reading.found.folders.push(folder.path.clone());
            entries.iter().for_each(|entry| reading.add(folder, entry, self.rules));
            if let Some(message) = &broken_off {
                reading.warn(&folder.path, "unreadable-folder", message.clone());
            }
            reading
        };
        paths.iter().map(reading).collect()
    }

    fn look_at(&self, entry: &fs::DirEntry) -> Entry {
        let name = entry.file_name().into_vec();
        // Asking through the entry spares the system the walk along the whole path, which only a link needs.
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                let outside = self.outside(&entry.path());
                return Entry { name, is_link: true, metadata: fs::metadata(entry.path()), outside };
            }
            metadata => metadata,
        };
        Entry { name, is_link: false, metadata, outside: None }
    }

    /// What a link leads to, if that is outside the root.
    fn outside(&self, link: &Path) -> Option<Arc<Path>> {
        let target = fs::canonicalize(link).ok()?;
        let is_outside = self.inside.as_ref().is_some_and(|inside| !target.starts_with(inside));
        is_outside.then(|| target.into())
    }
}

impl Reading {
    fn unreadable(folder: &Folder, message: String) -> Reading {
        let mut reading = Reading::default();
        reading.warn(&folder.path, "unreadable-folder", message);
        reading
    }

    fn add(&mut self, folder: &Folder, entry: &Entry, rules: &SkipRules) {
        let path = join(&folder.path, &entry.name);
        let metadata = match &entry.metadata {
            Ok(metadata) => metadata,
            // A rule that leaves the name out also spares the author a remark about it: editors
            // lock files with symlinks that are broken on purpose.
            Err(_) if self.skips(&path, false, rules) => return,
            Err(error) => return self.warn_unresolved(&path, entry, error),
        };
        if self.skips(&path, metadata.is_dir(), rules) {
            return;
        }
        // A link within a folder outside the root has been reported with the link that led there.
        let reported =
            |target: &&Arc<Path>| !folder.outside.as_ref().is_some_and(|known| target.starts_with(known));
        let leaving = entry.outside.as_ref().filter(reported);
        if let Some(target) = leaving
            && (metadata.is_file() || metadata.is_dir())
        {
            let message = format!(
                "this link leads out of the source folder, to {}, and that is published; `--ignore` leaves it out, \
                 `--follow-links` says that it is meant",
                target.display()
            );
            self.warn(&path, OUTSIDE, message);
        }
        if metadata.is_file() {
            self.found.files.push(SourceFile { path, stamp: Stamp::of(metadata) });
        } else if !metadata.is_dir() {
            let message = format!("{} cannot be served and is left out", kind_of(metadata));
            self.warn(&path, "not-a-file", message);
        } else if folder.lineage.contains(metadata) {
            let message =
                "this leads back to a folder above it and is left out; remove the link to silence this";
            self.warn(&path, "symlink-loop", message.to_owned());
        } else {
            let links = folder.links + u32::from(entry.is_link);
            let outside = leaving.or(folder.outside.as_ref()).cloned();
            self.subfolders.push(Folder { lineage: folder.lineage.child(metadata), path, links, outside });
        }
    }

    /// Notes the name as skipped if a rule leaves it out.
    fn skips(&mut self, path: &[u8], is_folder: bool, rules: &SkipRules) -> bool {
        let Some(reason) = rules.verdict(path, is_folder) else { return false };
        self.found.skipped.push(Skipped { path: path.into(), is_folder, reason });
        true
    }

    fn warn_unresolved(&mut self, path: &[u8], entry: &Entry, error: &io::Error) {
        if entry.is_link {
            let message = format!("the symlink leads nowhere and is left out; mend or remove it: {error}");
            self.warn(path, "broken-symlink", message);
        } else {
            self.warn(
                path,
                "unreadable-file",
                format!("the file cannot be looked at and is left out: {error}"),
            );
        }
    }

    fn warn(&mut self, path: &[u8], code: &'static str, message: String) {
        let shown: &[u8] = if path.is_empty() { b"." } else { path };
        self.found.diagnostics.push(Diagnostic::warning(shown, code, message));
    }
}

fn join(folder: &[u8], name: &[u8]) -> Box<[u8]> {
    if folder.is_empty() { name.into() } else { [folder, b"/", name].concat().into_boxed_slice() }
}

fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    /// A source root with these files, each holding its own path.
    fn site(files: &[&[u8]]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(OsStr::from_bytes(file));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        root
    }

    fn walk_all(root: &tempfile::TempDir) -> Walked {
        walk(root.path(), &SkipRules::default(), LinksOut::Allowed).unwrap()
    }

    fn paths(walked: &Walked) -> Vec<&[u8]> {
        walked.files.iter().map(|file| &*file.path).collect()
    }

    fn codes(walked: &Walked) -> Vec<(&str, &str)> {
        walked.diagnostics.iter().map(|diagnostic| (&*diagnostic.file, diagnostic.code)).collect()
    }

    #[test]
    fn files_and_folders_come_sorted_by_bytes() {
        let root = site(&[b"b/z", b"b.txt", b"a", b"b/a/x", b"B"]);
        fs::create_dir(root.path().join("empty")).unwrap();
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [&b"B"[..], b"a", b"b.txt", b"b/a/x", b"b/z"]);
        let folders: Vec<&[u8]> = walked.folders.iter().map(|folder| &**folder).collect();
        assert_eq!(folders, [&b""[..], b"b", b"b/a", b"empty"]);
        assert_eq!(walked.diagnostics, []);
    }

    #[test]
    fn a_stamp_tells_size_times_and_identity() {
        let root = site(&[b"four"]);
        fs::hard_link(root.path().join("four"), root.path().join("same")).unwrap();
        let walked = walk_all(&root);
        let metadata = fs::metadata(root.path().join("four")).unwrap();
        assert_eq!(walked.files[0].stamp, walked.files[1].stamp);
        assert_eq!(walked.files[0].stamp.size, 4);
        assert_eq!(walked.files[0].stamp.inode, metadata.ino());
        let modified = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(walked.files[0].stamp.modified_ns, i128::try_from(modified.as_nanos()).unwrap());
    }

    #[test]
    fn a_name_that_is_not_utf8_is_walked() {
        let root = site(&[b"caf\xe9/\xff.txt"]);
        assert_eq!(paths(&walk_all(&root)), [b"caf\xe9/\xff.txt"]);
    }

    #[test]
    fn symlinks_are_followed_also_out_of_the_root() {
        let outside = site(&[b"far/away"]);
        let root = site(&[b"here"]);
        symlink(outside.path().join("far"), root.path().join("near")).unwrap();
        symlink("here", root.path().join("there")).unwrap();
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [&b"here"[..], b"near/away", b"there"]);
        assert_eq!(walked.files[0].stamp, walked.files[2].stamp);
    }

    #[test]
    fn links_out_of_the_root_are_reported_once() {
        let outside = site(&[b"far/away", b"far/below/x", b"lone"]);
        symlink("away", outside.path().join("far/again")).unwrap();
        symlink("../../lone", outside.path().join("far/below/lone")).unwrap();
        let root = site(&[b"here", b"sub/x"]);
        symlink(outside.path().join("far"), root.path().join("near")).unwrap();
        symlink(outside.path().join("lone"), root.path().join("sub/lone")).unwrap();
        symlink("../here", root.path().join("sub/here")).unwrap();
        symlink(outside.path().join("lone"), root.path().join(".hidden")).unwrap();
        let walked = walk(root.path(), &SkipRules::default(), LinksOut::Reported).unwrap();
        assert_eq!(walked.files.len(), 8);
        let expected = [("near", OUTSIDE), ("near/below/lone", OUTSIDE), ("sub/lone", OUTSIDE)];
        assert_eq!(codes(&walked), expected);
    }

    #[test]
    fn many_links_out_of_the_root_are_counted() {
        let outside = site(&[b"x"]);
        let root = site(&[b"here"]);
        for number in 0..20 {
            symlink(outside.path().join("x"), root.path().join(format!("{number:02}"))).unwrap();
        }
        let walked = walk(root.path(), &SkipRules::default(), LinksOut::Reported).unwrap();
        assert_eq!(walked.files.len(), 21);
        assert_eq!(codes(&walked).len(), OUTSIDE_REPORTED_MAX + 1);
        assert!(walked.diagnostics[OUTSIDE_REPORTED_MAX].message.starts_with("15 more links"));
    }

    #[test]
    fn links_that_fan_out_are_bounded() {
        let root = site(&[b"30/leaf"]);
        for number in 0..30 {
            let folder = root.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            symlink(format!("../{}", number + 1), folder.join("a")).unwrap();
            symlink(format!("../{}", number + 1), folder.join("b")).unwrap();
        }
        let walked = walk_all(&root);
        assert!(walked.folders.len() <= 31 * (LINKED_PATHS_MAX + 3), "{}", walked.folders.len());
        assert!(paths(&walked).contains(&&b"29/a/leaf"[..]));
        assert!(walked.diagnostics.iter().all(|diagnostic| diagnostic.code == "symlink-fan"));
        assert!(!walked.diagnostics.is_empty());
    }

    #[test]
    fn many_links_to_one_folder_are_all_followed() {
        let root = site(&[b"assets/x"]);
        for number in 0..1000 {
            fs::create_dir(root.path().join(number.to_string())).unwrap();
            symlink("../assets", root.path().join(format!("{number}/assets"))).unwrap();
        }
        let walked = walk_all(&root);
        assert_eq!(walked.files.len(), 1001);
        assert_eq!(walked.diagnostics, []);
    }

    #[test]
    fn a_link_to_a_sibling_is_no_loop() {
        let root = site(&[b"a/x"]);
        symlink("a", root.path().join("b")).unwrap();
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [b"a/x", b"b/x"]);
        assert_eq!(walked.diagnostics, []);
    }

    #[test]
    fn loops_are_left_out_with_a_warning() {
        let root = site(&[b"a/b/x"]);
        symlink("../..", root.path().join("a/b/up")).unwrap();
        symlink(".", root.path().join("self")).unwrap();
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [b"a/b/x"]);
        assert_eq!(codes(&walked), [("a/b/up", "symlink-loop"), ("self", "symlink-loop")]);
    }

    #[test]
    fn what_cannot_be_served_is_a_warning_each() {
        let root = site(&[b"x"]);
        symlink("nowhere", root.path().join("broken")).unwrap();
        symlink("circle", root.path().join("circle")).unwrap();
        symlink("/dev/null", root.path().join("null")).unwrap();
        let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
        assert!(Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap().success());
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [b"x"]);
        let expected = [
            ("broken", "broken-symlink"),
            ("circle", "broken-symlink"),
            ("null", "not-a-file"),
            ("pipe", "not-a-file"),
            ("socket", "not-a-file"),
        ];
        assert_eq!(codes(&walked), expected);
        assert_eq!(walked.diagnostics[3].message, "a named pipe cannot be served and is left out");
    }

    #[test]
    fn skipped_names_are_listed_with_their_rule_and_not_entered() {
        let root = site(&[b".git/config", b"a.log", b"x", b".well-known/security.txt"]);
        symlink("user@host.123", root.path().join(".#x")).unwrap();
        let walked = walk_all(&root);
        assert_eq!(paths(&walked), [&b".well-known/security.txt"[..], b"x"]);
        let skipped: Vec<_> =
            walked.skipped.iter().map(|skipped| (&*skipped.path, skipped.is_folder)).collect();
        assert_eq!(skipped, [(&b".#x"[..], false), (b".git", true), (b"a.log", false)]);
        assert_eq!(walked.diagnostics, []);
    }

    #[test]
    fn the_root_may_be_a_symlink_to_a_folder() {
        let root = site(&[b"site/x"]);
        let link = root.path().join("link");
        symlink("site", &link).unwrap();
        assert_eq!(paths(&walk(&link, &SkipRules::default(), LinksOut::Reported).unwrap()), [b"x"]);
    }

    #[test]
    fn a_missing_root_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let error = walk(&root.path().join("none"), &SkipRules::default(), LinksOut::Reported).unwrap_err();
        assert!(matches!(error, WalkError::Root { .. }), "{error}");
    }

    #[test]
    fn a_root_that_is_a_file_is_an_error() {
        let root = site(&[b"file"]);
        let error = walk(&root.path().join("file"), &SkipRules::default(), LinksOut::Reported).unwrap_err();
        assert!(matches!(error, WalkError::NotAFolder { .. }), "{error}");
    }

    #[test]
    fn a_deep_tree_is_walked_to_where_paths_end() {
        let root = tempfile::tempdir().unwrap();
        let mut deep = root.path().to_owned();
        for _ in 0..500 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("leaf"), b"").unwrap();
        let walked = walk_all(&root);
        assert_eq!(walked.files.len(), 1);
        assert_eq!(walked.folders.len(), 501);
    }
}
