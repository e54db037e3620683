//! Compiles a folder after the newest release of the targets.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archiver::{Error, Options, compile};

use super::cache::Cache;
use crate::commands::build_failure::{failure, print_diagnostics};
use crate::commands::{diff, open};
use crate::flags::publish::Push;
use crate::format::counted;
use crate::output::Failure;
use crate::progress::ProgressDisplay;

/// The newest release of the targets.
pub(super) struct Previous {
    /// The highest serial, or 0.
    pub(super) serial: u64,
    /// Its archive, unless there is none.
    pub(super) path: Option<PathBuf>,
}

/// Compiles a folder after an earlier release, and returns the path of the archive.
///
/// If nothing has changed since that release, this is the path of the earlier one, so that there is no new release.
pub(super) fn compile_after(
    flags: &Push,
    folder: &Path,
    previous: Previous,
    cache: Option<&Cache>,
    workplace: &Path,
) -> Result<PathBuf, Failure> {
    let mut options = Options::new(folder, workplace.join("new.cdb"));
    flags.apply(&mut options);
    options.serial = Some(previous.serial.checked_add(1).ok_or_else(|| {
        Failure::input("a release on the host has the highest possible serial, so none can follow it")
    })?);
    // The date is one of the release, not of its contents.
    options.released = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs());
    options.compress_cache = cache.map(Cache::compressed);
    options.sources_cache = cache.and_then(|cache| cache.sources(folder));
    let previous = previous.path;
    options.previous.extend(previous.clone());

    let is_quiet = flags.quiet || flags.json;
    let progress = if is_quiet { ProgressDisplay::hidden() } else { ProgressDisplay::on_terminal() };
    let result = compile(&options, &progress);
    progress.finish();
    match result {
        Ok(report) => {
            if !is_quiet {
                print_diagnostics(&report.diagnostics);
            }
            match previous {
                Some(previous) if is_same_site(&previous, &options.archive)? => Ok(previous),
                _ => Ok(options.archive),
            }
        }
        Err(error) => Err(site_failure(&error)),
    }
}

/// Explains why the folder can't be published, after all diagnostics. Users don't know the archive that wasn't written.
fn site_failure(error: &Error) -> Failure {
    let failure = failure(error);
    let message = match error {
        Error::Sources { report, .. } => {
            print_diagnostics(&report.diagnostics);
            format!("{} in the folder", counted(report.errors() as u64, "error"))
        }
        Error::Strict { report, .. } => {
            print_diagnostics(&report.diagnostics);
            format!("{} in the folder, and --strict", counted(report.warnings() as u64, "warning"))
        }
        _ => return failure,
    };
    failure.with_message(format!("{message}: nothing was published"))
}

fn is_same_site(previous: &Path, new: &Path) -> Result<bool, Failure> {
    let (previous, archive) = (open::open(previous)?, open::open(new)?);
    diff::is_same_site(&previous, &archive).map_err(open::corrupt(new))
}
