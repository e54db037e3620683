//! A web server with the files of a folder. Any server with range requests will do, and one with PUT for uploads.

use std::ops::Range;

use http::header::{AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, Method, Response, StatusCode};
use ureq::Body;

use super::credentials::Login;
use super::folder::digest_version;
use super::{DOCUMENT, blob_path, replaced_meanwhile};
use crate::error::{StoreError, StoreErrorKind};
use crate::http::{Call, Http, read_all, unexpected};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::release::{Blob, StoredSite};
use crate::store::{Look, Opened, Store};

pub(super) struct WebStore {
    http: Http,
    /// Ends in `/`.
    url: String,
    login: Login,
}

impl WebStore {
    pub(super) fn new(http: Http, url: &str, login: Login) -> WebStore {
        WebStore { http, url: url.to_owned(), login }
    }

    fn call<'a>(&mut self, method: Method, path: &str) -> Result<Call<'a>, StoreError> {
        let call = Call::new(method, format!("{}{path}", self.url));
        match self.login.credentials()?.authorization() {
            Some(value) => call.header(AUTHORIZATION, &value),
            None => Ok(call),
        }
    }
}

impl Store for WebStore {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let mut call = self.call(Method::GET, DOCUMENT)?;
        if let Some(etag) = known.filter(|known| known.ends_with('"')) {
            call = call.header(IF_NONE_MATCH, etag)?;
        }
        let response = self.http.send(&call)?;
        match response.status() {
            StatusCode::NOT_MODIFIED => return Ok(Look::Same),
            StatusCode::NOT_FOUND => return Ok(Look::Empty),
            StatusCode::OK => {}
            _ => return Err(unexpected(response, &call.url)),
        }
        parse_document(response, known, &call.url)
    }

    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
        let call = self.call(Method::GET, &blob_path(&blob.hex()))?;
        open_range(&self.http, call, blob, range)
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        let call = self.call(Method::HEAD, &blob_path(&blob.hex()))?;
        let response = self.http.send(&call)?;
        match response.status() {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Ok(false),
            _ => Err(unexpected(response, &call.url)),
        }
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        let call = self.call(Method::PUT, &blob_path(&blob.hex()))?;
        let call = call.header(CONTENT_TYPE, "application/octet-stream")?.content(content);
        check_written(self.http.send(&call)?, &call.url)
    }

    fn point(&mut self, site: &StoredSite, seen: Option<&str>) -> Result<(), StoreError> {
        let document = site.to_json();
        let mut call = self.call(Method::PUT, DOCUMENT)?.header(CONTENT_TYPE, "application/json")?;
        call = compare(call, seen)?.content(&document);
        check_written(self.http.send(&call)?, &call.url)
    }

    fn remove(&mut self, blob: &Blob) -> Result<(), StoreError> {
        let call = self.call(Method::DELETE, &blob_path(&blob.hex()))?;
        self.http.send(&call).map(drop)
    }
}

/// Makes a request fail if the document isn't the one that was seen.
pub(super) fn compare<'a>(call: Call<'a>, seen: Option<&str>) -> Result<Call<'a>, StoreError> {
    match seen {
        // Weak tags never match (RFC 9110 §13.1.1).
        Some(etag) if etag.starts_with('"') => call.header(IF_MATCH, etag),
        Some(_) => Ok(call),
        None => call.header(IF_NONE_MATCH, "*"),
    }
}

pub(super) fn check_written(response: Response<Body>, url: &str) -> Result<(), StoreError> {
    match response.status() {
        status if status.is_success() => Ok(()),
        StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Err(replaced_meanwhile(url)),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            let message = format!("{url} can't be written: the server has no PUT");
            Err(StoreError::new(StoreErrorKind::Denied, message)
                .hint("push into the folder that it serves, such as `file:///srv/store`"))
        }
        _ => Err(unexpected(response, url)),
    }
}

/// Parses the response with the document. Its version is the entity tag, or else a digest.
pub(super) fn parse_document(
    response: Response<Body>,
    known: Option<&str>,
    url: &str,
) -> Result<Look, StoreError> {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let etag = text(response.headers(), ETAG);
    // Without it, the body decides: two releases within a second have the same date.
    let version = etag;
    let bytes = read_all(response, DOCUMENT_BYTES_MAX, url)?;
    let version = version.filter(|version| version.len() <= 200).unwrap_or_else(|| digest_version(&bytes));
    if known == Some(&version) {
        return Ok(Look::Same);
    }
    let site = StoredSite::parse(&bytes).map_err(|error| error.in_document(url))?;
    Ok(Look::New { site: Box::new(site), version })
}

/// The hint if a server is wrong about ranges.
const RANGES: &str = "the server or a proxy before it is at fault: turn off what changes its responses to range requests, \
                      or name another address of the store";

/// The hint if a file is shorter than it was.
const LOST: &str = "the store or a proxy before it has only a part of this file: empty that cache, or push the same site again, \
                    which replaces what is damaged";

/// Sends a request for a range, which must be closed: some registries refuse others.
pub(super) fn open_range(
    http: &Http,
    call: Call<'_>,
    blob: &Blob,
    range: Range<u64>,
) -> Result<Opened, StoreError> {
    let call = with_range(call, blob, &range)?;
    let response = http.send(&call)?;
    opened(response, call.shown(), range)
}

/// Asks for a range, unless it is the whole.
pub(super) fn with_range<'a>(
    call: Call<'a>,
    blob: &Blob,
    range: &Range<u64>,
) -> Result<Call<'a>, StoreError> {
    match (*range == (0..blob.bytes), range.end.checked_sub(1)) {
        (false, Some(last)) => call.header(RANGE, &format!("bytes={}-{last}", range.start)),
        _ => Ok(call),
    }
}

/// Checks the head of a response to a request for a range.
pub(super) fn opened(response: Response<Body>, url: &str, range: Range<u64>) -> Result<Opened, StoreError> {
    let start = match response.status() {
        // A server without ranges sends the whole.
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT => content_range_start(response.headers()).ok_or_else(|| {
            StoreError::wrong(format!("{url} answers 206 without saying which range it sends")).hint(RANGES)
        })?,
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let range = format!("{}-{}", range.start, range.end.saturating_sub(1));
            return Err(StoreError::wrong(format!(
                "{url} answers 416: it has no bytes {range}, though the release has"
            ))
            .hint(LOST));
        }
        _ => return Err(unexpected(response, url)),
    };
    if start > range.start {
        return Err(StoreError::wrong(format!(
            "{url} sends another range than was asked for: from {start} instead of {}",
            range.start
        ))
        .hint(RANGES));
    }
    Ok(Opened { start, reader: Box::new(response.into_body().into_reader()) })
}

/// Returns the first position of `bytes 7-9/100`.
fn content_range_start(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}
