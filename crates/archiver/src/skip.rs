//! Skip rules: which names of the source folder stay out of the archive.
//!
//! Built-in rules leave out files of editors, version control and desktop systems. Patterns in gitignore syntax, from the
//! command line or `.canneryignore`, add to them or include names again. Rules look at names only.
//!
//! As in git, a skipped folder isn't entered, so `!.config/site.css` has no effect without `!.config/` before it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::diagnostic::Diagnostic;

/// The ignore file in the source root.
pub const IGNORE_FILE: &str = ".canneryignore";

/// The folder that RFC 8615 reserves for site-wide metadata. It is served from the source root; the rules apply to names in
/// it.
const WELL_KNOWN: &[u8] = b".well-known";

/// Suffixes of files that a program has left or still writes to.
const TRANSIENT_SUFFIXES: [&str; 4] = [".log", ".tmp", ".temp", ".lock"];

/// Files that desktop systems create in folders.
const DESKTOP_FILES: [&str; 2] = ["Thumbs.db", ".DS_Store"];

/// The rules. The last matching pattern wins; if none matches, the built-in rules apply.
#[derive(Debug)]
pub struct SkipRules {
    built_in: bool,
    patterns: Gitignore,
    builder: GitignoreBuilder,
}

impl Default for SkipRules {
    /// Creates the built-in rules, without patterns.
    fn default() -> SkipRules {
        SkipRules { built_in: true, ..SkipRules::none() }
    }
}

impl SkipRules {
    /// Creates rules that include all names.
    pub fn none() -> SkipRules {
        // Paths are relative to the source root, which the matcher calls `.`.
        SkipRules { built_in: false, patterns: Gitignore::empty(), builder: GitignoreBuilder::new(".") }
    }

    /// Adds the lines of `.canneryignore` in `root`, if it exists. Call it before [`add_pattern`](Self::add_pattern), so
    /// that the command line takes precedence.
    ///
    /// Returns a warning about each invalid line, which has no effect.
    ///
    /// # Errors
    /// Returns an error if the file exists and can't be read. A build without it would publish what it should leave out.
    pub fn add_ignore_file(&mut self, root: &Path) -> Result<Vec<Diagnostic>, IgnoreFileError> {
        let path = root.join(IGNORE_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            // If the source "folder" is a file, the walk reports that.
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
                let message =
                    format!("this line is not a valid ignore pattern, so it has no effect: {error}");
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
    /// Returns an error if the pattern is invalid.
    pub fn add_pattern(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.add(None, pattern)
            .and_then(|()| self.build())
            .map_err(|source| PatternError { pattern: pattern.to_owned(), source })
    }

    /// Returns why a path (relative to the source root) is left out, or `None` if it isn't.
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

/// The rule that left a name out. Its `Display` is the end of "skipped because …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The name starts with a full stop.
    Hidden,
    /// The name contains `#`: an editor's lock or autosave file, which no URL can name without encoding.
    Hash,
    /// The name ends with `~`: an editor's backup.
    Backup,
    /// The name has this suffix of logs, locks and temporary files.
    Transient(&'static str),
    /// The name is that of a file of desktop systems.
    DesktopFile(&'static str),
    /// A pattern matched.
    Pattern {
        /// The pattern.
        pattern: String,
        /// The origin of the pattern.
        origin: PatternOrigin,
    },
}

/// The origin of an ignore pattern.
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

/// The ignore file exists and can't be read.
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
    fn litter_is_skipped_anywhere() {
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
    fn ordinary_and_odd_names_are_kept() {
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
    fn no_rules_skip_nothing() {
        assert_eq!(SkipRules::none().verdict(b".git", true), None);
        assert_eq!(SkipRules::none().verdict(b"a.log", false), None);
    }

    #[test]
    fn patterns_extend_and_override_built_in_rules() {
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
    fn last_matching_pattern_wins() {
        assert_eq!(rules(&["*.md", "!README.md"]).verdict(b"README.md", false), None);
        assert_eq!(rules(&["!README.md", "*.md"]).verdict(b"README.md", false), by_flag("*.md"));
    }

    #[test]
    fn pattern_matches_a_name_that_is_not_utf8() {
        assert_eq!(rules(&["*.raw"]).verdict(b"\xff.raw", false), by_flag("*.raw"));
    }

    #[test]
    fn invalid_lines_of_the_ignore_file_are_reported() {
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
    fn missing_ignore_file_is_accepted() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(SkipRules::default().add_ignore_file(root.path()).unwrap(), []);
    }

    #[test]
    fn unreadable_ignore_file_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(IGNORE_FILE)).unwrap();
        let error = SkipRules::default().add_ignore_file(root.path()).unwrap_err();
        assert!(error.to_string().contains(".canneryignore"), "{error}");
    }

    #[test]
    fn invalid_pattern_is_an_error() {
        let error = SkipRules::default().add_pattern("[z-a]").unwrap_err();
        assert_eq!(error.to_string(), "`[z-a]` is not a gitignore pattern");
    }

    #[test]
    fn every_reason_is_displayed() {
        assert_eq!(SkipReason::Hidden.to_string(), "its name begins with `.`");
        assert_eq!(SkipReason::Transient(".log").to_string(), "its name ends with `.log`");
    }
}
