//! The process that compiles the folder for `cannery-server --folder DIR`, and does so again after each change.
//!
//! It runs in its own sandbox, which only allows reading the folder and sending archives to the server. The server, on the
//! other hand, is not allowed to open the folder. This process does not contain any code that parses bytes from the network.

mod keeper;
mod keeper_socket;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use cannery_archiver::boundary::{Boundary, LinksOut};
use cannery_archiver::{CancelFlag, Compiler, Effort, Error, TemporaryDirectory};
use cannery_follow::Mode;
use cannery_live::{BuildSink, Compression, FolderChanges, FolderEvent};
use cannery_server::process::release_socket::ReleaseSender;
use cannery_server::sandbox::{Plan, Requirement, Sandbox};
use rustix::process::{Resource, getrlimit};

use self::keeper_socket::KeeperSocket;
use super::build_failure;
use super::folder::{BuildFailure, EventLog, Style, UpdatesEnd};
use super::serving_parent::leave_signals_to_server;
use crate::flags::archiver::{CompileStart, Follow, FollowPart};
use crate::output::{self, Exit, Failure, Paint, one_line};

/// Memory to be reserved per compressing thread with `--limit-memory`. Up to half of it is needed by the Brotli and Zstandard
/// encoders, the other half is for contents waiting to be compressed.
const THREAD_MEMORY_BYTES: u64 = 128 << 20;

/// Maximum number of directories to search for links before entering the sandbox, as the server has to wait for
/// this.
const DIRECTORIES_MAX: usize = 200_000;

/// Pause between attempts at the first build while a program is still writing the folder.
const UNFINISHED_INTERVAL: Duration = Duration::from_millis(100);

/// Pause between attempts to make the first build when it fails.
const FIRST_BUILD_INTERVAL: Duration = Duration::from_secs(1);

/// Runs this process's part until the server exits. The server is at the other end of standard input.
///
/// # Errors
///
/// Returns an error if the compiling process could not be started, was unable to enter the sandbox, or has
/// failed to compile the folder for the first time.
pub(super) fn run(follow: &Follow) -> Result<(), Failure> {
    leave_signals_to_server();
    match follow.part {
        FollowPart::Keep => keeper::run(follow),
        FollowPart::Compile(start) => compile(follow, start),
    }
}

fn compile(follow: &Follow, start: CompileStart) -> Result<(), Failure> {
    // We inherit the server's limit.
    let memory_max = getrlimit(Resource::Data).current;
    if let Some(bytes) = memory_max {
        name_limit_in_panics(bytes);
    }

    let socket = io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.map_err(|error| Failure::failed(format!("cannot use standard input: {error}")))?;

    let mut options = follow.options.clone();
    if options.threads == 0 {
        // We need to determine this now: it will not be possible to read the limit of a control group
        // from inside the sandbox.
        let available = available_parallelism().map_or(1, NonZeroUsize::get);
        options.threads = available.min(threads_in_memory(memory_max));
    }

    // Creating files will not be possible in the sandbox, so we need to leave this to the keeper.
    let keeper = KeeperSocket::on_standard_output();
    let keeper = keeper.map_err(|error| Failure::failed(format!("cannot use standard output: {error}")))?;
    let files = TemporaryDirectory::from_environment().with_files_from({
        let keeper = keeper.clone();
        move || keeper.create_file()
    });
    enter_sandbox(follow)?;

    // We need to follow the folder before compiling it; otherwise, changes made during the first build would
    // be missed.
    let mut changes = FolderChanges::of(&options);
    let mut inspector = changes.inspector();
    let followed = changes.follow(Mode::Auto, move || inspector.inspect());
    followed.map_err(|error| Failure::failed(error.to_string()))?;

    // Once the server has exited, there is nothing left to do, nor are there any files to be removed.
    let thread = |error| Failure::failed(format!("cannot start a thread: {error}"));
    let server = ReleaseSender::start(socket, || std::process::exit(Exit::Done as i32)).map_err(thread)?;

    let compiler = Compiler::new(options).with_temporary_directory(files);
    if start == CompileStart::Again
        && let Ok(archive) = keeper.last_archive()
    {
        // If we are unable to read the archive back, we just build from scratch.
        let _ = compiler.resume(&archive);
    }

    let mut log = EventLog::new(if follow.quiet { Style::Quiet } else { Style::Text });
    let first = loop {
        match compiler.build(Effort::Quick, &CancelFlag::default(), &()) {
            Ok(build) => break build,
            // At startup, the error should be shown to the operator. After a restart, however, the server still has an
            // archive, so we can keep trying.
            Err(error) if start == CompileStart::First => return Err(first_failure(&error)),
            Err(error) if error.is_unfinished() => {
                sleep(UNFINISHED_INTERVAL);
                continue;
            }
            Err(error) => log.failed(&BuildFailure::from(&error))?,
        }
        sleep(FIRST_BUILD_INTERVAL);
    };

    if start == CompileStart::First {
        build_failure::print_diagnostics(&first.report.diagnostics);
    }

    // Let the keeper know that it should restart this process from now on if it dies.
    keeper.report_compiled().map_err(|error| Failure::failed(error.to_string()))?;

    log.mark_printed(&first.report.diagnostics);
    let mut server = RemoteServer { server, keeper, log };
    let published = server.publish(&first.archive);
    let ended = published.and_then(|()| {
        let mut updater = changes.into_updater(compiler, &first, Compression::InBackground, server);
        drop(first);
        updater.run()
    });

    match ended {
        Ok(()) | Err(UpdatesEnd::ServerStops) => Ok(()),
        Err(UpdatesEnd::Output(failure)) => Err(failure),
    }
}

