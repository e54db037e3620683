//! Starts the process that compiles the folder, and restarts it after it was killed or has crashed.
//!
//! Sandboxed processes are not allowed to start programs, so we need another process outside of any sandbox. The keeper
//! neither reads the folder nor anything from the server. Besides restarting, it has three jobs:
//!
//! - It keeps the socket to the server open, so that restarting looks like a pause to the server.
//! - It creates temporary files for large archives, as this should not be allowed in the sandbox.
//! - It keeps the last archive for the next process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use cannery_server::process::restarts::Restarts;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGABRT;

use super::keeper_socket::{self, FirstBuild};
use super::memory_remedy;
use crate::commands::serving_parent::has_server_ended_within;
use crate::flags::archiver::{CompileStart, Follow};
use crate::output::{self, Failure, Paint, one_line};

/// The exit status of a process whose main thread has panicked.
const EXIT_OF_PANIC: i32 = 101;

/// Runs the process until the server exits.
///
/// # Errors
///
/// Returns an error if the process could not be started, or if it exits before it has compiled the folder for
/// the first time.
pub(super) fn run(follow: &Follow) -> Result<(), Failure> {
    // This has to be determined now, because the system will no longer know the path once an update
    // has replaced the file.
    let program = std::env::current_exe();
    let program = program.map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let folder = follow.options.sources.display();
    let mut start = CompileStart::First;
    let mut restarts = Restarts::of_process_started(Instant::now());
    let mut last = None;

    loop {
        restarts.start(Instant::now());
        let end = match run_once(&program, start, &mut last) {
            Ok(Run { status, .. }) if status.success() => return Ok(()),
            Ok(Run { status, first_build: FirstBuild::Missing }) if start == CompileStart::First => {
                // The process has already printed the reason.
                if let Some(code) = status.code() {
                    std::process::exit(code);
                }
                let failure = Failure::failed(format!("the process that compiles {folder} ended: {status}"));
                return Err(match remedy_for_crash(status) {
                    Some(remedy) => failure.hint(remedy),
                    None => failure,
                });
            }
            // At this point, the server already has an archive, so crashes are no longer fatal.
            Ok(Run { status, .. }) => match remedy_for_crash(status) {
                Some(remedy) => format!("{status}; {remedy}"),
                None => status.to_string(),
            },
            Err(error) if start == CompileStart::First => {
                return Err(Failure::failed(format!("cannot start {}: {error}", program.display())));
            }
            Err(error) => error.to_string(),
        };

        start = CompileStart::Again;
        // The same signal may have stopped the server.
        if has_server_ended_within(restarts.delay_after_exit(Instant::now())) {
            return Ok(());
        }
        output::note(format_args!(
            "{} {folder}: the process that compiles it has ended ({}) and is started again; the last version is still served",
            Paint::for_errors().warning("warning:"),
            one_line(&end),
        ));
    }
}

struct Run {
    status: ExitStatus,
    first_build: FirstBuild,
}

/// Runs the process once, with our own arguments and standard input.
///
/// `last` is the last archive passed on by such a process.
fn run_once(program: &Path, start: CompileStart, last: &mut Option<File>) -> io::Result<Run> {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg(format!("--for-server-compile={}", start.word()));
    let (socket, output) = UnixStream::pair()?;
    let mut child = command.stdout(OwnedFd::from(output)).spawn()?;
    // This closes our copy of the other end, without which the socket would stay open after the child has
    // exited.
    drop(command);
    let first_build = keeper_socket::serve(&socket, last);
    Ok(Run { status: child.wait()?, first_build })
}

/// Returns a hint for crashes with a memory limit.
///
/// A process will abort if it is unable to allocate memory, and panic when it is unable to start a thread.
fn remedy_for_crash(status: ExitStatus) -> Option<String> {
    let bytes = getrlimit(Resource::Data).current?;
    let has_crashed = status.signal() == Some(SIGABRT) || status.code() == Some(EXIT_OF_PANIC);
    has_crashed.then(|| memory_remedy(bytes))
}
