//! Progress of a transfer: a bar on terminals.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws per second.
const REDRAWS: u8 = 5;

/// Shows how many bytes were transferred, to all targets together.
pub(super) struct TransferDisplay {
    bar: ProgressBar,
}

impl TransferDisplay {
    /// Starts with nothing to transfer. If it is `quiet`, or standard error isn't a terminal, nothing is shown.
    pub(super) fn new(verb: &'static str, quiet: bool) -> TransferDisplay {
        let is_shown = !quiet && io::stderr().is_terminal();
        let target =
            if is_shown { ProgressDrawTarget::stderr_with_hz(REDRAWS) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template =
            format!("{verb:<13} {{wide_bar}} {{decimal_bytes}} of {{decimal_total_bytes}} {{eta:>5}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is valid"));
        if is_shown {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        TransferDisplay { bar }
    }

    /// Adds bytes that will be transferred.
    pub(super) fn plan(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    /// Adds bytes that were transferred.
    pub(super) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for TransferDisplay {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