/// Returns how many threads can compress within this memory limit in bytes.
fn threads_in_memory(limit: Option<u64>) -> usize {
    let threads = limit.map(|bytes| (bytes / THREAD_MEMORY_BYTES).max(1));
    threads.map_or(usize::MAX, |threads| usize::try_from(threads).unwrap_or(usize::MAX))
}

/// Prints a hint after the first panic. Encoders and threads will panic if they run out of memory, and then the
/// background build ends without a result.
fn name_limit_in_panics(bytes: u64) {
    let print_panic = panic::take_hook();
    let once = Once::new();
    panic::set_hook(Box::new(move |info| {
        print_panic(info);
        once.call_once(|| {
            let warning = Paint::for_errors().warning("warning:");
            output::note(format_args!(
                "{warning} contents may remain uncompressed; {}",
                memory_remedy(bytes)
            ));
        });
    }));
}

/// Returns the hint for exhausted memory. The limit is in bytes.
fn memory_remedy(bytes: u64) -> String {
    format!("if memory was exhausted, raise `--limit-memory` from {}", bytes >> 20)
}

/// The server at the other end of the socket.
struct RemoteServer {
    server: ReleaseSender,
    keeper: KeeperSocket,
    log: EventLog,
}

impl BuildSink for RemoteServer {
    type Error = UpdatesEnd;

    fn publish(&mut self, archive: &File) -> Result<(), UpdatesEnd> {
        // First, so that the next process knows at least what is served.
        self.keeper.keep_archive(archive).map_err(|_| UpdatesEnd::ServerStops)?;
        self.server.send(archive).map_err(|_| UpdatesEnd::ServerStops)
    }

    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), UpdatesEnd> {
        Ok(self.log.report(&event)?)
    }
}

fn enter_sandbox(follow: &Follow) -> Result<(), Failure> {
    let root = &follow.options.sources;
    let mut plan = Plan {
        sandbox: follow.sandbox,
        account: follow.account,
        compile: vec![root.clone()],
        ..Plan::default()
    };

    // Links that lead out of the folder are left out by default. When they are allowed, then their targets need to be allowed
    // in the sandbox as well.
    if follow.sandbox.filesystem != Requirement::Off && follow.options.links_out == LinksOut::Allowed {
        let (directories, files) = targets_outside(root).into_iter().partition(|target| target.is_dir());
        plan.compile.extend::<Vec<PathBuf>>(directories);
        plan.read = files;
    }

    let entered = Sandbox::enter(&plan);
    let (_, report) = entered.map_err(|error| Failure::failed(error.to_string()))?;

    // The server prints which sandbox layers are missing.
    for message in &report.unreachable {
        output::note(one_line(message));
    }
    Ok(())
}

/// Collects the targets of symbolic links that lead out of the folder's parent directory, sorted.
///
/// There will be a warning about each of them from the build.
fn targets_outside(root: &Path) -> BTreeSet<PathBuf> {
    let mut targets = BTreeSet::new();
    let Ok(canonical) = fs::canonicalize(root) else { return targets };
    let Ok(boundary) = Boundary::of(root, LinksOut::Allowed) else { return targets };

    let inside = canonical.parent().unwrap_or(&canonical);

    let mut pending = vec![canonical.clone()];
    let mut directories = 0;
    while let Some(directory) = pending.pop() {
        directories += 1;
        if directories > DIRECTORIES_MAX {
            let warning = Paint::for_errors().warning("warning:");
            output::note(format_args!(
                "{warning} {}: more than {DIRECTORIES_MAX} folders, so links out of further ones aren't followed",
                one_line(&root.display().to_string())
            ));
            break;
        }

        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                pending.push(entry.path());
            // We must follow each target only once; otherwise, links could lead us in circles.
            } else if kind.is_symlink()
                && let Ok(target) = fs::canonicalize(entry.path())
                && !target.starts_with(inside)
                && let Ok(metadata) = fs::metadata(&target)
                && boundary.admits(&target, &metadata, true)
                && targets.insert(target.clone())
                && metadata.is_dir()
            {
                pending.push(target);
            }
        }
    }
    targets
}

/// Explains why the first build failed, including a remedy in case of a missing permission.
fn first_failure(error: &Error) -> Failure {
    let failure = build_failure::first_failure(error);
    let is_denied =
        matches!(error, Error::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
    if is_denied {
        return failure.hint("give the user of the server the permission to read it");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_memory_bounds_threads() {
        let threads = |mebibytes: u64| threads_in_memory(Some(mebibytes << 20));
        assert_eq!([16, 128, 255, 256, 1024].map(threads), [1, 1, 1, 2, 8]);
        assert_eq!(threads_in_memory(None), usize::MAX);
    }
}
