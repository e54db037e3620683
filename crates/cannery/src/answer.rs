//! Answers requests of the `http` crate.
//!
//! We need to send exactly the same head as `cannery-server`. To ensure this, the head is written in HTTP/1 syntax, like the
//! server does, and then split into fields. The fields of recent responses are cached per thread.

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

/// Redirects a request for something in the site to the only spelling of its path that we accept. Returns `None` if the request has
/// this spelling.
///
/// Otherwise, a check of the path in front of the site would only see one of several spellings, such as `/%61dmin/` or `/x/../admin/`.
fn to_normal_path<B>(
    prefix: Prefix<'_>,
    request: &http::Request<B>,
    answer: &Answer<'_>,
) -> Option<HttpResponse<Body>> {
    let path = request.uri().path();
    let path = path.strip_prefix(prefix.requested).unwrap_or(path);
    if path_is_plain(path.as_bytes())
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
    if location[prefix.public.len()..] == *path.as_bytes() {
        return None;
    }
    if let Some(query) = request.uri().query() {
        location.push(b'?');
        location.extend_from_slice(query.as_bytes());
    }
    Some(redirect(&location))
}

/// Returns `true` if the path certainly is in normal form: no escapes, no empty segments, no segments that start with a dot.
fn path_is_plain(path: &[u8]) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    path.iter().all(|byte| is_plain(*byte))
        && !path.windows(2).any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'))
}

/// Returns a permanent redirect.
pub(crate) fn redirect(location: &[u8]) -> HttpResponse<Body> {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let fields = response.headers_mut();
    if let Ok(location) = header::HeaderValue::from_bytes(location) {
        fields.insert(header::LOCATION, location);
    }
    fields.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("public, max-age=3600"));
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
