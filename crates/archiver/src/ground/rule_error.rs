//! Errors in lines of rule files.

use crate::ground::diagnostic::{Diagnostic, Severity};

/// Maximum length of a line. Longer targets in a field would not be accepted by clients and proxies
/// anyway.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// The reason why a line yields no rule.
///
/// Together with the file and line number, it is turned into a diagnostic.
#[derive(Debug)]
pub(crate) struct RuleError {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl RuleError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Warning, code, message: message.into() }
    }

    /// Creates an error, which makes the build fail.
    ///
    /// To be used if the site would be insecure without the line.
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Error, ..RuleError::new(code, message) }
    }

    /// Creates a note about a harmless line.
    pub(crate) fn note(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Note, ..RuleError::new(code, message) }
    }

    pub(crate) fn at(self, file: &str, line: u32) -> Diagnostic {
        let RuleError { severity, code, message } = self;
        Diagnostic { severity, file: file.to_owned(), line: Some(line), code, message }
    }
}

/// Returns a line's text without the line ending, if it's valid.
pub(crate) fn readable_line(bytes: &[u8]) -> Result<&str, RuleError> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.len() > LINE_BYTES_MAX {
        let message = format!(
            "the line has {} bytes, more than the {LINE_BYTES_MAX} that are allowed; split or shorten it",
            bytes.len()
        );
        return Err(RuleError::error("line-too-long", message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        RuleError::new(
            "not-utf8",
            format!(
                "the line is not UTF-8 from byte {} on, so it is ignored; save the file as UTF-8",
                error.valid_up_to()
            ),
        )
    })?;
    match text.chars().find(|&character| character.is_control() && character != '\t') {
        None => Ok(text),
        Some('\r') => {
            let message = "the line contains a carriage return, so it is ignored; save the file with line ends of Unix (LF)";
            Err(RuleError::new("control-character", message))
        }
        Some('\0') => {
            let message =
                "the line contains the character \\0, as in UTF-16, so it is ignored; save the file as UTF-8";
            Err(RuleError::new("control-character", message))
        }
        Some(control) => {
            let message = format!(
                "the line has the control character {} in it, so it is ignored; remove the character",
                control.escape_default()
            );
            Err(RuleError::new("control-character", message))
        }
    }
}
