//! `cannery-archiver`: runs a build, and says what came of it.
//!
//! Never contains a step of the build.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Instant;

use cannery_archive::WriteError;
use cannery_archiver::diagnostic::{Diagnostic, Severity};
use cannery_archiver::{Error, ErrorClass, Report, compile};

use super::interrupt::Interrupt;
use super::{inspect, open, summary};
use crate::flags;
use crate::flags::archiver::{Build, Invocation, OutputFlags};
use crate::output::{self, Exit, Failure, Paint};
use crate::progress::Shown;
use crate::reference;

/// Runs the program with these words, its name first.
///
/// # Errors
/// The command line is wrong, or the build failed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    run_invocation(flags::archiver::parse(arguments)?)
}

/// Runs what a command line asked for.
///
/// # Errors
/// The build failed.
pub fn run_invocation(invocation: Invocation) -> Result<(), Failure> {
    match invocation {
        Invocation::Build(build) => run_build(&build),
        Invocation::About(about) => reference::print_about(about, flags::archiver::command()),
    }
}

fn run_build(build: &Build) -> Result<(), Failure> {
    let Build { options, output: verbosity } = build;
    let _interrupt = Interrupt::watch(None);
    let started = Instant::now();
    let shown = Shown::new(verbosity.progress, verbosity.quiet);
    let result = compile(options, &shown);
    shown.finish();
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            if let Error::Strict { report, .. } | Error::Sources { report, .. } = &error {
                tell_unpublished(report, *verbosity)?;
            }
            return Err(failure(&error));
        }
    };
    if verbosity.debug {
        let archive = open::open(&options.archive)?;
        let list = inspect::list(&archive).map_err(open::corrupt(&options.archive))?;
        list.into_iter().for_each(output::note);
    }
    match verbosity {
        OutputFlags { json: true, .. } => output::print_json(&report),
        OutputFlags { quiet: true, .. } => Ok(()),
        OutputFlags { .. } => {
            tell(&report.diagnostics);
            tell(&report.cache_warnings);
            let took = started.elapsed().as_secs_f64();
            let details = if verbosity.debug { summary::Details::All } else { summary::Details::Few };
            output::print(summary::summary(&options.archive, &report, took, details, Paint::for_results()))
        }
    }
}

/// Of a build that did not publish, the remarks are what matters. They are why it failed, so they are
/// said also where nothing but errors is wanted.
fn tell_unpublished(report: &Report, verbosity: OutputFlags) -> Result<(), Failure> {
    if verbosity.json {
        return output::print_json(report);
    }
    tell(&report.diagnostics);
    Ok(())
}

/// Says what a build has to say about the source folder, a line for each remark.
pub(super) fn tell(diagnostics: &[Diagnostic]) {
    let paint = Paint::for_errors();
    for diagnostic in diagnostics {
        let line = diagnostic.to_string();
        output::note(match diagnostic.severity {
            Severity::Warning => line.replacen(" warning:", &format!(" {}", paint.warning("warning:")), 1),
            Severity::Error => line.replacen(" error:", &format!(" {}", paint.error("error:")), 1),
            Severity::Note => line.replacen(" note:", &format!(" {}", paint.strong("note:")), 1),
        });
    }
}

/// Why a build failed, with the exit code that says whose fault it was.
pub(super) fn failure(error: &Error) -> Failure {
    let exit = match error.class() {
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Input => Exit::Input,
        ErrorClass::Output => Exit::Output,
        ErrorClass::Strict => Exit::Strict,
        ErrorClass::Internal => Exit::Failed,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        Error::Write { path, source: WriteError::Io(source) } => match hint(path, source) {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        Error::Empty { .. } | Error::NoStartPage { .. } => {
            failure.hint("is it the right folder? `--allow-empty` publishes it all the same")
        }
        Error::SerialExists { directory, .. } => failure.hint(format!(
            "`--previous {}` takes all releases of this directory into account",
            directory.display()
        )),
        Error::Strict { .. } => failure.hint("mend what the warnings name, or leave `--strict` out"),
        _ => failure,
    }
}

fn hint(archive: &Path, source: &io::Error) -> Option<String> {
    let folder = archive.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.display();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(format!(
            "make room below {folder}, or name another place; an older archive stands as it stood"
        )),
        io::ErrorKind::NotFound => Some(format!("make the folder {folder} first")),
        io::ErrorKind::PermissionDenied => {
            Some(format!("an archive is made beside its place, so {folder} must be writable"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &Error) -> (Exit, Option<String>) {
        let Failure::Message { exit, hint, .. } = failure(error) else { panic!("nothing was told") };
        (exit, hint)
    }

    #[test]
    fn the_exit_code_says_whose_fault_it_was() {
        let full = WriteError::Io(io::ErrorKind::StorageFull.into());
        let (exit, hint) = told(&Error::Write { path: "out/site.cdb".into(), source: full });
        assert_eq!(exit, Exit::Output);
        assert!(hint.unwrap().contains("below out"));

        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(told(&Error::Read { path: "a".into(), source: missing }).0, Exit::Input);
        assert_eq!(told(&Error::NoEncoder).0, Exit::Usage);
        let report = Box::new(Report::default());
        assert_eq!(told(&Error::Strict { path: "a".into(), report }).0, Exit::Strict);
    }

    #[test]
    fn the_folder_that_is_missing_or_closed_is_named() {
        let denied = hint(Path::new("a.cdb"), &io::ErrorKind::PermissionDenied.into()).unwrap();
        assert!(denied.contains("so . must"), "{denied}");
        assert!(
            hint(Path::new("x/a.cdb"), &io::ErrorKind::NotFound.into()).unwrap().contains("folder x first")
        );
        assert_eq!(hint(Path::new("a"), &io::ErrorKind::Interrupted.into()), None);
    }
}
