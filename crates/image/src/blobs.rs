//! Blobs: files that are named by their digest, below `blobs/sha256`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::digest::{Digest, HashingWriter};
use crate::error::Error;

/// Name of a blob whose digest isn't known yet.
const INCOMPLETE: &str = "incomplete";

/// The directory of blobs, and those that were written, with their lengths.
#[derive(Debug)]
pub(crate) struct Blobs {
    directory: PathBuf,
    written: BTreeMap<Digest, u64>,
}

/// A blob, as manifests refer to it ("OCI Content Descriptors").
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    pub(crate) media_type: &'static str,
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

impl Blob {
    pub(crate) fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": name(&self.digest), "size": self.bytes })
    }
}

/// Returns a digest as manifests write it.
pub(crate) fn name(digest: &Digest) -> String {
    format!("sha256:{digest}")
}

impl Blobs {
    pub(crate) fn create(layout: &Path) -> Result<Blobs, Error> {
        let directory = layout.join("blobs/sha256");
        fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
        Ok(Blobs { directory, written: BTreeMap::new() })
    }

    /// Writes a blob as a stream: a layer may be larger than memory.
    pub(crate) fn stream(
        &mut self,
        media_type: &'static str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Blob, Error> {
        let path = self.directory.join(INCOMPLETE);
        let file = File::create(&path).map_err(Error::file(&path))?;
        let mut writer = HashingWriter::new(BufWriter::with_capacity(1 << 20, file));
        let written = write(&mut writer).and_then(|()| writer.flush());
        let (_, digest, bytes) = writer.finish();
        let named = self.directory.join(digest.to_string());
        if let Err(source) = written.and_then(|()| fs::rename(&path, &named)) {
            // The error of the write is the one to report.
            let _ = fs::remove_file(&path);
            return Err(Error::File { path, source });
        }
        self.written.insert(digest, bytes);
        Ok(Blob { media_type, digest, bytes })
    }

    pub(crate) fn bytes(&mut self, media_type: &'static str, bytes: &[u8]) -> Result<Blob, Error> {
        self.stream(media_type, |output| output.write_all(bytes))
    }

    pub(crate) fn json(&mut self, media_type: &'static str, value: &Value) -> Result<Blob, Error> {
        self.bytes(media_type, value.to_string().as_bytes())
    }

    /// Returns the length of all blobs that were written, each counted once.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.written.values().sum()
    }

    /// Removes the blobs of an earlier image.
    pub(crate) fn remove_others(&self) -> Result<(), Error> {
        let names: Vec<_> = self.written.keys().map(ToString::to_string).collect();
        let entries = fs::read_dir(&self.directory).map_err(Error::file(&self.directory))?;
        for entry in entries {
            let entry = entry.map_err(Error::file(&self.directory))?;
            if !entry.file_name().to_str().is_some_and(|name| names.iter().any(|other| other == name)) {
                fs::remove_file(entry.path()).map_err(Error::file(&entry.path()))?;
            }
        }
        Ok(())
    }
}
