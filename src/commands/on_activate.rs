//! `--on-activate`: a command that runs after a release became current, for example to purge a CDN.
//!
//! The release is live whatever the command does. Its output becomes lines of ours, because standard output may carry a protocol.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::flags::on_activate::HookFlags;
use crate::output::{self, one_line};

/// The program that runs the command.
const SHELL: &str = "/bin/sh";

/// Longer lines are cut, and further ones left out.
const LINE_BYTES_MAX: u64 = 2000;
const LINES_MAX: usize = 1000;

/// How often we look whether the command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long we read what processes write that the command has left.
const AFTER_END: Duration = Duration::from_millis(500);

/// The command.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    command: String,
    timeout: Duration,
    /// Whether what the command writes isn't printed.
    is_quiet: bool,
}

/// A release that became current on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Activation {
    pub(super) target: String,
    /// The name of the release, or its serial in a store.
    pub(super) release: String,
    pub(super) serial: u64,
    /// The release that was current before.
    pub(super) before: Option<String>,
}

impl Hook {
    /// Returns the hook, or `None` if there is none.
    pub(super) fn from_flags(flags: &HookFlags) -> Option<Hook> {
        let command = flags.on_activate.clone()?;
        Some(Hook { command, timeout: Duration::from_secs(flags.on_activate_timeout), is_quiet: false })
    }

    /// Prints nothing that the command writes if this is set.
    pub(super) fn quiet(self, is_quiet: bool) -> Hook {
        Hook { is_quiet, ..self }
    }

    /// Checks that commands can be started. Returns why not.
    pub(super) fn check() -> Result<(), String> {
        match Command::new(SHELL).args(["-c", ":"]).stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{SHELL} fails: {status}")),
            Err(error) => Err(format!("cannot start {SHELL}: {error}")),
        }
    }

    /// Runs the command, and prints what it writes. Returns why it failed.
    pub(super) fn run(&self, activation: &Activation) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("`{}` for {} failed: {why}", one_line(&self.command), one_line(&activation.target))
        };
        let mut command = Command::new(SHELL);
        command
            .args(["-c", &self.command])
            .env("CANNERY_TARGET", &activation.target)
            .env("CANNERY_RELEASE", &activation.release)
            .env("CANNERY_SERIAL", activation.serial.to_string())
            .env("CANNERY_BEFORE", activation.before.as_deref().unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (sender, lines) = mpsc::sync_channel(16);
        if let Some(output) = child.stdout.take() {
            read_lines(output, sender.clone());
        }
        if let Some(errors) = child.stderr.take() {
            read_lines(errors, sender);
        }

        let end = Instant::now() + self.timeout;
        let mut ended: Option<(Instant, io::Result<std::process::ExitStatus>)> = None;
        let mut count = 0;
        let mut is_read = false;
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => {
                    count += 1;
                    if count <= LINES_MAX && !self.is_quiet {
                        output::note(format_args!("on-activate: {}", one_line(&line)));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    is_read = true;
                    thread::sleep(if ended.is_some() { Duration::ZERO } else { LOOK });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            match &ended {
                None => match child.try_wait() {
                    Ok(None) if Instant::now() >= end => {
                        kill(&mut child);
                        return Err(failed(&format!(
                            "it took longer than {} seconds",
                            self.timeout.as_secs()
                        )));
                    }
                    Ok(None) => {}
                    Ok(Some(status)) => ended = Some((Instant::now() + AFTER_END, Ok(status))),
                    Err(error) => ended = Some((Instant::now(), Err(error))),
                },
                Some((until, status)) => {
                    if is_read || Instant::now() >= *until {
                        return match status {
                            Ok(status) if status.success() => Ok(()),
                            Ok(status) => Err(failed(status)),
                            Err(error) => Err(failed(error)),
                        };
                    }
                }
            }
        }
    }
}

/// Ends the command and what it has started.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Sends the lines of a stream, on a thread that ends with the stream or with the receiver.
fn read_lines(stream: impl Read + Send + 'static, sender: SyncSender<String>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            match stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
}
