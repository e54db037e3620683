//! Answers requests of the `http` crate.
//!
//! We need to send exactly the same head as `cannery-server`. To ensure this, the head is written in HTTP/1 syntax, like the
//! server does, and then split into fields. The fields of recent responses are cached per thread.

#[cfg(feature = "actix-web")]
use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::{Key as PathKey, KeyBuffer};
use cannery_site::{Answer, Body as AnswerBody, Method, MultipartPiece, Reason, Request, Scratch};
use cannery_wire::{ArchiveRef, Output, Response, ServerFields, h1};
use http::{Response as HttpResponse, StatusCode, header};

use crate::body::Body;
use crate::field_cache::{FieldCache, Key};
use crate::fields;
use crate::site::{Release, Site};

/// Per-thread buffers that are reused for all answers.
struct Buffers {
    scratch: Scratch,
    encoder: Encoder,
}

/// Converts answers to responses.
struct Encoder {
    /// Response head in HTTP/1 syntax.
    head: Output,
    field_cache: FieldCache,
    server_fields: ServerFields,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        scratch: Scratch::default(),
        encoder: Encoder {
            head: Output::new(),
            field_cache: FieldCache::default(),
            server_fields: ServerFields::new(&[], 0),
        },
    });
}

impl Site {
    /// Answers any request.
    ///
    /// This never fails: the answer is always the one that `cannery-server` would give with the same archive. For example,
    /// there will also be an answer if the path is not found, if the method is not allowed, if a condition or range is not
    /// satisfied, or if `Host` is invalid or repeated (which some HTTP libraries let through). The request body is ignored, and
    /// `Date` is left to the server.
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// let site = cannery::Site::open(&archive)?;
    ///
    /// let request = http::Request::get("/").body(())?;
    /// let response = site.respond(&request);
    /// assert_eq!(response.status(), 200);
    /// assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn respond<B>(&self, request: &http::Request<B>) -> HttpResponse<Body> {
        answer_below(&self.release(), Prefix::NONE, request)
    }

    /// Answers a request, or returns `None` if the site has nothing for this path. If so, another handler can answer.
    ///
    /// Methods other than `GET`, `HEAD` and `OPTIONS` are rejected (405) if the site has a page at this path; otherwise, they
    /// are left to other handlers. Note that a fallback page, as used by single-page applications, answers every path below its
    /// folder. If `Host` is invalid or repeated, the request is rejected (400) regardless of the path.
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// let site = cannery::Site::open(&archive)?;
    ///
    /// let page = http::Request::get("/").body(())?;
    /// assert_eq!(site.try_respond(&page).unwrap().status(), 200);
    /// let other = http::Request::get("/api/hello").body(())?;
    /// assert!(site.try_respond(&other).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn try_respond<B>(&self, request: &http::Request<B>) -> Option<HttpResponse<Body>> {
        try_answer_below(&self.release(), Prefix::NONE, request)
    }
}

/// The path where a site is mounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefix<'p> {
    /// In requests. Empty if a router has removed it.
    pub(crate) requested: &'p str,
    /// In redirects.
    pub(crate) public: &'p str,
}

impl Prefix<'_> {
    const NONE: Prefix<'static> = Prefix { requested: "", public: "" };
}

/// Answers a request for a site mounted at `prefix`.
pub(crate) fn answer_below<B>(
    release: &Release,
    prefix: Prefix<'_>,
    request: &http::Request<B>,
) -> HttpResponse<Body> {
    BUFFERS.with_borrow_mut(|buffers| {
        let (answer, encoder) = buffers.answer(release, prefix.requested, request);
        match to_normal_path(prefix, request, &answer) {
            Some(redirect) => redirect,
            None => encoder.response(release, prefix.public, &answer),
        }
    })
}

/// Same for a site mounted at `prefix`.
///
/// Returns `None` if the site has nothing for this path.
pub(crate) fn try_answer_below<B>(
    release: &Release,
    prefix: Prefix<'_>,
    request: &http::Request<B>,
) -> Option<HttpResponse<Body>> {
    // For other methods, the site would answer every path with 405, so we need to check first whether
    // it has a page there.
    if !matches!(request.method().as_str(), "GET" | "HEAD") && !has_page(release, prefix.requested, request) {
        return None;
    }
    BUFFERS.with_borrow_mut(|buffers| {
        let (answer, encoder) = buffers.answer(release, prefix.requested, request);
        is_of_site(&answer).then(|| match to_normal_path(prefix, request, &answer) {
            Some(redirect) => redirect,
            None => encoder.response(release, prefix.public, &answer),
        })
    })
}

