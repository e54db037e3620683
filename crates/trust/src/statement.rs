//! Statements: what a publisher says about a release, as lines of text.

use aws_lc_rs::digest::{SHA256, digest};
use cannery_archive::{Archive, Digest};
use cannery_base::hex::{self, Hex};

use crate::limits::{SITE_BYTES_MAX, STATEMENT_BYTES_MAX};

/// First line of a statement.
const TITLE: &str = "cannery release 1";

/// The facts about a release that its publisher signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The site, so that a release of one site can't replace another site.
    pub site: String,
    /// The serial of the archive.
    pub serial: u64,
    /// Rises with every statement about the site, even if it is about an earlier release.
    pub sequence: u64,
    /// Length of the archive in bytes.
    pub bytes: u64,
    /// The digest in the archive's facts, which covers every byte.
    pub digest: Digest,
    /// The SHA-256 of the file, for programs that don't know archives.
    pub sha256: [u8; 32],
    /// When the statement was made, in seconds since 1970.
    pub date: u64,
}

/// Why a text isn't a statement, or why a statement isn't about an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// The text has another form.
    #[error("the statement about the release is malformed: {0}")]
    Malformed(&'static str),
    /// The archive is another one.
    #[error("the statement is about another archive: {0} differs")]
    Other(&'static str),
}

impl Statement {
    /// Returns a statement about an archive. This reads the whole archive.
    #[must_use]
    pub fn of(archive: &Archive, site: &str, sequence: u64, date: u64) -> Statement {
        let facts = archive.facts();
        Statement {
            site: site.to_owned(),
            serial: facts.serial,
            sequence,
            bytes: archive.bytes().len() as u64,
            digest: facts.digest,
            sha256: sha256(archive.bytes()),
            date,
        }
    }

    /// Checks that the statement is about this archive.
    ///
    /// This trusts the digest in the archive's facts, which the caller should have verified.
    ///
    /// # Errors
    /// Returns [`StatementError::Other`] if it is about another one.
    pub fn check(&self, archive: &Archive) -> Result<(), StatementError> {
        let facts = archive.facts();
        if self.digest != facts.digest {
            return Err(StatementError::Other("the digest"));
        }
        if self.bytes != archive.bytes().len() as u64 {
            return Err(StatementError::Other("the length"));
        }
        if self.serial != facts.serial {
            return Err(StatementError::Other("the serial"));
        }
        Ok(())
    }

    /// Checks the SHA-256 too, which means to read the whole archive.
    ///
    /// # Errors
    /// Returns [`StatementError::Other`] if the statement is about another archive.
    pub fn check_all(&self, archive: &Archive) -> Result<(), StatementError> {
        self.check(archive)?;
        if self.sha256 == sha256(archive.bytes()) { Ok(()) } else { Err(StatementError::Other("SHA-256")) }
    }

    /// Returns the text to be signed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Statement { site, serial, sequence, bytes, digest, sha256, date } = self;
        let sha256 = Hex(sha256);
        format!(
            "{TITLE}\nsite: {site}\nserial: {serial}\nsequence: {sequence}\nbytes: {bytes}\nblake3: {digest}\nsha256: {sha256}\n\
             date: {date}\n"
        )
    }

    /// Parses a text of [`Statement::to_text`].
    ///
    /// # Errors
    /// Returns [`StatementError::Malformed`] if it has another form. Lines that a later version adds are ignored.
    pub fn parse(text: &str) -> Result<Statement, StatementError> {
        let malformed = StatementError::Malformed;
        if text.len() > STATEMENT_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(malformed("it doesn't start with the right title"));
        }
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
        let field = |name: &'static str| {
            let mut values = fields.iter().filter(|(field, _)| *field == name).map(|(_, value)| *value);
            match (values.next(), values.next()) {
                (Some(value), None) => Ok(value),
                _ => Err(malformed(name)),
            }
        };
        let number = |name| field(name)?.parse::<u64>().map_err(|_| malformed(name));
        let digest = |name| hex::decode(field(name)?).ok_or(malformed(name));

        let site = field("site")?;
        if !is_site_name(site) {
            return Err(malformed("site"));
        }
        Ok(Statement {
            site: site.to_owned(),
            serial: number("serial")?,
            sequence: number("sequence")?,
            bytes: number("bytes")?,
            digest: Digest(digest("blake3")?),
            sha256: digest("sha256")?,
            date: number("date")?,
        })
    }
}

/// Returns whether a statement can be about a site of this name: printable ASCII without spaces.
#[must_use]
pub fn is_site_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= SITE_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> Statement {
        Statement {
            site: "example.com".to_owned(),
            serial: 43,
            sequence: 44,
            bytes: 1000,
            digest: Digest([7; Digest::BYTES]),
            sha256: [0xa5; 32],
            date: 1_900_000_000,
        }
    }

    #[test]
    fn statements_are_read_as_written() {
        let statement = sample();
        assert_eq!(Statement::parse(&statement.to_text()), Ok(statement.clone()));
        // A later version may add lines.
        assert_eq!(Statement::parse(&format!("{}more: 1\n", statement.to_text())), Ok(statement));
    }

    #[test]
    fn other_texts_are_refused() {
        let text = sample().to_text();
        for wrong in [
            String::new(),
            text.replace("release 1", "release 2"),
            text.replace("example.com", "two words"),
            text.replace("example.com", ""),
            text.replace("example.com", &"a".repeat(SITE_BYTES_MAX + 1)),
            text.replace("serial: 43", "serial: -1"),
            text.replace("a5a5", "a5g5"),
            text.replace("sha256: a5", "sha256: "),
            // Two values of a field would be one for each reader.
            format!("{text}serial: 43\n"),
            format!("{text}{}", "x".repeat(STATEMENT_BYTES_MAX)),
        ] {
            assert!(Statement::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
