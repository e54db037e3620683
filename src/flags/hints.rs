//! Hints for command lines that would be right for another program. They tell users which of our flags or commands to
//! use instead.
//!
//! Clap suggests the flag with the most similar name, but this may be misleading, for example `--production` for `--port`.
//! Therefore, suggestions are only kept if they are probably typing errors. There is also a table with flags and commands of
//! other servers and site generators.

mod foreign;

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use cannery_archive::{Archive, Loading};
use cannery_server::config::NamedArchive;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use crate::output::Failure;

/// A command with flags of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// `cannery` itself.
    Root,
    Serve,
    Server,
    Archiver,
    /// Another command of `cannery`.
    Other,
}

impl Scope {
    /// Returns the scope of the last command on a command line.
    fn of(command: &Command, arguments: &[String]) -> Scope {
        match command.get_name() {
            "cannery-server" => Scope::Server,
            "cannery-archiver" => Scope::Archiver,
            _ => match arguments.iter().find(|argument| !argument.starts_with('-')).map(String::as_str) {
                Some("serve") => Scope::Serve,
                Some("server") => Scope::Server,
                Some("archiver") => Scope::Archiver,
                Some(name) if command.find_subcommand(name).is_some() => Scope::Other,
                _ => Scope::Root,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Scope::Root | Scope::Other => "cannery",
            Scope::Serve => "cannery serve",
            Scope::Server => "cannery-server",
            Scope::Archiver => "cannery-archiver",
        }
    }
}

/// Explains what is wrong with a command line, and what the user may have meant. `arguments` don't include the program's name.
pub(super) fn failure(command: &Command, arguments: &[OsString], mut error: Error) -> Failure {
    let arguments: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let scope = Scope::of(command, &arguments);
    let explained = match error.kind() {
        ErrorKind::InvalidSubcommand => text(&error, ContextKind::InvalidSubcommand)
            .and_then(|word| unknown_command(command, &word, &arguments)),
        ErrorKind::UnknownArgument => text(&error, ContextKind::InvalidArg).and_then(|word| match scope {
            Scope::Root if !word.starts_with('-') => unknown_command(command, &word, &arguments),
            _ => unknown_argument(command, scope, &word, &arguments),
        }),
        ErrorKind::MissingRequiredArgument if scope == Scope::Archiver => missing_archive(&arguments),
        ErrorKind::ValueValidation => not_a_number(&error),
        _ => None,
    };

    if let Some(failure) = explained {
        return failure;
    }
    drop_unlikely_suggestions(&mut error);
    error.into()
}

/// Returns the error for a server that wasn't given an archive.
pub(super) fn no_archive() -> Failure {
    let usage =
        "name the archive to serve: `cannery-server site.cdb`, or a folder: `cannery-server --folder DIR`";
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if ["cannery-server", "cannery"].contains(&&*name) {
        return Failure::usage("no archive is named").hint(usage);
    }

    // Any other name probably means that `cannery bundle` has written this executable.
    Failure::usage(format!("no archive is named, and `{name}` contains none")).hint(format!(
        "if `cannery bundle` wrote `{name}`, a tool such as `strip` has removed the archive from it: write it again. Otherwise, {usage}"
    ))
}

/// Returns the error for a host with two archives. The second one is `named`.
pub(super) fn two_archives(named: &NamedArchive, all: &[NamedArchive]) -> Failure {
    let Some(host) = &named.host else {
        let failure = Failure::usage("two archives are named for all other hosts");
        let paths = || all.iter().filter(|archive| archive.host.is_none()).map(NamedArchive::path);
        if let Some(hint) = paths().find_map(|path| address_hint(Scope::Server, path)) {
            return failure.hint(hint);
        }
        let word = paths().find(|path| is_command_word(path) && !path.exists());
        return failure.hint(match word {
            Some(word) => format!("`{}` isn't an archive: leave it out", word.display()),
            None => format!(
                "name the host that each is for: `cannery-server www.example.com={}`",
                named.path().display()
            ),
        });
    };

    Failure::usage(format!("two archives are named for {host}")).hint("leave one of them out")
}

/// The path of an archive or folder may be missing because it was meant as an address. If so, says which flag to use.
pub(crate) fn address_hint(scope: Scope, path: &Path) -> Option<String> {
    let text = path.to_str().filter(|_| !path.exists())?;
    let flag = if text.parse::<u16>().is_ok() {
        format!("--port {text}")
    } else if let Some(port) = text.strip_prefix(':').filter(|port| port.parse::<u16>().is_ok()) {
        format!("--bind :{port}")
    } else if text.parse::<SocketAddr>().is_ok() || text.starts_with("localhost:") {
        format!("--bind {text}")
    } else if text.parse::<IpAddr>().is_ok() {
        format!("--host {text}")
    } else {
        return None;
    };
    Some(format!("to listen at `{text}`, write `{} {flag}`", scope.name()))
}

fn is_command_word(path: &Path) -> bool {
    path.to_str().is_some_and(|word| {
        foreign::command(word).is_some() || ["help", "serve", "server", "archiver"].contains(&word)
    })
}

/// Returns the error for a command in front of the paths of `cannery-server` or `cannery-archiver`, which don't have commands.
/// `rest` are the words after it.
pub(crate) fn command_of_another_program(scope: Scope, word: &Path, rest: &[&Path]) -> Option<Failure> {
    if word.exists() || !is_command_word(word) {
        return None;
    }
    let (name, word) = (scope.name(), word.display());
    let rest: String = rest.iter().map(|path| format!(" {}", path.display())).collect();
    let failure = Failure::usage(format!("`{name}` has no commands, and there is no file `{word}`"));
    Some(failure.hint(match &*word.to_string() {
        "help" | "version" => format!("`{name} --{word}` prints it"),
        "serve" | "dev" | "watch" => format!("`cannery serve{rest}` serves a folder while you edit it"),
        _ if rest.is_empty() => format!("`{name} --help` describes the paths and flags"),
        _ => format!("leave `{word}` out: `{name}{rest}`"),
    }))
}

/// Explains that a value isn't a number. The library's message doesn't make that clear, let alone what to write.
fn not_a_number(error: &Error) -> Option<Failure> {
    let (flag, value) = (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::InvalidValue)?);
    if !error.to_string().contains("invalid digit") {
        return None;
    }

