//! A repository in an OCI registry. The document is the config of an artifact, whose layers are the files of the current release.
//!
//! A registry keeps blobs as long as a manifest refers to them, so each release also has a tag of its own.

// Pushes container images.
mod image;
mod token;

use std::ops::Range;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use ureq::Body;

pub use image::ImageReport;

use super::credentials::Login;
use super::folder::digest_version;
use super::https::{check_written, open_range};
use super::{Address, replaced_meanwhile};
use crate::error::{StoreError, StoreErrorKind};
use crate::http::{Call, Content, Http, is_loopback, is_same_host, parse_url, read_all, resolve, unexpected};
use crate::limits::{DOCUMENT_BYTES_MAX, RESPONSE_BYTES_MAX};
use crate::release::{Blob, StoredRelease, StoredSite};
use crate::store::{Look, Opened, Store};

/// Media type of manifests.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The kind of our artifacts.
const ARTIFACT: &str = "application/vnd.cannery.release.v1";
/// Media types of the document and of the files.
const DOCUMENT: &str = "application/vnd.cannery.release.v1+json";
const ARCHIVE: &str = "application/vnd.cannery.archive.v1";
const RECIPE: &str = "application/vnd.cannery.recipe.v1+zstd";
const PATCH: &str = "application/vnd.cannery.recipe.patch.v1+zstd";

/// The tag that stands for the current release, if the user names no other.
const TAG: &str = "live";

/// Number of digest digits in the tag of a release.
const TAG_DIGITS: usize = 12;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

pub(super) struct OciStore {
    http: Http,
    /// `https://registry/v2/repository`
    base: String,
    repository: String,
    tag: String,
    login: Login,
    /// The value of `Authorization` that was accepted last.
    authorization: Option<String>,
    /// The entity tag and the version of the manifest that was read last, for registries that don't state its digest.
    etag: Option<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: String,
    #[serde(default)]
    artifact_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

impl Descriptor {
    fn of(media_type: &str, blob: &Blob) -> Descriptor {
        Descriptor { media_type: media_type.to_owned(), digest: blob.digest(), size: blob.bytes }
    }
}

/// Parses `REGISTRY/REPOSITORY:TAG`.
pub(super) fn parse_reference(text: &str) -> Option<Address> {
    let (registry, rest) = text.split_once('/')?;
    let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, TAG));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    if registry.is_empty() || !registry.bytes().all(is_host) {
        return None;
    }
    // The grammar of the distribution specification, a bit simplified.
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let is_component = |name: &str| {
        name.bytes().all(is_name) && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let starts_well = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_good =
        repository.split('/').all(is_component) && tag.len() <= 128 && tag.bytes().all(is_tag) && starts_well;
    is_good.then(|| Address::Oci {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: tag.to_owned(),
    })
}

impl OciStore {
    pub(super) fn new(http: Http, registry: &str, repository: &str, tag: &str, login: Login) -> OciStore {
        // Like Docker, no TLS on this machine.
        let scheme = if is_loopback(registry) { "http" } else { "https" };
        let host = if registry == "docker.io" { "registry-1.docker.io" } else { registry };
        let repository = if registry == "docker.io" && !repository.contains('/') {
            format!("library/{repository}")
        } else {
            repository.to_owned()
        };
        let base = format!("{scheme}://{host}/v2/{repository}");
        OciStore { http, base, repository, tag: tag.to_owned(), login, authorization: None, etag: None }
    }

