//! A bucket in S3-compatible storage, with the files of a folder. Requests are signed in their URLs, by `rusty-s3`.

use std::ops::Range;
use std::time::Duration;

use http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use http::{Method, Response, StatusCode};
use rusty_s3::actions::{DeleteObject, GetObject, HeadObject, PutObject};
use rusty_s3::{Bucket, S3Action, UrlStyle};
use ureq::Body;

use super::credentials::aws::domain;
use super::credentials::{Credentials, Login};
use super::https::{check_written, compare, opened, parse_document, with_range};
use super::{Address, DOCUMENT, blob_path};
use crate::error::{StoreError, StoreErrorKind};
use crate::http::{Call, Http, unexpected};
use crate::release::{Blob, StoredSite};
use crate::store::{Look, Opened, Store};

/// How long a signed URL is valid: the time in which a request is sent, and clocks that are a bit wrong.
const VALID: Duration = Duration::from_secs(15 * 60);

const NO_KEYS: &str = "S3 needs the keys of AWS";

pub(super) struct S3Store {
    http: Http,
    bucket: Bucket,
    prefix: String,
    login: Login,
}

/// Parses `BUCKET/PREFIX`.
pub(super) fn parse_location(text: &str) -> Option<Address> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let is_bucket = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if bucket.is_empty() || !bucket.bytes().all(is_bucket) || prefix.contains(char::is_control) {
        return None;
    }
    let prefix = prefix.trim_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Some(Address::S3 { bucket: bucket.to_owned(), prefix })
}

impl S3Store {
    pub(super) fn new(
        http: Http,
        bucket: &str,
        prefix: &str,
        endpoint: Option<&str>,
        mut login: Login,
    ) -> Result<S3Store, StoreError> {
        let local = |why: String| StoreError::new(StoreErrorKind::Local, why);
        let Credentials::Aws { region, .. } = login.credentials()? else {
            return Err(local(NO_KEYS.to_owned()));
        };
        let region = region.clone();
        let default = format!("https://s3.{region}.{}", domain(&region));
        let url = endpoint.unwrap_or(&default);
        let parsed = url.parse().map_err(|error| {
            local(format!("the endpoint `{url}` isn't a URL: {error}"))
                .hint("write it with its scheme, such as `--s3-endpoint https://HOST`")
        })?;
        // Other storage often has no host name for each bucket.
        let style = if endpoint.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = Bucket::new(parsed, style, bucket.to_owned(), region)
            .map_err(|error| local(format!("the bucket can't be used with the endpoint `{url}`: {error}")))?;
        Ok(S3Store { http, bucket, prefix: prefix.to_owned(), login })
    }

    /// Sends a request for a file, and once more if it was refused and there are other keys now. `prepare` adds fields and content.
    fn send<'a>(
        &mut self,
        method: &Method,
        name: &str,
        prepare: impl Fn(Call<'a>) -> Result<Call<'a>, StoreError>,
    ) -> Result<Response<Body>, StoreError> {
        let call = prepare(self.call(method, name)?)?;
        let response = self.http.send(&call)?;
        // 400 is the status for a session that has expired.
        let is_refused = matches!(
            response.status(),
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        );
        if is_refused && self.login.replace_refused()? {
            let call = prepare(self.call(method, name)?)?;
            return self.http.send(&call);
        }
        Ok(response)
    }

    fn call<'a>(&mut self, method: &Method, name: &str) -> Result<Call<'a>, StoreError> {
        let key = format!("{}{name}", self.prefix);
        let Credentials::Aws { key: id, secret, token, .. } = self.login.credentials()? else {
            return Err(StoreError::new(StoreErrorKind::Local, NO_KEYS));
        };
        let credentials = match token {
            Some(token) => rusty_s3::Credentials::new_with_token(id, secret, token),
            None => rusty_s3::Credentials::new(id, secret),
        };
        let credentials = Some(&credentials);
        let url = match method.as_str() {
            "PUT" => PutObject::new(&self.bucket, credentials, &key).sign(VALID),
            "HEAD" => HeadObject::new(&self.bucket, credentials, &key).sign(VALID),
            "DELETE" => DeleteObject::new(&self.bucket, credentials, &key).sign(VALID),
            _ => GetObject::new(&self.bucket, credentials, &key).sign(VALID),
        };
        // Signed URLs are secrets.
        let mut call = Call::new(method.clone(), url);
        call.name = Some(self.named(name));
        Ok(call)
    }

    fn named(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.bucket.name(), self.prefix)
    }
}

impl Store for S3Store {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let etag = known.filter(|known| known.ends_with('"'));
        let response = self.send(&Method::GET, DOCUMENT, |call| match etag {
            Some(etag) => call.header(IF_NONE_MATCH, etag),
            None => Ok(call),
        })?;
        match response.status() {
            StatusCode::NOT_MODIFIED => Ok(Look::Same),
            StatusCode::OK => parse_document(response, known, &self.named(DOCUMENT)),
            StatusCode::NOT_FOUND => {
                // A bucket that doesn't exist is an error, and a missing object isn't.
                let text = crate::http::read_all(response, crate::limits::RESPONSE_BYTES_MAX, DOCUMENT)?;
                if String::from_utf8_lossy(&text).contains("NoSuchBucket") {
                    return Err(StoreError::new(
                        StoreErrorKind::Missing,
                        format!("there is no bucket `{}`", self.bucket.name()),
                    )
                    .hint("create it, or check its name, the region and `--s3-endpoint`"));
                }
                Ok(Look::Empty)
            }
            _ => Err(unexpected(response, &self.named(DOCUMENT))),
        }
    }

    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
        let name = blob_path(&blob.hex());
        let response = self.send(&Method::GET, &name, |call| with_range(call, blob, &range))?;
        opened(response, &self.named(&name), range)
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        let name = blob_path(&blob.hex());
        let response = self.send(&Method::HEAD, &name, Ok)?;
        match response.status() {
            StatusCode::OK => Ok(true),
            // Without the permission to list, S3 says 403 for missing objects.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Ok(false),
            _ => Err(unexpected(response, &self.named(&name))),
        }
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        let name = blob_path(&blob.hex());
        let response = self.send(&Method::PUT, &name, |call| {
            Ok(call.header(CONTENT_TYPE, "application/octet-stream")?.content(content))
        })?;
        check_written(response, &self.named(&name))
    }

    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError> {
        let document = site.to_json();
        let response = self.send(&Method::PUT, DOCUMENT, |call| {
            let call = call.header(CONTENT_TYPE, "application/json")?;
            Ok(compare(call, seen)?.content(&document))
        })?;
        check_written(response, &self.named(DOCUMENT))
    }

    fn remove(&mut self, blob: &Blob) -> Result<(), StoreError> {
        self.send(&Method::DELETE, &blob_path(&blob.hex()), Ok).map(drop)
    }
}
