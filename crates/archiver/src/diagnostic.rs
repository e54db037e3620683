//! What the build has to tell a person about the source folder: whose fault, where, what to do.
//!
//! A diagnostic is a value that travels with the result. This file never prints, and nothing
//! here ends a build: [`crate::compile`] does that, by the severity.

use std::fmt;

use serde::Serialize;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A harmless fact worth knowing. It stays harmless under `--strict`.
    Note,
    /// Something the author of the site most likely did not want. `--strict` makes it an error.
    Warning,
    /// Something that would make the site less than what its author relies on, such as a page that is open to everybody.
    /// It ends the build.
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

/// One remark about one place in the source folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether it counts under `--strict`.
    pub severity: Severity,
    /// The file it is about, relative to the source root. Bytes that are not UTF-8 are shown as
    /// U+FFFD, so this is for reading and not for opening.
    pub file: String,
    /// The line it is about, counted from 1; `None` where the whole file is meant.
    pub line: Option<u32>,
    /// A stable kebab-case name for this kind of remark, such as `redirect-shadowed`.
    pub code: &'static str,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl Diagnostic {
    /// A warning about a file as a whole, `path` being its bytes relative to the source root.
    pub fn warning(path: &[u8], code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            file: String::from_utf8_lossy(path).into_owned(),
            line: None,
            code,
            message: message.into(),
        }
    }

    /// A note about a file as a whole, `path` being its bytes relative to the source root.
    pub fn note(path: &[u8], code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::warning(path, code, message) }
    }

    /// The same remark, about one line of the file, counted from 1.
    #[must_use]
    pub fn at_line(self, line: u32) -> Diagnostic {
        Diagnostic { line: Some(line), ..self }
    }
}

impl fmt::Display for Diagnostic {
    /// Writes `file:line: warning: message [code]`, always on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", OneLine(&self.file))?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}: {} [{}]", self.severity, OneLine(&self.message), self.code)
    }
}

/// Text with its control characters spelled out. File names and rule files come from anywhere,
/// and an escape sequence or a line feed in one must not reach the terminal as such.
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
    fn a_warning_on_a_line_reads_like_a_compiler_message() {
        let diagnostic = Diagnostic::warning(b"docs/_redirects", "unknown-code", "no such code").at_line(7);
        assert_eq!(diagnostic.to_string(), "docs/_redirects:7: warning: no such code [unknown-code]");
    }

    #[test]
    fn a_note_about_a_whole_file_has_no_line() {
        let diagnostic = Diagnostic::note(b"a.html", "plain", "so it is");
        assert_eq!(diagnostic.to_string(), "a.html: note: so it is [plain]");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let diagnostic = Diagnostic::warning(b"a\x1b[2J\nb", "odd", "c\rd");
        assert_eq!(diagnostic.to_string(), "a\\u{1b}[2J\\nb: warning: c\\rd [odd]");
    }

    #[test]
    fn a_name_that_is_not_utf8_is_shown_lossily() {
        assert_eq!(Diagnostic::warning(b"\xff.txt", "odd", "").file, "\u{fffd}.txt");
    }

    #[test]
    fn json_names_the_severity_in_lower_case() {
        let json = serde_json::to_value(Diagnostic::note(b"a", "plain", "m").at_line(1)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"severity": "note", "file": "a", "line": 1, "code": "plain", "message": "m"})
        );
    }
}
