//! Flags of previews.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Which preview to publish, and who may see it until when.
#[derive(Debug, Args)]
pub(crate) struct PreviewFlags {
    /// Publish as a preview, under a host of its own: NAME is a host, or the first part of one below `--preview-domain`, for example
    /// the name of a branch. Targets are then the directories of `cannery-server --sites`.
    #[arg(long, value_name = "NAME", help_heading = "Preview")]
    pub(crate) preview: Option<String>,

    /// The domain of previews, such as `preview.example.com`. The default is the environment variable `CANNERY_PREVIEW_DOMAIN`.
    #[arg(long, value_name = "DOMAIN", requires = "preview", help_heading = "Preview")]
    pub(crate) preview_domain: Option<String>,

    /// Visitors need the password in this file, with any user name. Without this flag, a password that the preview has stays.
    #[arg(long, value_name = "FILE", requires = "preview", help_heading = "Preview")]
    pub(crate) password_file: Option<PathBuf>,

    /// Visitors may send the password without TLS, for a server behind a proxy with TLS.
    #[arg(long, requires = "password_file", help_heading = "Preview")]
    pub(crate) password_plain: bool,

    /// The preview ends after this time: `12h`, `30d`. The next push of a preview then removes it. Without this flag, the end that it
    /// has stays, unless it is in the past: the preview then has none.
    #[arg(long, value_name = "TIME", requires = "preview", value_parser = parse_time, help_heading = "Preview")]
    pub(crate) expire: Option<Duration>,

    /// Remove the preview with all of its releases. There is no SITE then.
    #[arg(
        long,
        requires = "preview",
        conflicts_with_all = ["password_file", "password_plain", "expire", "stage_only"],
        help_heading = "Preview"
    )]
    pub(crate) remove: bool,
}

/// Parses a number with a unit: `s`, `m`, `h` or `d`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let invalid = || "write a number and a unit: `90m`, `12h` or `30d`".to_owned();
    let unit = text.chars().last().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(invalid()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| invalid())?;
    let total = number.checked_mul(seconds).filter(|total| (1..=100 * 366 * 86_400).contains(total));
    total.map(Duration::from_secs).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_time("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_time("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "d", "7", "0d", "-1d", "1.5h", "7w", "99999999999999999999d", "9999999d", "7ä"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
