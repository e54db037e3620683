//! The process that obtains certificates for `--certificates`, and renews them.
//!
//! It must be started before the server enters its sandbox, which allows no programs. What the two have in common is a folder: the
//! process replaces files, and the server reads them.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cannery_server::Config;
use cannery_server::config::Thumbprint;

use super::compilers::policy;
use crate::commands::certificates::for_server::NEVER;
use crate::flags::server::{Issuing, ServerOptions};
use crate::output::{self, Failure, one_line};

/// The program that obtains certificates. It must be next to this one.
const PROGRAM: &str = "cannery";

/// If the process doesn't tell the thumbprint within this time, the server starts without, and reads it from the folder later.
const THUMBPRINT_WITHIN: Duration = Duration::from_secs(15);

/// A process that obtains certificates. It ends when this is dropped.
pub(super) struct CertificateProcess {
    socket: UnixStream,
}

impl CertificateProcess {
    /// Starts the process, and lets the server answer the challenges of its account. Returns `None` if there are no certificates to
    /// obtain.
    pub(super) fn start(
        options: &ServerOptions,
        config: &Config,
    ) -> Result<Option<CertificateProcess>, Failure> {
        let Some(issuing) = &options.issuing else { return Ok(None) };
        let failed = |error: std::io::Error| Failure::failed(format!("cannot start a process: {error}"));
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = command(issuing, options, config)?;
        let mut child =
            command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).spawn().map_err(failed)?;

        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            read_line_within(output.into(), THUMBPRINT_WITHIN, &mut line);
        }
        // If there is no thumbprint, the process has printed the reason, unless it hangs.
        let process = match line.trim() {
            NEVER => {
                super::warn(
                    "the server does not answer challenges, so it gets no certificates until it is started again",
                );
                let _ = child.kill().and_then(|()| child.wait());
                None
            }
            word => {
                let thumbprint: Option<Thumbprint> = word.parse().ok();
                if thumbprint.is_none() {
                    super::warn(
                        "the server does not answer challenges until the folder of its certificates can be used",
                    );
                }
                config.acme_thumbprint.set(thumbprint);
                Some(CertificateProcess { socket })
            }
        };

        if !options.quiet {
            for served in issuing.served().iter().filter(|served| !served.bundle.exists()) {
                output::note(format_args!(
                    "{}: there is no certificate yet, so a temporary one is served that no client trusts",
                    one_line(&served.names.join(", "))
                ));
            }
        }
        // The rest of the process ends along with the socket.
        Ok(process)
    }

    /// Tells the process that the server answers challenges.
    pub(super) fn begin(&self) {
        // If it has ended, it will be started again, and then it doesn't wait.
        let _ = (&self.socket).write_all(b"\n");
    }
}

/// Reads a line, or nothing if it doesn't arrive in time.
fn read_line_within(output: OwnedFd, time: Duration, line: &mut String) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let end = Instant::now() + time;
    loop {
        let Ok(timeout) = Timespec::try_from(end.saturating_duration_since(Instant::now())) else { return };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout)) {
            // A signal that the server handles.
            Err(rustix::io::Errno::INTR) => {}
            Ok(1..) => break,
            _ => return,
        }
    }
    // The process writes the line as a whole.
    let _ = BufReader::new(std::fs::File::from(output)).read_line(line);
}

fn command(issuing: &Issuing, options: &ServerOptions, config: &Config) -> Result<Command, Failure> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let path = own.with_file_name(PROGRAM);
    if !path.is_file() {
        let failure = Failure::failed(format!("`--certificates` needs {}, which is missing", path.display()));
        return Err(failure.hint("install `cannery` in the directory of this program"));
    }

    let mut command = Command::new(path);
    command.arg("certificates").arg("--for-server");
    command.arg(format!("--for-server-sandbox={}", policy(config.sandbox())));
    if let Some(user) = &options.user {
        command.arg(format!("--for-server-user={user}"));
    }
    if options.quiet {
        command.arg("--quiet");
    }
    command.args(&issuing.arguments).arg("--").arg(&issuing.folder);
    command.args(issuing.certificates.iter().map(ToString::to_string));
    // Signals from the terminal are meant for the server. The process will exit along with it.
    command.process_group(0);
    Ok(command)
}
