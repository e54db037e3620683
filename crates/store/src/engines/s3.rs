//! A bucket in S3-compatible storage, with the files of a folder. Requests are signed in their URLs, by `rusty-s3`.

use std::ops::Range;
use std::time::Duration;

use http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use http::{Method, StatusCode};
use rusty_s3::actions::{DeleteObject, GetObject, HeadObject, PutObject};
use rusty_s3::{Bucket, S3Action, UrlStyle};

use super::credentials::Credentials;
use super::https::{check_written, compare, open_range, parse_document};
use super::{Address, DOCUMENT, blob_path};
use crate::error::{StoreError, StoreErrorKind};
use crate::http::{Call, Http, unexpected};
use crate::release::{Blob, StoredSite};
use crate::store::{Look, Opened, Store};

/// How long a signed URL is valid: the time in which a request is sent, and clocks that are a bit wrong.
const VALID: Duration = Duration::from_secs(15 * 60);

pub(super) struct S3Store {
    http: Http,
    bucket: Bucket,
    prefix: String,
    credentials: rusty_s3::Credentials,
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
        credentials: Credentials,
    ) -> Result<S3Store, StoreError> {
        let local = |why: String| StoreError::new(StoreErrorKind::Local, why);
        let Credentials::Aws { key, secret, token, region } = credentials else {
            return Err(local("S3 needs the keys of AWS".to_owned()));
        };
        let default = format!("https://s3.{region}.amazonaws.com");
        let url = endpoint.unwrap_or(&default);
        let parsed = url.parse().map_err(|error| {
            local(format!("the endpoint `{url}` isn't a URL: {error}"))
                .hint("write it with its scheme: `--s3-endpoint https://HOST`")
        })?;
        // Other storage often has no host name for each bucket.
        let style = if endpoint.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = Bucket::new(parsed, style, bucket.to_owned(), region)
            .map_err(|error| local(format!("the bucket can't be used with the endpoint `{url}`: {error}")))?;
        let credentials = match token {
            Some(token) => rusty_s3::Credentials::new_with_token(key, secret, token),
            None => rusty_s3::Credentials::new(key, secret),
        };
        Ok(S3Store { http, bucket, prefix: prefix.to_owned(), credentials })
    }

    fn call<'a>(&self, method: Method, name: &str) -> Call<'a> {
        let key = format!("{}{name}", self.prefix);
        let credentials = Some(&self.credentials);
        let url = match method.as_str() {
            "PUT" => PutObject::new(&self.bucket, credentials, &key).sign(VALID),
            "HEAD" => HeadObject::new(&self.bucket, credentials, &key).sign(VALID),
            "DELETE" => DeleteObject::new(&self.bucket, credentials, &key).sign(VALID),
            _ => GetObject::new(&self.bucket, credentials, &key).sign(VALID),
        };
        // Signed URLs are secrets.
        let mut call = Call::new(method, url);
        call.name = Some(self.named(name));
        call
    }

    fn named(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.bucket.name(), self.prefix)
    }
}

impl Store for S3Store {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let mut call = self.call(Method::GET, DOCUMENT);
        if let Some(etag) = known.filter(|known| known.ends_with('"')) {
            call = call.header(IF_NONE_MATCH, etag)?;
        }
        let response = self.http.send(&call)?;
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
        let call = self.call(Method::GET, &name);
        open_range(&self.http, call, blob, range)
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        let name = blob_path(&blob.hex());
        let response = self.http.send(&self.call(Method::HEAD, &name))?;
        match response.status() {
            StatusCode::OK => Ok(true),
            // Without the permission to list, S3 says 403 for missing objects.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Ok(false),
            _ => Err(unexpected(response, &self.named(&name))),
        }
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        let name = blob_path(&blob.hex());
        let call =
            self.call(Method::PUT, &name).header(CONTENT_TYPE, "application/octet-stream")?.content(content);
        check_written(self.http.send(&call)?, &self.named(&name))
    }

    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError> {
        let document = site.to_json();
        let call = self.call(Method::PUT, DOCUMENT).header(CONTENT_TYPE, "application/json")?;
        let call = compare(call, seen)?.content(&document);
        check_written(self.http.send(&call)?, &self.named(DOCUMENT))
    }

    fn remove(&mut self, blob: &Blob) -> Result<(), StoreError> {
        self.http.send(&self.call(Method::DELETE, &blob_path(&blob.hex()))).map(drop)
    }
}
