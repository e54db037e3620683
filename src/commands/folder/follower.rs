//! Starts to follow a folder.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use cannery_archiver::skip::{IGNORE_FILE, SkipRules};
use cannery_follow::{Filter, Follower, Mode, Settings};

use super::message::Message;
use crate::output::Failure;

/// Returns the filter of everything except the names that a build leaves out by default.
pub(in crate::commands) fn filter() -> Filter {
    let rules = SkipRules::default();
    Arc::new(move |path: &Path, is_folder: bool| {
        path == Path::new(IGNORE_FILE) || rules.verdict(path.as_os_str().as_bytes(), is_folder).is_none()
    })
}

/// Starts to follow the folder, and sends each report of it.
pub(in crate::commands) fn follow(
    root: PathBuf,
    mode: Mode,
    filter: Filter,
    sender: Sender<Message>,
) -> Result<Follower, Failure> {
    let on_event = move |event| {
        // This fails only if the updates have ended.
        let _ = sender.send(Message::Folder(event, Instant::now()));
    };
    let settings = Settings { root, mode, filter };
    Follower::start(settings, on_event).map_err(|error| Failure::failed(error.to_string()))
}
