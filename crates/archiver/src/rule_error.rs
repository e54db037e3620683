//! Lines of the two rule files, and why one yields no rule.
//!
//! Never knows what the words of a line mean.

use crate::diagnostic::{Diagnostic, Severity};

/// Longer lines are refused: no target of that length survives the limits that clients and
/// intermediaries put on a field.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// Why a line yields no rule. It becomes a diagnostic where file and line are known.
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

    /// A fault that ends the build: without the line, the site would not be what its author relies on.
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { severity: Severity::Error, ..RuleError::new(code, message) }
    }

    pub(crate) fn at(self, file: &str, line: u32) -> Diagnostic {
        let RuleError { severity, code, message } = self;
        Diagnostic { severity, file: file.to_owned(), line: Some(line), code, message }
    }
}

/// The text of a line without its end, if it can be worked with.
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
