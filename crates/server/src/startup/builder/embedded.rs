//! Archives embedded in the program. In debug builds, a folder may be followed instead.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use crate::config::{Config, Content, HostPattern, NamedArchive};
use crate::error::StartError;
use crate::housekeeper::PublishError;
use crate::notice::Notice;
use crate::sandbox::ThreadRole;
use crate::{RunningServer, thread};

/// Name of an embedded archive in messages.
const NAME: &str = "the embedded archive";

/// An archive embedded in the program, for [`Server::embedded_site`](super::Server::embedded_site).
#[derive(Debug)]
pub struct EmbeddedArchive {
    bytes: &'static [u8],
    folder: Option<Follow>,
}

/// Archives of a folder that can change.
// Only for the crate `cannery`.
#[doc(hidden)]
#[derive(Debug)]
pub struct FolderReleases {
    /// Archive of the folder in the current state.
    pub first: File,
    /// Receives a new archive after each change.
    pub next: Receiver<File>,
}

/// Starts to follow a folder. Returns `None` if the folder cannot be compiled.
struct Follow(Box<dyn FnOnce() -> Option<FolderReleases> + Send>);

impl EmbeddedArchive {
    /// Serves a folder instead of the embedded archive.
    ///
    /// `follow` is called when the server starts and should start to follow the folder. If it returns `None`,
    /// the embedded archive will be served after all.
    // Only for the crate `cannery`.
    #[doc(hidden)]
    #[must_use]
    pub fn following(
        self,
        follow: impl FnOnce() -> Option<FolderReleases> + Send + 'static,
    ) -> EmbeddedArchive {
        EmbeddedArchive { folder: Some(Follow(Box::new(follow))), ..self }
    }
}

impl From<&'static [u8]> for EmbeddedArchive {
    fn from(bytes: &'static [u8]) -> EmbeddedArchive {
        EmbeddedArchive { bytes, folder: None }
    }
}

impl<const LENGTH: usize> From<&'static [u8; LENGTH]> for EmbeddedArchive {
    fn from(bytes: &'static [u8; LENGTH]) -> EmbeddedArchive {
        EmbeddedArchive::from(bytes.as_slice())
    }
}

/// An archive in the configuration that a folder will replace.
#[derive(Debug)]
pub(super) struct FollowedArchive {
    index: usize,
    follow: Follow,
}

impl FollowedArchive {
    /// Returns the configuration entry with this index, and the folder that replaces it, if any.
    pub(super) fn split(
        archive: EmbeddedArchive,
        host: Option<HostPattern>,
        index: usize,
    ) -> (NamedArchive, Option<FollowedArchive>) {
        let EmbeddedArchive { bytes, folder } = archive;
        let named = NamedArchive::embedded(host, NAME.into(), bytes);
        (named, folder.map(|follow| FollowedArchive { index, follow }))
    }

    /// Starts to follow the folder, and changes the configuration entry.
    pub(super) fn start(self, config: &mut Config) -> Option<(usize, Receiver<File>)> {
        let FolderReleases { first, next } = (self.follow.0)()?;
        let Content::Archives { archives, .. } = &mut config.content else { return None };
        let named = archives.get_mut(self.index)?;
        *named = NamedArchive::from_file(named.host.clone(), NAME.into(), first);
        Some((self.index, next))
    }
}

/// Serves every archive that `next` receives, where `index` is that of the configuration entry.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(super) fn replace_archives(
    server: &RunningServer,
    index: usize,
    next: Receiver<File>,
) -> Result<(), StartError> {
    let Some(publisher) = server.publisher() else { return Ok(()) };
    let on_notice = server.on_notice.clone();
    let run = move || {
        for archive in next {
            match publisher.publish(index, archive) {
                Ok(()) => {}
                Err(PublishError::Stopping) => return,
                Err(error) => {
                    (on_notice.0)(&Notice::Refused { path: PathBuf::from(NAME), why: error.to_string() });
                }
            }
        }
    };
    thread::start("releases", &server.sandbox, ThreadRole::Receiver, run)?;
    Ok(())
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follow")
    }
}