    let name = flag.split([' ', '=', '[']).next().unwrap_or(&flag);
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    let unit = if flag.contains("MIB") { ", in MiB" } else { "" };
    let failure = Failure::usage(format!("`{value}` isn't a number, which `{name}` needs{unit}"));
    Some(match digits.as_str() {
        digits if name == "--port" && value.strip_prefix(':') == Some(digits) => {
            failure.hint(format!("write `--port {digits}`, or `--bind {value}` for every address"))
        }
        "" => failure,
        digits => failure.hint(format!("write it in digits, as in `{name} {digits}`")),
    })
}

/// Explains a word in place of a `cannery` command. It may be a folder, an archive, or a command of another program.
fn unknown_command(command: &Command, word: &str, arguments: &[String]) -> Option<Failure> {
    let rest = || {
        let position =
            arguments.iter().position(|argument| argument == word).map_or(0, |position| position + 1);
        arguments[position.min(arguments.len())..].iter().fold(String::new(), |line, word| line + " " + word)
    };
    let following = || arguments.iter().skip_while(|argument| *argument != word).skip(1);

    let path = Path::new(word);
    if path.is_dir() {
        let failure = Failure::usage(format!("`{word}` is a folder, and not a command"));
        let is_archive =
            |argument: &&String| Path::new(argument).extension().is_some_and(|suffix| suffix == "cdb");
        return Some(failure.hint(match following().find(is_archive) {
            Some(archive) => format!("`cannery archiver {word} {archive}` compiles it into an archive"),
            None
                if following().any(|argument| !argument.starts_with('-') && Path::new(argument).is_dir()) =>
            {
                format!("`cannery serve {word}` serves it while you edit it")
            }
            None => format!("`cannery serve {word}{}` serves it while you edit it", rest()),
        }));
    }

    if path.is_file() {
        let failure = Failure::usage(format!("`{word}` is a file, and not a command"));
        return Some(
            failure.hint(file_hint(path).unwrap_or_else(|| "`cannery serve DIR` serves a folder".into())),
        );
    }

    if let Some(hint) = address_hint(Scope::Serve, path) {
        return Some(Failure::usage(format!("`{word}` isn't a command")).hint(hint));
    }
    if let Some(answer) = foreign::command(word) {
        let failure = Failure::usage(format!("`{word}` isn't a command"));
        // For example, `start site.cdb`.
        let of_file = following().find_map(|argument| file_hint(Path::new(argument)));
        return Some(failure.hint(of_file.unwrap_or_else(|| answer.to_owned())));
    }

    // If it looks like a typing error, clap has a suggestion for it.
    let is_near = command.get_subcommands().any(|inner| is_typing_error(word, inner.get_name()));
    (!is_near).then(|| {
        Failure::usage(format!("`{word}` isn't a command, nor the name of a folder"))
            .hint("`cannery serve DIR` serves a folder, and `cannery help` lists the commands")
    })
}

