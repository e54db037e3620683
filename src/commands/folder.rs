//! A folder that is compiled again after each change: what `cannery serve DIR` and `cannery-server --folder DIR` share.

mod event_log;
mod failure;

pub(super) use event_log::{EventLog, Style, is_of_complete_build};
pub(super) use failure::BuildFailure;

use crate::output::Failure;

/// Why the updates of a folder end.
#[derive(Debug)]
pub(super) enum UpdatesEnd {
    /// The server is stopping.
    ServerStops,
    /// The reader of the output has closed it.
    Output(Failure),
}

impl From<Failure> for UpdatesEnd {
    fn from(failure: Failure) -> UpdatesEnd {
        UpdatesEnd::Output(failure)
    }
}
