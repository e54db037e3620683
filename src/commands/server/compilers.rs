//! Processes that compile the folders of `--folder`. There is one process for each folder.
//!
//! Archives are sent by the processes as open files. We must start these processes before the server enters its
//! sandbox, because it will not be able to start programs from there.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};

use cannery_server::config::{Content, NamedArchive, Requirement, SandboxPolicy};
use cannery_server::process::release_socket::{self, ReleaseReceiver};
use cannery_server::{Config, RunningServer};

use super::start_failure;
use crate::flags::server::ServerOptions;
use crate::output::{Exit, Failure};

/// Programs that are able to compile, in order of preference, and the arguments that select the
/// archiver.
const PROGRAMS: [(&str, &[&str]); 2] = [("cannery-archiver", &[]), ("cannery", &["archiver"])];

/// Processes that have sent their first archive.
#[derive(Default)]
pub(super) struct Compilers(Vec<Compiler>);

struct Compiler {
    /// Index of the archive in the configuration.
    place: usize,
    folder: PathBuf,
    releases: ReleaseReceiver,
}

/// A process that is compiling a folder for the first time.
struct Started {
    compiler: Compiler,
    child: Child,
}

impl Compilers {
    /// Starts the processes and replaces each folder in the configuration with its first archive.
    pub(super) fn start(options: &ServerOptions, config: &mut Config) -> Result<Compilers, Failure> {
        let sandbox = config.sandbox();
        let Content::Archives { archives, .. } = &mut config.content else { return Ok(Compilers::default()) };
        let folders = options.folders.iter().map(|place| (*place, archives[*place].path().to_owned()));
        let started = folders.map(|(place, folder)| Started::new(place, folder, sandbox, options));
        // Start all of them before waiting for the first one. This allows them to compile at the same time.
        let started = started.collect::<Result<Vec<_>, _>>()?;

        let mut compilers = Vec::new();
        for one in started {
            let (compiler, archive) = one.first_archive()?;
            let named = &mut archives[compiler.place];
            *named = NamedArchive::from_file(named.host.take(), compiler.folder.clone(), archive);
            compilers.push(compiler);
        }
        Ok(Compilers(compilers))
    }

    /// Serves all later archives.
    pub(super) fn follow(self, server: &RunningServer) -> Result<(), Failure> {
        for Compiler { place, folder, releases } in self.0 {
            // By now, the first archive is being served.
            releases.acknowledge();
            server.follow(place, folder, releases).map_err(|error| start_failure(&error))?;
        }
        Ok(())
    }
}

impl Started {
    fn new(
        place: usize,
        folder: PathBuf,
        sandbox: SandboxPolicy,
        options: &ServerOptions,
    ) -> Result<Started, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("cannot start a process: {error}"));
        let (releases, socket) = release_socket::pair().map_err(failed)?;
        let mut command = program()?;
        command.arg("--for-server").arg(format!("--for-server-sandbox={}", policy(sandbox)));
        if let Some(user) = &options.user {
            command.arg(format!("--for-server-user={user}"));
        }
        if options.quiet {
            command.arg("--quiet");
        }
        command.args(&options.folder_arguments);
        command.arg("--sources").arg(&folder).args(["--archive", "-"]).stdin(socket);

        // Signals from the terminal are meant for the server. The process will exit along with it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|error| {
            Failure::failed(format!("cannot start {}: {error}", command.get_program().display()))
        })?;
        Ok(Started { compiler: Compiler { place, folder, releases }, child })
    }

    /// Waits for the first archive.
    fn first_archive(mut self) -> Result<(Compiler, File), Failure> {
        let folder = self.compiler.folder.display();
        match self.compiler.releases.receive() {
            Ok(Some(archive)) => Ok((self.compiler, archive)),
            // The process has already printed the reason.
            Ok(None) => {
                let status = self.child.wait();
                let is_input = status.as_ref().is_ok_and(|status| status.code() == Some(Exit::Input as i32));
                let exit = if is_input { Exit::Input } else { Exit::Failed };
                Err(Failure::new(exit, format!("cannot compile {folder}, so nothing is served")))
            }
            Err(error) => Err(Failure::failed(format!("cannot receive the archive of {folder}: {error}"))),
        }
    }
}

/// Returns the command that starts the archiver, which must be next to this program.
fn program() -> Result<Command, Failure> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let candidates = PROGRAMS.map(|(name, arguments)| (own.with_file_name(name), arguments));
    let found = candidates.iter().find(|(path, _)| path.is_file());
    let (path, arguments) = found.ok_or_else(|| {
        let failure =
            Failure::failed(format!("`--folder` needs {}, which is missing", candidates[0].0.display()));
        failure.hint("install `cannery-archiver` or `cannery` in the directory of this program")
    })?;
    let mut command = Command::new(path);
    command.args(*arguments);
    Ok(command)
}

pub(super) fn policy(sandbox: SandboxPolicy) -> &'static str {
    match (sandbox.filesystem, sandbox.system_calls) {
        (Requirement::Off, _) => "off",
        (Requirement::Required, _) => "require",
        (Requirement::IfAvailable, Requirement::Required) => "seccomp",
        (Requirement::IfAvailable, _) => "auto",
    }
}