/// Says what to do with a file where a folder is expected, if we can tell.
pub(crate) fn file_hint(path: &Path) -> Option<String> {
    let shown = path.display();
    if Archive::open(path, Loading::Mapped).is_ok() {
        return Some(format!("it is an archive: `cannery server {shown}` serves it"));
    }
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let is_page = path.extension().is_some_and(|suffix| suffix == "html" || suffix == "htm");
    is_page.then(|| format!("name the folder of the site: {}", folder.display()))
}

/// Explains an unknown flag or an unexpected argument.
fn unknown_argument(command: &Command, scope: Scope, word: &str, arguments: &[String]) -> Option<Failure> {
    let name = word.split('=').next().unwrap_or(word);
    if name.starts_with('-') {
        let scope_of_flag = if scope == Scope::Root { Scope::Serve } else { scope };
        let failure = Failure::usage(format!("`{}` has no flag `{name}`", scope.name()));
        let serve = command.find_subcommand("serve").filter(|_| scope == Scope::Root);
        if serve.is_some_and(|serve| has_flag(serve, name)) {
            return Some(
                failure.hint(format!("flags follow a command: `cannery serve {}`", arguments.join(" "))),
            );
        }
        if scope == Scope::Root && ["-v", "--verbose"].contains(&name) {
            return Some(failure.hint("`cannery --version` prints the version"));
        }
        let answer = foreign::flag(scope_of_flag, name).map(str::to_owned);
        return Some(failure.hint(answer.or_else(|| flag_of_another_command(command, scope, name))?));
    }

    let first = arguments.iter().find(|argument| !argument.starts_with('-') && *argument != "archiver");
    if scope == Scope::Archiver
        && let Some(first) = first.map(Path::new)
    {
        let paths: Vec<&Path> =
            arguments.iter().map(Path::new).skip_while(|path| *path != first).skip(1).collect();
        if let Some(failure) = command_of_another_program(scope, first, &paths) {
            return Some(failure);
        }
    }

    let failure = Failure::usage(format!("unexpected argument `{word}`"));
    if let Some(hint) = address_hint(scope, Path::new(word)) {
        return Some(failure.hint(hint));
    }
    Some(failure.hint(match scope {
        Scope::Serve => {
            "`cannery serve DIR` serves one folder; start it once for each, with a `--port` of its own"
        }
        Scope::Archiver => "`cannery-archiver DIR FILE` takes one folder and the archive to write",
        Scope::Other if ["import", "bundle"].contains(&arguments.first()?.as_str()) => {
            "`--output FILE` names the file to write"
        }
        Scope::Root | Scope::Server | Scope::Other => return None,
    }))
}

