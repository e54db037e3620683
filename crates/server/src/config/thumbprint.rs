//! The thumbprint of an ACME account key (RFC 8555 §8.1).

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Length of a SHA-256 digest in base64url.
const LETTERS: usize = 43;

/// The thumbprint of an account key. It isn't a secret: each response to an HTTP-01 challenge contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thumbprint(Arc<str>);

/// The account whose challenges are answered, which may become known while the server runs. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SharedThumbprint(Arc<Mutex<Option<Thumbprint>>>);

impl SharedThumbprint {
    /// Returns the thumbprint, or `None` if no challenges are answered.
    #[must_use]
    pub fn get(&self) -> Option<Thumbprint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers the challenges of this account from now on.
    pub fn set(&self, thumbprint: Option<Thumbprint>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = thumbprint;
    }
}

impl From<Option<Thumbprint>> for SharedThumbprint {
    fn from(thumbprint: Option<Thumbprint>) -> SharedThumbprint {
        SharedThumbprint(Arc::new(Mutex::new(thumbprint)))
    }
}

/// The text isn't a thumbprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a thumbprint has {LETTERS} letters, digits, `-` and `_`; `cannery certificates DIR --thumbprint` prints it"
)]
pub struct ThumbprintError;

impl Thumbprint {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key authorization for a token: the body of the response to its challenge.
    pub(crate) fn authorize(&self, token: &str) -> String {
        format!("{token}.{}", self.0)
    }
}

impl FromStr for Thumbprint {
    type Err = ThumbprintError;

    fn from_str(text: &str) -> Result<Thumbprint, ThumbprintError> {
        let is_base64url = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if text.len() == LETTERS && is_base64url { Ok(Thumbprint(text.into())) } else { Err(ThumbprintError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbprint_is_a_digest_in_base64url() {
        let text = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";
        assert_eq!(text.parse::<Thumbprint>().unwrap().authorize("token"), format!("token.{text}"));
        for wrong in
            ["", &text[1..], &format!("{text}="), &text.replace('-', "+"), &text.replace('_', "\u{e9}")]
        {
            assert_eq!(wrong.parse::<Thumbprint>(), Err(ThumbprintError), "{wrong}");
        }
    }
}
