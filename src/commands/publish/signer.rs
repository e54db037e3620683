//! Signs releases, and takes nothing for granted that a target says.
//!
//! A host or a store may be broken into. What we sign is accepted by all nodes, so a statement that comes from a target counts only
//! if our own key has signed it.

use std::path::Path;

use cannery_archive::Archive;
use cannery_publish::signing::SecretKey;
use cannery_server::statement_files;
use cannery_trust::{PublicKeys, Signed, Statement};

use crate::commands::keys;
use crate::flags::signing::SigningFlags;
use crate::output::{Failure, one_line};

/// The warning if a release without a signature follows a signed one.
const UNSIGNED: &str = "the live release is signed, but the new one isn't: nodes and hosts with `--public-key` will refuse it; \
                                   sign it with `--secret-key FILE`";

/// The warning if the statement of a release is older than the one that is live.
const OLDER: &str = "the live release has a newer signature than this one: nodes and hosts with `--public-key` will refuse it; \
                                sign it again with `--secret-key FILE`";

/// Returns the warning if nodes that demand signatures would refuse a release after the one that is live. Keys aren't compared: one
/// may follow another.
pub(super) fn warning(live: Option<&Signed>, next: Option<&Signed>) -> Option<String> {
    let claimed = |signed: &Signed| Statement::parse(&signed.statement).ok();
    let live = claimed(live?)?;
    match next.and_then(claimed) {
        None => Some(UNSIGNED.to_owned()),
        Some(next) if next.site != live.site => Some(format!(
            "the live release is signed for the site {}, but the new one for {}: nodes and hosts with `--public-key` will refuse it; \
             `--site NAME` names the site",
            one_line(&live.site),
            one_line(&next.site)
        )),
        Some(next) if next.sequence <= live.sequence => Some(OLDER.to_owned()),
        Some(_) => None,
    }
}

/// Reads the statement beside an archive that a command publishes without signing it.
pub(super) fn signed_beside(site: &str, archive: &Archive) -> Result<Option<Signed>, Failure> {
    let signed = statement_files::read_signed(Path::new(site)).map_err(|error| {
        Failure::input(format!("cannot read the signature of {}: {error}", one_line(site)))
    })?;
    // The key isn't known here. All else is found before anything is transferred.
    if let Some(signed) = &signed {
        let checked = Statement::parse(&signed.statement).map_err(|error| error.to_string());
        checked.and_then(|statement| statement.check(archive).map_err(|error| error.to_string())).map_err(
            |why| {
                Failure::input(format!("the signature beside {} doesn't fit: {why}", one_line(site)))
                    .hint("sign the archive again with `cannery sign`, or remove the two files beside it")
            },
        )?;
    }
    Ok(signed)
}

/// How far a sequence that a target claims may be beyond those that our key has signed. Another key of the same site may have signed
/// them. Without this bound, a target could have us sign the highest number, after which nodes refuse everything.
const CLAIM_MAX: u64 = 1 << 20;

/// The key of a command that signs, and the site that it signs for.
pub(super) struct Signer {
    key: SecretKey,
    own: PublicKeys,
    site: Option<String>,
}

impl Signer {
    /// Reads the key. Returns `None` for a command that doesn't sign.
    pub(super) fn read(flags: &SigningFlags) -> Result<Option<Signer>, Failure> {
        let Some((key, site)) = keys::read_signer(flags)? else { return Ok(None) };
        let own = key.public().map_err(|error| Failure::input(format!("the secret key: {error}")))?;
        Ok(Some(Signer { key, own, site }))
    }

    /// Returns the statement about the release with this digest, if our key has signed it, and for our site.
    pub(super) fn own_statement(&self, signed: Option<&Signed>, digest: &str) -> Option<Statement> {
        let statement = self.own.verify(signed?).ok()?;
        let is_our_site = self.site.as_ref().is_none_or(|site| *site == statement.site);
        (is_our_site && statement.digest.to_string() == digest).then_some(statement)
    }

    /// Signs a new release. `own` are statements of ours about other releases, and `claimed` is the highest sequence that a target
    /// says it has seen.
    pub(super) fn sign(&self, archive: &Archive, own: &[Statement], claimed: u64) -> Result<Signed, Failure> {
        let newest = own.iter().max_by_key(|statement| statement.sequence);
        let site = self.site.as_ref().or(newest.map(|statement| &statement.site)).ok_or_else(|| {
            Failure::usage("the signature needs the name of the site")
                .hint("add `--site NAME`, such as the host")
        })?;
        let serial = archive.facts().serial;
        let sequence = serial.max(next_sequence(own, serial, claimed)?);
        keys::sign_statement(&self.key, &Statement::of(archive, site, sequence, keys::now()))
    }

    /// Signs a statement of ours again, with a higher sequence.
    pub(super) fn sign_again(
        &self,
        statement: Statement,
        own: &[Statement],
        claimed: u64,
    ) -> Result<Signed, Failure> {
        let sequence = next_sequence(own, statement.sequence, claimed)?;
        keys::sign_statement(&self.key, &Statement { sequence, date: keys::now(), ..statement })
    }
}

/// Says that a release can't be signed again, because our key hasn't signed it.
pub(super) fn not_ours(release: &str) -> Failure {
    Failure::failed(format!("{} was never signed with this key for this site", one_line(release)))
        .hint("push its archive with `--secret-key`")
}

/// Returns a sequence after those of our statements and after the one that a target claims, which must not be far beyond ours or
/// `known`.
fn next_sequence(own: &[Statement], known: u64, claimed: u64) -> Result<u64, Failure> {
    let last = own.iter().map(|statement| statement.sequence).max().unwrap_or(0);
    let signed = last.max(known);
    if claimed > signed.saturating_add(CLAIM_MAX) {
        return Err(Failure::failed(format!(
            "a target says that it has seen the sequence {claimed}, but this key has signed none above {signed}"
        ))
        .hint("look whether that host or store was changed by others; `cannery sign --sequence` signs any number"));
    }
    let last = last.max(claimed);
    last.checked_add(1).ok_or_else(|| Failure::failed(format!("there is no sequence after {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_after_all_others_but_not_after_any_claim() {
        assert_eq!(next_sequence(&[], 4, 9).unwrap(), 10);
        assert_eq!(next_sequence(&[], 9, 4).unwrap(), 5);
        assert_eq!(next_sequence(&[], 4, 4 + CLAIM_MAX).unwrap(), 5 + CLAIM_MAX);
        assert!(next_sequence(&[], 4, 5 + CLAIM_MAX).is_err());
        assert!(next_sequence(&[], 4, u64::MAX).is_err());
        assert!(next_sequence(&[], u64::MAX, u64::MAX).is_err());
    }
}
