//! Errors of writing an image.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why an image wasn't written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the layout can't be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory has files, and isn't an image layout.
    #[error("{} is not empty, and not an image", path.display())]
    NotALayout {
        /// The directory.
        path: PathBuf,
    },
    /// The layout has an image with another tag, whose files we would remove.
    #[error("{} holds the image `{tag}`, which would be removed", path.display())]
    OtherImage {
        /// The directory.
        path: PathBuf,
        /// The tag of the other image.
        tag: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::File { path: path.to_owned(), source }
    }
}
