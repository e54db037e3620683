//! Diagnostics: remarks about the source folder, with file and line.
//!
//! Diagnostics are just values in the report. Depending on their severity, [`crate::compile`] decides whether the
//! build should fail.

use std::fmt;

use serde::Serialize;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Harmless information, even with `--strict`.
    Note,
    /// Probably a mistake. With `--strict`, it's an error.
    Warning,
    /// The build fails because of a problem that would make the site insecure, e.g. if a page that was meant to be protected would
    /// be public.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// A remark about a place in the source folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// File relative to the source root, or the absolute path of a directory outside of it. This should only be used for
    /// display: invalid UTF-8 has been replaced with U+FFFD.
    pub file: String,
    /// Line number, starting at 1, or `None` if the remark is about the file as a whole.
    pub line: Option<u32>,
    /// A stable kebab-case code for this kind of remark, for example `redirect-shadowed`.
    pub code: &'static str,
    /// The problem and how to solve it.
    pub message: String,
}

impl Diagnostic {
    /// Creates a warning about a whole file. `path` is relative to the source root.
    pub fn warning(path: &[u8], code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            file: String::from_utf8_lossy(path).into_owned(),
            line: None,
            code,
            message: message.into(),
        }
    }

    /// Creates a note about a whole file. `path` is relative to the source root.
    pub fn note(path: &[u8], code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::warning(path, code, message) }
    }

    /// Creates a warning that is a sentence about the file, consisting of its path and this predicate (e.g. "is
    /// left out").
    pub(crate) fn warning_that(path: &[u8], code: &'static str, predicate: impl fmt::Display) -> Diagnostic {
        Diagnostic::warning(path, code, format!("`{}` {predicate}", String::from_utf8_lossy(path)))
    }

    /// Creates a note of the same form.
    pub(crate) fn note_that(path: &[u8], code: &'static str, predicate: impl fmt::Display) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::warning_that(path, code, predicate) }
    }

    /// Returns the same remark, but for a single line of the file. Lines start at 1.
    #[must_use]
    pub fn at_line(self, line: u32) -> Diagnostic {
        Diagnostic { line: Some(line), ..self }
    }
}

impl fmt::Display for Diagnostic {
    /// Writes `file:line: warning: message [code]` on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", OneLine(&self.file))?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}: {} [{}]", self.severity, OneLine(&self.message), self.code)
    }
}

/// Escapes control characters. We should not trust names and contents of files: they may contain escape sequences, and these
/// must not reach the terminal.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_reads_like_a_compiler_message() {
        let diagnostic = Diagnostic::warning(b"docs/_redirects", "unknown-code", "no such code").at_line(7);
        assert_eq!(diagnostic.to_string(), "docs/_redirects:7: warning: no such code [unknown-code]");
    }

    #[test]
    fn note_about_a_whole_file_has_no_line() {
        let diagnostic = Diagnostic::note(b"a.html", "plain", "so it is");
        assert_eq!(diagnostic.to_string(), "a.html: note: so it is [plain]");
    }

    #[test]
    fn control_characters_are_escaped() {
        let diagnostic = Diagnostic::warning(b"a\x1b[2J\nb", "odd", "c\rd");
        assert_eq!(diagnostic.to_string(), "a\\u{1b}[2J\\nb: warning: c\\rd [odd]");
    }

    #[test]
    fn name_that_is_not_utf8_is_shown_lossily() {
        assert_eq!(Diagnostic::warning(b"\xff.txt", "odd", "").file, "\u{fffd}.txt");
    }

    #[test]
    fn json_has_lower_case_severity() {
        let json = serde_json::to_value(Diagnostic::note(b"a", "plain", "m").at_line(1)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"severity": "note", "file": "a", "line": 1, "code": "plain", "message": "m"})
        );
    }
}
