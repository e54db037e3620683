//! `cannery verify`: reads and checks a whole archive. See the archive crate for the checks themselves.

use std::path::Path;
use std::time::Instant;

use cannery_archive::{Archive, VerifyError, VerifyReport};
use serde::Serialize;

use super::open;
use super::release_trust::{ReleaseTrust, verify_archive};
use crate::flags::tools::Verify;
use crate::format;
use crate::output::{self, Failure, Paint};

/// JSON output.
#[derive(Serialize)]
struct VerifiedArchive {
    digest: String,
    records: u64,
    bodies: u64,
    body_bytes: u64,
    paths: u64,
    /// The statement that a listed key has signed.
    signed: Option<SignedJson>,
}

#[derive(Serialize)]
struct SignedJson {
    site: String,
    serial: u64,
    sequence: u64,
    /// Seconds since 1970.
    date: u64,
}

/// Runs `cannery verify`.
///
/// # Errors
///
/// Returns an error if the file is damaged or is not an archive.
pub fn run(flags: &Verify) -> Result<(), Failure> {
    let started = Instant::now();
    let (archive, seen) = whole(&flags.archive)?;

    let statement = match ReleaseTrust::from_flags(&flags.trust)? {
        Some(trust) => Some(verify_archive(&flags.archive, &archive, &trust)?),
        None => None,
    };
    let found = VerifiedArchive {
        digest: archive.facts().digest.to_string(),
        records: seen.records,
        bodies: seen.bodies,
        body_bytes: seen.body_bytes,
        paths: seen.paths,
        signed: statement.as_ref().map(|statement| SignedJson {
            site: statement.site.clone(),
            serial: statement.serial,
            sequence: statement.sequence,
            date: statement.date,
        }),
    };

    if flags.json {
        return output::print_json(&found);
    }
    output::print(format_args!(
        "{}  verified: {}, {} and {} match, in {}\n  digest {}\n",
        Paint::for_results().strong(&flags.archive.display().to_string()),
        format::counted(found.records, "record"),
        format::counted(found.paths, "path"),
        format::bytes(found.body_bytes),
        format::seconds(started.elapsed().as_secs_f64()),
        found.digest,
    ))?;
    match found.signed {
        Some(SignedJson { site, serial, sequence, date }) => output::print(format_args!(
            "  signed by a listed key: {}, serial {serial}, sequence {sequence}, {}\n",
            output::one_line(&site),
            format::minute(date),
        )),
        None => Ok(()),
    }
}

/// Opens an archive and checks all of it.
pub(super) fn whole(path: &Path) -> Result<(Archive, VerifyReport), Failure> {
    let archive = open::open(path)?;
    let seen = archive.verify(|_| {}).map_err(|error| failure(path, &error))?;
    Ok((archive, seen))
}

/// Explains why the archive at `path` is not intact.
pub(super) fn failure(path: &Path, error: &VerifyError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", path.display()));
    match error {
        VerifyError::Corrupt(_) | VerifyError::Body { .. } | VerifyError::Digest { .. } => {
            open::damaged(failure, path)
        }
        // For the others, the message has to do.
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample;
    use crate::flags::signing::TrustFlags;
    use crate::output::Exit;

    #[test]
    fn a_changed_byte_is_detected() {
        let sample = sample::Sample::write();
        let flags = Verify { archive: sample.archive.clone(), trust: TrustFlags::default(), json: false };
        run(&flags).unwrap();
        let mut bytes = std::fs::read(&sample.archive).unwrap();
        let last = bytes.len() - 1;
        bytes[last / 2] ^= 1;
        std::fs::write(&sample.archive, bytes).unwrap();
        let Err(Failure::Message { exit, hint, .. }) = run(&flags) else {
            panic!("the change was not found")
        };
        assert_eq!((exit, hint.is_some()), (Exit::Input, true));
    }
}
