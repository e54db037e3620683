//! The outcome of commands that ran after a switch (`--on-activate`).

use crate::format::counted;
use crate::output::Failure;

/// The failure if commands of `--on-activate` have failed.
pub(super) fn hook_outcome(failed: u64) -> Result<(), Failure> {
    if failed == 0 {
        return Ok(());
    }
    let message =
        format!("the release is live, but `--on-activate` failed for {}", counted(failed, "target"));
    Err(Failure::failed(message)
        .hint("run that command by hand: the same push would change nothing, and not run it again"))
}
