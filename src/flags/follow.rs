//! Flags of `cannery follow`, and of the other commands that use a store of releases.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

use super::examples;
use super::on_activate::HookFlags;
use super::sandboxing::SandboxFlags;
use super::settling::{SETTLE_MS, SETTLE_MS_MAX};
use super::signing::TrustFlags;

/// How a store of releases is reached.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreFlags {
    /// Root certificates (PEM) to trust for a store, instead of those of browsers.
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub(crate) store_roots: Option<PathBuf>,

    /// The endpoint of S3-compatible storage. The default is that of Amazon for the region.
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) s3_endpoint: Option<String>,

    /// Send the credentials of a store without TLS, too. Everyone on the way can read and use them. Without this flag, that is only done on
    /// this machine.
    #[arg(long, help_heading = "Store")]
    pub(crate) store_plain_http: bool,
}

/// Follows a store: pulls each new release into a release directory, and makes it current. A process of its own, in a sandbox, beside
/// `cannery-server --releases DIR`.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery follow oci://registry.example.com/site --into /srv/cannery --public-key site.pub --site example.com",
            "cannery follow https://example.com/store/ --into /srv/cannery --public-key site.pub",
            "cannery follow file:///mnt/store --into /srv/cannery --unsigned --once",
        ],
        "A store is oci://REGISTRY/REPOSITORY:TAG, s3://BUCKET/PREFIX, https://HOST/PATH/ or file:///DIR; `cannery push` fills it. \
         Credentials are those of Docker's configuration and helpers, those that the tools of AWS would find, or the variable \
         CANNERY_STORE_TOKEN.\n\n\
         Exit codes: 0 the current release is served (`--once`), also if a staged one can't be pulled, 1 it isn't or the command of --on-activate failed, 2 wrong usage, 3 bad key, 4 cannot write.",
    ),
)]
pub struct Follow {
    /// The store.
    #[arg(value_name = "STORE")]
    pub store: String,

    /// The release directory. It is created if its parent exists.
    #[arg(long, value_name = "DIR", required = true)]
    pub into: PathBuf,

    /// Pull what is current now, and exit. By default, the process runs until it is stopped.
    #[arg(long)]
    pub once: bool,

    /// Seconds between two looks at the store. After failures, it becomes longer, up to five minutes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = value_parser!(u64).range(1..=86_400))]
    interval: u64,

    /// Milliseconds before the switch, in which all processes of the server notice the new release. A second is added
    /// for each gigabyte of the archive, unless this is 0.
    #[arg(long, value_name = "MS", default_value_t = SETTLE_MS, value_parser = value_parser!(u64).range(..=SETTLE_MS_MAX))]
    pub settle: u64,

    /// Keep this many releases, and remove older ones that were pulled or pushed. The current one is never removed.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    pub keep: u32,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,

    /// Accept releases that aren't signed. Everyone who can write the store then decides what the site shows.
    #[arg(long, conflicts_with = "public_key", help_heading = "Signatures")]
    pub unsigned: bool,

    #[command(flatten)]
    pub(crate) connection: StoreFlags,

    #[command(flatten)]
    pub(crate) hook: HookFlags,

    /// Run the command of `--on-activate` for a sandboxed `cannery follow`.
    #[arg(long, hide = true, requires = "on_activate")]
    pub(crate) for_follow: bool,

    /// Find credentials for a sandboxed `cannery follow`.
    #[arg(long, hide = true, conflicts_with = "on_activate")]
    pub(crate) credentials_for_follow: bool,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    /// Print each event as JSON on a line.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Print only errors.
    #[arg(long, short, conflicts_with = "json", help_heading = "Output")]
    pub quiet: bool,
}

impl Follow {
    /// Returns the time between two looks.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.interval)
    }
}
