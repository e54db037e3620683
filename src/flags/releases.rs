//! Flags of `cannery releases`. This manages a directory of archives, one of which is current.
//!
//! We don't read the directory here.

use std::path::PathBuf;

use clap::Args;

use super::examples;

/// Lists the archives of a release directory, or makes another one current.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery releases /srv/site", "cannery releases /srv/site --use previous"],
        "Exit codes: 0 done, 2 wrong usage, 3 no such release or a bad one, 4 cannot write.",
    ),
)]
pub struct Releases {
    /// The directory with the archives and the symbolic link `current`, which points at the one that is served.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Make this release current, atomically: a file name, a serial, or `previous` for the one before the current one. The
    /// archive is verified first.
    #[arg(long = "use", value_name = "RELEASE")]
    pub selected: Option<String>,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
