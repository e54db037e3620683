//! Skip rules, which decide what does not become part of the archive.
//!
//! Built-in rules leave out files of editors, version control and desktop systems. With gitignore patterns, either on the command
//! line or in `.canneryignore`, further names can be left out, or included again. Rules only look at names.
//!
//! Skipped folders are not entered, just like in git. For example, `!.config/site.css` has no effect unless it comes after
//! `!.config/`.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::ground::diagnostic::Diagnostic;
use crate::hosts::site_path::{Site, site_of};
use crate::tree::boundary::LinksOut;
use crate::tree::folder_file::Confinement;
use crate::tree::folder_file::kind_of;

/// Name of the ignore file in the source root.
pub const IGNORE_FILE: &str = ".canneryignore";

/// Maximum length of the ignore file. We need to hold all of it in memory.
pub const IGNORE_FILE_BYTES_MAX: u64 = 1 << 20;

/// Folder for site-wide metadata (RFC 8615). It will be served from the root of each site. Names inside of it are still
/// subject to the rules.
const WELL_KNOWN: &[u8] = b".well-known";

/// Suffixes, in any letter case, of files that are left over or still being written: logs, locks, downloads by browsers and
/// transfer programs, and temporary files of JetBrains editors.
const TRANSIENT_SUFFIXES: [&str; 15] = [
    ".!qb",
    ".!ut",
    ".aria2",
    ".crdownload",
    ".filepart",
    ".lock",
    ".log",
    ".opdownload",
    ".part",
    ".partial",
    ".temp",
    ".tmp",
    "___jb_bak___",
    "___jb_old___",
    "___jb_tmp___",
];

/// Prefix of lock files that office programs create next to an open document.
const OFFICE_LOCK_PREFIX: &str = "~$";

/// Files and folders that are created by desktop systems. Letter case does not matter.
const DESKTOP_FILES: [&str; 8] = [
    ".DS_Store",
    "@eaDir",
    "__MACOSX",
    "desktop.ini",
    "ehthumbs.db",
    "ehthumbs_vista.db",
    "System Volume Information",
    "Thumbs.db",
];

/// Name of an empty file created by Vim to test if it can write to a folder.
const VIM_TEST_FILE: &[u8] = b"4913";

/// A set of rules, of which the last matching pattern wins.
///
/// If no pattern matches, the built-in rules are used.
#[derive(Debug)]
pub struct SkipRules {
    built_in: bool,
    patterns: Gitignore,
    builder: GitignoreBuilder,
}

impl Default for SkipRules {
    /// Creates the built-in rules without any patterns.
    fn default() -> SkipRules {
        SkipRules { built_in: true, ..SkipRules::none() }
    }
}

impl SkipRules {
    /// Creates rules that do not leave out anything.
    pub fn none() -> SkipRules {
        // Paths are relative to the source root, so that is `.` for the matcher.
        SkipRules { built_in: false, patterns: Gitignore::empty(), builder: GitignoreBuilder::new(".") }
    }

    /// Adds the lines of `.canneryignore` in `root`, if there is such a file. The last match wins, so patterns from the
    /// command line should be added after this, with [`add_pattern`](Self::add_pattern).
    ///
    /// Returns a warning for each line that is not valid. Such lines do not have any effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the name exists but is not a readable text file, or is a link that is not followed. We must not
    /// continue without it, because then the build would publish files that it should not.
    pub fn add_ignore_file(
        &mut self,
        root: &Path,
        links_out: LinksOut,
    ) -> Result<Vec<Diagnostic>, IgnoreFileError> {
        let path = root.join(IGNORE_FILE);
        let Some(text) = read_ignore_file(root, &path, links_out)? else { return Ok(Vec::new()) };
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut diagnostics = Vec::new();
        for (number, line) in (1u32..).zip(text.split(|&byte| byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if let Err(error) = self.add(Some(Path::new(IGNORE_FILE)), line) {
                let message =
                    format!("this line is not a valid ignore pattern, so it has no effect: {error}");
                diagnostics.push(
                    Diagnostic::warning(IGNORE_FILE.as_bytes(), "bad-ignore-pattern", message)
                        .at_line(number),
                );
            }
        }
        self.build().map_err(|error| IgnoreFileError::Read { path, source: io::Error::other(error) })?;
        Ok(diagnostics)
    }

    /// Adds a pattern in gitignore syntax, relative to the source root.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid.
    pub fn add_pattern(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.add(None, pattern)
            .and_then(|()| self.build())
            .map_err(|source| PatternError { pattern: pattern.to_owned(), source })
    }

    /// When a path (relative to the source root) is left out, returns the reason for this.
    pub fn verdict(&self, path: &[u8], is_folder: bool) -> Option<SkipReason> {
        if !self.patterns.is_empty() {
            match self.patterns.matched(Path::new(OsStr::from_bytes(path)), is_folder) {
                Match::Whitelist(_) => return None,
                Match::Ignore(glob) => {
                    let origin =
                        if glob.from().is_some() { PatternOrigin::IgnoreFile } else { PatternOrigin::Flag };
                    return Some(SkipReason::Pattern { pattern: glob.original().to_owned(), origin });
                }
                Match::None => {}
            }
        }
        if self.built_in { built_in_verdict(path, is_folder) } else { None }
    }

    /// For names that are only left out if the file is empty, returns the reason if this is the
    /// case.
    pub(super) fn verdict_of_length(&self, path: &[u8], length: u64) -> Option<SkipReason> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        (self.built_in && length == 0 && name == VIM_TEST_FILE).then_some(SkipReason::VimTest)
    }