/// Returns the other command that has this flag, if any. The flag must have two dashes.
fn flag_of_another_command(command: &Command, scope: Scope, name: &str) -> Option<String> {
    let long = name.strip_prefix("--")?;
    if long == "json" {
        return Some("this command has no output as JSON".to_owned());
    }
    let known = super::commands_with_flags();
    let other = known.iter().find(|(other, flags)| *other != scope && has_flag(flags, name));
    if let Some((other, _)) = other {
        return Some(format!("it is a flag of `{}`", other.name()));
    }
    let has_it = |inner: &&Command| inner.get_arguments().any(|argument| argument.get_long() == Some(long));
    let inner = command.get_subcommands().find(has_it)?;
    Some(format!("it is a flag of `cannery {}`", inner.get_name()))
}

/// Returns `true` if a command has this flag, which includes its dashes.
fn has_flag(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| match name.strip_prefix("--") {
        Some(long) => argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => {
            let short = name.strip_prefix('-').and_then(|name| name.chars().next());
            short.is_some() && argument.get_short() == short
        }
    })
}

/// Explains an archiver command line with only one path.
fn missing_archive(arguments: &[String]) -> Option<Failure> {
    let mut paths = arguments.iter().filter(|argument| !argument.starts_with('-') && *argument != "archiver");
    if let Some(word) = paths.clone().next()
        && let Some(failure) = command_of_another_program(Scope::Archiver, Path::new(word), &[])
    {
        return Some(failure);
    }

    if paths.clone().next().is_none() && !arguments.iter().any(|word| word.starts_with("--sources")) {
        return Some(
            Failure::usage("the folder to compile and the archive to write aren't named").hint(
                "name both: `cannery-archiver DIR FILE`, for example `cannery-archiver public site.cdb`",
            ),
        );
    }

    let folder = paths.next().filter(|path| fs::metadata(path).is_ok_and(|found| found.is_dir()))?;
    if paths.next().is_some() || arguments.iter().any(|word| word.starts_with("--archive")) {
        return None;
    }
    Some(
        Failure::usage("the archive to write isn't named")
            .hint(format!("name it after the folder: `cannery-archiver {folder} site.cdb`")),
    )
}

/// Returns a text from the error's context.
fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Drops suggestions unless they differ by just a typing error.
fn drop_unlikely_suggestions(error: &mut Error) {
    // Clap would also suggest passing a word with dashes as a value, but none of our commands take such a
    // value.
    error.remove(ContextKind::Suggested);
    let mut has_dropped = false;

    for (wrong, suggested) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let Some(word) = text(error, wrong) else { continue };
        let is_likely = |suggestion: &String| {
            let name = suggestion.split([' ', '=']).next().unwrap_or_default();
            is_typing_error(word.split('=').next().unwrap_or_default(), name)
        };

        match error.remove(suggested) {
            Some(ContextValue::String(suggestion)) if is_likely(&suggestion) => {
                error.insert(suggested, ContextValue::String(suggestion));
            }
            Some(ContextValue::Strings(mut suggestions)) => {
                suggestions.retain(is_likely);
                if suggestions.is_empty() {
                    has_dropped = true;
                } else {
                    error.insert(suggested, ContextValue::Strings(suggestions));
                }
            }
            found => has_dropped |= found.is_some(),
        }
    }

    if has_dropped {
        // The usage would still show the suggested flag.
        error.remove(ContextKind::Usage);
    }
}

/// Returns `true` if one word is probably the other one with a typing error. We accept one wrong, missing, added or swapped letter
/// for every four letters.
fn is_typing_error(wrong: &str, right: &str) -> bool {
    let (wrong, right) = (wrong.trim_start_matches('-'), right.trim_start_matches('-'));
    let edits_max = (wrong.chars().count() / 4).max(1);
    edits(wrong, right) <= edits_max
}

/// Returns the number of edits that turn one word into the other (optimal string alignment distance).
fn edits(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();

    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, another) in other.iter().enumerate() {
            let replaced = rows[row][column] + usize::from(letter != another);
            let mut least = replaced.min(rows[row][column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *another {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }

    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests;
