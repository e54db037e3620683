//! Folders that are recompiled after each change. This is shared by `cannery serve DIR` and
//! `cannery-server --folder DIR`.

mod event_log;
mod failure;

pub(super) use event_log::{EventLog, Style, is_of_complete_build};
pub(super) use failure::BuildFailure;

use crate::output::Failure;

/// Why we no longer recompile a folder.
#[derive(Debug)]
pub(super) enum UpdatesEnd {
    /// The server is stopping.
    ServerStops,
    /// Standard output has been closed.
    Output(Failure),
}

impl From<Failure> for UpdatesEnd {
    fn from(failure: Failure) -> UpdatesEnd {
        UpdatesEnd::Output(failure)
    }
}
