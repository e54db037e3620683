//! Flags for a command that runs after a switch, shared by `push`, `receive` and `follow`.

use clap::{Args, value_parser};

/// A command to run after a release became current.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HookFlags {
    /// Run this shell command for each target that has switched, for example to purge a CDN. The variables CANNERY_TARGET,
    /// CANNERY_RELEASE, CANNERY_SERIAL and CANNERY_BEFORE say what has changed. If it fails, the release stays current.
    #[arg(long, value_name = "COMMAND", help_heading = "After the switch")]
    pub(crate) on_activate: Option<String>,

    /// End that command, and the programs that it has started, after this many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = value_parser!(u64).range(1..=86_400),
        help_heading = "After the switch"
    )]
    pub(crate) on_activate_timeout: u64,
}
