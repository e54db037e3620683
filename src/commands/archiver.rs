//! `cannery-archiver`: runs a build and prints its report. See the archiver crate for the build itself.

use std::ffi::OsString;
use std::time::Instant;

use cannery_archiver::{Error, Options, Report, compile};

use super::build_failure::{failure, print_diagnostics};
use super::interrupt::{self, Interrupt};
use super::{folder_process, inspect, open, summary};
use crate::flags;
use crate::flags::archiver::{Build, Invocation, OutputFlags};
use crate::flags::hints::{self, Scope};
use crate::output::{self, Failure, Paint};
use crate::progress::ProgressDisplay;
use crate::reference;

/// Runs the program with these arguments. The first is the program's name.
///
/// # Errors
///
/// Returns an error if the command line is wrong or the build has failed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    interrupt::allow_in_first_process();
    run_invocation(flags::archiver::parse(arguments)?)
}

/// Runs a parsed command line.
///
/// # Errors
///
/// Returns an error if the build has failed.
pub fn run_invocation(invocation: Invocation) -> Result<(), Failure> {
    match invocation {
        Invocation::Build(build) => run_build(&build),
        Invocation::Follow(follow) => folder_process::run(&follow),
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
            let failure = with_swapped_paths(failure(&error), &error, options);
            // Without the diagnostics, the message would only say how many there are.
            if let Error::Strict { report, .. } | Error::Sources { report, .. } = &error {
                print_unpublished(report, &failure, *verbosity)?;
                return Err(failure);
            }
            return Err(failure.as_json(verbosity.json));
        }
    };

    // With `--debug`, list the new archive too.
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

/// Adds a hint when the archive and the folder seem to be in the wrong order on the command line.
fn with_swapped_paths(failure: Failure, error: &Error, options: &Options) -> Failure {
    if matches!(error, Error::Walk(_) | Error::Usage { .. })
        && !options.sources.is_dir()
        && options.archive.is_dir()
    {
        let (word, folder) = (&options.sources, &options.archive);

        // Maybe it is not a path at all, but a command such as `serve`.
        if let Some(failure) = hints::command_of_another_program(Scope::Archiver, word, &[folder]) {
            return failure;
        }
        let (archive, folder) = (word.display(), folder.display());
        return failure.hint(format!("name the folder first: `cannery-archiver {folder} {archive}`"));
    }
    failure
}

/// Prints the diagnostics of a build that failed to write an archive.
///
/// Since they explain the reason, they are printed in spite of `--quiet`.
fn print_unpublished(report: &Report, failure: &Failure, verbosity: OutputFlags) -> Result<(), Failure> {
    if verbosity.json {
        return output::print_json(&without_archive(report, failure));
    }
    print_diagnostics(&report.diagnostics);
    Ok(())
}

/// Returns the report in JSON, with the error in place of the facts about the archive.
fn without_archive(report: &Report, failure: &Failure) -> serde_json::Value {
    const ARCHIVE_FACTS: [&str; 4] = ["archive_bytes", "digest", "format", "padding_bytes"];
    let mut value = serde_json::to_value(report).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !ARCHIVE_FACTS.contains(&name.as_str()));
        members.insert("error".to_owned(), failure.to_json());
    }
    value
}
