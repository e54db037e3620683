//! Errors of lines in rule files.

use crate::ground::diagnostic::{Diagnostic, Severity};

/// Maximum length of a line. Longer targets exceed the limits of clients and proxies for a field.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// Why a line yields no rule. It becomes a diagnostic once file and line are known.
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

    /// Creates an error that fails the build, because the site would be insecure without the line.
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Error, ..RuleError::new(code, message) }
    }

    /// Creates a note about a line that does no harm.
    pub(crate) fn note(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Note, ..RuleError::new(code, message) }
    }

    pub(crate) fn at(self, file: &str, line: u32) -> Diagnostic {
        let RuleError { severity, code, message } = self;
        Diagnostic { severity, file: file.to_owned(), line: Some(line), code, message }
    }
}

/// Returns the text of a line without its line ending, if it is valid.
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
        RuleError::new("not-utf8", format!("the line is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    match text.chars().find(|&character| character.is_control() && character != '\t') {
        None => Ok(text),
        Some(control) => {
            let message = format!("the line has the control character {} in it", control.escape_default());
            Err(RuleError::new("control-character", message))
        }
    }
}
