//! The flags of the programs, each of which is defined once: help, manual pages, completions and `docs/reference` are
//! all generated from here.
//!
//! There is a module for each command. It derives the command's parser from a struct with the help texts as doc comments.
//! Thanks to clap's derive, each flag is a typed field that can be checked by the compiler. The modules only turn flags
//! into settings and must not act on them.

pub mod archiver;
mod building;
pub mod certificates;
mod folder;
pub mod follow;
pub(crate) mod hints;
mod http3;
mod listen;
pub(crate) mod on_activate;
pub(crate) mod preview;
pub mod publish;
pub mod releases;
mod sandboxing;
pub mod server;
pub mod settling;
pub mod signing;
pub mod site;
mod tls;
pub mod tools;

use std::ffi::{OsStr, OsString};

use cannery_server::config::{Requirement, SandboxPolicy};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory};
use clap_complete::Shell;

use self::hints::Scope;
use crate::output::Failure;

/// Flags that print information about the program.
#[derive(Debug, Args)]
#[command(args = [help(), version()])]
struct AboutFlags {
    /// Print the manual page as troff, for `man -l -`.
    #[arg(long, exclusive = true)]
    man: bool,

    /// Print the completions for a shell.
    #[arg(long, value_name = "SHELL", exclusive = true, value_parser = one_of(SHELLS))]
    completions: Option<Shell>,

    /// Print the list of libraries in the program, as CycloneDX JSON.
    #[arg(long, exclusive = true)]
    sbom: bool,

    /// Print the list of libraries as text, a library on each line.
    #[arg(long, exclusive = true, hide = true)]
    sbom_text: bool,

    /// The same as `--sbom`.
    #[arg(long, exclusive = true, hide = true)]
    sbom_json: bool,
}

/// The shells that there are completions for.
const SHELLS: [(&str, Shell); 3] = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

/// The words for policies of the sandbox. That of `seccomp` is what `--sandbox auto --seccomp-enable` means.
const SANDBOX_POLICIES: [(&str, SandboxPolicy); 4] = [
    ("auto", SandboxPolicy::AUTO),
    ("require", SandboxPolicy::REQUIRED),
    ("off", SandboxPolicy::OFF),
    ("seccomp", SandboxPolicy { system_calls: Requirement::Required, ..SandboxPolicy::AUTO }),
];

/// Information about the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The manual page.
    ManualPage,
    /// The libraries in the program, as JSON.
    Sbom,
    /// The libraries in the program, as text.
    SbomText,
    /// Completions for this shell.
    Completions(Shell),
}

impl AboutFlags {
    /// Returns the requested information, or `None` if the program should do its work.
    fn requested(&self) -> Option<About> {
        if let Some(shell) = self.completions {
            Some(About::Completions(shell))
        } else if self.man {
            Some(About::ManualPage)
        } else if self.sbom || self.sbom_json {
            Some(About::Sbom)
        } else if self.sbom_text {
            Some(About::SbomText)
        } else {
            None
        }
    }
}

/// Parses a command line.
///
/// # Errors
/// It is wrong, or asks for help or the version, which `clap` treats alike.
fn parse(mut command: Command, arguments: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = command.try_get_matches_from_mut(&arguments);
    parsed.map_err(|error| {
        let arguments = arguments.get(1..).unwrap_or_default();
        let wants_json = arguments.iter().any(|argument| argument == "--json");
        match hints::failure(&command, arguments, error) {
            Failure::Clap(error) if wants_json && error.use_stderr() => {
                let text = error.to_string();
                let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                Failure::usage(message).hint("`--help` lists the arguments and flags").as_json(true)
            }
            failure => failure.as_json(wants_json),
        }
    })
}

/// Returns the commands that hints look for flags in. A flag that several have is that of the first.
fn commands_with_flags() -> [(Scope, Command); 3] {
    [
        (Scope::Archiver, archiver::Flags::command()),
        (Scope::Server, server::Flags::command()),
        (Scope::Serve, site::Serve::command()),
    ]
}

