//! Flags of `cannery releases`. This manages a directory of archives, one of which is current.
//!
//! We don't read the directory here.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::examples;
use super::settling::{SETTLE_MS, SETTLE_MS_MAX, Settling};

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

    /// Milliseconds between the moment when the release got its name and the switch, in which all processes of the server notice it. A
    /// second is added for each gigabyte of the archive, unless this is 0. There is no wait for an older release.
    #[arg(long, value_name = "MS", default_value_t = SETTLE_MS, value_parser = value_parser!(u64).range(..=SETTLE_MS_MAX))]
    settle: u64,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

impl Releases {
    /// Returns the time between naming a release and switching to it.
    #[must_use]
    pub fn settle(&self) -> Settling {
        Settling { milliseconds: self.settle }
    }
}
