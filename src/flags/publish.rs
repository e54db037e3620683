//! Flags of the commands that publish releases on other machines: `cannery push`, `receive`, `rollback`, `status` and `diff`.
//!
//! We don't connect to anything here.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archiver::Options;
use cannery_base::date::parse_rfc3339;
use clap::{Args, value_parser};

use super::examples;
use super::folder::FolderFlags;
use super::follow::StoreFlags;
use super::on_activate::HookFlags;
use super::preview::PreviewFlags;
use super::sandboxing::SandboxFlags;
use super::settling::{SETTLE_MS, SETTLE_MS_MAX, SETTLE_NODES_MS, SETTLE_NODES_MS_MAX, Settling};
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
            "cannery push --preview pr-42.preview.example.com web@example.com:/srv/previews public --expire 30d",
            "cannery push oci://registry.example.com/site public --secret-key site.key --site example.com",
            "cannery push web@a:/srv/site web@b:/srv/site public --activate-at 2030-01-31T12:00:00Z",
        ],
        "A target is a release directory: USER@HOST:DIR through ssh, or DIR on this machine. `cannery-server --releases DIR` serves it. \
         Or it is a store from which nodes pull with `cannery follow`: oci://REGISTRY/REPOSITORY:TAG, s3://BUCKET/PREFIX, https://HOST/PATH/ \
         or file:///DIR.\n\n\
         Exit codes: 0 done, 1 a target or the command of --on-activate failed, 2 wrong usage, 3 bad site, \
         4 can't write on this machine, 5 warnings and --strict.",
    ),
)]
pub struct Push {
    /// The targets, and then the site: a folder, which is compiled, or an archive.
    #[arg(value_name = "TARGET", required = true)]
    pub words: Vec<String>,

    /// Only transfer the release. Nodes that follow a store pull it then. The same command without this flag makes it
    /// current, without transferring anything.
    #[arg(long)]
    pub stage_only: bool,

    /// Switch to the release as soon as N targets have it. Without this flag, no target switches unless all of them have it.
    #[arg(long, value_name = "N")]
    pub quorum: Option<usize>,

    /// Switch at this moment by the clock of this machine: a time such as `2030-01-31T12:00:00Z`, or `+10m` (also `s`, `h` and `d`).
    /// Until then, the release is on all targets, and isn't current.
    #[arg(long, value_name = "TIME", conflicts_with = "stage_only", value_parser = parse_moment)]
    pub activate_at: Option<SystemTime>,

    /// Milliseconds before the switch, in which all servers and processes notice the new release. So
    /// none of them lacks the files of a page that another one serves already. A second is added for
    /// each gigabyte of the archive, unless this is 0.
    #[arg(long, value_name = "MS", default_value_t = SETTLE_MS, value_parser = value_parser!(u64).range(..=SETTLE_MS_MAX))]
    settle: u64,

    /// Milliseconds between staging a release in a store and making it current there, in which all nodes pull it. So none of them
    /// lacks the files of a page that another one serves already. Nodes look every 5 seconds by default. There is no wait for the
    /// first release of a store. If this is 0, the release isn't staged.
    #[arg(long, value_name = "MS", default_value_t = SETTLE_NODES_MS, value_parser = value_parser!(u64).range(..=SETTLE_NODES_MS_MAX))]
    settle_nodes: u64,

    /// Keep this many releases in each target, and remove older ones that were pushed. The current one is never removed.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,

    /// The URL of the site, to print at the end.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    #[command(flatten)]
    pub(crate) preview: PreviewFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) signing: SigningFlags,

    #[command(flatten)]
    pub(crate) hook: HookFlags,

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

/// Parses a time in the future.
fn parse_moment(text: &str) -> Result<SystemTime, String> {
    let wrong =
        || format!("`{text}` is neither a time such as `2030-01-31T12:00:00Z` nor a duration such as `+10m`");
    let now = SystemTime::now();
    let moment = match text.strip_prefix('+') {
        Some(duration) => {
            let unit = duration.chars().next_back().ok_or_else(wrong)?;
            let seconds =
                [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)].into_iter().find(|(name, _)| *name == unit);
            let (_, seconds) = seconds.ok_or_else(wrong)?;
            let count: u64 = duration[..duration.len() - 1].parse().map_err(|_| wrong())?;
            now.checked_add(Duration::from_secs(count.checked_mul(seconds).ok_or_else(wrong)?))
        }
        None => {
            let seconds = parse_time(text).ok_or_else(wrong)?;
            UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        }
    };
    let moment = moment.ok_or_else(wrong)?;
    if moment < now { Err(format!("`{text}` is in the past")) } else { Ok(moment) }
}

