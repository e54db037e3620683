//! Presents failed builds and diagnostics to users.

use std::fs;
use std::io;
use std::path::Path;

use cannery_archive::WriteError;
use cannery_archiver::diagnostic::{Diagnostic, Severity};
use cannery_archiver::walk::WalkError;
use cannery_archiver::{Error, ErrorClass};

use crate::flags::hints::{self, Scope};
use crate::format;
use crate::output::{self, Exit, Failure, Paint};

/// Prints the diagnostics of a build, one per line.
pub(in crate::commands) fn print_diagnostics(diagnostics: &[Diagnostic]) {
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

/// Converts a build error.
///
/// Its cause (command line, sources, output or warnings) determines the exit code.
pub(in crate::commands) fn failure(error: &Error) -> Failure {
    let exit = match error.class() {
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Input => Exit::Input,
        ErrorClass::Output => Exit::Output,
        ErrorClass::Strict => Exit::Strict,
        ErrorClass::Internal => Exit::Failed,
    };

    let failure = Failure::new(exit, error.to_string());
    match error {
        Error::Write { path, source: WriteError::Io(source) } => failure.hint_if(hint(path, source)),
        Error::Walk(error) => failure.hint_if(folder_hint(error)),
        Error::Empty { .. } | Error::NoStartPage { .. } => {
            failure.hint(start_page_hint(error, "`--allow-empty` builds an archive anyway"))
        }
        Error::SerialExists { directory, .. } => failure.hint(format!(
            "`--previous {}` takes all releases of this directory into account",
            directory.display()
        )),
        Error::Strict { .. } => failure.hint("fix what the warnings name, or leave `--strict` out"),
        _ => failure,
    }
}

/// Returns a hint for a folder without a start page, for example if it only has `Index.HTML`. Otherwise, the hint ends with
/// `remedy`.
fn start_page_hint(error: &Error, remedy: &str) -> String {
    let is_index = |name: &String| ["index.html", "index.htm"].contains(&&*name.to_ascii_lowercase());
    let near_miss = match error {
        Error::NoStartPage { folder } => fs::read_dir(folder).ok().and_then(|entries| {
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).find(is_index)
        }),
        _ => None,
    };
    match near_miss {
        Some(name) => format!("rename `{name}` to `{}`: letter case matters", name.to_ascii_lowercase()),
        None => format!("is it the right folder? {remedy}"),
    }
}

/// Converts an error in the first build of a folder that was going to be served.
///
/// If the error is about remarks, these are printed.
pub(in crate::commands) fn first_failure(error: &Error) -> Failure {
    let report = match error {
        Error::Sources { report, .. } => report,
        // A server doesn't have `--allow-empty`.
        Error::Empty { .. } | Error::NoStartPage { .. } => {
            let hint = start_page_hint(error, "It needs a page for `/`, for example `index.html`");
            return failure(error).hint(hint);
        }
        _ => return failure(error),
    };
    print_diagnostics(&report.diagnostics);
    let errors = format::counted(report.errors() as u64, "error");
    Failure::input(format!("{errors} in the folder, so nothing is served"))
}

/// Returns a hint for source folders that cannot be read.
fn folder_hint(error: &WalkError) -> Option<String> {
    match error {
        WalkError::NotAFolder { path } => hints::file_hint(path),
        WalkError::Root { path, source } => match source.kind() {
            io::ErrorKind::NotFound => hints::address_hint(Scope::Serve, path),
            io::ErrorKind::PermissionDenied => {
                let shown = path.display();
                Some(format!(
                    "let this user read the folder {shown} and look names up in it, or name another folder"
                ))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns a hint for archives that cannot be written.
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
    use cannery_archiver::Report;

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
