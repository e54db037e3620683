//! Starts to follow a folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use cannery_archiver::{FollowedNames, Options};
use cannery_follow::{Event, Filter, Finding, Follower, Mode, Settings};

use super::message::Message;
use crate::output::Failure;

/// Returns the filter of everything except the names that a build with these options always leaves out, and the links that it
/// doesn't follow.
pub(in crate::commands) fn filter(options: &Options) -> Filter {
    let names = Arc::new(FollowedNames::of(options));
    let of_links = Arc::clone(&names);
    Filter::new(move |path, is_folder| names.contain(path, is_folder))
        .with_links(move |link, target| of_links.admit(link, target))
}

/// Starts to follow the folder, and sends each report of it. `inspect` compares the folder with its state before the call: it
/// finds the changes from before the folder was watched.
pub(in crate::commands) fn follow(
    root: PathBuf,
    mode: Mode,
    filter: Filter,
    sender: Sender<Message>,
    inspect: impl FnOnce() -> Finding + Send + 'static,
) -> Result<Follower, Failure> {
    let mut inspect = Some(inspect);
    let on_event = move |event| {
        let event = match event {
            Event::Started => match inspect.take().map(|inspect| inspect()) {
                Some(Finding::Changed) => Event::Changed,
                Some(Finding::Unchanged) | None => return,
            },
            event => event,
        };
        // This fails only if the updates have ended.
        let _ = sender.send(Message::Folder(event, Instant::now()));
    };
    let settings = Settings { root, mode, filter };
    Follower::start(settings, on_event).map_err(|error| Failure::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn change_before_the_folder_is_watched_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        for (finding, is_reported) in [(Finding::Changed, true), (Finding::Unchanged, false)] {
            let (sender, messages) = channel();
            let (inspected, is_inspected) = channel();
            let inspect = move || {
                inspected.send(()).unwrap();
                finding
            };
            let root = folder.path().to_owned();
            let follower = {
                let filter = filter(&Options::new(&root, ""));
                follow(root, Mode::Auto, filter, sender, inspect)
            }
            .unwrap();
            is_inspected.recv().unwrap();
            if is_reported {
                assert!(matches!(messages.recv(), Ok(Message::Folder(Event::Changed, _))));
            } else {
                let silence = messages.recv_timeout(Duration::from_millis(100));
                assert!(matches!(silence, Err(RecvTimeoutError::Timeout)));
            }
            drop(follower);
        }
    }
}
