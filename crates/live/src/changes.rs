//! Collects the changes of a folder. This includes changes made before or during its first build.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use cannery_archiver::{Build, Compiler, FollowedNames, Options};
use cannery_follow::{Event, Filter, Finding, Follower, Inspector, Mode, Settings, StartError};

use crate::message::Message;
use crate::updater::{BuildSink, Compression, Updater};

/// Changes of a folder.
///
/// You should create this before the first build, otherwise changes made during that build will be missed.
pub struct FolderChanges {
    root: PathBuf,
    filter: Filter,
    sender: Sender<Message>,
    messages: Receiver<Message>,
    /// `None` if the folder is not followed.
    follower: Option<Follower>,
    /// Dropped once the first build is served.
    before_first: Option<Sender<()>>,
}

impl FolderChanges {
    /// Prepares for following the folder in `options`.
    ///
    /// Names that are always left out of builds are ignored, as are links that builds do not follow.
    #[must_use]
    pub fn of(options: &Options) -> FolderChanges {
        let names = Arc::new(FollowedNames::of(options));
        let of_links = Arc::clone(&names);
        let filter = Filter::new(move |path, is_folder| names.contain(path, is_folder))
            .with_links(move |link, target| of_links.admit(link, target));
        let (sender, messages) = channel();
        FolderChanges {
            root: options.sources.clone(),
            filter,
            sender,
            messages,
            follower: None,
            before_first: None,
        }
    }

    /// Creates a sender for programs that detect changes on their own, e.g. by scanning the folder.
    #[must_use]
    pub fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// Returns an inspector for the same files that builds of this folder include.
    #[must_use]
    pub fn inspector(&self) -> Inspector {
        Inspector::new(self.root.clone(), self.filter.clone())
    }

    /// Starts following the folder.
    ///
    /// `inspect` will be called once the first build is served and the folder is being watched. It should compare the folder
    /// with an earlier state to find changes made in between.
    ///
    /// # Errors
    ///
    /// This will fail if the folder cannot be read, or if it is not possible to start a thread.
    pub fn follow(
        &mut self,
        mode: Mode,
        inspect: impl FnOnce() -> Finding + Send + 'static,
    ) -> Result<(), StartError> {
        let (before_first, first_served) = channel::<()>();
        let mut inspect = Some(inspect);
        let sender = self.sender.clone();
        let on_event = move |event| {
            let event = match event {
                Event::Started => {
                    let Some(inspect) = inspect.take() else { return };
                    // Wait for the first build, since a scan would only slow it down.
                    let _ = first_served.recv();
                    match inspect() {
                        Finding::Changed => Event::Changed,
                        Finding::Unchanged => return,
                    }
                }
                event => event,
            };
            // Fails only if the updater is gone.
            let _ = sender.send(Message::Folder(event, Instant::now()));
        };

        let settings = Settings { root: self.root.clone(), mode, filter: self.filter.clone() };
        self.follower = Some(Follower::start(settings, on_event)?);
        self.before_first = Some(before_first);
        Ok(())
    }

    /// Returns the updater. It will serve every change from now on.
    ///
    /// Note that `first` must already be served at this point.
    #[must_use]
    pub fn into_updater<S: BuildSink>(
        self,
        compiler: Compiler,
        first: &Build,
        compression: Compression,
        sink: S,
    ) -> Updater<S> {
        let FolderChanges { sender, messages, follower, before_first, .. } = self;
        drop(before_first);
        Updater::new(compiler, first, compression, sink, (sender, messages), follower)
    }
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
            let (inspected, is_inspected) = channel();
            let inspect = move || {
                inspected.send(()).unwrap();
                finding
            };

            let mut changes = FolderChanges::of(&Options::new(folder.path(), ""));
            changes.follow(Mode::Auto, inspect).unwrap();
            let before = is_inspected.recv_timeout(Duration::from_millis(50));
            assert_eq!(before, Err(RecvTimeoutError::Timeout), "the first build isn't served");
            drop(changes.before_first.take());

            is_inspected.recv().unwrap();
            if is_reported {
                assert!(matches!(changes.messages.recv(), Ok(Message::Folder(Event::Changed, _))));
            } else {
                let silence = changes.messages.recv_timeout(Duration::from_millis(100));
                assert!(matches!(silence, Err(RecvTimeoutError::Timeout)));
            }
        }
    }
}
