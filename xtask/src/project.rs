//! Paths of the project, and commands that run in it.

use std::env;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, name};

/// Returns the root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is one directory below the root")
}

/// Returns the build directory, which `CARGO_TARGET_DIR` may change.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the directory of downloads that tests and benchmarks use. It is never committed.
pub(crate) fn outside() -> PathBuf {
    root().join("target/outside")
}

/// Returns the cargo that runs us as a command in the root of the workspace, with its first arguments.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(root()).stdin(Stdio::null());
    command
}

/// Returns the same command at a lower priority, for programs that compute beside tests that measure time.
pub(crate) fn yielding(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    nice.stdin(Stdio::null());
    nice
}

/// Runs a program to its end. Its output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| Error::start(command, source))?;
    if status.success() { Ok(()) } else { Err(Error::failed(command, status)) }
}

/// Runs tests to their end. Their output goes to ours. In a log, the messages of those that failed are far from the end, so the
/// error repeats them.
pub(crate) fn run_tests(command: &mut Command) -> Result<(), Error> {
    if io::stdout().is_terminal() {
        return run(command);
    }

    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|source| Error::start(command, source))?;
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let failures = Failures::relay(output, io::stdout()).map_err(|source| Error::start(command, source))?;
    let status = child.wait().map_err(|source| Error::start(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Tests { program: name(command), status, failures: failures.lines })
}

/// Runs tests to their end, and returns their output.
pub(crate) fn output_of_tests(command: &mut Command) -> (Vec<u8>, Result<(), Error>) {
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => return (Vec::new(), Err(Error::start(command, source))),
    };
    let text = [output.stdout, output.stderr].concat();
    if output.status.success() {
        return (text, Ok(()));
    }
    let mut failures = Failures::default();
    String::from_utf8_lossy(&text).lines().for_each(|line| failures.read(line));
    let error = Error::Tests { program: name(command), status: output.status, failures: failures.lines };
    (text, Err(error))
}

/// Runs several programs of tests beside others, and goes on after one that fails.
pub(crate) fn run_all_tests(commands: impl Iterator<Item = Command>) -> Result<(), Error> {
    let mut errors = Vec::new();
    for command in commands {
        println!("     Running {}", name(&command));
        if let Err(error) = run_tests(&mut yielding(&command)) {
            errors.push(error);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::Several { errors }) }
}

/// The messages of failed tests in the output of libtest.
#[derive(Default)]
struct Failures {
    lines: Vec<String>,
    is_inside: bool,
}

impl Failures {
    /// Only so much is repeated.
    const LINES_MAX: usize = 200;
    const CHARACTERS_MAX: usize = 500;

    /// Copies the output of tests.
    fn relay(from: impl BufRead, mut to: impl Write) -> io::Result<Failures> {
        let mut failures = Failures::default();
        for line in from.split(b'\n') {
            let line = line?;
            // Our output may have no reader any more; the exit status still tells how the tests have ended.
            let _ = to.write_all(&[&line[..], b"\n"].concat());
            failures.read(&String::from_utf8_lossy(&line));
        }
        Ok(failures)
    }

    fn read(&mut self, line: &str) {
        if line == "failures:" {
            self.is_inside = true;
        } else if line.starts_with("test result: ") {
            self.is_inside = false;
        } else if self.is_inside && !line.is_empty() && self.lines.len() < Self::LINES_MAX {
            self.lines.push(line.chars().take(Self::CHARACTERS_MAX).collect());
        }
    }
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|source| Error::start(command, source))?;
    if !output.status.success() {
        return Err(Error::failed(command, output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a program on the search path, or `None`.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // A user's search path often lacks the directories of administrators' programs.
    let administrators = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let directories = env::split_paths(&path).chain(administrators);
    directories.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_failed_tests_are_found() {
        let log = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nno\n\n\nfailures:\n    b\n\n\
            test result: FAILED. 1 passed; 1 failed\n\nrunning 0 tests\n";
        let mut relayed = Vec::new();
        let failures = Failures::relay(log.as_bytes(), &mut relayed).unwrap();
        assert_eq!(relayed, log.as_bytes());
        assert_eq!(failures.lines, ["---- b stdout ----", "no", "    b"]);
    }
}
