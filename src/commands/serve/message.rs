//! Messages to the thread that compiles the folder.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cannery_archiver::{Build, Error};
use cannery_follow::Event;

/// A message, handled in the order of arrival.
pub(super) enum Message {
    /// A report of the follower, and when it was made.
    Folder(Event, Instant),
    /// The end of a build in the background, and its duration.
    Compressed(Result<Build, Error>, Duration),
    /// Builds, and reports when the result is served.
    Build(Sender<()>),
    /// Reports when everything before it is done.
    Finish(Sender<()>),
}