/// Parses a time of RFC 3339, in UTC or with an offset such as `+01:00`.
fn parse_time(text: &str) -> Option<u64> {
    if let Some(seconds) = parse_rfc3339(text.as_bytes()) {
        return Some(seconds);
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+01:00".len())?)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |digits: &str, below: u64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|number| is_number && *number < below)
    };
    let offset_seconds = number(hours, 24)? * 3600 + number(minutes, 60)? * 60;
    let local = parse_rfc3339(format!("{local}Z").as_bytes())?;
    match offset.as_bytes()[0] {
        b'+' => local.checked_sub(offset_seconds),
        b'-' => local.checked_add(offset_seconds),
        _ => None,
    }
}

impl Push {
    /// Returns the time between staging and switching.
    #[must_use]
    pub fn settle(&self) -> Settling {
        Settling { milliseconds: self.settle }
    }

    /// Returns the time between staging a release in a store and making it current.
    #[must_use]
    pub fn settle_nodes(&self) -> Duration {
        Duration::from_millis(self.settle_nodes)
    }

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
        &[
            "cannery receive /srv/site",
            "cannery receive /srv/site --public-key /etc/cannery/site.pub",
            "cannery receive /srv/previews --preview-domain preview.example.com",
        ],
        "In `authorized_keys`, `command=\"cannery receive /srv/site\",restrict` lets a key do nothing else.\n\n\
         Exit codes: 0 done, 1 the connection was lost, 2 wrong usage.",
    ),
)]
pub struct Receive {
    /// The release directory. It is created if its parent exists.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Receive only previews whose hosts are below this domain. DIR is then that of `cannery-server --sites`. Repeatable.
    #[arg(long, value_name = "DOMAIN")]
    pub preview_domain: Vec<String>,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,

    #[command(flatten)]
    pub(crate) hook: HookFlags,

    /// Run the command of `--on-activate` for a sandboxed `cannery receive`.
    #[arg(long, hide = true, requires = "on_activate")]
    pub(crate) for_receive: bool,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
}

/// Makes targets serve an earlier release. Nothing is transferred.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery rollback web@example.com:/srv/site", "cannery rollback web@a:/srv/site web@b:/srv/site --to 41"],
        "Exit codes: 0 done, 1 a target failed, 2 wrong usage, 3 bad key, 4 can't write on this machine.",
    ),
)]
pub struct Rollback {
    /// The targets: USER@HOST:DIR through ssh, DIR on this machine, or a store such as oci://REGISTRY/REPOSITORY:TAG.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,

    /// The release: a file name, a serial, or `previous` for the one before the current one.
    #[arg(long, value_name = "RELEASE", default_value = "previous")]
    pub to: String,

    /// Milliseconds between the moment when the release got its name on a host and the switch, in which all processes of the server
    /// notice it. A second is added for each gigabyte of the archive, unless this is 0. There is no wait for an older release.
    #[arg(long, value_name = "MS", default_value_t = SETTLE_MS, value_parser = value_parser!(u64).range(..=SETTLE_MS_MAX))]
    pub settle: u64,

    /// Milliseconds between staging the release in a store and making it current there. Nodes still have most earlier releases, so
    /// this is only needed for one that newer nodes have never had.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = value_parser!(u64).range(..=SETTLE_NODES_MS_MAX))]
    settle_nodes: u64,

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

impl Rollback {
    /// Returns the time between staging the release in a store and making it current.
    #[must_use]
    pub fn settle_nodes(&self) -> Duration {
        Duration::from_millis(self.settle_nodes)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_durations_in_the_future() {
        let ahead =
            |text: &str| parse_moment(text).unwrap().duration_since(SystemTime::now()).unwrap().as_secs();
        assert!((599..=600).contains(&ahead("+10m")) && (86_399..=86_400).contains(&ahead("+1d")));
        let far = parse_moment("2100-01-31T12:00:00Z").unwrap();
        assert_eq!(far.duration_since(UNIX_EPOCH).unwrap().as_secs(), 4_105_080_000);
        assert_eq!(parse_moment("2100-01-31T13:00:00+01:00"), Ok(far));
        assert_eq!(parse_moment("2100-01-31T10:30:00-01:30"), Ok(far));
        for wrong in [
            "2100-01-31T13:00:00+1:00",
            "2100-01-31T13:00:00+01:60",
            "2100-01-31ä01:00",
            "",
            "+",
            "+m",
            "+10",
            "+1.5h",
            "+-1s",
            "10m",
            "tomorrow",
            "+99999999999999999999s",
            "+18446744073709551615d",
        ] {
            assert!(parse_moment(wrong).unwrap_err().contains("neither"), "{wrong}");
        }
        assert!(parse_moment("2001-01-01T00:00:00Z").unwrap_err().contains("past"));
    }
}
