//! Messages to the thread that compiles the folder.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cannery_archiver::{Build, Error};
use cannery_follow::{Event, FilesState};

/// A message, handled in the order of arrival.
pub enum Message {
    /// A report of the follower, and when it was made.
    Folder(Event, Instant),
    /// The end of a build in the background, and its duration.
    Compressed(Result<Build, Error>, Duration),
    /// Builds unless a build has found this already, or has begun since that time. Reports when the result is served.
    Build(Sender<()>, ScanResult),
    /// Reports when everything before it is done.
    Finish(Sender<()>),
}

/// The finding of a scan, for which the folder must be compiled.
#[derive(Debug, Clone, Copy)]
pub struct ScanResult {
    /// A build that begins later has everything that was saved before the request that the scan is for. If the last scan has found
    /// a change, and this one none, it is the end of the last scan (`changed_before`): a build that began earlier may have read a
    /// file before the change.
    pub since: Instant,
    /// The state of the files, unless the scan has found more than that.
    pub state: Option<FilesState>,
}
