//! `cannery-archiver`: runs a build and prints its report.
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
use crate::progress::ProgressDisplay;
use crate::reference;

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// The command line is wrong, or the build failed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    run_invocation(flags::archiver::parse(arguments)?)
}

/// Runs a parsed command line.
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
    let progress = match verbosity {
        OutputFlags { quiet: true, .. } => ProgressDisplay::hidden(),
        OutputFlags { progress: true, .. } => ProgressDisplay::always(),
        OutputFlags { .. } => ProgressDisplay::on_terminal(),
    };
    let result = compile(options, &progress);
    progress.finish();

    let report = match result {
        Ok(report) => report,
        Err(error) => {
            if let Error::Strict { report, .. } | Error::Sources { report, .. } = &error {
                print_unpublished(report, *verbosity)?;
            }
            return Err(failure(&error));
        }
    };

    if verbosity.debug {
        let archive = open::open(&options.archive)?;
        let list = inspect::list(&archive).map_err(open::corrupt(&options.archive))?;
        for line in list {
            output::note(line);
        }
    }
    match verbosity {
        OutputFlags { json: true, .. } => output::print_json(&report),
        OutputFlags { quiet: true, .. } => Ok(()),
        OutputFlags { .. } => {
            print_diagnostics(&report.diagnostics);
            print_diagnostics(&report.cache_warnings);
            let seconds = started.elapsed().as_secs_f64();
            let details = if verbosity.debug { summary::Details::All } else { summary::Details::Few };
            output::print(summary::summary(&options.archive, &report, seconds, details, Paint::for_results()))
        }
    }
}

/// Prints the diagnostics of a build that wrote no archive. They are the reason why it failed, so `--quiet` does not
/// suppress them.
fn print_unpublished(report: &Report, verbosity: OutputFlags) -> Result<(), Failure> {
    if verbosity.json {
        return output::print_json(report);
    }
    print_diagnostics(&report.diagnostics);
    Ok(())
}

/// Prints the diagnostics of a build, a line each.
pub(super) fn print_diagnostics(diagnostics: &[Diagnostic]) {
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

/// Returns why a build failed. The exit code depends on the cause: command line, sources, output or warnings.
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
            failure.hint("is it the right folder? `--allow-empty` builds an archive anyway")
        }
        Error::SerialExists { directory, .. } => failure.hint(format!(
            "`--previous {}` takes all releases of this directory into account",
            directory.display()
        )),
        Error::Strict { .. } => failure.hint("fix what the warnings name, or leave `--strict` out"),
        _ => failure,
    }
}

/// Returns the remedy for an archive that cannot be written.
fn hint(archive: &Path, source: &io::Error) -> Option<String> {
    let folder = archive.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.display();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some(format!("free space in {folder}, or name another place; an older archive is unchanged"))
        }
        io::ErrorKind::NotFound => Some(format!("create the folder {folder} first")),
        io::ErrorKind::PermissionDenied => Some(format!(
            "the archive is first written to a temporary file in its folder, so {folder} must be writable"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_and_hint(error: &Error) -> (Exit, Option<String>) {
        let Failure::Message { exit, hint, .. } = failure(error) else { panic!("{error}") };
        (exit, hint)
    }

    #[test]
    fn the_exit_code_depends_on_the_cause() {
        let full = WriteError::Io(io::ErrorKind::StorageFull.into());
        let (exit, hint) = exit_and_hint(&Error::Write { path: "out/site.cdb".into(), source: full });
        assert_eq!(exit, Exit::Output);
        assert!(hint.unwrap().contains("in out,"));

        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(exit_and_hint(&Error::Read { path: "a".into(), source: missing }).0, Exit::Input);
        assert_eq!(exit_and_hint(&Error::NoEncoder).0, Exit::Usage);
        let report = Box::new(Report::default());
        assert_eq!(exit_and_hint(&Error::Strict { path: "a".into(), report }).0, Exit::Strict);
    }

    #[test]
    fn hints_name_the_folder() {
        let denied = hint(Path::new("a.cdb"), &io::ErrorKind::PermissionDenied.into()).unwrap();
        assert!(denied.contains("so . must"), "{denied}");
        assert!(
            hint(Path::new("x/a.cdb"), &io::ErrorKind::NotFound.into()).unwrap().contains("folder x first")
        );
        assert_eq!(hint(Path::new("a"), &io::ErrorKind::Interrupted.into()), None);
    }
}
