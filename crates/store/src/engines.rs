//! The kinds of stores, and how users write them.

mod credentials;
mod folder;
mod https;
mod oci;
mod s3;

use std::fmt;
use std::path::{Path, PathBuf};

pub use credentials::{Credentials, Finder, Lease, Login, Source};
pub use oci::ImageReport;

use crate::error::{StoreError, StoreErrorKind};
use crate::http::{Http, is_plain, plain_credentials};
use crate::store::Store;

/// Name of the document in a folder, on an HTTPS server, and in S3.
const DOCUMENT: &str = "live.json";

/// The path of a blob in a folder, on an HTTPS server, and in S3: as in an OCI layout.
fn blob_path(hex: &str) -> String {
    format!("blobs/sha256/{hex}")
}

/// The error of a publisher that has lost a race.
fn replaced_meanwhile(place: &str) -> StoreError {
    let message = format!("{place} was replaced by another publisher meanwhile");
    StoreError::new(StoreErrorKind::Failing, message).hint("run the same command again")
}

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A folder, for example on a shared disk.
    Folder(PathBuf),
    /// A web server with such a folder. The URL ends in `/`.
    Web(String),
    /// A repository in a registry, and the tag of the current release.
    Oci {
        /// Host, and port if there is one.
        registry: String,
        /// The repository.
        repository: String,
        /// The tag.
        tag: String,
    },
    /// A bucket in S3-compatible storage.
    S3 {
        /// The bucket.
        bucket: String,
        /// The start of all keys: empty, or ends in `/`.
        prefix: String,
    },
}

/// How a store is reached.
#[derive(Debug, Clone, Default)]
pub struct StoreSettings {
    /// Root certificates (PEM) to trust instead of those of the web.
    pub roots: Option<Vec<u8>>,
    /// The endpoint of S3-compatible storage. By default, it is the one that the tools of AWS would use.
    pub endpoint: Option<String>,
    /// Whether credentials may be sent without TLS to other machines.
    pub allows_plain_credentials: bool,
}

impl Address {
    /// Parses an address. Returns `None` for texts without a scheme.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the scheme is unknown, or the rest doesn't fit to it.
    pub fn parse(text: &str) -> Option<Result<Address, StoreError>> {
        let (scheme, rest) = text.split_once("://")?;
        let wrong = |why: &str, hint: &str| {
            Err(StoreError::new(StoreErrorKind::Local, format!("`{text}` is not a store: {why}")).hint(hint))
        };
        Some(match scheme {
            "file" if rest.starts_with('/') => Ok(Address::Folder(rest.into())),
            "file" => wrong("the path isn't absolute", "write file:///srv/store"),
            "https" | "http" if rest.contains(['?', '#', '@']) => {
                wrong("it has more than host and path", "put a token into the variable CANNERY_STORE_TOKEN")
            }
            "https" | "http" if rest.is_empty() || rest.starts_with('/') => {
                wrong("it has no host", "write https://HOST/PATH/")
            }
            "https" | "http" => {
                let slash = if text.ends_with('/') { "" } else { "/" };
                Ok(Address::Web(format!("{text}{slash}")))
            }
            "oci" => match oci::parse_reference(rest) {
                Some(address) => Ok(address),
                None => wrong(
                    "it has no registry, or a repository or tag with other letters than registries allow",
                    "write oci://REGISTRY/REPOSITORY:TAG, such as `oci://registry.example.com/site:live`",
                ),
            },
            "s3" => match s3::parse_location(rest) {
                Some(address) => Ok(address),
                None => {
                    wrong("its bucket is missing, or has a name that S3 forbids", "write s3://BUCKET/PREFIX")
                }
            },
            _ => wrong(
                "this kind isn't supported",
                "write file:///DIR, https://HOST/PATH/, oci://REGISTRY/REPOSITORY:TAG or s3://BUCKET/PREFIX",
            ),
        })
    }

    /// Opens the store. Nothing is transferred yet.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the settings can't be used.
    pub fn open(&self, settings: &StoreSettings, login: Login) -> Result<Box<dyn Store>, StoreError> {
        let http = || Http::new(settings.roots.as_deref(), settings.allows_plain_credentials);
        Ok(match self {
            Address::Folder(path) => Box::new(folder::FolderStore::new(path)),
            Address::Web(url) => Box::new(https::WebStore::new(http(), url, login)),
            Address::Oci { registry, repository, tag } => {
                Box::new(oci::OciStore::new(http(), registry, repository, tag, login))
            }
            Address::S3 { bucket, prefix } => {
                let endpoint = settings.endpoint.clone().or_else(credentials::aws::s3_endpoint);
                // A signed URL permits its request to everyone who reads it on the way.
                if let Some(endpoint) = endpoint.as_ref().filter(|endpoint| is_plain(endpoint))
                    && !settings.allows_plain_credentials
                {
                    return Err(plain_credentials(endpoint));
                }
                Box::new(s3::S3Store::new(http(), bucket, prefix, endpoint.as_deref(), login)?)
            }
        })
    }

    /// Pushes the only image in an image layout under the tag of a repository. Blobs that the registry has aren't sent.
    ///
    /// # Errors
    /// Returns [`StoreError`] if this isn't an address in a registry, if the layout can't be read, or if the registry can't be
    /// written.
    pub fn push_image(
        &self,
        settings: &StoreSettings,
        login: Login,
        layout: &Path,
    ) -> Result<ImageReport, StoreError> {
        let Address::Oci { registry, repository, tag } = self else {
            let why = format!("{self} is not a repository in a registry");
            return Err(
                StoreError::new(StoreErrorKind::Local, why).hint("write oci://REGISTRY/REPOSITORY:TAG")
            );
        };
        let http = Http::new(settings.roots.as_deref(), settings.allows_plain_credentials);
        oci::OciStore::new(http, registry, repository, tag, login).push_image(layout)
    }

    /// Returns the folder of a store on this machine.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Address::Folder(path) => Some(path),
            _ => None,
        }
    }

    /// Returns whether what the store sends could be changed on the way.
    #[must_use]
    pub fn is_plain_http(&self) -> bool {
        match self {
            Address::Web(url) => is_plain(url),
            _ => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Folder(path) => write!(f, "file://{}", path.display()),
            Address::Web(url) => f.write_str(url),
            Address::Oci { registry, repository, tag } => write!(f, "oci://{registry}/{repository}:{tag}"),
            Address::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Address> {
        Address::parse(text).unwrap().ok()
    }

    #[test]
    fn addresses_are_shown_as_written() {
        for text in [
            "file:///srv/store",
            "https://example.com/store/",
            "oci://registry.example.com/team/site:live",
            "oci://127.0.0.1:5000/site:stable-2",
            "s3://bucket/prefix/",
            "s3://bucket/",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("oci://localhost:5000/site").unwrap().to_string(), "oci://localhost:5000/site:live");
        assert_eq!(parse("https://example.com"), Some(Address::Web("https://example.com/".into())));
        assert_eq!(parse("file:///srv/store"), Some(Address::Folder("/srv/store".into())));
        assert!(Address::parse("/srv/store").is_none() && Address::parse("host:dir").is_none());
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in [
            "ftp://a/b",
            "file://relative",
            "https://",
            "https:///path",
            "https://user:secret@example.com/",
            "https://example.com/?x",
            "oci://",
            "oci://registry.example.com",
            "oci://registry.example.com/",
            "oci://registry.example.com/Site",
            "oci://registry.example.com/a/../b",
            "oci://registry.example.com/a b",
            "oci://registry.example.com/a:-x",
            "oci://a@b/c",
            "s3://",
            "s3:///x",
            "s3://a b/",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
