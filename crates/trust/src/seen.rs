//! The last statement that a machine has accepted. It refuses older ones and those about other sites.

use serde::{Deserialize, Serialize};

use crate::statement::Statement;

/// The last statement that a machine has accepted. Kept on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The site.
    pub site: String,
    /// The sequence of the statement.
    pub sequence: u64,
    /// The digest of its release, in hexadecimal digits.
    pub digest: String,
}

/// Why a valid statement isn't accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It is about another site.
    #[error("the release belongs to the site `{got}`, but this directory to `{expected}`")]
    Site {
        /// The site of this machine.
        expected: String,
        /// The site of the statement.
        got: String,
    },
    /// It is older than one that was accepted.
    #[error("the release is older than what was accepted before: its sequence is {got}, and {seen} was seen")]
    Old {
        /// The sequence that was accepted.
        seen: u64,
        /// The sequence of the statement.
        got: u64,
    },
    /// Two releases have the same sequence.
    #[error("another release with the same sequence, {0}, was accepted before")]
    Twice(u64),
}

impl Seen {
    /// Decides whether a statement is acceptable after those that were seen, and returns what was seen afterwards.
    ///
    /// `site` is the machine's site. Without it, the first statement decides.
    ///
    /// # Errors
    /// Returns [`TrustError`] if it is about another site, or older.
    pub fn after(seen: Option<&Seen>, site: Option<&str>, statement: &Statement) -> Result<Seen, TrustError> {
        let site = site.or(seen.map(|seen| seen.site.as_str()));
        if let Some(expected) = site.filter(|expected| *expected != statement.site) {
            return Err(TrustError::Site { expected: expected.to_owned(), got: statement.site.clone() });
        }
        let next = Seen {
            site: statement.site.clone(),
            sequence: statement.sequence,
            digest: statement.digest.to_string(),
        };
        match seen {
            Some(seen) if seen.sequence > next.sequence => {
                Err(TrustError::Old { seen: seen.sequence, got: next.sequence })
            }
            Some(seen) if seen.sequence == next.sequence && seen.digest != next.digest => {
                Err(TrustError::Twice(next.sequence))
            }
            _ => Ok(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use cannery_archive::Digest;

    use super::*;

    fn statement(site: &str, sequence: u64, digest: u8) -> Statement {
        let digest = Digest([digest; Digest::BYTES]);
        Statement { site: site.into(), serial: 1, sequence, bytes: 3, digest, sha256: [4; 32], date: 5 }
    }

    #[test]
    fn sequences_never_fall() {
        let first = Seen::after(None, None, &statement("a", 5, 1)).unwrap();
        assert_eq!(Seen::after(Some(&first), None, &statement("a", 5, 1)), Ok(first.clone()));
        assert_eq!(
            Seen::after(Some(&first), None, &statement("a", 4, 1)),
            Err(TrustError::Old { seen: 5, got: 4 })
        );
        assert_eq!(Seen::after(Some(&first), None, &statement("a", 5, 2)), Err(TrustError::Twice(5)));
        assert_eq!(Seen::after(Some(&first), None, &statement("a", 6, 2)).unwrap().sequence, 6);
    }

    #[test]
    fn other_sites_are_refused() {
        let first = Seen::after(None, Some("a"), &statement("a", 5, 1)).unwrap();
        for (seen, site) in [(None, Some("a")), (Some(&first), None), (Some(&first), Some("a"))] {
            let refused = Seen::after(seen, site, &statement("b", 9, 1));
            assert!(matches!(refused, Err(TrustError::Site { .. })), "{refused:?}");
        }
    }
}
