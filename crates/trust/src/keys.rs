//! Public keys and signatures in minisign's formats.

use minisign_verify::{PublicKey, Signature};
use serde::{Deserialize, Serialize};

use crate::limits::STATEMENT_BYTES_MAX;
use crate::statement::{Statement, StatementError};

/// Start of the lines in key files that aren't signed and have no meaning.
const COMMENT: &str = "untrusted comment:";

/// A statement with its signature, as they are sent and stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The text of the statement.
    pub statement: String,
    /// The contents of minisign's signature file.
    pub signature: String,
}

/// The keys whose signatures a machine accepts.
#[derive(Debug, Clone, Default)]
pub struct PublicKeys {
    keys: Vec<PublicKey>,
}

/// The text isn't a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it isn't a public key of minisign")]
pub struct KeyError;

/// Why a statement isn't trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The signature isn't one of minisign.
    #[error("the signature is malformed")]
    Malformed,
    /// No listed key has made it.
    #[error("the release is signed by a key that isn't listed here")]
    Key,
    /// A listed key is named, but the signature is wrong.
    #[error("the signature is wrong: the statement or the signature was changed")]
    Wrong,
    /// The signature is right, but what was signed is no statement.
    #[error(transparent)]
    Statement(#[from] StatementError),
}

impl PublicKeys {
    /// Parses one or several keys: files of minisign, or their base64 lines.
    ///
    /// # Errors
    /// Fails if there is none, or if a line isn't one.
    pub fn parse(text: &str) -> Result<PublicKeys, KeyError> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(COMMENT));
        let keys: Result<Vec<_>, _> = lines.map(PublicKey::from_base64).collect();
        let keys = keys.map_err(|_| KeyError)?;
        if keys.is_empty() { Err(KeyError) } else { Ok(PublicKeys { keys }) }
    }

    /// Adds the keys of another list.
    pub fn extend(&mut self, other: PublicKeys) {
        self.keys.extend(other.keys);
    }

    /// Verifies a signature, and returns what was signed.
    ///
    /// # Errors
    /// Returns [`SignatureError`] if no listed key has signed the statement.
    pub fn verify(&self, signed: &Signed) -> Result<Statement, SignatureError> {
        if signed.signature.len() > STATEMENT_BYTES_MAX || signed.statement.len() > STATEMENT_BYTES_MAX {
            return Err(SignatureError::Malformed);
        }
        let signature = Signature::decode(&signed.signature).map_err(|_| SignatureError::Malformed)?;
        let mut failure = SignatureError::Key;
        for key in &self.keys {
            match key.verify(signed.statement.as_bytes(), &signature, false) {
                Ok(()) => return Ok(Statement::parse(&signed.statement)?),
                Err(minisign_verify::Error::UnexpectedKeyId) => {}
                Err(_) => failure = SignatureError::Wrong,
            }
        }
        Err(failure)
    }
}
