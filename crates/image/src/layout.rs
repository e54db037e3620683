//! An image layout: a directory with blobs, and an index that names one of them by a tag ("OCI Image Layout").

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::blobs::{Blob, Blobs};
use crate::digest::Digest;
use crate::error::Error;
use crate::image::{CONFIGURATION, GZIP_LAYER, Image, Layer, MANIFEST, STORED_LAYER};
use crate::tree::{Tree, gzip};

/// The file that marks a directory as an image layout.
const MARK: &str = "oci-layout";
const INDEX: &str = "index.json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const TAG: &str = "org.opencontainers.image.ref.name";

/// Modification time of the files in layers, in seconds since 1970. It must not depend on the clock.
const TIME: u64 = 0;

/// A layout that is being written.
#[derive(Debug)]
pub struct Layout {
    directory: PathBuf,
    tag: String,
    blobs: Blobs,
    /// Processor and manifest of each image.
    manifests: Vec<(&'static str, Blob)>,
}

impl Layout {
    /// Starts a layout with one tag. An earlier image of this tag stays complete until [`Layout::finish`] replaces it.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory has other files or an image with another tag, or can't be written.
    pub fn create(directory: &Path, tag: &str) -> Result<Layout, Error> {
        check_replaceable(directory, tag)?;
        // The mark comes first: without it, the next call would refuse what an interrupted one has left.
        fs::create_dir_all(directory).map_err(Error::file(directory))?;
        let mark = directory.join(MARK);
        fs::write(&mark, r#"{"imageLayoutVersion":"1.0.0"}"#).map_err(Error::file(&mark))?;
        let blobs = Blobs::create(directory)?;
        Ok(Layout { directory: directory.to_owned(), tag: tag.to_owned(), blobs, manifests: Vec::new() })
    }

    /// Writes a layer as it is. For files that are compressed already.
    ///
    /// # Errors
    ///
    /// Returns an error if the layer can't be written.
    pub fn add_stored(&mut self, tree: &Tree<'_>) -> Result<Layer, Error> {
        let blob = self.blobs.stream(STORED_LAYER, |output| tree.write(output, TIME))?;
        Ok(Layer { uncompressed: blob.digest, blob })
    }

    /// Writes a layer with gzip. It is compressed in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the layer can't be written.
    pub fn add_compressed(&mut self, tree: &Tree<'_>) -> Result<Layer, Error> {
        let tar = tree.to_tar(TIME).map_err(Error::file(&self.directory))?;
        let blob = self.blobs.bytes(GZIP_LAYER, &gzip(&tar))?;
        Ok(Layer { uncompressed: Digest::of(&tar), blob })
    }

    /// Adds an image for a processor.
    ///
    /// # Errors
    ///
    /// Returns an error if its manifest can't be written.
    pub fn add(&mut self, image: &Image) -> Result<(), Error> {
        let configuration = self.blobs.json(CONFIGURATION, &image.configuration())?;
        let manifest = self.blobs.json(MANIFEST, &image.manifest(&configuration))?;
        self.manifests.push((image.architecture, manifest));
        Ok(())
    }

    /// Names the image by its tag, removes the blobs of an earlier one, and returns the digest and the number of bytes that a
    /// registry stores for it.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be written or removed.
    pub fn finish(mut self) -> Result<(String, u64), Error> {
        let mut named = self.named()?;
        let digest = named["digest"].as_str().unwrap_or_default().to_owned();
        named["annotations"] = json!({ TAG: self.tag });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [named] });

        let path = self.directory.join(INDEX);
        let temporary = self.directory.join("index.json.new");
        fs::write(&temporary, index.to_string()).map_err(Error::file(&temporary))?;
        fs::rename(&temporary, &path).map_err(Error::file(&path))?;
        self.blobs.remove_others()?;
        Ok((digest, self.blobs.total_bytes()))
    }

    /// Returns the descriptor of the only image, or of an index of all of them.
    fn named(&mut self) -> Result<Value, Error> {
        let mut descriptors: Vec<_> = self
            .manifests
            .iter()
            .map(|(architecture, manifest)| {
                let mut descriptor = manifest.descriptor();
                descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
                descriptor
            })
            .collect();
        if descriptors.len() == 1 {
            return Ok(descriptors.remove(0));
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": descriptors });
        Ok(self.blobs.json(INDEX_TYPE, &index)?.descriptor())
    }
}

/// Returns an error if writing to the directory would mix an image with other files, or remove another image.
fn check_replaceable(directory: &Path, tag: &str) -> Result<(), Error> {
    let mut entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::File { path: directory.to_owned(), source }),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    if !directory.join(MARK).is_file() {
        return Err(Error::NotALayout { path: directory.to_owned() });
    }
    // Without an index, or with a damaged one, there is no image that could be lost.
    let index = fs::read(directory.join(INDEX)).unwrap_or_default();
    let index: Value = serde_json::from_slice(&index).unwrap_or_default();
    let manifests = index["manifests"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tags =
        manifests.iter().map(|manifest| manifest["annotations"][TAG].as_str().unwrap_or("without a tag"));
    match tags.into_iter().find(|other| *other != tag) {
        Some(other) => Err(Error::OtherImage { path: directory.to_owned(), tag: other.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
