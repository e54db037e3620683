//! A folder that is compiled again after each change: what `cannery serve DIR` and `cannery-server --folder DIR` share.

mod event_log;
mod follower;
mod message;
mod updater;

pub(super) use event_log::{EventLog, Style, describe};
pub(super) use follower::{filter, follow};
pub(super) use message::{Message, Messages};
pub(super) use updater::{Audience, Stopped, Updater};