    /// Returns `true` if a change to this path (relative to the source root) can affect builds.
    ///
    /// This is the case for paths that are not left out and for the ignore file.
    pub fn may_matter(&self, path: &Path, is_folder: bool) -> bool {
        path == Path::new(IGNORE_FILE) || self.verdict(path.as_os_str().as_bytes(), is_folder).is_none()
    }

    fn add(&mut self, from: Option<&Path>, line: &str) -> Result<(), ignore::Error> {
        self.builder.add_line(from.map(Path::to_path_buf), line).map(|_| ())
    }

    fn build(&mut self) -> Result<(), ignore::Error> {
        self.patterns = self.builder.build()?;
        Ok(())
    }
}

fn built_in_verdict(path: &[u8], is_folder: bool) -> Option<SkipReason> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if is_folder && is_well_known(path) {
        return None;
    }

    if let Some(file) = DESKTOP_FILES.into_iter().find(|file| name.eq_ignore_ascii_case(file.as_bytes())) {
        return Some(SkipReason::DesktopFile(file));
    }
    if name.starts_with(b".") {
        return Some(SkipReason::Hidden);
    }
    if name.contains(&b'#') {
        return Some(SkipReason::Hash);
    }
    if name.ends_with(b"~") {
        return Some(SkipReason::Backup);
    }
    if name.starts_with(OFFICE_LOCK_PREFIX.as_bytes()) {
        return Some(SkipReason::OfficeLock);
    }

    let ends_with = |suffix: &str| {
        let start = name.len().checked_sub(suffix.len());
        start.is_some_and(|start| name[start..].eq_ignore_ascii_case(suffix.as_bytes()))
    };
    TRANSIENT_SUFFIXES.into_iter().find(|suffix| ends_with(suffix)).map(SkipReason::Transient)
}

/// Returns `true` for `.well-known` in the root of a site. This may be the default site or that of
/// a host.
fn is_well_known(path: &[u8]) -> bool {
    let folder = path.strip_suffix(WELL_KNOWN);
    folder.is_some_and(|folder| folder.is_empty() || matches!(site_of(folder), Site::Host(_, b"")))
}

/// The rule that left out a name. As text, it completes "skipped because …".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The name begins with a dot.
    Hidden,
    /// The name contains `#`. Editors use this for locks and autosaves, and we would have to encode it in
    /// URLs.
    Hash,
    /// The name ends with `~`, so it's an editor's backup.
    Backup,
    /// The name begins with `~$`, i.e. it is the lock of a document that is open in an office
    /// program.
    OfficeLock,
    /// Vim created it to test if it can write to the folder.
    VimTest,
    /// The name has a suffix that is typical of logs, locks or temporary files.
    Transient(&'static str),
    /// The name is used by desktop systems.
    DesktopFile(&'static str),
    /// A pattern matched.
    Pattern {
        /// The pattern.
        pattern: String,
        /// The origin of the pattern.
        origin: PatternOrigin,
    },
}

/// Where an ignore pattern comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternOrigin {
    /// The command line.
    Flag,
    /// `.canneryignore`.
    IgnoreFile,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Hidden => f.write_str("its name begins with `.`"),
            SkipReason::Hash => f.write_str("its name contains `#`"),
            SkipReason::Backup => f.write_str("its name ends with `~`"),
            SkipReason::OfficeLock => f.write_str("its name begins with `~$`"),
            SkipReason::VimTest => f.write_str("Vim creates it to test whether it may write"),
            SkipReason::Transient(suffix) => write!(f, "its name ends with `{suffix}`"),
            SkipReason::DesktopFile(name) => write!(f, "`{name}` is left behind by a desktop system"),
            SkipReason::Pattern { pattern, origin: PatternOrigin::Flag } => {
                write!(f, "`--ignore {pattern}` matches it")
            }
            SkipReason::Pattern { pattern, origin: PatternOrigin::IgnoreFile } => {
                write!(f, "`{pattern}` in {IGNORE_FILE} matches it")
            }
        }
    }
}

