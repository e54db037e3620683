//! Every flag, defined once: help, man pages, completions and `docs/reference` are printed from here.
//!
//! A file for each command makes its flags and reads them into the plain value that the command works
//! with. Nothing here acts on a flag.

pub mod archiver;
pub mod building;
pub mod releases;
pub mod server;
pub mod site;
mod tls;
pub mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::output::Failure;

/// The heading for what a command says while it works.
const SAYING: &str = "Output";

/// The heading for what a program tells of itself.
const ABOUT: &str = "About the program";

/// A flag without a value.
fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

/// A flag with one value; `shown` is what help calls it.
fn value(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(shown).help(help)
}

/// An argument without a flag.
fn positional(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(shown).help(help).value_parser(value_parser!(PathBuf))
}

/// A flag with a path.
fn path(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    value(name, shown, help).value_parser(value_parser!(PathBuf))
}

/// A positional archive to look into.
fn archive_to_read() -> Arg {
    Arg::new("archive")
        .value_name("ARCHIVE")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The archive.")
}

/// `--threads`, for serving and for building alike.
fn threads(help: &'static str) -> Arg {
    value("threads", "N", help).value_parser(value_parser!(u16).range(1..=1024))
}

/// `--json`, for every command that reports.
fn json() -> Arg {
    switch("json", "Print the result as one JSON value.").help_heading(SAYING)
}

/// `--man`: prints the manual page and does nothing else.
fn man() -> Arg {
    switch("man", "Print the manual page as troff, for `man -l -`.").exclusive(true)
}

/// `--help`, for programs that list it after their other flags.
fn help() -> Arg {
    Arg::new("help").short('h').long("help").help("Print this help.").action(ArgAction::Help)
}

/// `--version`, likewise.
fn version() -> Arg {
    Arg::new("version").short('V').long("version").help("Print the version.").action(ArgAction::Version)
}

/// `--completions`: prints the completions of the program for a shell and does nothing else.
fn completions() -> Arg {
    value("completions", "SHELL", "Print the completions for a shell.")
        .value_parser(words(SHELLS))
        .exclusive(true)
}

/// The shells that there are completions for.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The end of a help text: command lines to start from, and what the exit codes mean.
fn examples(lines: &[&str], rest: &str) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("Examples:\n{lines}\n{rest}")
}

/// `--sbom`: prints what the program is made of and does nothing else.
fn sbom() -> Arg {
    switch("sbom", "Print the list of libraries in the program, as CycloneDX JSON.").exclusive(true)
}

/// `--sbom-text` and `--sbom-json`, as kawipiko has them.
fn sbom_text() -> Arg {
    switch("sbom-text", "The same, a library on each line.").exclusive(true).hide(true)
}

fn sbom_json() -> Arg {
    switch("sbom-json", "The same as `--sbom`.").exclusive(true).hide(true)
}

/// Flags of other programs that ours do not have: hidden, so that they can be refused by name, since the tip of a
/// parser would be the flag that is spelled most like it.
fn absent(flags: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = Arg> {
    let refused = "Not there: refused, with what to do instead.";
    flags.iter().map(move |(name, _)| value(name, "VALUE", refused).num_args(0..=1).hide(true))
}

/// Refuses such a flag, with what to do instead.
///
/// # Errors
/// One was given.
fn refuse_absent(matches: &ArgMatches, flags: &[(&str, &str)]) -> Result<(), Failure> {
    match flags.iter().find(|(name, _)| matches.contains_id(name)) {
        Some((name, instead)) => Err(Failure::usage(format!("`--{name}` is not supported")).hint(*instead)),
        None => Ok(()),
    }
}

/// What a command line asks about the program itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The manual page.
    ManualPage,
    /// What the program is made of, as JSON.
    Sbom,
    /// The same as text.
    SbomText,
    /// Completions for this shell.
    Completions(String),
}

impl About {
    /// Returns what is asked about the program. `None` if the command line asks for its work.
    pub fn read(matches: &ArgMatches) -> Option<About> {
        let is_given = |name| matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false);
        let shell = matches.try_get_one::<String>("completions").ok().flatten();
        match shell {
            Some(shell) => Some(About::Completions(shell.clone())),
            None if is_given("man") => Some(About::ManualPage),
            None if is_given("sbom") || is_given("sbom-json") => Some(About::Sbom),
            None if is_given("sbom-text") => Some(About::SbomText),
            None => None,
        }
    }
}

/// A command with what is common to all of them.
fn command(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .disable_help_subcommand(true)
        .args_override_self(true)
}

/// Reads a command line.
///
/// # Errors
/// It is wrong, or asks for help or the version, which `clap` treats alike.
pub fn read(command: Command, arguments: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, Failure> {
    command.try_get_matches_from(arguments).map_err(Failure::from)
}

/// The value of a flag that has a default or is required.
fn required<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Result<T, Failure> {
    let value = matches.get_one::<T>(name).cloned();
    value.ok_or_else(|| Failure::usage(format!("`--{name}` has no value")))
}

/// Every value of a flag that may be repeated.
fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

/// A parser for a value that has to be one of a few words.
fn words<const N: usize>(words: [&'static str; N]) -> ValueParser {
    clap::builder::PossibleValuesParser::new(words).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_text_has_an_example() {
        for command in commands() {
            let name = command.get_name().to_owned();
            each(&command, &mut |command| {
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.starts_with("Examples:\n  "), "{name} {}", command.get_name());
            });
        }
    }

    fn commands() -> Vec<Command> {
        vec![archiver::command(), server::command(), tools::command()]
    }

    fn each(command: &Command, check: &mut dyn FnMut(&Command)) {
        check(command);
        command.get_subcommands().for_each(|inner| each(inner, check));
    }

    #[test]
    fn clap_finds_no_contradiction_in_any_command() {
        commands().into_iter().for_each(Command::debug_assert);
    }

    #[test]
    fn every_flag_says_what_it_is_for_in_a_sentence() {
        for command in commands() {
            each(&command, &mut |command| {
                for argument in command.get_arguments() {
                    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.ends_with('.') || help.ends_with("-`."), "{}: {help:?}", argument.get_id());
                    assert!(help.starts_with(|first: char| !first.is_lowercase()), "{help:?}");
                }
            });
        }
    }

    #[test]
    fn a_flag_that_does_not_exist_is_refused_in_claps_own_words() {
        let words =
            ["cannery-server", "--archive", "a", "--bind-nowhere", "127.0.0.1:443"].map(OsString::from);
        let Err(Failure::Clap(error)) = read(server::command(), words) else {
            panic!("a flag that does not exist was accepted");
        };
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
        assert_eq!(error.exit_code(), 2);
    }
}
