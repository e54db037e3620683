//! The flags of `cannery`: all programs in one, and the commands that look into an archive.
//!
//! Never opens anything.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{archive_to_read, archiver, json, man, releases, required, server, site, switch, value, words};
use crate::say::Failure;

/// The command, with all that it can do.
#[must_use]
pub fn command() -> Command {
    super::command("cannery", "Compiles a site folder into one immutable archive, and serves it.")
        .arg_required_else_help(true)
        .subcommand(site::command())
        .subcommand(archiver::command().name("archiver").display_name("cannery-archiver"))
        .subcommand(server::command().name("server").display_name("cannery-server"))
        .subcommand(inspect_command())
        .subcommand(verify_command())
        .subcommand(extract_command())
        .subcommand(explain_command())
        .subcommand(releases::command())
        .subcommand(completions_command())
        .arg(man())
}

/// What `cannery inspect` was told.
#[derive(Debug)]
pub struct Inspect {
    /// The archive.
    pub archive: PathBuf,
    /// One path to show in full, as in a URL.
    pub path: Option<String>,
    /// The host whose site the path is of.
    pub host: Option<String>,
    /// Every path, a line for each.
    pub list: bool,
    /// JSON in place of words.
    pub json: bool,
}

fn inspect_command() -> Command {
    super::command("inspect", "Shows what an archive contains, or all about one of its paths.")
        .args([
            archive_to_read(),
            Arg::new("path").value_name("PATH").help("A path as in a URL, such as `/docs/`."),
            value("host", "HOST", "The host whose site the path belongs to.").requires("path"),
            switch("list", "List every path with its codings and sizes.").conflicts_with("path"),
            json(),
        ])
        .after_help("Exit codes: 0 shown, 1 no such path, 2 wrong usage, 3 bad archive.")
}

/// What the command line of `inspect` asks for.
///
/// # Errors
/// A value is missing.
pub fn inspect(matches: &ArgMatches) -> Result<Inspect, Failure> {
    Ok(Inspect {
        archive: required(matches, "archive")?,
        path: matches.get_one("path").cloned(),
        host: matches.get_one("host").cloned(),
        list: matches.get_flag("list"),
        json: matches.get_flag("json"),
    })
}

/// What `cannery verify` was told.
#[derive(Debug)]
pub struct Verify {
    /// The archive.
    pub archive: PathBuf,
    /// JSON in place of words.
    pub json: bool,
}

fn verify_command() -> Command {
    super::command("verify", "Reads a whole archive, and checks every digest and every record.")
        .args([archive_to_read(), json()])
        .after_help("Exit codes: 0 whole, 2 wrong usage, 3 damaged or not an archive.")
}

/// What the command line of `verify` asks for.
///
/// # Errors
/// A value is missing.
pub fn verify(matches: &ArgMatches) -> Result<Verify, Failure> {
    Ok(Verify { archive: required(matches, "archive")?, json: matches.get_flag("json") })
}

/// What `cannery extract` was told.
#[derive(Debug)]
pub struct Extract {
    /// The archive.
    pub archive: PathBuf,
    /// Where to put the files.
    pub folder: PathBuf,
    /// Replace files that are there.
    pub force: bool,
    /// Nothing but errors.
    pub quiet: bool,
}

fn extract_command() -> Command {
    super::command("extract", "Writes the files of an archive into a folder, byte for byte.")
        .args([
            archive_to_read(),
            Arg::new("folder")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The folder to write to. It is created if it does not exist."),
            switch("force", "Write even if the folder is not empty, and replace files in it."),
            switch("quiet", "Print nothing but errors."),
        ])
        .after_help("Exit codes: 0 done, 2 wrong usage, 3 bad archive, 4 cannot write.")
}

/// What the command line of `extract` asks for.
///
/// # Errors
/// A value is missing.
pub fn extract(matches: &ArgMatches) -> Result<Extract, Failure> {
    Ok(Extract {
        archive: required(matches, "archive")?,
        folder: required(matches, "folder")?,
        force: matches.get_flag("force"),
        quiet: matches.get_flag("quiet"),
    })
}

/// What `cannery explain` was told.
#[derive(Debug)]
pub struct Explain {
    /// The archive.
    pub archive: PathBuf,
    /// The URL or path to ask for.
    pub url: String,
    /// Field lines of the request.
    pub fields: Vec<String>,
    /// The method of the request.
    pub method: String,
}

fn explain_command() -> Command {
    super::command("explain", "Explains how the server would answer a request, without a server.")
        .args([
            archive_to_read(),
            Arg::new("url").value_name("URL").required(true).help("A path or a URL, such as `/docs/?a=b`."),
            Arg::new("header")
                .short('H')
                .long("header")
                .value_name("NAME: VALUE")
                .action(ArgAction::Append)
                .help("A header of the request, such as `Accept-Encoding: br`. Repeatable."),
            value("method", "METHOD", "The method of the request.").short('X').default_value("GET"),
        ])
        .after_help("Exit codes: 0 explained, whatever the answer is, 2 wrong usage, 3 bad archive.")
}

/// What the command line of `explain` asks for.
///
/// # Errors
/// A value is missing.
pub fn explain(matches: &ArgMatches) -> Result<Explain, Failure> {
    Ok(Explain {
        archive: required(matches, "archive")?,
        url: required(matches, "url")?,
        fields: super::all(matches, "header"),
        method: required(matches, "method")?,
    })
}

fn completions_command() -> Command {
    super::command("completions", "Prints the completions of `cannery` for a shell.").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(words(["bash", "zsh", "fish"]))
            .help("The shell."),
    )
}

/// The shell that the command line of `completions` names.
///
/// # Errors
/// A value is missing.
pub fn completions(matches: &ArgMatches) -> Result<String, Failure> {
    required(matches, "shell")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(line: &str) -> Result<ArgMatches, Failure> {
        crate::flags::read(command(), line.split_whitespace().map(std::ffi::OsString::from))
    }

    #[test]
    fn the_other_programs_are_within() {
        let all = matches("cannery archiver --sources a --archive b --quiet").unwrap();
        let (name, inner) = all.subcommand().unwrap();
        assert_eq!(name, "archiver");
        assert!(archiver::from_matches(inner).unwrap().unwrap().saying.quiet);
        assert!(matches("cannery server --archive a").is_ok());
    }

    #[test]
    fn a_request_can_be_spelled_out() {
        let all = matches("cannery explain a.cdb /b -H Accept-Encoding:br -H Host:c -X HEAD").unwrap();
        let explain = explain(all.subcommand().unwrap().1).unwrap();
        assert_eq!((explain.url.as_str(), explain.method.as_str()), ("/b", "HEAD"));
        assert_eq!(explain.fields, ["Accept-Encoding:br", "Host:c"]);
    }

    #[test]
    fn wrong_words_are_refused() {
        for line in [
            "cannery bundle",
            "cannery inspect",
            "cannery inspect a /b --list",
            "cannery inspect a --host b",
            "cannery extract a",
            "cannery explain a",
            "cannery releases",
            "cannery releases a --use",
            "cannery completions tcsh",
        ] {
            assert!(matches(line).is_err(), "{line}");
        }
    }
}
