//! Runs programs that print credentials.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{HELPER_TIMEOUT, RESPONSE_BYTES_MAX};

/// Time between two looks at a program that has closed its output and still runs.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The end of a program.
pub(super) struct Output {
    /// `Err` with its exit status if it has failed.
    pub(super) status: Result<(), String>,
    pub(super) text: Vec<u8>,
}

/// Runs a program with a text as its input. Returns why that isn't possible.
pub(super) fn run(command: &mut Command, input: &str) -> Result<Output, String> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let outcome = finish(&mut child, input);
    if outcome.is_err() {
        // It may have exited meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn finish(child: &mut Child, input: &str) -> Result<Output, String> {
    let deadline = Instant::now() + HELPER_TIMEOUT;
    let late = || format!("it takes more than {} seconds", HELPER_TIMEOUT.as_secs());
    if let Some(mut stdin) = child.stdin.take() {
        // A program that doesn't read it fails anyway.
        let _ = stdin.write_all(input.as_bytes());
    }

    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take().ok_or("it has no output")?;
    // A process that the program leaves behind may keep the pipe open, so this thread may be left behind, too.
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(RESPONSE_BYTES_MAX).read_to_end(&mut text);
        // The receiver may have given up.
        let _ = sender.send(read.map(|_| text));
    });
    let read = receiver.recv_timeout(HELPER_TIMEOUT).map_err(|_| late())?;
    let text = read.map_err(|error| error.to_string())?;

    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let status = if status.success() { Ok(()) } else { Err(status.to_string()) };
            return Ok(Output { status, text });
        }
        if Instant::now() >= deadline {
            return Err(late());
        }
        thread::sleep(EXIT_CHECK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Output, String> {
        run(Command::new("sh").args(["-c", script]), "input")
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