    /// Sends a request, and authorizes it if the registry asks for that. Looks for other credentials if these are refused.
    fn send(&mut self, call: &Call<'_>) -> Result<Response<Body>, StoreError> {
        let outcome = self.send_authorized(call);
        let is_refused = match &outcome {
            // Some registries say 403 for a password that has expired.
            Ok(response) => matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN),
            // The server of the tokens has refused them.
            Err(error) => error.kind == StoreErrorKind::Denied,
        };
        if is_refused && self.login.replace_refused()? {
            self.authorization = None;
            return self.send_authorized(call);
        }
        match self.login.unread().filter(|_| is_refused) {
            Some(error) => Err(error),
            None => outcome,
        }
    }

    fn send_authorized(&mut self, call: &Call<'_>) -> Result<Response<Body>, StoreError> {
        let mut attempt = Call {
            method: call.method.clone(),
            url: call.url.clone(),
            headers: call.headers.clone(),
            content: call.content,
            name: call.name.clone(),
        };
        // A location that the registry has named may be on another host.
        let is_registry = is_same_host(&parse_url(&self.base)?, &parse_url(&call.url)?);
        if !is_registry {
            return self.http.send(&attempt);
        }
        if let Some(value) = &self.authorization {
            attempt = attempt.header(AUTHORIZATION, value)?;
        }
        let response = self.http.send(&attempt)?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let challenges: Vec<_> = response.headers().get_all(WWW_AUTHENTICATE).iter().cloned().collect();
        let challenges: Vec<_> = challenges.iter().filter_map(|value| value.to_str().ok()).collect();
        let is_write = call.method == Method::PUT || call.method == Method::POST;
        let scope = format!("repository:{}:{}", self.repository, if is_write { "pull,push" } else { "pull" });
        let credentials = self.login.credentials()?;
        let Some(value) = token::authorize(&self.http, &self.base, &challenges, &scope, credentials)? else {
            return Ok(response);
        };
        attempt = attempt.header(AUTHORIZATION, &value)?;
        self.authorization = Some(value);
        self.http.send(&attempt)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// Opens a blob, after the authorization is known.
    fn blob_call<'a>(&self, blob: &Blob) -> Result<Call<'a>, StoreError> {
        let call = Call::new(Method::GET, self.url(&format!("blobs/{}", blob.digest())));
        match &self.authorization {
            Some(value) => call.header(AUTHORIZATION, value),
            None => Ok(call),
        }
    }

    /// Reads a short blob, and verifies it.
    fn read_blob(&mut self, blob: &Blob) -> Result<Vec<u8>, StoreError> {
        let call = Call::new(Method::GET, self.url(&format!("blobs/{}", blob.digest())));
        let response = self.send(&call)?;
        if response.status() != StatusCode::OK {
            return Err(unexpected(response, &call.url));
        }
        let bytes = read_all(response, DOCUMENT_BYTES_MAX, &call.url)?;
        if digest_version(&bytes) != blob.hex() {
            return Err(StoreError::wrong(format!("{} has another digest", call.url)));
        }
        Ok(bytes)
    }

    /// Adds a blob, which the registry doesn't have.
    fn upload(&mut self, blob: &Blob, content: Content<'_>) -> Result<(), StoreError> {
        let call = Call::new(Method::POST, self.url("blobs/uploads/")).content(b"");
        let response = self.send(&call)?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(unexpected(response, &call.url));
        }
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location =
            location.ok_or_else(|| StoreError::wrong(format!("{} names no location", call.url)))?;
        let location = resolve(&parse_url(&call.url)?, location)?.to_string();
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!("{location}{separator}digest={}", blob.digest());
        let mut call =
            Call::new(Method::PUT, url).header(CONTENT_TYPE, "application/octet-stream")?.with(content);
        // Some registries sign it.
        call.name = Some(location.split('?').next().unwrap_or_default().to_owned());
        let response = self.send(&call)?;
        check_written(response, call.shown())
    }

    /// Adds a manifest, or an index of several, under a tag or under its digest.
    fn put_manifest(&mut self, media_type: &str, manifest: &[u8], reference: &str) -> Result<(), StoreError> {
        let call = Call::new(Method::PUT, self.url(&format!("manifests/{reference}")));
        let call = call.header(CONTENT_TYPE, media_type)?.content(manifest);
        let response = self.send(&call)?;
        check_written(response, &call.url)
    }
}

