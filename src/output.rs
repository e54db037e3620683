//! Results, errors and exit codes.
//!
//! Results are written to standard output; errors, warnings and progress are written to standard error. Color is only used on
//! terminals, unless `NO_COLOR` is set. When the pipe is closed early (e.g. by `head`), the command should still succeed.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Exit codes. Since scripts depend on them, the numbers MUST NOT be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// A failure that does not have a code of its own.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The sources or the archive are missing or damaged.
    Input = 3,
    /// The output cannot be written, for example because the disk is full.
    Output = 4,
    /// There were warnings, and `--strict` makes them errors.
    Strict = 5,
}

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong, or asks for help or the version.
    Clap(clap::Error),
    /// An error of our own.
    Message {
        /// The exit code.
        exit: Exit,
        /// The error and its place, on one line.
        message: String,
        /// The remedy, unless the message makes it clear.
        hint: Option<String>,
        /// Whether standard output gets the failure as JSON, because it promises a value.
        as_json: bool,
    },
    /// The reason has been printed already.
    Reported(Exit),
    /// Whatever reads our output has closed the pipe.
    PipeClosed,
}

impl Failure {
    /// Returns a failure with this exit code.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure::Message { exit, message: message.into(), hint: None, as_json: false }
    }

    /// Returns a failure for a wrong command line.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// Returns a failure for which there is no better exit code.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    /// Returns a failure for missing or damaged input.
    #[must_use]
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Input, message)
    }

    /// Returns a failure for output that cannot be written.
    #[must_use]
    pub fn output(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Output, message)
    }

    /// Returns the exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Clap(error) if error.use_stderr() => Exit::Usage,
            Failure::Clap(_) | Failure::PipeClosed => Exit::Done,
            Failure::Message { exit, .. } | Failure::Reported(exit) => *exit,
        }
    }

    /// Adds a hint, which should say what to do.
    #[must_use]
    pub fn hint(self, text: impl Into<String>) -> Failure {
        match self {
            Failure::Message { exit, message, as_json, .. } => {
                Failure::Message { exit, message, hint: Some(text.into()), as_json }
            }
            other => other,
        }
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn hint_if(self, text: Option<impl Into<String>>) -> Failure {
        match text {
            Some(text) => self.hint(text),
            None => self,
        }
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(self, message: String) -> Failure {
        match self {
            Failure::Message { exit, hint, as_json, .. } => Failure::Message { exit, message, hint, as_json },
            other => other,
        }
    }

    /// Replaces the exit code.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Failure {
        match self {
            Failure::Message { message, hint, as_json, .. } => {
                Failure::Message { exit, message, hint, as_json }
            }
            other => other,
        }
    }

    /// Returns the failure with its subject before the message, for example a target.
    #[must_use]
    pub fn about(&self, subject: impl Display) -> Failure {
        match self {
            Failure::Message { exit, message, hint, as_json } => Failure::Message {
                exit: *exit,
                message: format!("{subject}: {message}"),
                hint: hint.clone(),
                as_json: *as_json,
            },
            Failure::Clap(error) => Failure::usage(format!("{subject}: {error}")),
            Failure::Reported(exit) => Failure::Reported(*exit),
            Failure::PipeClosed => Failure::PipeClosed,
        }
    }

    /// Also prints the failure as JSON if this is `wanted`, i.e. if the command was run with `--json` and has not printed
    /// its value.
    #[must_use]
    pub fn as_json(self, wanted: bool) -> Failure {
        match self {
            Failure::Message { exit, message, hint, .. } => {
                Failure::Message { exit, message, hint, as_json: wanted }
            }
            other => other,
        }
    }

    /// Returns the failure as the value of `error` in JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Failure::Message { exit, message, hint, .. } => {
                serde_json::json!({ "exit_code": *exit as u8, "message": message, "hint": hint })
            }
            Failure::Clap(_) | Failure::Reported(_) | Failure::PipeClosed => serde_json::Value::Null,
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Clap(error)
    }
}

