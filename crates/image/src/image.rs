//! An image: its layers, its configuration and its manifest ("OCI Image Manifest", "OCI Image Configuration").

use serde_json::{Map, Value, json};

use crate::blobs::{self, Blob};
use crate::digest::Digest;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const STORED_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const GZIP_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image for one processor.
#[derive(Debug)]
pub struct Image {
    /// The processor: `amd64` or `arm64`, for example.
    pub architecture: &'static str,
    /// Unpacked in this order.
    pub layers: Vec<Layer>,
    /// How containers start.
    pub settings: Settings,
}

/// A layer that was written, with the digest of its uncompressed bytes.
#[derive(Debug, Clone)]
pub struct Layer {
    pub(crate) blob: Blob,
    pub(crate) uncompressed: Digest,
}

/// How containers start, and what they are.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The program, with arguments that users seldom replace.
    pub entrypoint: Vec<String>,
    /// Arguments that users may replace.
    pub arguments: Vec<String>,
    /// User and group, as numbers.
    pub user: String,
    /// Ports, such as `8080/tcp`. A hint for users.
    pub ports: Vec<String>,
    /// Names and values, such as `org.opencontainers.image.version`.
    pub labels: Vec<(String, String)>,
    /// The date of creation, as in RFC 3339.
    pub created: Option<String>,
}

impl Image {
    pub(crate) fn configuration(&self) -> Value {
        let settings = &self.settings;
        let ports: Map<_, _> = settings.ports.iter().map(|port| (port.clone(), json!({}))).collect();
        let uncompressed: Vec<_> = self.layers.iter().map(|layer| blobs::name(&layer.uncompressed)).collect();
        let mut value = json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": {
                "User": settings.user,
                "ExposedPorts": ports,
                "Entrypoint": settings.entrypoint,
                "Cmd": settings.arguments,
                "Labels": self.labels(),
            },
            "rootfs": { "type": "layers", "diff_ids": uncompressed },
        });
        if let Some(created) = &settings.created {
            value["created"] = json!(created);
        }
        value
    }

    pub(crate) fn manifest(&self, configuration: &Blob) -> Value {
        let layers: Vec<_> = self.layers.iter().map(|layer| layer.blob.descriptor()).collect();
        json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": configuration.descriptor(),
            "layers": layers,
            "annotations": self.labels(),
        })
    }

    fn labels(&self) -> Map<String, Value> {
        self.settings.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    }
}
