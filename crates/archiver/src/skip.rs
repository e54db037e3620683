//! Which names of the source folder stay out of the archive, and why.
//!
//! Built-in rules leave out what editors, version control and systems litter; patterns in
//! gitignore syntax, from the command line or from `.canneryignore`, add to them or take them
//! back. This file judges names only: it never looks at what a name stands for, and the one
//! file it opens is the ignore file.
//!
//! The surprise is git's own: a folder that is left out is not entered, so a pattern such as
//! `!.config/site.css` brings nothing back unless `!.config/` stands before it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::diagnostic::Diagnostic;

/// The ignore file's name, looked for in the source root only.
pub const IGNORE_FILE: &str = ".canneryignore";

/// The folder that RFC 8615 reserves for site-wide metadata. It is served when it stands in the
/// source root; names inside it are judged like names anywhere else.
const WELL_KNOWN: &[u8] = b".well-known";

/// Endings of files that a program has left behind or still writes to.
const TRANSIENT_SUFFIXES: [&str; 4] = [".log", ".tmp", ".temp", ".lock"];

/// Files that desktop systems leave in folders they have shown.
const DESKTOP_FILES: [&str; 2] = ["Thumbs.db", ".DS_Store"];

/// What to leave out. The last matching pattern decides; where none matches, the built-in rules.
#[derive(Debug)]
pub struct SkipRules {
    built_in: bool,
    patterns: Gitignore,
    builder: GitignoreBuilder,
}

impl Default for SkipRules {
    /// The built-in rules and no patterns.
    fn default() -> SkipRules {
        SkipRules { built_in: true, ..SkipRules::none() }
    }
}

impl SkipRules {
    /// Nothing is left out until a pattern says so.
    pub fn none() -> SkipRules {
        // Paths are handed in relative to the source root, which the matcher calls `.`.
        SkipRules { built_in: false, patterns: Gitignore::empty(), builder: GitignoreBuilder::new(".") }
    }

    /// Adds the lines of `.canneryignore` in `root`, if there is one. Call it before
    /// [`add_pattern`](Self::add_pattern), so that the command line has the last word.
    ///
    /// A line that is no pattern is reported and has no effect.
    ///
    /// # Errors
    /// The file is there and cannot be read. The build must not go on as if it were not: it
    /// would publish what its author meant to keep back.
    pub fn add_ignore_file(&mut self, root: &Path) -> Result<Vec<Diagnostic>, IgnoreFileError> {
        let path = root.join(IGNORE_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            // A source "folder" that is a file has no ignore file either; the walk says what is wrong with it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(source) => return Err(IgnoreFileError { path, source }),
        };
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut diagnostics = Vec::new();
        for (number, line) in (1u32..).zip(text.split(|&byte| byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if let Err(error) = self.add(Some(Path::new(IGNORE_FILE)), line) {
                let message = format!("this line is no ignore pattern and has no effect: {error}");
                diagnostics.push(
                    Diagnostic::warning(IGNORE_FILE.as_bytes(), "bad-ignore-pattern", message)
                        .at_line(number),
                );
            }
        }
        self.build().map_err(|error| IgnoreFileError { path, source: io::Error::other(error) })?;
        Ok(diagnostics)
    }

    /// Adds one pattern in gitignore syntax, relative to the source root.
    ///
    /// # Errors
    /// The text is no such pattern.
    pub fn add_pattern(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.add(None, pattern)
            .and_then(|()| self.build())
            .map_err(|source| PatternError { pattern: pattern.to_owned(), source })
    }

    /// Why the name at `path` (relative to the source root, `/` between segments) is left out;
    /// `None` if it goes in.
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
    if is_folder && path == WELL_KNOWN {
        return None;
    }
    if let Some(file) = DESKTOP_FILES.into_iter().find(|file| name == file.as_bytes()) {
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
    TRANSIENT_SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix.as_bytes())).map(SkipReason::Transient)
}

