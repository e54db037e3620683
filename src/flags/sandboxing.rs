//! The flag for the sandbox of processes that get releases, shared by `receive` and `follow`.

use cannery_server::config::SandboxPolicy;
use clap::Args;

use super::{SANDBOX_POLICIES, one_of};

/// How the sandbox is used.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SandboxFlags {
    /// Whether the sandbox is used: if the kernel has it, always, or never.
    #[arg(
        long = "sandbox",
        value_name = "POLICY",
        default_value = "auto",
        value_parser = one_of(SANDBOX_POLICIES),
        help_heading = "Sandbox"
    )]
    pub(crate) policy: SandboxPolicy,
}