/// Flags in the short help, `-h`, of each command that has more flags than fit on a screen.
const FREQUENT_FLAGS: [(&str, &[&str]); 5] = [
    (
        "serve",
        &["folder", "port", "host", "bind", "tls", "open", "ignore", "production", "no_live_reload", "quiet"],
    ),
    ("push", &["words", "stage_only", "quorum", "keep", "url", "ssh", "strict", "quiet"]),
    (
        "archiver",
        &[
            "sources",
            "archive",
            "strict",
            "check_links",
            "compress",
            "ignore",
            "immutable",
            "previous",
            "quiet",
        ],
    ),
    (
        "certificates",
        &[
            "directory",
            "names",
            "thumbprint",
            "renew",
            "once",
            "agree",
            "staging",
            "contact",
            "dns_hook",
            "json",
            "quiet",
        ],
    ),
    (
        "server",
        &[
            "archives",
            "releases",
            "folder",
            "bind",
            "port",
            "host",
            "bind_tls",
            "tls_bundle",
            "https_redirect",
            "access_log",
            "admin",
            "user",
            "quiet",
        ],
    ),
];

/// Leaves rare flags out of `-h`. `--help` has all.
fn shorten_help(command: Command) -> Command {
    let name = command.get_name().trim_start_matches("cannery-").to_owned();
    let frequent = FREQUENT_FLAGS.iter().find(|(command, _)| *command == name).map(|(_, flags)| *flags);
    let command = command.mut_subcommands(shorten_help);
    let Some(frequent) = frequent else { return command };
    let is_rare = |argument: &Arg| {
        !frequent.contains(&argument.get_id().as_str())
            && !["help", "version"].contains(&argument.get_id().as_str())
    };
    command.mut_args(|argument| if is_rare(&argument) { argument.hide_short_help(true) } else { argument })
}

/// Ends help texts with the full stop that clap's derive removes from doc comments, and shortens `-h`.
fn end_sentences(command: Command) -> Command {
    shorten_help(with_full_stops(command))
}

fn with_full_stops(mut command: Command) -> Command {
    if let Some(about) = command.get_about() {
        let about = format!("{about}.");
        command = command.about(about);
    }
    command
        .mut_args(|argument| match argument.get_help() {
            Some(help) => {
                let help = format!("{help}.");
                argument.help(help)
            }
            None => argument,
        })
        .mut_subcommands(with_full_stops)
}

/// Returns the end of a help text: examples, and the meaning of the exit codes.
fn examples(lines: &[&str], rest: &str) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("Examples:\n{lines}\n{rest}")
}

/// Returns a parser that maps each of a few words to a value.
fn one_of<T, const N: usize>(choices: [(&'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(choices.each_ref().map(|(word, _)| *word)).map(move |word| {
        let choice = choices.iter().find(|(choice, _)| *choice == word);
        choice.expect("clap accepts only possible values").1.clone()
    })
}

/// `--help`, for programs that list it under a heading.
fn help() -> Arg {
    Arg::new("help")
        .short('h')
        .long("help")
        .help("Print all flags; `-h` prints the most used ones")
        .action(ArgAction::Help)
}

/// `--version`, for programs that list it under a heading.
fn version() -> Arg {
    Arg::new("version").short('V').long("version").help("Print the version").action(ArgAction::Version)
}

/// Returns hidden flags that are refused by name, each with an alternative.
fn unsupported<const N: usize>(flags: &[(&'static str, &'static str); N]) -> [Arg; N] {
    flags.map(|(name, instead)| {
        Arg::new(name)
            .long(name)
            .value_name("VALUE")
            .num_args(0..=1)
            .default_missing_value("")
            .value_parser(Unsupported { instead })
            .help("Not supported")
            .hide(true)
    })
}

/// Refuses a flag of another program. Without it, clap would suggest the flag with the most similar name.
#[derive(Debug, Clone)]
struct Unsupported {
    instead: &'static str,
}

impl TypedValueParser for Unsupported {
    type Value = String;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, _: &OsStr) -> Result<String, clap::Error> {
        let name = flag.and_then(Arg::get_long).unwrap_or_default();
        let message = format!("`--{name}` is not supported: {}", self.instead);
        Err(command.clone().error(ErrorKind::UnknownArgument, message))
    }
}

#[cfg(test)]
mod tests;