/// The rule that left a name out. Its `Display` completes the sentence "it was skipped because …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The name begins with a full stop.
    Hidden,
    /// The name has a `#` in it: an editor's lock or autosave file, and no URL could spell it bare.
    Hash,
    /// The name ends with `~`: an editor's backup.
    Backup,
    /// The name ends with this suffix of logs, locks and temporary files.
    Transient(&'static str),
    /// The name is this file, which desktop systems leave in folders.
    DesktopFile(&'static str),
    /// A pattern matched.
    Pattern {
        /// The pattern as it was written.
        pattern: String,
        /// Where it was written.
        origin: PatternOrigin,
    },
}

/// Where an ignore pattern was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternOrigin {
    /// On the command line.
    Flag,
    /// In `.canneryignore`.
    IgnoreFile,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Hidden => f.write_str("its name begins with `.`"),
            SkipReason::Hash => f.write_str("its name contains `#`"),
            SkipReason::Backup => f.write_str("its name ends with `~`"),
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

/// A pattern on the command line that is no pattern.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a gitignore pattern")]
pub struct PatternError {
    /// The text as it was given.
    pub pattern: String,
    source: ignore::Error,
}

impl PatternError {
    pub(crate) fn new(pattern: &str, source: ignore::Error) -> PatternError {
        PatternError { pattern: pattern.to_owned(), source }
    }
}

/// The ignore file is there and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the ignore file {}; mend its permissions or remove it", path.display())]
pub struct IgnoreFileError {
    /// The ignore file.
    pub path: PathBuf,
    source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> SkipRules {
        let mut rules = SkipRules::default();
        for pattern in patterns {
            rules.add_pattern(pattern).unwrap();
        }
        rules
    }

    fn by_flag(pattern: &str) -> Option<SkipReason> {
        Some(SkipReason::Pattern { pattern: pattern.to_owned(), origin: PatternOrigin::Flag })
    }

    #[test]
    fn litter_is_left_out_wherever_it_lies() {
        let cases = [
            (".git", SkipReason::Hidden),
            ("#index.html", SkipReason::Hash),
            ("a#b.html", SkipReason::Hash),
            ("index.html#", SkipReason::Hash),
            ("index.html~", SkipReason::Backup),
            ("build.log", SkipReason::Transient(".log")),
            ("a.tmp", SkipReason::Transient(".tmp")),
            ("a.temp", SkipReason::Transient(".temp")),
            ("Cargo.lock", SkipReason::Transient(".lock")),
            ("Thumbs.db", SkipReason::DesktopFile("Thumbs.db")),
            (".DS_Store", SkipReason::DesktopFile(".DS_Store")),
        ];
        for (name, reason) in cases {
            for folder in ["", "docs/", ".well-known/"] {
                let path = format!("{folder}{name}");
                assert_eq!(
                    SkipRules::default().verdict(path.as_bytes(), false).as_ref(),
                    Some(&reason),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn ordinary_and_odd_names_go_in() {
        for path in ["index.html", "a/b.c", "log", "tmp.html", "thumbs.db", "_redirects", "caf\u{e9}", "a~b"]
        {
            assert_eq!(SkipRules::default().verdict(path.as_bytes(), false), None, "{path}");
        }
        assert_eq!(SkipRules::default().verdict(b"\xff\xfe.txt", false), None);
    }

    #[test]
    fn well_known_is_served_from_the_root_only() {
        let rules = SkipRules::default();
        assert_eq!(rules.verdict(b".well-known", true), None);
        assert_eq!(rules.verdict(b".well-known/security.txt", false), None);
        assert_eq!(rules.verdict(b"docs/.well-known", true), Some(SkipReason::Hidden));
        assert_eq!(rules.verdict(b".well-known", false), Some(SkipReason::Hidden));
    }

    #[test]
    fn none_lets_everything_in() {
        assert_eq!(SkipRules::none().verdict(b".git", true), None);
        assert_eq!(SkipRules::none().verdict(b"a.log", false), None);
    }

    #[test]
    fn patterns_add_to_the_built_in_rules_and_take_them_back() {
        let rules = rules(&["*.psd", "!.htpublic", "/drafts/", "!keep.log"]);
        assert_eq!(rules.verdict(b"art/logo.psd", false), by_flag("*.psd"));
        assert_eq!(rules.verdict(b".htpublic", false), None);
        assert_eq!(rules.verdict(b"logs/keep.log", false), None);
        assert_eq!(rules.verdict(b"logs/other.log", false), Some(SkipReason::Transient(".log")));
        assert_eq!(rules.verdict(b"drafts", true), by_flag("/drafts/"));
        assert_eq!(rules.verdict(b"drafts", false), None);
        assert_eq!(rules.verdict(b"blog/drafts", true), None);
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        assert_eq!(rules(&["*.md", "!README.md"]).verdict(b"README.md", false), None);
        assert_eq!(rules(&["!README.md", "*.md"]).verdict(b"README.md", false), by_flag("*.md"));
    }

    #[test]
    fn a_pattern_matches_a_name_that_is_not_utf8() {
        assert_eq!(rules(&["*.raw"]).verdict(b"\xff.raw", false), by_flag("*.raw"));
    }

    #[test]
    fn the_ignore_file_is_read_and_its_bad_lines_are_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(IGNORE_FILE), b"\xef\xbb\xbf*.bak\r\n# comment\r\n\r\n[z-a]\r\n")
            .unwrap();
        let mut rules = SkipRules::default();
        let diagnostics = rules.add_ignore_file(root.path()).unwrap();
        assert_eq!(diagnostics.len(), 1);
        assert_eq!((diagnostics[0].line, diagnostics[0].code), (Some(4), "bad-ignore-pattern"));
        let reason = rules.verdict(b"old.bak", false).unwrap();
        assert_eq!(reason.to_string(), "`*.bak` in .canneryignore matches it");
    }

    #[test]
    fn a_missing_ignore_file_is_nothing_to_speak_of() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(SkipRules::default().add_ignore_file(root.path()).unwrap(), []);
    }

    #[test]
    fn an_unreadable_ignore_file_stops_the_build() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(IGNORE_FILE)).unwrap();
        let error = SkipRules::default().add_ignore_file(root.path()).unwrap_err();
        assert!(error.to_string().contains(".canneryignore"), "{error}");
    }

    #[test]
    fn a_bad_pattern_is_an_error_that_names_it() {
        let error = SkipRules::default().add_pattern("[z-a]").unwrap_err();
        assert_eq!(error.to_string(), "`[z-a]` is not a gitignore pattern");
    }

    #[test]
    fn every_reason_has_words() {
        assert_eq!(SkipReason::Hidden.to_string(), "its name begins with `.`");
        assert_eq!(SkipReason::Transient(".log").to_string(), "its name ends with `.log`");
    }
}
