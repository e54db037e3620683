//! Errors and results for people, and exit codes.
//!
//! Results go to standard output; errors, warnings and progress go to standard error. Colour is used on a
//! terminal only, and not where `NO_COLOR` is set. A reader that closes the pipe early has what it wanted:
//! that ends a command quietly. Never decides anything.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// How a command ends. The numbers are a promise: scripts depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The work failed for a reason that is none of the others.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// What was to be read is missing or damaged: sources or archive.
    Input = 3,
    /// What was to be written cannot be: disk full, no permission.
    Output = 4,
    /// There were warnings, and they were to count as errors.
    Strict = 5,
}

/// Why a command did not do what it was told.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong, or asks for help or the version.
    Clap(clap::Error),
    /// Something went wrong, in words.
    Message {
        /// How the command ends.
        exit: Exit,
        /// What went wrong, and where: one line.
        message: String,
        /// What to do about it, if that is not plain from the message.
        hint: Option<String>,
    },
    /// Whoever read the output has gone.
    PipeClosed,
}

impl Failure {
    /// A failure of this kind.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure::Message { exit, message: message.into(), hint: None }
    }

    /// The command line is wrong.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// The work failed.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    /// What was to be read is missing or damaged.
    #[must_use]
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Input, message)
    }

    /// What was to be written cannot be.
    #[must_use]
    pub fn output(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Output, message)
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Failure {
        match self {
            Failure::Message { exit, message, .. } => {
                Failure::Message { exit, message, hint: Some(text.into()) }
            }
            other => other,
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Clap(error)
    }
}

/// Ends a command: says what went wrong, if something did.
#[must_use]
pub fn report(result: Result<(), Failure>) -> ExitCode {
    let exit = match result {
        Ok(()) | Err(Failure::PipeClosed) => Exit::Done,
        Err(Failure::Clap(error)) => {
            // Where it cannot be said, there is nobody to say it to.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Done }
        }
        Err(Failure::Message { exit, message, hint }) => {
            let paint = Paint::for_errors();
            note(format_args!("{} {}", paint.error("error:"), one_line(&message)));
            if let Some(hint) = hint {
                note(format_args!("{} {}", paint.strong("hint:"), one_line(&hint)));
            }
            exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Writes a result, or a part of one, to standard output.
///
/// # Errors
/// The reader has gone, or the output cannot be written.
pub fn print(text: impl Display) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    write!(output, "{text}").and_then(|()| output.flush()).map_err(|error| print_failure(&error))
}

/// Writes many lines to standard output without a system call for each.
///
/// # Errors
/// As [`print()`].
pub fn print_lines(lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    lines
        .into_iter()
        .try_for_each(|line| writeln!(output, "{line}"))
        .map_err(|error| print_failure(&error))?;
    output.flush().map_err(|error| print_failure(&error))
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot spell the result as JSON: {error}")))?;
    print(format_args!("{text}\n"))
}

fn print_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::output(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line to standard error. Where that fails, there is nobody to tell.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Text on one line: control characters are spelled out, for a file's name may hold an escape sequence
/// that must not reach the terminal as one.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Marks words with colour, or leaves them as they are.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output.
    #[must_use]
    pub fn for_results() -> Paint {
        Paint { on: io::stdout().is_terminal() && is_colour_wanted() }
    }

    /// For standard error.
    #[must_use]
    pub fn for_errors() -> Paint {
        Paint { on: io::stderr().is_terminal() && is_colour_wanted() }
    }

    /// No colour.
    #[must_use]
    pub const fn none() -> Paint {
        Paint { on: false }
    }

    /// What went wrong.
    #[must_use]
    pub fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// What may be wrong.
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with("1;33", text)
    }

    /// What to see first.
    #[must_use]
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What to see last.
    #[must_use]
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `NO_COLOR` counts if it is set to anything but nothing (<https://no-color.org>).
fn is_colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_never_reach_the_terminal() {
        assert_eq!(one_line("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(one_line("naïve — ✓"), "naïve — ✓");
    }

    #[test]
    fn without_colour_words_stay_as_they_are() {
        assert_eq!(Paint::none().error("error:"), "error:");
        assert_eq!(Paint { on: true }.strong("a"), "\x1b[1ma\x1b[0m");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone = print_failure(&io::ErrorKind::BrokenPipe.into());
        assert!(matches!(gone, Failure::PipeClosed));
        assert_eq!(report(Err(gone)), ExitCode::SUCCESS);
    }

    #[test]
    fn a_hint_does_not_change_the_exit_code() {
        let failure = Failure::input("no such file").hint("name another");
        assert!(matches!(failure, Failure::Message { exit: Exit::Input, hint: Some(_), .. }));
    }
}
