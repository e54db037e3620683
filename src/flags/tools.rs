//! The flags of `cannery`: all programs in one, and the commands that look into an archive.
//!
//! Never opens anything.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{
    SHELLS, archive_to_read, archiver, completions as completions_flag, examples, json, man, releases,
    required, sbom, server, site, switch, value, words,
};
use crate::output::Failure;

/// The command, with all that it can do.
#[must_use]
pub fn command() -> Command {
    let command =
        super::command("cannery", "Compiles a site folder into one immutable archive, and serves it.")
            .disable_help_subcommand(false)
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
            .args([man(), sbom(), completions_flag()])
            .after_help(examples(
                &[
                    "cannery serve public",
                    "cannery archiver public site.cdb",
                    "cannery server site.cdb",
                    "cannery explain site.cdb /docs/",
                    "cannery help serve",
                ],
                "Exit codes: 0 done, 2 wrong usage; the other codes depend on the command.",
            ));
    // The two programs have the flag themselves.
    let needs_man = |inner: &Command| !inner.get_arguments().any(|argument| argument.get_id() == "man");
    command.mut_subcommands(|inner| if needs_man(&inner) { inner.arg(man()) } else { inner })
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
            switch("list", "List every path with its media type, codings and sizes.").conflicts_with("path"),
            json(),
        ])
        .after_help(examples(
            &[
                "cannery inspect site.cdb",
                "cannery inspect site.cdb /docs/",
                "cannery inspect site.cdb --list",
            ],
            "Exit codes: 0 shown, 1 no such path, 2 wrong usage, 3 bad archive.",
        ))
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
        .after_help(examples(
            &["cannery verify site.cdb"],
            "Exit codes: 0 whole, 2 wrong usage, 3 damaged or not an archive.",
        ))
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
        .after_help(examples(
            &["cannery extract site.cdb restored"],
            "Exit codes: 0 done, 2 wrong usage, 3 bad archive, 4 cannot write.",
        ))
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
    /// Positions within the archive, too.
    pub debug: bool,
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
            switch("debug", "Print where in the archive the body lies, too."),
        ])
        .after_help(examples(
            &[
                "cannery explain site.cdb /docs/",
                "cannery explain site.cdb https://example.com/old -H 'Accept-Encoding: br'",
            ],
            "Exit codes: 0 explained, whatever the answer is, 2 wrong usage, 3 bad archive.",
        ))
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
        debug: matches.get_flag("debug"),
    })
}

fn completions_command() -> Command {
    super::command("completions", "Prints the completions of a program for a shell.")
        .args([
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(words(SHELLS))
                .help("The shell."),
            Arg::new("program")
                .value_name("PROGRAM")
                .default_value("cannery")
                .value_parser(words(["cannery", "cannery-archiver", "cannery-server"]))
                .help("The program."),
        ])
        .after_help(examples(
            &[
                "cannery completions bash > /etc/bash_completion.d/cannery",
                "cannery completions zsh cannery-server > _cannery-server",
            ],
            "Exit codes: 0 done, 2 wrong usage.",
        ))
}

/// The shell and the program that the command line of `completions` names.
///
/// # Errors
/// A value is missing.
pub fn completions(matches: &ArgMatches) -> Result<(String, String), Failure> {
    Ok((required(matches, "shell")?, required(matches, "program")?))
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
        let archiver::Invocation::Build(build) = archiver::from_matches(inner).unwrap() else {
            panic!("no build")
        };
        assert!(build.saying.quiet);
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
