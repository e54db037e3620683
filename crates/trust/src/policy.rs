//! The keys and the site that a machine accepts releases of.

use crate::keys::{PublicKeys, SignatureError, Signed};
use crate::seen::{Seen, TrustError};
use crate::statement::{Statement, StatementError};

/// The keys and the site that a machine accepts releases of.
#[derive(Debug, Clone)]
pub struct Policy {
    keys: PublicKeys,
    site: Option<String>,
}

/// Why a release isn't accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// There is no signed statement about it.
    #[error("only signed releases are accepted here, and this one isn't signed")]
    Unsigned,
    /// No listed key has signed the statement.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The statement is about another site, or older than one that was accepted.
    #[error(transparent)]
    Statement(#[from] TrustError),
    /// The statement is about another archive.
    #[error(transparent)]
    Archive(#[from] StatementError),
}

impl Policy {
    /// Accepts releases that one of these keys has signed. Without a site, the first accepted one decides.
    #[must_use]
    pub fn new(keys: PublicKeys, site: Option<String>) -> Policy {
        Policy { keys, site }
    }

    /// The site, if the operator has named it.
    #[must_use]
    pub fn site(&self) -> Option<&str> {
        self.site.as_deref()
    }

    /// Verifies a statement, and decides whether it is acceptable after what was seen. Returns what was seen afterwards.
    ///
    /// # Errors
    /// Returns [`Untrusted`] if it isn't.
    pub fn check(
        &self,
        signed: Option<&Signed>,
        seen: Option<&Seen>,
    ) -> Result<(Statement, Seen), Untrusted> {
        let statement = self.keys.verify(signed.ok_or(Untrusted::Unsigned)?)?;
        let seen = Seen::after(seen, self.site(), &statement)?;
        Ok((statement, seen))
    }

    /// Does the same for a release that is kept beside the current one, whose sequence may be any.
    ///
    /// # Errors
    /// Returns [`Untrusted`] if the statement isn't acceptable.
    pub fn check_other(&self, signed: Option<&Signed>, seen: Option<&Seen>) -> Result<Statement, Untrusted> {
        let statement = self.keys.verify(signed.ok_or(Untrusted::Unsigned)?)?;
        let site = self.site().or(seen.map(|seen| seen.site.as_str()));
        Seen::after(None, site, &statement)?;
        Ok(statement)
    }
}
