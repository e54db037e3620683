//! `--on-activate`: a command that runs after a release became current, for example to purge a CDN.
//!
//! The release is live whatever the command does. Its output becomes lines of ours, because standard output may carry a protocol.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::flags::on_activate::HookFlags;
use crate::output::{self, one_line};

/// The program that runs the command.
const SHELL: &str = "/bin/sh";

/// Longer lines are cut, and further ones left out.
const LINE_BYTES_MAX: usize = 2000;
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
        let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        // No thread reads: a process that has left the process group may keep a pipe open for as long as it likes.
        let mut outputs = outputs.map(|pipe| Output { pipe: pipe.map(File::from), line: Vec::new() });

        let end = Instant::now() + self.timeout;
        let mut ended: Option<(Instant, io::Result<std::process::ExitStatus>)> = None;
        let mut count = 0;
        loop {
            let is_read = outputs.iter().all(|output| output.pipe.is_none());
            if is_read && ended.is_none() {
                thread::sleep(LOOK);
            } else if !is_read {
                await_output(&outputs);
                outputs.iter_mut().for_each(|output| {
                    output.read(|line| {
                        count += 1;
                        if count <= LINES_MAX && !self.is_quiet {
                            output::note(format_args!("on-activate: {}", one_line(line)));
                        }
                    });
                });
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

/// Standard output of the command, or its errors.
struct Output {
    /// `None` after its end.
    pipe: Option<File>,
    /// The start of the next line.
    line: Vec<u8>,
}

/// Waits until one of these can be read, but not for long.
fn await_output(outputs: &[Output]) {
    let mut polled: Vec<_> =
        outputs.iter().filter_map(|output| Some(PollFd::new(output.pipe.as_ref()?, PollFlags::IN))).collect();
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    // A signal only makes it shorter.
    let _ = poll(&mut polled, Some(&look));
}

impl Output {
    /// Reads what is there, and passes complete lines on.
    fn read(&mut self, mut print: impl FnMut(&str)) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut polled = [PollFd::new(&*pipe, PollFlags::IN)];
        if !poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            return;
        }
        let mut part = [0; 4096];
        let mut flush = |line: &mut Vec<u8>| {
            print(String::from_utf8_lossy(line).trim_end());
            line.clear();
        };
        match pipe.read(&mut part) {
            Ok(0) | Err(_) => {
                self.pipe = None;
                if !self.line.is_empty() {
                    flush(&mut self.line);
                }
            }
            Ok(count) => {
                for byte in &part[..count] {
                    self.line.push(*byte);
                    if *byte == b'\n' || self.line.len() == LINE_BYTES_MAX {
                        flush(&mut self.line);
                    }
                }
            }
        }
    }
}
