//! `cannery verify`: reads an archive whole, and says whether it is.
//!
//! Never contains a check: those are the archive's.

use std::path::Path;
use std::time::Instant;

use cannery_archive::{Archive, VerifyError, VerifyReport};
use serde::Serialize;

use super::open;
use crate::flags::tools::Verify;
use crate::format;
use crate::output::{self, Failure, Paint};

/// What was found, as JSON.
#[derive(Serialize)]
struct Found {
    digest: String,
    records: u64,
    bodies: u64,
    body_bytes: u64,
    paths: u64,
}

/// Runs what the command line asked for.
///
/// # Errors
/// The archive is damaged, or is none.
pub fn run(flags: &Verify) -> Result<(), Failure> {
    let started = Instant::now();
    let (archive, seen) = whole(&flags.archive)?;
    let found = Found {
        digest: archive.facts().digest.to_string(),
        records: seen.records,
        bodies: seen.bodies,
        body_bytes: seen.body_bytes,
        paths: seen.paths,
    };
    if flags.json {
        return output::print_json(&found);
    }
    output::print(format_args!(
        "{}  whole: {}, {} and {} agree, in {}\n  digest {}\n",
        Paint::for_results().strong(&flags.archive.display().to_string()),
        format::counted(found.records, "record"),
        format::counted(found.paths, "path"),
        format::bytes(found.body_bytes),
        format::seconds(started.elapsed().as_secs_f64()),
        found.digest,
    ))
}

/// Opens an archive and reads it whole.
pub(super) fn whole(path: &Path) -> Result<(Archive, VerifyReport), Failure> {
    let archive = open::open(path)?;
    let seen = archive.verify(|_| {}).map_err(|error| failure(path, &error))?;
    Ok((archive, seen))
}

fn failure(path: &Path, error: &VerifyError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", path.display()));
    match error {
        VerifyError::Io(_) => failure,
        VerifyError::Corrupt(_) | VerifyError::Body { .. } | VerifyError::Digest { .. } => {
            open::damaged(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample;
    use crate::output::Exit;

    #[test]
    fn a_byte_that_changed_is_found() {
        let sample = sample::Sample::write();
        let flags = Verify { archive: sample.archive.clone(), json: false };
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