/// Prints the failure, if any, and returns the exit code.
#[must_use]
pub fn report(result: Result<(), Failure>) -> ExitCode {
    let exit = result.as_ref().err().map_or(Exit::Done, Failure::exit);
    if let Err(failure @ Failure::Message { as_json: true, .. }) = &result {
        // The exit code and the message below say the same, so an error of the output does not matter.
        // Some commands print a value on each line.
        let _ = print(format_args!("{}\n", serde_json::json!({ "error": failure.to_json() })));
    }
    match result {
        Ok(()) | Err(Failure::Reported(_) | Failure::PipeClosed) => {}
        Err(Failure::Clap(error)) => {
            // If standard error is closed as well, the exit code is all we have left.
            let _ = error.print();
        }
        Err(Failure::Message { message, hint, .. }) => {
            let paint = Paint::for_errors();
            note(format_args!("{} {}", paint.error("error:"), one_line(&message)));
            if let Some(hint) = hint {
                note(format_args!("{} {}", paint.strong("hint:"), one_line(&hint)));
            }
        }
    }
    ExitCode::from(exit as u8)
}

/// Writes a result, or a part of it, to standard output.
///
/// # Errors
///
/// This will fail if the pipe is closed or the output could not be written.
pub fn print(text: impl Display) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    write!(output, "{text}").and_then(|()| output.flush()).map_err(|error| print_failure(&error))
}

/// Writes many lines to standard output, without a system call for each of them.
///
/// # Errors
///
/// Same as for [`print()`].
pub fn print_lines(lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    lines
        .into_iter()
        .try_for_each(|line| writeln!(output, "{line}"))
        .map_err(|error| print_failure(&error))?;
    output.flush().map_err(|error| print_failure(&error))
}

/// Writes a value to standard output as JSON.
///
/// # Errors
///
/// Same as for [`print()`].
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot serialize the result as JSON: {error}")))?;
    print(format_args!("{text}\n"))
}

fn print_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::output(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line to standard error. Errors are ignored, as there is nowhere else to report them.
///
/// `write` must only be called once per line: standard error may be shared by several processes, whose lines should not
/// be mixed up.
pub fn note(text: impl Display) {
    let line = format!("{text}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Escapes control characters, including line breaks.
///
/// File names may contain escape sequences, for example, and these should not be sent to the terminal.
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

/// Styles text with colors. If colors are off, returns it unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Returns the paint for standard output.
    #[must_use]
    pub fn for_results() -> Paint {
        Paint { on: io::stdout().is_terminal() && is_colour_wanted() }
    }

    /// Returns the paint for standard error.
    #[must_use]
    pub fn for_errors() -> Paint {
        Paint { on: io::stderr().is_terminal() && is_colour_wanted() }
    }

    /// Returns a paint without colors.
    #[must_use]
    pub const fn none() -> Paint {
        Paint { on: false }
    }

    /// Styles an error (bold red).
    #[must_use]
    pub fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// Styles a warning (bold yellow).
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with("1;33", text)
    }

    /// Styles the most important text (bold).
    #[must_use]
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Styles the least important text (dim).
    #[must_use]
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns `false` if the terminal is `dumb`, or if `NO_COLOR` is set and not empty (<https://no-color.org>).
fn is_colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(one_line("naïve — ✓"), "naïve — ✓");
    }

    #[test]
    fn text_without_colour_is_unchanged() {
        assert_eq!(Paint::none().error("error:"), "error:");
        assert_eq!(Paint { on: true }.strong("a"), "\x1b[1ma\x1b[0m");
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = print_failure(&io::ErrorKind::BrokenPipe.into());
        assert!(matches!(closed, Failure::PipeClosed));
        assert_eq!(report(Err(closed)), ExitCode::SUCCESS);
    }

    #[test]
    fn a_hint_keeps_the_exit_code() {
        let failure = Failure::input("no such file").hint("name another");
        let failure = failure.about("site.cdb");
        let Failure::Message { exit: Exit::Input, message, hint: Some(_), .. } = failure else { panic!() };
        assert_eq!(message, "site.cdb: no such file");
    }
}
