//! `cannery bundle`: writes an executable that contains both the server and an archive.
//!
//! The program itself is not modified (see `crates/archive/src/program.rs` for the file layout). The output should be
//! reproducible: it depends on nothing but the bytes of the program and the archive.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, archive_position, program_bytes};
use cannery_archiver::replace_file;

use super::{build_failure, verify};
use crate::flags::tools::Bundle;
use crate::format;
use crate::output::{self, Failure, Paint};

/// Name of the server program. By default, it should be next to this one.
const SERVER: &str = "cannery-server";

/// Mode bits that let all users execute the file.
const EXECUTABLE: u32 = 0o111;

/// Runs `cannery bundle`.
///
/// # Errors
///
/// Returns an error if the archive is damaged, if the server isn't a program, or if the executable could not
/// be written.
pub fn run(flags: &Bundle) -> Result<(), Failure> {
    let (archive, program, output) = match (&flags.replace, &flags.output) {
        (Some(archive), _) => (archive, Program::open_bundle(&flags.file)?, &flags.file),
        (None, Some(output)) => (&flags.file, Program::open_server(flags.server.as_deref())?, output),
        (None, None) => return Err(Failure::usage("name the executable to write: `--output FILE`")),
    };
    // Without this, a damaged archive would not be noticed before the executable is started.
    let (archive, seen) = verify::whole(archive)?;
    program
        .write_with(&archive, output)
        .map_err(|error| replace_failure(build_failure::failure(&error), &error))?;

    if flags.quiet {
        return Ok(());
    }
    let size = archive_position(program.bytes) + archive.facts().file_bytes;
    output::print(format_args!(
        "{}  {}: the server and {}\n  digest {}\n",
        Paint::for_results().strong(&output.display().to_string()),
        format::bytes(size),
        format::counted(seen.paths, "path"),
        archive.facts().digest,
    ))
}

/// Adds a hint if the output is not a file that we would replace.
fn replace_failure(failure: Failure, error: &cannery_archiver::Error) -> Failure {
    match error {
        cannery_archiver::Error::Usage { .. } => failure.hint("name the executable: `--output FILE`"),
        _ => failure,
    }
}

/// The server program, which is the first part of its file.
struct Program {
    path: PathBuf,
    file: File,
    /// Length of the program in bytes. The file is longer if it contains an archive.
    bytes: u64,
    mode: u32,
}

impl Program {
    /// Opens the server at `path`, or by default the one next to this program.
    fn open_server(path: Option<&Path>) -> Result<Program, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        let path = path.map_or_else(|| own.with_file_name(SERVER), Path::to_owned);
        let program = Program::open(&path).map_err(|failure| {
            failure.hint(format!("`--server FILE` names {SERVER}, which is installed with this program"))
        })?;

        // Users may have named `cannery` itself, which is not the server.
        let is_own = fs::metadata(own).is_ok_and(|own| {
            fs::metadata(&path).is_ok_and(|found| own.ino() == found.ino() && own.dev() == found.dev())
        });
        if is_own {
            return Err(Failure::input(format!(
                "{}: this program has commands, and is not the server",
                path.display()
            ))
            .hint(format!("`--server FILE` names {SERVER}")));
        }
        Ok(program)
    }

    /// Opens an executable written by this command.
    fn open_bundle(path: &Path) -> Result<Program, Failure> {
        let program = Program::open(path)?;
        let length = program.file.metadata().map(|found| found.len()).unwrap_or_default();
        // Nothing after the program, so there is no archive.
        if length <= program.bytes {
            return Err(Failure::input(format!("{} contains no archive to replace", path.display())).hint(
                format!("`cannery bundle ARCHIVE -o {}` writes an executable with one", path.display()),
            ));
        }
        Ok(program)
    }

    fn open(path: &Path) -> Result<Program, Failure> {
        let name = path.display();
        let unreadable =
            |error: io::Error| Failure::input(format!("{name}: cannot read the program: {error}"));

        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(Failure::input(format!("{name} is not a file")));
        }

        let file = File::open(path).map_err(unreadable)?;
        let Some(bytes) = program_bytes(&file).map_err(unreadable)? else {
            return Err(Failure::input(format!(
                "{name} is not a program: an executable in ELF format is needed"
            )));
        };

        if metadata.len() < bytes {
            return Err(Failure::input(format!(
                "{name} was truncated: it has {} bytes, and its program {bytes}",
                metadata.len()
            ))
            .hint("copy it again from where it was built"));
        }

        Ok(Program { path: path.to_owned(), file, bytes, mode: metadata.permissions().mode() & 0o777 })
    }

    /// Writes program and archive to `output` and makes it executable.
    fn write_with(&self, archive: &Archive, output: &Path) -> Result<(), cannery_archiver::Error> {
        let padding = archive_position(self.bytes) - self.bytes;
        replace_file(output, self.mode | EXECUTABLE, |mut file| {
            (&self.file).rewind()?;
            let copied = io::copy(&mut (&self.file).take(self.bytes), &mut file)?;
            // The file may be replaced while it is being read, e.g. by an update.
            if copied != self.bytes {
                let message = format!("{} was truncated meanwhile", self.path.display());
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            io::copy(&mut io::repeat(0).take(padding), &mut file)?;
            file.write_all(archive.bytes())
        })
    }
}