impl Store for OciStore {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        // Some registries count every GET as a pull, but no HEAD.
        let call =
            Call::new(Method::HEAD, self.url(&format!("manifests/{}", self.tag))).header(ACCEPT, MANIFEST)?;
        let response = self.send(&call)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(Look::Empty),
            _ => return Err(unexpected(response, &call.url)),
        }
        let is_same = match (field(&response, CONTENT_DIGEST), field(&response, ETAG), &self.etag) {
            (Some(digest), ..) => Some(digest) == known,
            (None, Some(etag), Some((last, version))) => etag == last && Some(&**version) == known,
            (None, ..) => false,
        };
        if is_same {
            return Ok(Look::Same);
        }
        let call = Call::new(Method::GET, call.url.clone()).header(ACCEPT, MANIFEST)?;
        let response = self.send(&call)?;
        if response.status() != StatusCode::OK {
            return Err(unexpected(response, &call.url));
        }
        // The tag may have moved since the first request, so the version is that of what is read.
        let etag = field(&response, ETAG).map(str::to_owned);
        let bytes = read_all(response, DOCUMENT_BYTES_MAX, &call.url)?;
        let version = format!("sha256:{}", digest_version(&bytes));
        self.etag = etag.map(|etag| (etag, version.clone()));
        if known == Some(&version) {
            return Ok(Look::Same);
        }
        let wrong = |why: &str| {
            StoreError::wrong(format!("{} is not a release of Cannery: {why}", call.url))
                .hint("push one with `cannery push`, or name another repository or tag")
        };
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
        if manifest.config.media_type != DOCUMENT {
            return Err(wrong("its config has another media type"));
        }
        let config = Blob::parse(&manifest.config.digest, manifest.config.size);
        let config = config.filter(|config| config.bytes <= DOCUMENT_BYTES_MAX);
        let document =
            self.read_blob(&config.ok_or_else(|| wrong("its config has no digest, or is too long"))?)?;
        let site = StoredSite::parse(&document).map_err(|error| error.in_document(&call.url))?;
        Ok(Look::New { site: Box::new(site), version })
    }

    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
        let call = self.blob_call(blob)?;
        match open_range(&self.http, call, blob, range.clone()) {
            Err(StoreError { kind: StoreErrorKind::Denied, .. }) => {
                // The token may have expired: a request without content gets another one.
                self.authorization = None;
                self.has(blob)?;
                open_range(&self.http, self.blob_call(blob)?, blob, range)
            }
            opened => opened,
        }
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        let call = Call::new(Method::HEAD, self.url(&format!("blobs/{}", blob.digest())));
        let response = self.send(&call)?;
        match response.status() {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(unexpected(response, &call.url)),
        }
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        self.upload(blob, Content::Bytes(content))
    }

    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError> {
        let document = site.to_json();
        let config = Blob::of(&document);
        if !self.has(&config)? {
            self.put(&config, &document)?;
        }
        let current = manifest(&site.current, &config);
        // The releases' own tags come first: the tag that nodes look at must not name something that may be collected.
        if let Some(staged) = &site.staged {
            self.put_manifest(MANIFEST, &manifest(staged, &config), &release_tag(staged))?;
        }
        self.put_manifest(MANIFEST, &current, &release_tag(&site.current))?;
        // Registries don't compare, so another publisher can still replace the tag between this look and our request.
        let is_as_seen = match (self.look(seen)?, seen) {
            (Look::Same, Some(_)) | (Look::Empty, None) => true,
            (Look::New { version, .. }, seen) => Some(&*version) == seen,
            _ => false,
        };
        if !is_as_seen {
            return Err(replaced_meanwhile(&self.url(&format!("manifests/{}", self.tag))));
        }
        let tag = self.tag.clone();
        self.put_manifest(MANIFEST, &current, &tag)
    }

    fn remove(&mut self, _: &Blob) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns the tag that keeps a release's files from being collected. Two publishers may choose the same serial, so it has a part of the
/// digest. Tags of earlier versions have only the serial; they stay, and nothing reads any of these tags.
fn release_tag(release: &StoredRelease) -> String {
    let digest = release.digest.to_string();
    format!("release-{}-{}", release.serial, digest.get(..TAG_DIGITS).unwrap_or(&digest))
}

/// Returns the value of a field, if it is text.
fn field(response: &Response<Body>, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

fn manifest(release: &StoredRelease, config: &Blob) -> Vec<u8> {
    let mut layers = vec![Descriptor::of(ARCHIVE, &release.archive), Descriptor::of(RECIPE, &release.recipe)];
    layers.extend(release.patches.iter().map(|patch| Descriptor::of(PATCH, &patch.blob)));
    let annotations = [
        ("dev.cannery.serial", release.serial.to_string()),
        ("dev.cannery.digest", release.digest.to_string()),
        ("dev.cannery.date", release.date.to_string()),
    ];
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.to_owned(),
        artifact_type: Some(ARTIFACT.to_owned()),
        config: Descriptor::of(DOCUMENT, config),
        layers,
        annotations: annotations.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    serde_json::to_vec(&manifest).unwrap_or_default()
}

/// Reads a response of a token server.
fn read_short(response: Response<Body>, url: &str) -> Result<Vec<u8>, StoreError> {
    if !response.status().is_success() {
        return Err(unexpected(response, url));
    }
    read_all(response, RESPONSE_BYTES_MAX, url)
}
