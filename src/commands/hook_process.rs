//! A process that runs the command of `--on-activate` for `cannery follow` or `receive`, whose sandboxes start no programs.
//!
//! It is started before the sandbox is entered, with the command among its arguments. So an attacker who controls the process in the
//! sandbox can only choose when the command runs, and the values of its variables.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::commands::on_activate::{Activation, Hook};
use crate::commands::orphans::Orphans;
use crate::flags::follow::Follow;
use crate::flags::on_activate::HookFlags;
use crate::flags::publish::Receive;
use crate::output::{self, Failure};

/// Requests have a path and two file names. Longer ones aren't ours.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// The other end of the process. It exits once this is dropped.
pub(super) struct HookProcess {
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl HookProcess {
    /// Starts the process for `cannery follow`, or returns `None` if there is no command to run.
    pub(super) fn for_follow(flags: &Follow) -> Result<Option<HookProcess>, Failure> {
        // In one argument, because the path may begin with a hyphen.
        let mut into = OsString::from("--into=");
        into.push(&flags.into);
        HookProcess::start(&flags.hook, |command| {
            command.args(["follow", "--for-follow"]).arg(into);
            command.args(flags.quiet.then_some("--quiet"));
            OsString::from(&flags.store)
        })
    }

    /// Starts the process for `cannery receive`, or returns `None` if there is no command to run.
    pub(super) fn for_receive(flags: &Receive) -> Result<Option<HookProcess>, Failure> {
        HookProcess::start(&flags.hook, |command| {
            command.args(["receive", "--for-receive"]);
            flags.directory.clone().into_os_string()
        })
    }

    /// `arguments` adds the first arguments, and returns the positional one.
    fn start(
        hook: &HookFlags,
        arguments: impl FnOnce(&mut Command) -> OsString,
    ) -> Result<Option<HookProcess>, Failure> {
        let Some(on_activate) = &hook.on_activate else { return Ok(None) };
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot start the process for `--on-activate`: {error}"))
        };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        let positional = arguments(&mut command);
        command
            .arg(format!("--on-activate={on_activate}"))
            .arg(format!("--on-activate-timeout={}", hook.on_activate_timeout))
            .arg("--")
            .arg(positional)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C ends the process in the sandbox. This one still ends the command in time.
            .process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        // The sandbox doesn't allow to wait for the process, and nothing depends on its exit status.
        let Some((requests, responses)) = child.stdin.take().zip(child.stdout.take()) else {
            return Ok(None);
        };
        let mut process = HookProcess { requests, responses: BufReader::new(responses) };
        match process.response().map_err(failed)? {
            Ok(()) => Ok(Some(process)),
            Err(why) => Err(Failure::failed(format!("`--on-activate` can't run: {why}"))),
        }
    }

    /// Runs the command. Returns why it failed.
    pub(super) fn run(&mut self, activation: &Activation) -> Result<Result<(), String>, ProcessEnded> {
        write_line(&mut self.requests, activation)
            .map_err(|error| ProcessEnded { error, has_started: false })?;
        self.response().map_err(|error| ProcessEnded { error, has_started: true })
    }

    fn response(&mut self) -> io::Result<Result<(), String>> {
        let mut line = String::new();
        if self.responses.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// The process has ended.
pub(super) struct ProcessEnded {
    error: io::Error,
    /// Whether the command may have run.
    pub(super) has_started: bool,
}

impl fmt::Display for ProcessEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the process that runs the command has ended: {}", self.error)
    }
}

/// Tells the other process if commands can run. Then runs the command at each request until that process has ended.
pub(super) fn serve(hook: &Hook) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot run `--on-activate`: {error}"));
    let (mut requests, mut responses) = (io::stdin().lock(), io::stdout().lock());
    let mut orphans = Orphans::adopt().map_err(failed)?;
    write_line(&mut responses, &Hook::check()).map_err(failed)?;
    loop {
        orphans.collect_until_readable(&requests).map_err(failed)?;
        let mut line = String::new();
        if requests.by_ref().take(REQUEST_BYTES_MAX).read_line(&mut line).map_err(failed)? == 0 {
            return Ok(());
        }
        let activation: Activation = serde_json::from_str(&line).map_err(io::Error::from).map_err(failed)?;
        let outcome = hook.run(&activation);
        if let Err(error) = write_line(&mut responses, &outcome) {
            // The other process was stopped meanwhile, and can't report the outcome.
            if let Err(why) = outcome {
                output::note(why);
            }
            return Err(failed(error));
        }
    }
}

fn write_line(writer: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    writer.flush()
}
