//! Pushes a container image from an image layout on disk (OCI Image Format Specification, "Image Layout").
//!
//! Blobs come first and the tag last, so a push that breaks off leaves the tag as it was.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Descriptor, Manifest, OciStore};
use crate::engines::blob_path;
use crate::error::StoreError;
use crate::http::Content;
use crate::release::Blob;
use crate::store::Store;

/// Media type of a list of manifests, one for each processor.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Bytes that an upload of an image has transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageReport {
    /// Bytes of layers and configurations that the registry didn't have.
    pub sent: u64,
    /// Bytes of all layers and configurations.
    pub total: u64,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

impl OciStore {
    /// Pushes the only image in a layout under the tag.
    pub(in crate::engines) fn push_image(&mut self, layout: &Path) -> Result<ImageReport, StoreError> {
        let index: Index = parse(&layout.join("index.json"))?;
        let [named] = &index.manifests[..] else {
            return Err(StoreError::wrong(format!("{} has not exactly one image", layout.display())));
        };
        let mut report = ImageReport::default();
        if named.media_type == INDEX {
            let images: Index = parse(&path_of(layout, named)?)?;
            for image in &images.manifests {
                self.push_blobs(layout, image, &mut report)?;
                self.push_manifest(layout, image, &image.digest)?;
            }
        } else {
            self.push_blobs(layout, named, &mut report)?;
        }
        let tag = self.tag.clone();
        self.push_manifest(layout, named, &tag)?;
        Ok(report)
    }

    /// Uploads those blobs of an image that the registry doesn't have.
    fn push_blobs(
        &mut self,
        layout: &Path,
        image: &Descriptor,
        report: &mut ImageReport,
    ) -> Result<(), StoreError> {
        let manifest: Manifest = parse(&path_of(layout, image)?)?;
        for descriptor in manifest.layers.iter().chain([&manifest.config]) {
            let blob = blob_of(descriptor)?;
            report.total += blob.bytes;
            if self.has(&blob)? {
                continue;
            }
            let path = layout.join(blob_path(&blob.hex()));
            let file = File::open(&path).map_err(|error| StoreError::file("read", &path, &error))?;
            self.upload(&blob, Content::File(&file))?;
            report.sent += blob.bytes;
        }
        Ok(())
    }

    fn push_manifest(&mut self, layout: &Path, image: &Descriptor, name: &str) -> Result<(), StoreError> {
        let path = path_of(layout, image)?;
        let bytes = fs::read(&path).map_err(|error| StoreError::file("read", &path, &error))?;
        self.put_manifest(&image.media_type, &bytes, name)
    }
}

fn blob_of(descriptor: &Descriptor) -> Result<Blob, StoreError> {
    let blob = Blob::parse(&descriptor.digest, descriptor.size);
    blob.ok_or_else(|| StoreError::wrong(format!("`{}` is not a SHA-256 digest", descriptor.digest)))
}

fn path_of(layout: &Path, descriptor: &Descriptor) -> Result<PathBuf, StoreError> {
    Ok(layout.join(blob_path(&blob_of(descriptor)?.hex())))
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let bytes = fs::read(path).map_err(|error| StoreError::file("read", path, &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| StoreError::wrong(format!("{} is not part of an image: {error}", path.display())))
}
