//! A folder that is compiled again after each change: what `cannery serve DIR` and `cannery-server --folder DIR` share.

mod event_log;
mod failure;
mod follower;
mod message;
mod updater;

pub(super) use event_log::{EventLog, Style, is_of_complete_build};
pub(super) use failure::BuildFailure;
pub(super) use follower::{filter, follow};
pub(super) use message::{Message, Messages, ScanResult};
pub(super) use updater::{BuildSink, Stopped, Updater};
