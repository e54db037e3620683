//! Messages to the thread that recompiles the folder.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cannery_archiver::{Build, Error};
use cannery_follow::{Event, FilesState};

/// Messages are handled in order.
pub enum Message {
    /// An event from the follower, and when it happened.
    Folder(Event, Instant),
    /// A background build has ended. Has its result and duration.
    Compressed(Result<Build, Error>, Duration),
    /// Requests a build, unless the served build already has this state or started after this time. The sender is notified
    /// when the result is served.
    Build(Sender<()>, ScanResult),
    /// Just report when all earlier messages have been handled.
    Finish(Sender<()>),
}

/// Result of a scan that calls for a build.
#[derive(Debug, Clone, Copy)]
pub struct ScanResult {
    /// Builds that start after this time include everything that was saved before the scan was requested. Usually this is the
    /// start of the scan. However, if only the last scan has found a change, it must be the end of that scan (`changed_before`),
    /// because a build that started earlier may have read a file before the change.
    pub since: Instant,
    /// State of the files. When the scan has found anything that does not fit in here, this is `None`.
    pub state: Option<FilesState>,
}