/// Returns the site's error page for this status.
pub(crate) fn refuse(release: &Release, status: StatusCode) -> HttpResponse<Body> {
    BUFFERS.with_borrow_mut(|buffers| {
        let encoder = buffers.encoder.at_this_second();
        encoder.response(release, "", &release.answers.refusal(status.as_u16()))
    })
}

/// Whether the site would answer a `GET` request for the same path.
fn has_page<B>(release: &Release, prefix: &str, request: &http::Request<B>) -> bool {
    let mut page = http::Request::new(());
    *page.uri_mut() = request.uri().clone();
    if let Some(host) = request.headers().get(header::HOST) {
        page.headers_mut().insert(header::HOST, host.clone());
    }
    BUFFERS.with_borrow_mut(|buffers| is_of_site(&buffers.answer(release, prefix, &page).0))
}

/// Redirects a request for something in the site to the normal spelling of its path. Returns `None` if the request has this spelling,
/// or one that proxies may make of it.
///
/// Otherwise, a check of the path in front of the site would only see one of several spellings, such as `/%61dmin/` or `/x/../admin/`.
fn to_normal_path<B>(
    prefix: Prefix<'_>,
    request: &http::Request<B>,
    answer: &Answer<'_>,
) -> Option<HttpResponse<Body>> {
    let path = request.uri().path();
    let path = path.strip_prefix(prefix.requested).unwrap_or(path);
    if path_is_normal(path.as_bytes()) && path_is_normal(prefix.requested.as_bytes())
        || !matches!(*request.method(), http::Method::GET | http::Method::HEAD)
        || !(is_of_site(answer) && matches!(answer.status, 200..=299 | 304 | 406 | 412 | 416))
    {
        return None;
    }
    let mut buffer = KeyBuffer::new();
    let key = PathKey::from_target(path.as_bytes(), &mut buffer).ok()?;
    let mut location = prefix.public.as_bytes().to_vec();
    for piece in key.percent_encode() {
        location.extend_from_slice(piece.bytes());
    }
    if let Some(query) = request.uri().query() {
        location.push(b'?');
        location.extend_from_slice(query.as_bytes());
    }
    // Caches must ask again: it depends on the proxies in between which spelling arrives here.
    Some(redirect(&location, "no-cache"))
}

/// Returns the normal spelling of a prefix that a router has matched, in any spelling.
#[cfg(feature = "actix-web")]
pub(crate) fn normal_prefix(prefix: &str) -> Cow<'_, str> {
    let mut buffer = KeyBuffer::new();
    match PathKey::from_target(prefix.as_bytes(), &mut buffer) {
        Ok(key) if !path_is_normal(prefix.as_bytes()) => {
            let mut normal = Vec::with_capacity(prefix.len());
            for piece in key.percent_encode() {
                normal.extend_from_slice(piece.bytes());
            }
            String::from_utf8_lossy(&normal).into_owned().into()
        }
        _ => prefix.into(),
    }
}

/// Returns `true` unless the path has empty segments, dot segments, or escapes of bytes that need none.
///
/// Proxies that decode and encode paths differ in what they do with bytes that must be escaped: they may send `[` raw, or as `%5b`. If
/// we redirected to our own spelling of these, the proxy would change it back, and the client would be redirected forever.
fn path_is_normal(path: &[u8]) -> bool {
    let segments = path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/');
    let mut is_last_empty = false;
    for segment in segments {
        // Only the last segment may be empty.
        if is_last_empty || matches!(segment, b"." | b"..") || has_needless_escape(segment) {
            return false;
        }
        is_last_empty = segment.is_empty();
    }
    true
}

/// Returns `true` if a segment escapes a byte that segments may contain (RFC 3986 §3.3).
fn has_needless_escape(segment: &[u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    segment.windows(3).any(|window| {
        let &[b'%', high, low] = window else { return false };
        let byte = digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte))
    })
}

