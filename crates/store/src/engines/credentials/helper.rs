//! Runs programs that print credentials.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::limits::{HELPER_TIMEOUT, RESPONSE_BYTES_MAX};

/// Time between two looks at a program that has closed its output and still runs, and at one that has its output open.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(5);
const OUTPUT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The end of a program.
pub(super) struct Output {
    /// `Err` with its exit status if it has failed.
    pub(super) status: Result<(), String>,
    pub(super) text: Vec<u8>,
}

/// Runs a program with a text as its input. Returns why that isn't possible.
pub(super) fn run(command: &mut Command, input: &str) -> Result<Output, String> {
    // A program may ask the person at the terminal for a code. Only programs in the terminal's foreground can do that.
    let has_terminal = File::open("/dev/tty").is_ok();
    run_within(command, input, HELPER_TIMEOUT, !has_terminal)
}

/// Ends the program after some time. With a process group of its own, the programs that it has started end, too.
fn run_within(
    command: &mut Command,
    input: &str,
    timeout: Duration,
    has_group: bool,
) -> Result<Output, String> {
    if has_group {
        command.process_group(0);
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let outcome = finish(&mut child, input, timeout);
    if outcome.is_err() {
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| has_group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // It may have exited meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn finish(child: &mut Child, input: &str, timeout: Duration) -> Result<Output, String> {
    let deadline = Instant::now() + timeout;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that doesn't read it fails anyway.
        let _ = stdin.write_all(input.as_bytes());
    }
    let mut stdout = Some(child.stdout.take().ok_or("it has no output")?);
    let mut text = Vec::new();
    loop {
        let status = child.try_wait().map_err(|error| error.to_string())?;
        // An exited program has written everything. A process that it leaves behind may keep the pipe open.
        let wait = if status.is_some() { Duration::ZERO } else { OUTPUT_CHECK_INTERVAL };
        let reading = match &mut stdout {
            Some(open) => read(open, &mut text, wait).map_err(|error| error.to_string())?,
            None => Reading::Ended,
        };
        match (reading, status) {
            (Reading::Read, _) | (Reading::Quiet, None) => {}
            (Reading::Ended, None) => {
                stdout = None;
                thread::sleep(EXIT_CHECK_INTERVAL);
            }
            (Reading::Quiet | Reading::Ended, Some(status)) => {
                let status = if status.success() { Ok(()) } else { Err(status.to_string()) };
                return Ok(Output { status, text });
            }
        }
        if Instant::now() >= deadline {
            return Err(format!("it takes more than {} seconds", timeout.as_secs()));
        }
    }
}

/// The outcome of an attempt to read.
enum Reading {
    /// Something has come.
    Read,
    /// Nothing has.
    Quiet,
    /// Nothing will come, or the text is long enough.
    Ended,
}

/// Reads a part of the output, which may come within this time.
fn read(stdout: &mut ChildStdout, text: &mut Vec<u8>, wait: Duration) -> io::Result<Reading> {
    let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&wait)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Reading::Quiet),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut part = [0; 4096];
    let count = stdout.read(&mut part)?;
    text.extend_from_slice(&part[..count]);
    let is_enough = count == 0 || text.len() as u64 >= RESPONSE_BYTES_MAX;
    Ok(if is_enough { Reading::Ended } else { Reading::Read })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(script: &str) -> Result<Output, String> {
        run(Command::new("sh").args(["-c", script]), "input")
    }

    /// Time after which the processes of these tests end by themselves.
    const LATE: Duration = Duration::from_secs(20);

    #[test]
    fn process_that_a_program_leaves_behind_is_not_waited_for() {
        let started = Instant::now();
        let output = shell("sleep 30 & echo text").unwrap();
        assert_eq!(output.text, b"text\n");
        assert!(output.status.is_ok() && started.elapsed() < LATE);
    }

    #[test]
    fn late_program_ends_with_those_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let started = Instant::now();
        let end = pipe.clone();
        // Reads until no process has the pipe open.
        let reader = thread::spawn(move || fs::read(end).unwrap());
        let script = format!("exec 3> {}; sleep 30 & wait", pipe.display());
        let mut command = Command::new("sh");
        let late = run_within(command.args(["-c", &script]), "", Duration::from_secs(1), true);
        assert!(late.is_err_and(|why| why.contains("more than 1 seconds")));
        assert!(reader.join().unwrap().is_empty() && started.elapsed() < LATE);
    }

    #[test]
    fn long_output_is_cut() {
        let output = shell("yes").unwrap();
        assert!(output.status.is_err() && output.text.len() as u64 <= RESPONSE_BYTES_MAX + 4096);
    }

    #[test]
    fn output_and_status_of_a_program_are_returned() {
        let output = shell("cat; exit 3").unwrap();
        assert_eq!(output.text, b"input");
        assert!(output.status.unwrap_err().contains('3'));
        assert!(shell("echo").unwrap().status.is_ok());
        assert!(run(&mut Command::new("/no/such/program"), "").is_err());
    }
}