/// An invalid pattern in the options.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a gitignore pattern")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    source: ignore::Error,
}

impl PatternError {
    pub(crate) fn new(pattern: &str, source: ignore::Error) -> PatternError {
        PatternError { pattern: pattern.to_owned(), source }
    }
}

/// Why we cannot read the ignore file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreFileError {
    /// The system returned an error.
    #[error("cannot read the ignore file {}: {source}; let the user of this process read it, or remove it", path.display())]
    Read {
        /// The ignore file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It's a link to nothing.
    #[error("the ignore file {} is a symlink to nothing; write a text file of this name, or remove the link", path.display())]
    Dangling {
        /// The ignore file.
        path: PathBuf,
    },
    /// It is not a file but, for example, a folder or a device.
    #[error("the ignore file {} is {kind}; write its patterns into a text file of this name, or remove it", path.display())]
    NotAFile {
        /// The ignore file.
        path: PathBuf,
        /// The kind of file, with an article.
        kind: &'static str,
    },
    /// It's longer than [`IGNORE_FILE_BYTES_MAX`].
    #[error("the ignore file {} has more than {IGNORE_FILE_BYTES_MAX} bytes; shorten it, for example by patterns for folders", path.display())]
    TooLong {
        /// The ignore file.
        path: PathBuf,
    },
    /// The name is a link that leads out of the folder. We do not follow these.
    #[error(
        "the ignore file {} leads out of the source folder, to {}, and is not read; copy it into the folder, or follow links with \
         `--follow-links`",
        path.display(),
        target.display()
    )]
    Outside {
        /// The ignore file.
        path: PathBuf,
        /// The link's target.
        target: PathBuf,
    },
}

/// Reads the ignore file, if it exists.
fn read_ignore_file(
    root: &Path,
    path: &Path,
    links_out: LinksOut,
) -> Result<Option<Vec<u8>>, IgnoreFileError> {
    let confinement = Confinement::of(root, links_out);
    let path = || path.to_owned();
    let outside = || {
        let target = confinement.target_outside(&path())?;
        Some(IgnoreFileError::Outside { path: path(), target })
    };
    let found = match fs::symlink_metadata(path()) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        // Either we are not allowed to search the folder, or the name is a link to itself. The
        // walk will report this.
        Err(_) if fs::metadata(root.join(".")).is_err() => return Ok(None),
        Err(source) => return Err(IgnoreFileError::Read { path: path(), source }),
    };
    // This must be checked first: in a sandbox, opening the target may not be allowed, and that error would not tell the
    // user anything about the link.
    if let Some(error) = outside() {
        return Err(error);
    }

    let is_dangling = |error: &io::Error| found.is_symlink() && error.kind() == ErrorKind::NotFound;
    let failed = |source| {
        if is_dangling(&source) {
            IgnoreFileError::Dangling { path: path() }
        } else {
            IgnoreFileError::Read { path: path(), source }
        }
    };
    let kind = fs::metadata(path()).map_err(failed)?;
    if !kind.is_file() {
        return Err(IgnoreFileError::NotAFile { path: path(), kind: kind_of(&kind) });
    }

    let file = confinement.open(&path()).map_err(|source| outside().unwrap_or_else(|| failed(source)))?;
    let mut text = Vec::new();
    file.take(IGNORE_FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > IGNORE_FILE_BYTES_MAX {
        return Err(IgnoreFileError::TooLong { path: path() });
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
