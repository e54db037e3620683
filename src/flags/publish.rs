//! Flags of the commands that publish releases on other machines: `cannery push`, `receive`, `rollback`, `status` and `diff`.
//!
//! We don't connect to anything here.

use std::path::PathBuf;

use cannery_archiver::Options;
use clap::Args;

use super::examples;
use super::folder::FolderFlags;
use super::follow::StoreFlags;
use super::signing::{SigningFlags, TrustFlags};

/// Publishes a site on other machines: sends what these don't have, and switches to the new release at once.
#[derive(Debug, Args)]
#[command(
    version,
    override_usage = "cannery push [OPTIONS] TARGET... SITE",
    after_help = examples(
        &[
            "cannery push web@example.com:/srv/site public --url https://example.com/",
            "cannery push web@a:/srv/site web@b:/srv/site site.cdb",
            "cannery push /srv/site public",
            "cannery push --ssh 'ssh -p 2222' web@example.com:/srv/site public",
            "cannery push oci://registry.example.com/site public --secret-key site.key --site example.com",
        ],
        "A target is a release directory: USER@HOST:DIR through ssh, or DIR on this machine. `cannery-server --releases DIR` serves it. \
         Or it is a store from which nodes pull with `cannery follow`: oci://REGISTRY/REPOSITORY:TAG, s3://BUCKET/PREFIX, https://HOST/PATH/ \
         or file:///DIR.\n\n\
         Exit codes: 0 done, 1 a target failed, 2 wrong usage, 3 bad site, 5 warnings and --strict.",
    ),
)]
pub struct Push {
    /// The targets, and then the site: a folder, which is compiled, or an archive.
    #[arg(value_name = "TARGET", required = true, num_args = 2..)]
    pub words: Vec<String>,

    /// Only transfer the release. The same command without this flag then makes it current, without transferring anything.
    #[arg(long)]
    pub stage_only: bool,

    /// Switch to the release as soon as N targets have it. Without this flag, no target switches unless all of them have it.
    #[arg(long, value_name = "N")]
    pub quorum: Option<usize>,

    /// Keep this many releases in each target, and remove older ones that were pushed. The current one is never removed.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,

    /// The URL of the site, to print at the end.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) signing: SigningFlags,

    /// Publish nothing if there are warnings.
    #[arg(long, help_heading = "Folder")]
    pub strict: bool,

    /// Publish the folder even if it is empty or has no page for `/`. Without this flag, that is an error, because it is
    /// probably the wrong folder.
    #[arg(long, help_heading = "Folder")]
    pub allow_empty: bool,

    #[command(flatten, next_help_heading = "Folder")]
    folder: FolderFlags,

    /// Keep what makes the next push fast in this folder. The default is `cannery` in the user's cache folder.
    #[arg(long, value_name = "DIR", help_heading = "Folder")]
    pub cache: Option<PathBuf>,

    /// Print only errors.
    #[arg(long, short, help_heading = "Output", conflicts_with = "json")]
    pub quiet: bool,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

impl Push {
    /// Returns the targets and the site.
    #[must_use]
    pub fn targets_and_site(&self) -> (&[String], &str) {
        match self.words.split_last() {
            Some((site, targets)) => (targets, site),
            None => (&[], ""),
        }
    }

    /// Sets what the flags say about the folder.
    pub fn apply(&self, options: &mut Options) {
        self.folder.apply(options);
        options.strict = self.strict;
        options.allow_empty = self.allow_empty;
    }
}

/// How targets are reached.
#[derive(Debug, Args)]
pub(crate) struct ConnectionFlags {
    /// The program that connects to a host, with arguments, such as `ssh -p 2222`. The default is the environment variable
    /// `CANNERY_SSH`, or else `ssh`.
    #[arg(long, value_name = "COMMAND", help_heading = "Connection")]
    pub(crate) ssh: Option<String>,

    /// The program `cannery` on the host, if it isn't on the search path there.
    #[arg(long, value_name = "PATH", default_value = "cannery", help_heading = "Connection")]
    pub(crate) receiver: String,
}

/// Receives releases of `cannery push`, which starts this command on the host, and speaks over standard input and output.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery receive /srv/site", "cannery receive /srv/site --public-key /etc/cannery/site.pub"],
        "In `authorized_keys`, `command=\"cannery receive /srv/site\",restrict` lets a key do nothing else.\n\n\
         Exit codes: 0 done, 1 the connection was lost, 2 wrong usage.",
    ),
)]
pub struct Receive {
    /// The release directory. It is created if its parent exists.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,
}

/// Makes targets serve an earlier release. Nothing is transferred.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery rollback web@example.com:/srv/site", "cannery rollback web@a:/srv/site web@b:/srv/site --to 41"],
        "Exit codes: 0 done, 1 a target failed, 2 wrong usage.",
    ),
)]
pub struct Rollback {
    /// The targets: USER@HOST:DIR through ssh, DIR on this machine, or a store such as oci://REGISTRY/REPOSITORY:TAG.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,

    /// The release: a file name, a serial, or `previous` for the one before the current one.
    #[arg(long, value_name = "RELEASE", default_value = "previous")]
    pub to: String,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) signing: SigningFlags,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Lists the releases of targets: which one is current, and whether the targets have the same one.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery status web@example.com:/srv/site", "cannery status web@a:/srv/site web@b:/srv/site --json"],
        "Exit codes: 0 done, 1 a target failed, 2 wrong usage.",
    ),
)]
pub struct Status {
    /// The targets: USER@HOST:DIR through ssh, DIR on this machine, or a store such as oci://REGISTRY/REPOSITORY:TAG.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Compares two archives: paths, responses, rules, and the bytes that a push of the second would transfer to a host with the first.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery diff releases/41.cdb releases/42.cdb", "cannery diff releases site.cdb --json"],
        "Exit codes: 0 compared, 2 wrong usage, 3 bad archive.",
    ),
)]
pub struct Diff {
    /// The older archive, or a release directory with a current one.
    #[arg(value_name = "OLD")]
    pub old: PathBuf,

    /// The newer archive, or a release directory with a current one.
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
