//! The reference manual and the completions, printed from the flags: troff, Markdown and shell scripts.
//!
//! `docs/reference` is the output of this module; a test compares the two.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;

use crate::flags::{self, About};
use crate::output::{self, Failure};
use crate::sbom;

/// The footer of manual pages: the name of the project, which all programs share, and its version.
const SOURCE: &str = concat!("cannery ", env!("CARGO_PKG_VERSION"));

/// Prints the manual page of a command, as troff.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_manual_page(command: Command) -> Result<(), Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).source(SOURCE).render(&mut page);
    rendered.map_err(|error| Failure::failed(format!("cannot render the manual page: {error}")))?;
    output::print(String::from_utf8_lossy(&page))
}

/// Prints the completions of a program for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_completions(shell: Shell, program: &Command) -> Result<(), Failure> {
    output::print(completions(shell, program))
}

fn completions(shell: Shell, program: &Command) -> String {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(shell, &mut without_hidden_flags(program), name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns a copy of a command without hidden flags. Some shells' completions would offer them.
fn without_hidden_flags(command: &Command) -> Command {
    let name = command.get_name().to_owned();
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let inner = command.get_subcommands().map(without_hidden_flags);
    let mut copy = Command::new(name)
        .args(shown)
        .subcommands(inner)
        .disable_help_flag(command.is_disable_help_flag_set())
        .disable_version_flag(command.is_disable_version_flag_set())
        .disable_help_subcommand(command.is_disable_help_subcommand_set());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if command.get_version().is_some() {
        copy = copy.version(env!("CARGO_PKG_VERSION"));
    }
    copy
}

/// Prints the information about the program that a command line asks for.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_about(about: About, program: Command) -> Result<(), Failure> {
    match about {
        About::ManualPage => print_manual_page(program),
        About::Sbom => output::print(sbom::json()),
        About::SbomText => output::print(sbom::text()),
        About::Completions(shell) => print_completions(shell, &program),
    }
}

/// Returns the subcommand of this name, built so that its manual page has its full name: `cannery-serve`.
#[must_use]
pub fn subcommand(mut program: Command, name: &str) -> Command {
    program.build();
    program.find_subcommand(name).cloned().unwrap_or(program)
}

/// The beginning of each page.
const PREAMBLE: &str =
    "<!-- Printed from the flags: CANNERY_WRITE_REFERENCE=1 cargo test -p cannery-cli reference -->\n\n";

/// Returns the pages of `docs/reference`: name and text.
#[must_use]
pub fn pages() -> [(&'static str, String); 3] {
    [
        ("cannery.md", page(flags::tools::command())),
        ("cannery-archiver.md", page(flags::archiver::command())),
        ("cannery-server.md", page(flags::server::command())),
    ]
}

fn page(command: Command) -> String {
    let mut text = String::from(PREAMBLE);
    let mut command = command;
    // Adds the arguments and names that clap generates.
    command.build();
    put_command(&mut text, &command, 1);
    text
}

fn put_command(text: &mut String, command: &Command, level: usize) {
    let marks = "#".repeat(level);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "{marks} `{}`\n\n{}\n", full_name(command), about(command));
    for (heading, arguments) in by_heading(command) {
        let _ = writeln!(text, "**{heading}**\n\n| | |\n|---|---|");
        for argument in arguments {
            let _ = writeln!(text, "| `{}` | {} |", syntax(argument), description(argument));
        }
        text.push('\n');
    }
    if let Some(after) = command.get_after_help() {
        put_after(text, &after.to_string());
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        match inner.get_display_name() {
            Some(program @ ("cannery-archiver" | "cannery-server")) => {
                let name = inner.get_name();
                let _ =
                    writeln!(text, "{marks}# `cannery {name}`\n\nThe same as [`{program}`]({program}.md).\n");
            }
            _ => put_command(text, inner, level + 1),
        }
    }
}

/// Writes the end of a help text. Indented lines are command lines.
fn put_after(text: &mut String, after: &str) {
    for paragraph in after.split("\n\n") {
        match paragraph.split_once(":\n  ") {
            Some((title, lines)) => {
                let lines = lines.replace("\n  ", "\n");
                let _ = writeln!(text, "**{title}**\n\n```\n{}\n```\n", lines.trim_end());
            }
            None => {
                let _ = writeln!(text, "{}\n", paragraph.trim_end());
            }
        }
    }
}

fn full_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Returns the arguments by heading, in the order in which the headings first occur.
fn by_heading(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut sections: Vec<(String, Vec<&Arg>)> = Vec::new();
    for argument in command.get_arguments().filter(|argument| is_shown(argument)) {
        let heading = argument.get_help_heading().unwrap_or("Arguments and options");
        match sections.iter_mut().find(|section| section.0 == heading) {
            Some(section) => section.1.push(argument),
            None => sections.push((heading.to_owned(), vec![argument])),
        }
    }
    sections
}

/// Returns `true` if a page lists the argument. `--help` and `--version` are the same everywhere.
fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

fn syntax(argument: &Arg) -> String {
    let name = argument.get_long().map(|long| format!("--{long}"));
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let short = argument.get_short().map_or(String::new(), |short| format!("-{short}, "));
    match name {
        // `--name[=VALUE]`, because a separate word would be another argument.
        Some(name) if argument.is_require_equals_set() => format!("{short}{name}[={value}]"),
        Some(name) if takes_value => format!("{short}{name} {value}"),
        Some(name) => format!("{short}{name}"),
        None if argument.is_required_set() => value,
        None => format!("[{value}]"),
    }
}

fn description(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let choices: Vec<_> =
        argument.get_possible_values().iter().map(|choice| choice.get_name().to_owned()).collect();
    if !choices.is_empty() && !matches!(argument.get_action(), ArgAction::SetTrue) {
        let _ = write!(text, " One of: {}.", choices.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && !matches!(argument.get_action(), ArgAction::SetTrue) {
        let _ = write!(text, " Default: `{}`.", defaults.join(","));
    }
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests;