/// Returns a permanent redirect.
pub(crate) fn redirect(location: &[u8], cache_control: &'static str) -> HttpResponse<Body> {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let fields = response.headers_mut();
    if let Ok(location) = header::HeaderValue::from_bytes(location) {
        fields.insert(header::LOCATION, location);
    }
    fields.insert(header::CACHE_CONTROL, header::HeaderValue::from_static(cache_control));
    fields.insert(header::CONTENT_LENGTH, header::HeaderValue::from_static("0"));
    response
}

/// Whether the answer comes from something in the site.
fn is_of_site(answer: &Answer<'_>) -> bool {
    !matches!(
        answer.reason,
        Reason::NotFound | Reason::MissingAsset | Reason::InvalidPath(_) | Reason::Target
    )
}

impl Buffers {
    /// Looks up the answer. Also returns the encoder for the response.
    fn answer<'a, B>(
        &'a mut self,
        release: &'a Release,
        prefix: &str,
        request: &'a http::Request<B>,
    ) -> (Answer<'a>, &'a mut Encoder) {
        let encoder = self.encoder.at_this_second();
        self.scratch.set_now(encoder.server_fields.seconds());

        let method = Method::of(request.method().as_str().as_bytes());
        let mut site_request = Request::new(method, target(request.uri(), prefix));
        site_request.host = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let answer = match fields::read(request.headers(), &mut site_request) {
            Ok(()) => release.answers.answer(&site_request, &mut self.scratch),
            Err(refusal) => release.answers.refusal(refusal.status()),
        };
        (answer, encoder)
    }
}

impl Encoder {
    /// Updates the time, which affects validators.
    fn at_this_second(&mut self) -> &mut Encoder {
        let age = SystemTime::now().duration_since(UNIX_EPOCH);
        self.server_fields.set_time(age.map_or(0, |age| age.as_secs()));
        self
    }

    /// Converts an answer to a response.
    fn response(&mut self, release: &Release, prefix: &str, answer: &Answer<'_>) -> HttpResponse<Body> {
        // On a cache miss, write the head and parse it again.
        let Encoder { head, field_cache, server_fields } = self;
        let mut make_fields = || {
            head.clear();
            let archive = ArchiveRef { number: 0, bytes: release.answers.archive().bytes(), identity: 0 };
            h1::put_head(head, &Response { answer, archive, fields: server_fields });
            fields::of_head(head.inline_only().unwrap_or_default(), prefix)
        };
        let fields = match Key::new(release.answers.archive(), answer, server_fields.seconds()) {
            Some(key) => field_cache.get_or_make(key, make_fields),
            None => make_fields(),
        };

        let mut response = HttpResponse::new(body(release, answer));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = fields;
        response
    }
}

/// Returns the request target in origin or asterisk form, without the site's prefix.
fn target<'a>(uri: &'a http::Uri, prefix: &str) -> &'a [u8] {
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    match target.strip_prefix(prefix) {
        // The mount's own path. The query can be dropped here, as it does not matter to methods that are not
        // redirected.
        Some(rest) if !prefix.is_empty() && !rest.starts_with('/') => b"/",
        Some(rest) => rest.as_bytes(),
        None => target.as_bytes(),
    }
}

/// Returns the response body.
///
/// Ranges of the archive are not copied; only the text between them (e.g. multipart headers) is.
fn body(release: &Release, answer: &Answer<'_>) -> Body {
    match &answer.body {
        AnswerBody::Empty => Body::empty(),
        AnswerBody::Archive(extent) => release.slice(*extent).map_or_else(Body::empty, Body::of),
        AnswerBody::BuiltIn(page) => {
            let mut text = Vec::with_capacity(page.len());
            page.for_each_piece(&mut |piece| text.extend_from_slice(piece));
            Body::of(text.into())
        }
        AnswerBody::Multipart(multipart) => {
            let mut pieces = Vec::new();
            let mut text = Vec::new();
            multipart.for_each_piece(&mut |piece| match piece {
                MultipartPiece::Text(piece) => text.extend_from_slice(piece),
                MultipartPiece::Number(number) => text.extend_from_slice(number.to_string().as_bytes()),
                MultipartPiece::Archive(extent) => {
                    pieces.push(std::mem::take(&mut text).into());
                    pieces.extend(release.slice(extent));
                }
            });
            pieces.push(text.into());
            Body::of_pieces(pieces)
        }
    }
}
