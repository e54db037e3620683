//! The flags of `cannery releases`: a folder of archives, and which of them is current.
//!
//! Never looks into the folder.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::{examples, json, required, value};
use crate::output::Failure;

/// What `cannery releases` was told.
#[derive(Debug)]
pub struct Releases {
    /// The folder of the archives.
    pub folder: PathBuf,
    /// The one to make current, as it was written: a name, a serial, or `previous`.
    pub used: Option<String>,
    /// JSON in place of words.
    pub json: bool,
}

/// The command.
#[must_use]
pub fn command() -> Command {
    super::command("releases", "Lists the archives of a folder, or makes another one current.")
        .args([
            Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help(
                "The folder with the archives and the link `current`, which points at the one that is served.",
            ),
            value(
                "use",
                "RELEASE",
                "Make this release current, in one step: named by its file, by its serial, or as `previous`, which is \
                 the one before the current one. The archive is verified first.",
            ),
            json(),
        ])
        .after_help(examples(
            &["cannery releases /srv/site", "cannery releases /srv/site --use previous"],
            "Exit codes: 0 done, 2 wrong usage, 3 no such release or a bad one, 4 cannot write.",
        ))
}

/// What the command line asks for.
///
/// # Errors
/// A value is missing.
pub fn from_matches(matches: &ArgMatches) -> Result<Releases, Failure> {
    Ok(Releases {
        folder: required(matches, "folder")?,
        used: matches.get_one("use").cloned(),
        json: matches.get_flag("json"),
    })
}
